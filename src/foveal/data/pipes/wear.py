"""What use leaves on a wall that is no finding: a tide line, a worn invert, blotches, runs, flaking and scratches.

The hard negatives.
"""

import numpy as np

from foveal.data.pipes.camera import Map, View
from foveal.data.pipes.layer import Canvas, plain
from foveal.data.pipes.noise import EDGE, line, sample
from foveal.data.pipes.texture import CELL, fading, papered

STAINS = ((0.40, 0.31, 0.21), (0.30, 0.25, 0.20), (0.20, 0.19, 0.19), (0.42, 0.34, 0.20), (0.28, 0.30, 0.22))
FLAKES = ((0.80, 0.78, 0.72), (0.72, 0.72, 0.74), (0.62, 0.52, 0.38))


def lay_wear(view: View, canvas: Canvas, random: np.random.Generator) -> None:
    """Draw some of these on the wall; each frame has its own choice."""
    around, along = papered(view)
    shift = random.uniform(0, EDGE, 6).astype(np.float32)
    smooth = view.size > 300
    patches = sample("cloud", around + shift[0], along + shift[1], smooth)
    has = random.random(6)
    if has[0] < 0.75:
        _tide(view, canvas, patches, random)
    if has[1] < 0.35:
        _blend(canvas, np.clip((patches - random.uniform(0.9, 1.8)) * 1.5, 0, random.uniform(0.3, 0.8)), STAINS, random)
    if has[2] < 0.22:  # flaking: the same patches with a hard edge
        other = sample("cloud", around + shift[2], 2 * along + shift[3], smooth) + 0.5 * sample(
            "grain", around, along, smooth
        )
        _blend(canvas, np.clip((other - random.uniform(1.3, 2.0)) * 6, 0, random.uniform(0.4, 0.8)), FLAKES, random)
    if has[3] < 0.35:  # runs that come down from the crown
        runs = sample("around", around + shift[4], along + shift[5], smooth)
        _blend(
            canvas,
            np.clip((runs - random.uniform(0.8, 1.6)) * 1.2, 0, random.uniform(0.25, 0.7)) * fading(view, 3 * CELL),
            STAINS,
            random,
        )
    if has[4] < 0.5:
        _scratches(view, canvas, random)
    if has[5] < 0.4:  # a pale zone on the flanks, washed clean, as wide as the flow once was
        flank = np.abs(np.abs(view.angle) - np.float32(random.uniform(1.6, 2.4)))
        edge = np.float32(random.uniform(0.2, 0.5))
        canvas.albedo *= 1 + np.float32(random.uniform(0.1, 0.35)) * np.clip((edge - flank) * 6 + patches, 0, 1)


def _tide(view: View, canvas: Canvas, patches: Map, random: np.random.Generator) -> None:
    """Below some height the wall is dirty; often a second, darker band marks the invert."""
    for level, strength in (
        (random.uniform(-0.1, 0.8), random.uniform(0.15, 0.6)),
        (random.uniform(0.8, 0.97), random.uniform(0.4, 0.85)),
    ):
        if random.random() < 0.7:
            sharp = random.uniform(4, 30)
            cover = np.clip(
                (view.height - np.float32(level) + patches * np.float32(random.uniform(0.01, 0.07))) * np.float32(sharp)
                + 0.5,
                0,
                1,
            )
            _blend(canvas, cover * np.float32(strength), STAINS, random)


def _scratches(view: View, canvas: Canvas, random: np.random.Generator) -> None:
    """Straight drag marks along the pipe: paler than the wall, never dark and broken as a crack is."""
    for _ in range(int(random.integers(1, 5))):
        angle, start, length = random.uniform(-np.pi, np.pi), random.uniform(0.5, 2.5), random.uniform(0.4, 2.5)
        beside = np.abs(view.angle - np.float32(angle))
        near = (view.depth > start) & (view.depth < start + length) & (beside < 0.1)
        rows, columns = np.nonzero(near)
        if len(rows) == 0:
            continue
        depth = view.depth[rows, columns]
        away = beside[rows, columns] + np.float32(0.01) * line(depth * 4, random.uniform(0, 4096))
        pixel = depth * np.float32(1 / view.pixels)
        mark = np.clip((np.float32(random.uniform(0.003, 0.012)) - np.abs(away)) / pixel + 0.5, 0, 1)
        canvas.albedo[:, rows, columns] *= 1 + np.float32(random.uniform(0.1, 0.35)) * mark


def _blend(
    canvas: Canvas, cover: Map, colours: tuple[tuple[float, float, float], ...], random: np.random.Generator
) -> None:
    colour = plain(colours[random.integers(len(colours))])
    canvas.albedo += np.asarray(cover, np.float32) * (colour - canvas.albedo)
