"""Surface damage: mortar is lost over an area whose border is ragged.

Stones of the concrete lie bare; in places its steel shows, and rusts.

The border is where 1 - |p|² + noise crosses 0; the edge nearest the camera hides the pit and the far one catches the
light.
"""

import numpy as np

from foveal.data.pipes.camera import Map
from foveal.data.pipes.finding.kind import Kind, Place, turned
from foveal.data.pipes.layer import Layer, plain, tinted
from foveal.data.pipes.noise import EDGE, line, sample
from foveal.data.pipes.scene import Scene

GROUNDS = ((0.40, 0.35, 0.30), (0.46, 0.43, 0.39), (0.36, 0.30, 0.26), (0.46, 0.33, 0.26), (0.32, 0.30, 0.29))
RUSTS = ((0.32, 0.20, 0.13), (0.38, 0.25, 0.16), (0.25, 0.17, 0.13))


def paint(scene: Scene, place: Place, random: np.random.Generator) -> Layer:
    """The bare area, its stones, and often bars and runs of rust."""
    view = scene.view
    wide, long = random.uniform(0.3, 0.75), random.uniform(0.35, 0.75) * max(place.depth, 0.9)
    span = np.linspace(-1.5, 1.5, 13)
    window = view.window(place.angle + span[:, None] * wide, np.maximum(place.depth + span * long, 0.2)[None])
    angle, depth = turned(view.angle[window], place.angle), view.depth[window]
    shift = random.uniform(0, EDGE, 8).astype(np.float32)
    around, along = (angle + 7) * np.float32(120), depth * np.float32(120)
    patches = sample("cloud", around + shift[0], along + shift[1], True)
    ragged = sample("grain", around + shift[2], along + shift[3], True)
    edges = sample("cloud", around * 3 + shift[6], along * 3 + shift[7], True)
    x, y = angle * np.float32(1 / wide), (depth - np.float32(place.depth)) * np.float32(1 / long)

    def bare(y: Map) -> Map:
        """Above 0 where the mortar is gone."""
        return np.asarray(0.6 - x * x - y * y + np.float32(0.42) * patches + 0.26 * edges + 0.09 * ragged)

    here = bare(y)
    pixel = depth * np.float32(1 / view.pixels)
    cover = np.clip(here * np.float32(0.3 * wide) / pixel + 0.5, 0, 1) * (x * x + y * y < 2.2)
    coarse = np.float32(random.uniform(3.0, 5.5))
    stones = sample("stone", around * coarse + shift[4], along * coarse + shift[5], True)
    behind = sample("stone", around * coarse + shift[4], along * coarse + shift[5] + 2, True)
    tint = sample("tint", around * coarse + shift[4], along * coarse + shift[5])
    fine = 1 / (1 + (pixel * np.float32(10)) ** 2)
    tone = (
        0.9
        + (0.20 * tint * (stones > -0.2) + 0.10 * np.minimum(stones, 1) + 0.20 * (behind - stones)) * fine
        + 0.12 * ragged
        + 0.16 * edges
    )
    albedo = tinted(GROUNDS[random.integers(len(GROUNDS))], np.clip(tone, 0.25, 1.7))
    rust = plain(RUSTS[random.integers(len(RUSTS))])
    stained = np.clip(0.5 * edges + 0.2 * ragged + np.float32(random.uniform(-0.7, 0.2)), 0, 0.7)
    albedo += stained * (rust * np.clip(tone, 0.4, 1.5) - albedo)
    # the pit's near edge is in its own shadow, the far one is lit
    depth_of_pit = np.float32(random.uniform(0.06, 0.14))
    far = np.clip(1 - bare(y + depth_of_pit) * 9, 0, 1) * cover
    near = np.clip(1 - bare(y - depth_of_pit) * 9, 0, 1) * cover
    shade = 1 + (1 - cover) * np.clip(1 - np.abs(here) * 8, 0, 1) * np.float32(random.choice([-0.3, 0.2]))
    albedo *= (1 + 0.55 * far) * (1 - 0.6 * near)
    if random.random() < 0.55:
        bars = _bars(angle, depth, place, pixel, random) * np.clip(here * 4 + 0.8, 0, 1)
        albedo += np.minimum(bars, 1) * (rust * (0.7 + 0.3 * ragged) - albedo)
        cover = np.maximum(cover, 0.95 * np.minimum(bars, 1))
    down = np.float32(1.0 if place.angle > 0 else -1.0)
    if random.random() < 0.5:  # rust runs down the wall below it
        runs = np.clip(sample("around", around * 0.6 + shift[6], along + shift[7], True) * 0.6 + 0.2, 0, 1)
        below = np.clip((angle * down - np.float32(0.4 * wide)) * 4, 0, 1) * np.clip(
            1.35 - np.hypot(x * 0.9, y * 1.3), 0, 1
        )
        wash = runs * below * (1 - cover)
        albedo = albedo + (1 - cover) * (rust * 1.3 - albedo)
        return Layer(window, np.maximum(cover, 0.8 * wash), albedo, shade=shade, mask=cover > 0.33)
    return Layer(window, cover, albedo, shade=shade, mask=cover > 0.33)


def _bars(angle: Map, depth: Map, place: Place, pixel: Map, random: np.random.Generator) -> Map:
    """Steel hoops at a regular pitch, each bare over a part of its way, and perhaps two bars along the pipe."""
    pitch, thick = random.uniform(0.12, 0.22) * place.depth, random.uniform(0.012, 0.022) * place.depth
    begun = random.uniform(0, 4096, 3)
    turns = (depth - np.float32(place.depth)) * np.float32(1 / pitch)
    number = np.rint(turns)
    away = np.abs(turns - number) * np.float32(pitch) + np.float32(0.3 * thick) * line((angle + 4) * 40, begun[0])
    bare = line((angle + 4) * 7 + 61 * number, begun[1]) > -0.5
    hoops = np.clip((np.float32(thick) - away) / (pixel * depth) + 0.5, 0, 1) * bare
    if random.random() < 0.5:
        gap = random.uniform(0.25, 0.5)
        beside = np.abs(np.abs(angle + 0.02 * line(depth * 20, begun[2])) - np.float32(gap / 2))
        hoops = np.maximum(hoops, np.clip((np.float32(0.012) - beside) / pixel + 0.5, 0, 1))
    return np.asarray(hoops, np.float32)


KIND = Kind("surface", "wall", paint)
