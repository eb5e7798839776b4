"""A fracture: the wall has broken into pieces that no longer lie flush.

Warped Voronoi cells are the pieces, cracks run between most of them.
"""

import numpy as np

from foveal.data.pipes.finding.kind import Kind, Place, turned
from foveal.data.pipes.layer import Layer, tinted
from foveal.data.pipes.noise import EDGE, line, sample
from foveal.data.pipes.scene import Scene
from foveal.data.pipes.texture import CELL

SOILS = ((0.10, 0.08, 0.07), (0.05, 0.05, 0.05), (0.20, 0.15, 0.11))


def paint(scene: Scene, place: Place, random: np.random.Generator) -> Layer:
    """The broken patch: some pieces tilted, one or two gone."""
    view = scene.view
    wide, long = random.uniform(0.3, 0.6), random.uniform(0.35, 0.6) * max(place.depth, 0.9)
    reach = np.linspace(-1.3, 1.3, 9)
    window = view.window(place.angle + reach[:, None] * wide, np.maximum(place.depth + reach * long, 0.2)[None])
    angle, depth = turned(view.angle[window], place.angle), view.depth[window]
    begun = random.uniform(0, 4096, 5)
    shift = random.uniform(0, EDGE, 4).astype(np.float32)
    around, along = (angle + 7) * np.float32(1 / CELL), depth * np.float32(1 / CELL)
    warp = sample("cloud", around * 2 + shift[0], along * 2 + shift[1], True)
    other = sample("cloud", around * 2 + shift[2], along * 2 + shift[3], True)
    grit = sample("grain", 2 * around, 2 * along)
    # edges wander at every scale; only glass breaks straight
    x = angle * np.float32(1 / wide) + 0.09 * warp + 0.05 * line(depth * 60, begun[0]) + 0.012 * grit
    y = (
        (depth - np.float32(place.depth)) * np.float32(1 / long)
        + 0.09 * other
        + 0.05 * line((angle + 4) * 60, begun[1])
        + 0.012 * grit
    )
    count = int(random.integers(9, 14))
    seeds = random.uniform(-1, 1, (count, 2)).astype(np.float32)
    seeds[0] *= np.float32(0.25)
    first, second = np.full_like(x, 9), np.full_like(x, 9)
    piece, beside = np.zeros(x.shape, np.int8), np.zeros(x.shape, np.int8)
    for number, (u, v) in enumerate(seeds):
        distance = np.sqrt((x - u) ** 2 + (y - v) ** 2)
        nearer = distance < first
        beside = np.where(nearer, piece, np.where(distance < second, np.int8(number), beside))
        second = np.where(nearer, first, np.minimum(second, distance))
        piece[nearer] = number
        first = np.minimum(first, distance)
    out = np.hypot(x, y)
    pixel = depth * np.float32(1 / (view.pixels * wide))
    lost = np.zeros(count, bool)
    lost[np.argsort(np.hypot(*seeds.T))[: int(random.integers(0, 3))]] = True
    gone = lost[piece] & (out < 0.5)
    # some pieces still hold together; cracks are widest at the middle and die out
    holds = random.random((count, count)) < 0.16
    holds = (holds | holds.T) & ~lost[:, None] & ~lost[None]
    reach = random.uniform(0.7, 1.3, (count, count)).astype(np.float32)
    ends = np.maximum(reach, reach.T)[piece, beside]
    width = (
        np.float32(random.uniform(0.06, 0.12))
        * np.clip(1.2 - out / ends, 0.1, 1)
        * (1 + 0.5 * line((x + y + 8) * 24, begun[2]))
    )
    crack = np.clip((width - (second - first)) / (1.5 * pixel) + 0.5, 0, 1) * (out < ends) * ~holds[piece, beside]
    tilt = random.normal(0, 1, (2, count)).astype(np.float32)
    sunk = np.clip((0.95 - out) * 5, 0, 1)
    lift = 1 + 0.15 * sunk * (tilt[0][piece] + tilt[1][piece] * np.clip((x - seeds[piece, 0]) * 2, -1, 1))
    dark = np.maximum(crack, gone)
    inward = np.clip((second - first) * 3, 0, 1)
    soil = tinted(SOILS[random.integers(len(SOILS))], (1.1 - 0.7 * inward) * (1 + 0.35 * grit + 0.25 * warp))
    # the wall's thickness shows at the far edge of a missing piece; chips lie bare along the cracks
    rim = gone & ~lost[beside] & (second - first < 0.24 + 0.05 * warp) & (y > seeds[piece, 1])
    soil = np.where(rim, tinted((0.50, 0.47, 0.42), 0.9 + 0.3 * grit), soil)
    chips = np.clip((2.2 * width - (second - first)) * 12, 0, 1) * (warp > 0.3) * ~holds[piece, beside] * (out < ends)
    shade = np.clip(lift, 0.6, 1.4) * (1 - 0.35 * chips)
    mask = (out < 0.85) | (crack > 0.3)
    return Layer(window, (0.93 * dark).astype(np.float32), soil, shade=shade, mask=mask)


KIND = Kind("fracture", "wall", paint)
