"""A hole: a broken opening through which soil is seen. Its far edge shows the thickness of the wall.

A ray that enters the opening at depth z has, one wall thickness τ further out, moved on to z·(1 + τ): if that is still
within the opening it reaches the soil, else it ends on the broken face.
"""

import numpy as np

from foveal.data.pipes.camera import Map
from foveal.data.pipes.finding.kind import Kind, Place, turned
from foveal.data.pipes.layer import Layer, tinted
from foveal.data.pipes.noise import EDGE, line, sample
from foveal.data.pipes.scene import Scene
from foveal.data.pipes.texture import CELL

SOILS = ((0.16, 0.12, 0.09), (0.10, 0.09, 0.09), (0.24, 0.18, 0.12), (0.05, 0.05, 0.06))


def paint(scene: Scene, place: Place, random: np.random.Generator) -> Layer:
    """The opening, its broken face and the soil behind."""
    view = scene.view
    wide, long = random.uniform(0.14, 0.34), random.uniform(0.18, 0.42) * max(place.depth, 0.8)
    reach = np.linspace(-1.7, 1.7, 9)
    window = view.window(place.angle + reach[:, None] * wide, np.maximum(place.depth + reach * long, 0.2)[None])
    angle, depth = turned(view.angle[window], place.angle), view.depth[window]
    begun, jag = random.uniform(0, 4096), random.uniform(0.16, 0.34)

    def outside(at: Map) -> Map:
        """Below 0 within the opening: distance over the radius in that direction, less 1."""
        x, y = angle * np.float32(1 / wide), (at - np.float32(place.depth)) * np.float32(1 / long)
        turn = np.arctan2(x, y)
        rim = 1 + np.float32(jag) * (
            line((turn + 4) * 9, begun) - line((turn + 4 + 2 * np.pi) * 9, begun) * np.clip((turn - 2) / 1.1, 0, 1)
        )
        return np.asarray(np.hypot(x, y) / np.maximum(rim, 0.3) - 1)

    here = outside(depth)
    through = outside(depth * np.float32(1 + random.uniform(0.08, 0.22)))
    pixel = depth * np.float32(1 / (view.pixels * wide))
    cover = np.clip(0.5 - here / pixel, 0, 1)
    face = np.clip(0.5 + through / pixel, 0, 1)
    grit = sample(
        "grain",
        angle * np.float32(2 / CELL) + 2 * EDGE,
        depth * np.float32(2 / CELL) + np.float32(random.uniform(0, EDGE)),
    )
    soil = tinted(
        SOILS[random.integers(len(SOILS))], np.clip(1.1 - 0.9 * np.clip(-through, 0, 1), 0.15, 1) * (1 + 0.2 * grit)
    )
    broken = tinted((0.60, 0.56, 0.50), 0.9 + 0.25 * grit)
    edge = np.clip(1 - np.abs(here) * 7, 0, 1) * (1 - cover)
    albedo = soil + face * (broken - soil)
    return Layer(window, cover, albedo, shade=1 + np.float32(random.choice([-0.45, 0.25])) * edge)


KIND = Kind("hole", "wall", paint)
