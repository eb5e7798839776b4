"""Roots: they come in at a joint, hang into the pipe and branch.

Each is a curve in space, drawn as a line that thins towards its tip.
"""

import numpy as np
from PIL import Image, ImageDraw

from foveal.data.pipes.camera import wall
from foveal.data.pipes.finding.kind import Kind, Place
from foveal.data.pipes.layer import Layer, tinted
from foveal.data.pipes.scene import Scene

COLOURS = ((0.46, 0.34, 0.22), (0.34, 0.25, 0.17), (0.62, 0.54, 0.42), (0.26, 0.20, 0.16), (0.72, 0.68, 0.60))
STEPS = 12


def paint(scene: Scene, place: Place, random: np.random.Generator) -> Layer:
    """A tuft of fine roots, often with a few thick ones."""
    view = scene.view
    count, thick = int(random.integers(45, 110)), int(random.integers(0, 4))
    spread, length = random.uniform(0.10, 0.55), random.uniform(0.55, 1.25)
    angles = place.angle + np.clip(random.normal(0, spread / 1.6, count), -spread, spread)
    start = wall(angles, np.full(count, place.depth) + random.normal(0, 0.02, count))
    inward = np.stack([-start[0], -start[1], random.normal(-0.1, 0.35, count)])
    heading = inward + random.normal(0, 0.30, (3, count))
    long = length * random.uniform(0.25, 1.0, count) / STEPS
    points = [start]
    for _ in range(STEPS):  # each grows on with a little change of heading, and sinks
        heading = heading / np.linalg.norm(heading, axis=0) + random.normal(0, 0.28, (3, count))
        heading[1] += 0.14
        points.append(points[-1] + heading / np.linalg.norm(heading, axis=0) * long)
    curve = np.stack(points)  # (steps + 1, 3, count)
    away = np.hypot(curve[:, 0], curve[:, 1])
    curve[:, :2] /= np.maximum(away, 1)[:, None]
    flat = curve.transpose(1, 0, 2).reshape(3, -1)
    flat[2] = np.maximum(flat[2], 0.25)
    x, y = view.camera.project(flat, view.size)
    window = view.around(x, y, 2)
    scale = 2 if view.size < 320 else 1
    x, y = ((v - s.start + 0.5).reshape(STEPS + 1, count) * scale for v, s in ((x, window[1]), (y, window[0])))
    shape = (window[1].stop - window[1].start, window[0].stop - window[0].start)
    drawn = Image.new("L", (shape[0] * scale, shape[1] * scale))
    pen = ImageDraw.Draw(drawn)
    unit = scale * view.pixels / place.depth
    tones = random.integers(120, 256, count)
    for k in range(count):
        width = (random.uniform(0.03, 0.07) if k < thick else random.uniform(0.008, 0.022)) * unit
        path = [(float(a), float(b)) for a, b in zip(x[:, k], y[:, k], strict=True)]
        pen.line(path[: STEPS * 2 // 3 + 1], fill=int(tones[k]), width=max(1, round(width)))
        pen.line(path[STEPS * 2 // 3 :], fill=int(tones[k]), width=max(1, round(width / 2)))
    ink = np.asarray(drawn.reduce(scale) if scale > 1 else drawn, np.float32)
    cover = np.clip(ink * np.float32(1 / 100), 0, 1)
    dry = cover > 0.3
    albedo = tinted(COLOURS[random.integers(len(COLOURS))], np.clip(ink * np.float32(1 / 200), 0.35, 1.3))
    light = np.full(cover.shape, scene.lamp.at(place.depth * 0.95), np.float32)
    return Layer(window, cover, albedo, light, mask=dry)


KIND = Kind("root", "roof-joint", paint, in_wall=False)
