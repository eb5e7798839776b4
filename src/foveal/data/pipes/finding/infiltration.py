"""Infiltration: ground water comes in, at a seam or through one spot, and runs down the wall.

Every run has its own length; wet wall is darker and glints, what the water carries stains it rust or white. Where it
is under pressure a jet springs from the wall and falls.
"""

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from foveal.data.pipes.camera import Map, wall
from foveal.data.pipes.finding.kind import Kind, Place, turned
from foveal.data.pipes.layer import Layer, Window, tinted
from foveal.data.pipes.noise import EDGE, line, sample
from foveal.data.pipes.scene import Scene

STAINS = ((0.46, 0.27, 0.13), (0.40, 0.30, 0.18), (0.78, 0.76, 0.71), (0.24, 0.19, 0.15), (0.52, 0.41, 0.24))


def paint(scene: Scene, place: Place, random: np.random.Generator) -> Layer:
    """The seam, the runs below it, the glints on them and perhaps a jet."""
    view = scene.view
    down = 1.0 if place.angle > 0 else -1.0  # the water takes the side where it came in
    fall = float(np.clip(2.7 - abs(place.angle), 0.6, random.uniform(0.8, 1.8)))
    wide = random.uniform(0.22, 0.5) * max(place.depth, 0.9)
    reach = np.linspace(-1.3, 1.3, 9) * wide
    jet = _jet(place, random) if random.random() < 0.5 else None
    angles = place.angle + down * np.linspace(-0.25, fall + 0.1, 12)
    points = wall(angles[:, None], np.maximum(place.depth + reach, 0.2)[None])
    points = points if jet is None else np.concatenate([points, jet], 1)
    window = view.around(*view.camera.project(points, view.size))
    below = turned(view.angle[window], place.angle) * np.float32(down)
    depth = view.depth[window]
    shift = random.uniform(0, EDGE, 4).astype(np.float32)
    x = (depth - np.float32(place.depth)) * np.float32(1 / wide)
    x += 0.12 * line((below + 4) * 12, float(shift[0]) * 8)
    patches = sample("cloud", (below + 7) * 110 + shift[0], x * np.float32(60) + EDGE + shift[1], True)
    fine = sample("grain", (below + 7) * 90 + shift[2], x * np.float32(60) + EDGE + shift[3], True)
    threads = sample("around", (below + 7) * 60 + shift[2], x * np.float32(70) + EDGE + shift[3], True)
    crown = np.float32(0.03) * line((x + 4) * 20, float(shift[2]) * 8) + 0.02 * patches
    # each run has its own place, width and length, wanders a little and frays out
    wet = np.zeros_like(x)
    for _ in range(int(random.integers(3, 7))):
        at, thick, far = random.uniform(-0.75, 0.75), random.uniform(0.08, 0.30), fall * random.uniform(0.35, 1.0)
        beside = x - np.float32(at) + np.float32(0.16) * line((below + 4) * 9, random.uniform(0, 4096))
        spread = np.float32(thick) * np.clip(
            1.5 - 1.1 * below * np.float32(1 / far) + 0.55 * patches + 0.1 * threads, 0.2, 2.2
        )
        run = np.clip(1.35 - np.abs(beside) / spread + 0.15 * fine, 0, 1) * np.clip(
            (np.float32(far) - below) * 5 + 0.4 * patches, 0, 1
        )
        wet = np.maximum(wet, run)
    top = np.clip((below - crown) * 14 + 0.5, 0, 1)
    source = np.exp(-((((below - crown - 0.03) / 0.09) ** 2) + (x * 1.1) ** 4))  # a crust where it comes in
    inside = np.maximum(wet, np.clip(source * 1.4 + 0.3 * patches - 0.1, 0, 1) * (source > 0.2)) * top
    seam = (
        np.exp(-(((below - crown) / 0.025) ** 2))
        * np.clip((0.8 - np.abs(x)) * 5, 0, 1)
        * np.clip(0.8 + 0.5 * patches, 0, 1)
    )
    colour, crust = STAINS[random.integers(len(STAINS))], STAINS[random.integers(len(STAINS))]
    stain = tinted(colour, 1 + 0.10 * fine + 0.18 * patches + 0.06 * threads)
    stain += np.clip(source * (0.7 + 0.4 * patches), 0, 1) * (tinted(crust, 1 + 0.22 * fine) - stain)
    albedo = stain * (1 - 0.85 * seam)
    faded = np.clip(1.1 - 0.45 * below * np.float32(1 / fall) + 0.25 * patches, 0.4, 1)
    cover = np.maximum(inside * faded * np.float32(random.uniform(0.7, 0.9)), 0.9 * seam)
    light = scene.lamp.at(depth)
    shade = 1 - np.float32(0.35) * np.clip(wet * 2, 0, 1) * top
    gloss = np.clip(threads + 0.9 * patches - 1.5, 0, 0.5) * wet * top * light * np.float32(random.uniform(0.3, 0.8))
    mask = (inside > 0.4) | (seam > 0.5)
    if jet is not None:
        spray = _drawn(scene, place, jet, window)
        gloss += spray * np.float32(0.75) * scene.lamp.at(place.depth)
        mask |= spray > 0.3
    return Layer(
        window,
        cover,
        albedo,
        gloss=gloss,
        shade=shade,
        mask=mask,
    )


def _jet(place: Place, random: np.random.Generator) -> NDArray[np.float64]:
    """Threads of water (3, threads · 10) that leave the wall and fall freely."""
    threads = int(random.integers(3, 9))
    start = wall(place.angle, place.depth)
    time = np.linspace(0, 1, 10)
    push = random.uniform(0.05, 0.9) * random.uniform(0.8, 1.2, threads)
    aim = random.normal(0, 0.07, (2, threads))
    x = start[0] - np.sign(start[0]) * push[:, None] * abs(start[0]) * time + aim[0][:, None] * time
    y = start[1] + (0.25 * push[:, None] * np.sign(-start[1]) * time + 1.6 * time**2)
    z = start[2] + aim[1][:, None] * time + random.normal(0, 0.02, (threads, 1))
    over = np.maximum(np.hypot(x, y), 1)
    return np.stack([x / over, y / over, np.maximum(z, 0.3)]).reshape(3, -1)


def _drawn(scene: Scene, place: Place, jet: NDArray[np.float64], window: Window) -> Map:
    """The threads as lines, bright at the spring and torn into drops as they fall."""
    view = scene.view
    x, y = view.camera.project(jet, view.size)
    drawn = Image.new("L", (window[1].stop - window[1].start, window[0].stop - window[0].start))
    pen = ImageDraw.Draw(drawn)
    width = max(1, round(0.018 * view.pixels / place.depth))
    for thread in range(jet.shape[1] // 10):
        path = [
            (float(x[i]) - window[1].start, float(y[i]) - window[0].start) for i in range(10 * thread, 10 * thread + 10)
        ]
        for step in range(9):
            if step < 5 or (step + thread) % 2:
                pen.line(path[step : step + 2], fill=255 - 14 * step, width=width)
    return np.asarray(drawn, np.float32) * np.float32(1 / 255)


KIND = Kind("infiltration", "roof", paint)
