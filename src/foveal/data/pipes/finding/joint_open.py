"""An open joint: two pipes have drawn apart.

All around there is a gap in which soil or nothing is seen; a sealing ring may hang out of it.

A ray that enters the gap at depth z is at z·(1 + τ) when it has crossed the wall's thickness τ: before the next pipe
begins it reaches what is behind, else it ends on that pipe's end, which is lit.
"""

import numpy as np
from PIL import Image, ImageDraw

from foveal.data.pipes.camera import Map, wall
from foveal.data.pipes.finding.kind import Kind, Place, turned
from foveal.data.pipes.layer import Layer, Window, tinted
from foveal.data.pipes.noise import EDGE, line, sample
from foveal.data.pipes.scene import Scene

SOILS = ((0.03, 0.03, 0.03), (0.05, 0.04, 0.04), (0.30, 0.21, 0.13), (0.20, 0.15, 0.11))
ENDS = ((0.58, 0.54, 0.48), (0.66, 0.60, 0.50), (0.50, 0.49, 0.48), (0.60, 0.46, 0.32))
RUBBER = ((0.06, 0.06, 0.07), (0.10, 0.10, 0.11), (0.05, 0.05, 0.05), (0.10, 0.14, 0.21))


def paint(scene: Scene, place: Place, random: np.random.Generator) -> Layer:
    """The gap, the end of the next pipe, and in every second one a ring that hangs out."""
    view = scene.view
    gap, thickness = random.uniform(0.16, 0.34) * max(place.depth, 1.0), random.uniform(0.05, 0.11)
    skew = random.uniform(0.0, 0.4)
    turns = np.linspace(0, 2 * np.pi, 40)
    window = view.window(turns[None], np.array([[place.depth * 0.8], [place.depth + 1.5 * gap]]))
    angle, depth = turned(view.angle[window], place.angle), view.depth[window]
    pixel = depth * depth * np.float32(1 / view.pixels)
    begun, shift = random.uniform(0, 4096, 3), random.uniform(0, EDGE, 4).astype(np.float32)
    rough = np.float32(random.uniform(0.006, 0.03) * place.depth)
    chipped = np.clip(line((angle + 4) * 11, begun[2]) - 1.2, 0, 1) * np.float32(0.12 * place.depth)
    start = np.float32(place.depth) + rough * line((angle + 4) * 24, begun[0]) - chipped
    end = (
        np.float32(place.depth)
        + np.float32(gap) * (1 + np.float32(skew) * np.cos(angle))
        + rough * line((angle + 4) * 24, begun[1])
    )
    cover = np.clip((depth - start) / pixel + 0.5, 0, 1) * np.clip((end - depth) / pixel + 0.5, 0, 1)
    face = np.clip((depth * np.float32(1 + thickness) - end) / pixel + 0.5, 0, 1)
    around, along = (angle + 7) * np.float32(130), depth * np.float32(130)
    grit = sample("grain", around * 2 + shift[0], along * 2 + shift[1])
    clods = sample("cloud", around + shift[2], along + shift[3], True)
    within = np.clip((depth - start) / (end - start), 0, 1)
    soil = tinted(
        SOILS[random.integers(len(SOILS))], np.clip(0.45 + 0.9 * within + 0.35 * clods, 0.15, 1.6) * (1 + 0.3 * grit)
    )
    if random.random() < 0.4:  # soil has pushed in here and there
        pushed = np.clip((clods + line((angle + 4) * 5, begun[1]) * 0.7 - 0.6) * 3, 0, 1)
        soil += pushed * (tinted((0.36, 0.26, 0.17), 1 + 0.3 * grit + 0.2 * clods) - soil)
    ended = tinted(ENDS[random.integers(len(ENDS))], 1 + 0.14 * grit + 0.12 * clods)
    albedo = soil + face * (ended - soil)
    rim = np.clip(1 - np.abs(depth - start) / (2 * pixel + 0.02), 0, 1)
    albedo *= 1 - 0.85 * rim * (depth < start + 0.05)
    light = np.asarray(scene.lamp.at(depth) * (1 + 0.15 * face), np.float32)
    mask = cover > 0.33
    if random.random() < 0.55:
        drawn, shine = _ring(scene, place, gap, window, random)
        albedo = albedo + drawn * (tinted(RUBBER[random.integers(len(RUBBER))], 1 + 2.5 * shine) - albedo)
        cover = np.maximum(cover, drawn)
        mask |= drawn > 0.4
    beside = np.clip(1 - (start - depth) / np.float32(0.05 * place.depth), 0, 1) * (depth < start)
    return Layer(window, cover, albedo, light, shade=1 - np.float32(random.uniform(0.0, 0.3)) * beside, mask=mask)


def _ring(scene: Scene, place: Place, gap: float, window: Window, random: np.random.Generator) -> tuple[Map, Map]:
    """The sealing ring: it has left the joint over an arc and sags inwards there as a loop.

    Its cover and where it shines.
    """
    view = scene.view
    centre = float(random.normal(0, 0.5))
    half, fall = random.uniform(0.5, 1.0), random.uniform(0.4, 0.8)
    along = np.linspace(-1, 1, 33)
    curve = wall(centre + half * along, np.full(33, place.depth + 0.4 * gap))
    inward = fall * (1 - along**2) ** 0.8
    curve[:2] *= 1 - 0.35 * inward
    curve[1] += 0.75 * inward + 0.02 * np.sin(along * random.uniform(3, 6)) * inward
    curve[2] += 0.12 * np.sin(along * 3 + random.uniform(0, 6)) * inward
    out = np.maximum(np.hypot(curve[0], curve[1]), 1)
    curve[:2] /= out
    x, y = view.camera.project(curve, view.size)
    scale = 2
    shape = (window[1].stop - window[1].start) * scale, (window[0].stop - window[0].start) * scale
    path = [
        ((float(a) - window[1].start + 0.5) * scale, (float(b) - window[0].start + 0.5) * scale)
        for a, b in zip(x, y, strict=True)
    ]
    width = max(2, round(random.uniform(0.06, 0.11) * scale * view.pixels / place.depth))
    images = []
    for colour, thick, lift in ((255, width, 0.0), (255, max(1, width // 4), 0.22 * width)):
        image = Image.new("L", shape)
        ImageDraw.Draw(image).line([(a, b - lift) for a, b in path], fill=colour, width=thick, joint="curve")
        images.append(np.asarray(image.reduce(scale), np.float32) * np.float32(1 / 255))
    return images[0], images[1]


KIND = Kind("joint-open", "joint", paint)
