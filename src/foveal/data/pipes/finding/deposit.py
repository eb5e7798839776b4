"""A deposit: silt, gravel or grease that has settled.

A bed lies at the invert, above the water; a crust clings to the wall.

The bed is a level plane whose height is stirred by noise; the crust is noise cut off at a height, lit from the slope
of that noise.
"""

import numpy as np

from foveal.data.pipes.finding.kind import Kind, Place, middle, turned
from foveal.data.pipes.layer import Layer, tinted
from foveal.data.pipes.noise import EDGE, line, sample
from foveal.data.pipes.scene import Scene
from foveal.data.pipes.water import bounds, plane

BEDS = ((0.34, 0.28, 0.22), (0.32, 0.30, 0.29), (0.42, 0.31, 0.24), (0.25, 0.23, 0.22), (0.44, 0.40, 0.34))
CRUSTS = ((0.58, 0.54, 0.45), (0.48, 0.41, 0.31), (0.64, 0.63, 0.61), (0.40, 0.32, 0.25))


def paint(scene: Scene, place: Place, random: np.random.Generator) -> Layer:
    """Mostly a bed, sometimes a crust."""
    return _bed(scene, place, random) if random.random() < 0.72 else _crust(scene, place, random)


def _bed(scene: Scene, place: Place, random: np.random.Generator) -> Layer:
    view = scene.view
    level = max(min(scene.water.level, 0.96) - random.uniform(0.04, 0.3), view.camera.offset[1] + 0.2)
    window = bounds(view.height > level - 0.12)
    if window is None:
        window = (slice(view.size - 1, view.size), slice(0, 1))
    x, z = plane(view, window, level)
    shift = random.uniform(0, EDGE, 6).astype(np.float32)
    x = np.clip(x, -1.2, 1.2)  # beyond the walls a ray above the bed's horizon would go on for ever
    around, along = (x + 4) * np.float32(100), z * np.float32(100)
    smooth = view.size > 300
    hills = sample("cloud", around + shift[0], along + shift[1], smooth)
    coarse = np.float32(random.uniform(0.7, 2.0))
    bent = 3 * sample("pebble", around * coarse * 2 + shift[4], along * coarse * 2 + shift[5], True)
    at, on = around * coarse + shift[2] + bent, along * coarse + shift[3] - bent
    tint = sample("tint", at, on)
    # where one large stone might lie there are mostly several small ones
    small = np.where(tint > 0.3, np.float32(1), np.float32(2.6))
    at, on = at * small, on * small
    stones, beside, tint = sample("stone", at, on, True), sample("stone", at, on + 2, True), sample("tint", at, on)
    # gravel in some places, silt between: each bed has its own share
    gravel = np.clip(0.9 * hills + np.float32(random.uniform(-0.9, 1.6)), 0, 1)
    stones, beside = stones * gravel, beside * gravel
    grit = sample("grain", around * 2 + shift[4], along * 2 + shift[5], smooth)
    begin, end = (0.0 if random.random() < 0.75 else place.depth * 0.8), place.depth * random.uniform(2.2, 8)
    ends = (
        np.minimum(z - np.float32(begin), (np.float32(end) - z) * 0.5)
        + 0.12 * line((x + 4) * 14, float(shift[0]))
        + 0.12 * hills
    )
    # the heap falls away towards its ends and leans to one side
    lean = np.float32(np.sin(place.angle) * 0.35)
    rise = (
        view.height[window]
        - np.float32(level)
        + lean * x
        + 0.06 * hills
        + 0.02 * stones
        + np.clip(ends, -1, 0.25) * 0.6
        - 0.15
    )
    pixel = z * np.float32(1 / view.pixels)
    cover = np.clip(rise / pixel + 0.5, 0, 1) * (z < view.depth[window] * 1.15)  # the bed hides the wall behind it
    far = 1 / (1 + 0.05 * z * z)
    slope = np.float32(random.uniform(0.2, 0.45)) * (beside - stones)
    relief = 1 + (slope + 0.07 * grit + 0.18 * hills + 0.22 * np.minimum(stones, 0.6)) * far
    rim = np.clip(1 - rise / 0.05, 0, 1)
    light = scene.lamp.at(z) * np.clip(relief, 0.35, 1.7) * (1 - 0.35 * rim)
    bed = BEDS[random.integers(len(BEDS))]
    albedo = tinted(bed, 1 + (0.24 - 0.16 * gravel) * grit)
    single = np.clip(gravel * (stones > -0.3), 0, 1) * far  # no two stones are of one colour
    albedo *= 1 + np.float32(random.uniform(0.15, 0.38)) * tint * single
    grey = np.float32(sum(bed) / 3 * random.uniform(1.0, 1.4))
    albedo += np.clip(np.sin(tint * 9), 0, 1) * single * np.float32(0.6) * (grey - albedo)
    return Layer(window, cover, albedo, light, angle=middle(view.angle[window], cover > 0.33))


def _crust(scene: Scene, place: Place, random: np.random.Generator) -> Layer:
    view = scene.view
    # on one side, just above where the water stands
    centre = float(random.choice([-1, 1])) * (min(scene.water.dry, 2.7) - random.uniform(0.0, 0.25))
    wide, long = random.uniform(0.2, 0.4), random.uniform(0.3, 0.6) * place.depth
    reach = np.linspace(-1.4, 1.4, 11)
    window = view.window(centre + reach[:, None] * wide, np.maximum(place.depth + reach * long, 0.2)[None])
    angle, depth = turned(view.angle[window], centre), view.depth[window]
    shift = random.uniform(0, EDGE, 4).astype(np.float32)
    around, along = (angle + 7) * np.float32(160), depth * np.float32(110)
    lumps = sample("cloud", around + shift[0], along + shift[1], True)
    knobs, behind = (
        sample("stone", 2 * around + 4 * lumps + shift[2], 2 * along + 4 * lumps + shift[3] + step, True)
        for step in (0, 2)
    )
    grit = sample("grain", 2 * around + shift[1], 2 * along + shift[2])
    x, y = angle * np.float32(1 / wide), (depth - np.float32(place.depth)) * np.float32(1 / long)
    rise = 1 - (x * x + y * y) + 0.55 * lumps + 0.10 * knobs + 0.06 * grit
    cover = np.clip(rise * 5, 0, 1)
    fine = 1 / (1 + (depth * np.float32(7 / view.pixels)) ** 2)
    tone = 0.85 + 0.10 * lumps + (0.16 * (behind - knobs) + 0.10 * np.minimum(knobs, 1) + 0.16 * grit) * fine
    light = scene.lamp.at(depth) * np.clip(tone, 0.35, 1.5) * np.clip(0.7 + 0.6 * rise, 0.55, 1.05)
    edge = np.clip(1 - np.abs(rise) * 5, 0, 1) * (1 - cover)
    dirt = np.clip(0.4 * lumps - 0.3 * knobs, 0, 0.6)
    albedo = tinted(CRUSTS[random.integers(len(CRUSTS))], 1 + 0.1 * grit)
    albedo += dirt * (tinted((0.30, 0.25, 0.20), 1 + 0.2 * grit) - albedo)
    return Layer(window, cover, albedo, light, shade=1 - 0.4 * edge, angle=centre)


KIND = Kind("deposit", "invert", paint, in_wall=False)
