"""A fracture: the wall has broken into pieces that no longer lie flush. Voronoi cells are the pieces, open cracks run between them."""

import numpy as np

from foveal.data.pipes.finding.kind import Kind, Place, turned
from foveal.data.pipes.layer import Layer
from foveal.data.pipes.noise import EDGE, line, sample
from foveal.data.pipes.scene import Scene
from foveal.data.pipes.texture import CELL


def paint(scene: Scene, place: Place, random: np.random.Generator) -> Layer:
    """The broken patch: some pieces tilted, one or two gone."""
    view = scene.view
    wide, long = random.uniform(0.3, 0.6), random.uniform(0.35, 0.6) * max(place.depth, 0.9)
    reach = np.linspace(-1.3, 1.3, 9)
    window = view.window(place.angle + reach[:, None] * wide, np.maximum(place.depth + reach * long, 0.2)[None])
    angle, depth = turned(view.angle[window], place.angle), view.depth[window]
    begun = random.uniform(0, 4096, 3)
    x = angle * np.float32(1 / wide) + 0.05 * line(depth * 40, begun[0])
    y = (depth - np.float32(place.depth)) * np.float32(1 / long) + 0.05 * line((angle + 4) * 40, begun[1])
    count = int(random.integers(9, 15))
    seeds = random.uniform(-1, 1, (count, 2)).astype(np.float32)
    first, second = np.full_like(x, 9), np.full_like(x, 9)
    piece, beside = np.zeros(x.shape, np.int8), np.zeros(x.shape, np.int8)
    for number, (u, v) in enumerate(seeds):
        distance = np.sqrt((x - u) ** 2 + (y - v) ** 2)
        nearer = distance < first
        beside = np.where(nearer, piece, np.where(distance < second, np.int8(number), beside))
        second = np.where(nearer, first, np.minimum(second, distance))
        piece[nearer] = number
        first = np.minimum(first, distance)
    inside = np.hypot(x, y) < 0.95 + 0.12 * line((np.arctan2(x, y) + 4) * 6, begun[2])
    pixel = depth * np.float32(1 / (view.pixels * wide))
    width = np.float32(random.uniform(0.025, 0.07))
    crack = np.clip((width - (second - first)) / (1.5 * pixel) + 0.9, 0, 1)
    lost = np.zeros(count, bool)
    lost[np.argsort(np.hypot(*seeds.T))[: int(random.integers(1, 4))]] = True
    gone = lost[piece]
    tilt = random.normal(0, 1, (2, count)).astype(np.float32)
    lift = 1 + 0.16 * (tilt[0][piece] + tilt[1][piece] * np.clip((x - seeds[piece, 0]) * 2, -1, 1))
    grit = sample("grain", angle * np.float32(2 / CELL) + 2 * EDGE, depth * np.float32(2 / CELL))
    dark = np.maximum(crack, gone) * inside
    soil = np.array((0.10, 0.08, 0.07), np.float32)[:, None, None] * (1 + 0.5 * grit)
    # a missing piece's far edge is a lit, broken face
    rim = gone & ~lost[beside] & (second - first < 0.22) & (y > seeds[piece, 1])
    soil = np.where(rim, np.float32(0.5) * (1 + 0.3 * grit), soil)
    return Layer(window, (0.93 * dark).astype(np.float32), soil, shade=np.where(inside, np.clip(lift, 0.5, 1.5), 1), mask=inside)


KIND = Kind("fracture", "wall", paint)
