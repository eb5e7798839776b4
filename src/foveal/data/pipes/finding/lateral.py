"""A lateral: another pipe joins through a round, clean opening.

Seen from the main pipe, its far side is lit and its near side is dark.

The ray that enters at depth z moves on by z for every radius it goes out, so it meets the lateral's far side after
h = (z₀ + √(r² - s²) - z)/z radii; the light fades with h.
"""

import numpy as np

from foveal.data.pipes.finding.kind import Kind, Place, turned
from foveal.data.pipes.layer import Layer, tinted
from foveal.data.pipes.noise import EDGE, line, sample
from foveal.data.pipes.scene import Scene
from foveal.data.pipes.texture import CELL

PIPES = ((0.55, 0.54, 0.54), (0.66, 0.66, 0.64), (0.62, 0.38, 0.24), (0.45, 0.40, 0.36))


def paint(scene: Scene, place: Place, random: np.random.Generator) -> Layer:
    """The opening, the inside of the lateral, and the rim that a saw or a socket leaves."""
    view = scene.view
    radius = random.uniform(0.2, 0.42)
    long = radius * random.uniform(1.0, 1.35)  # a lateral that joins at a slant makes an oval
    reach = np.linspace(-1.45, 1.45, 11)
    window = view.window(place.angle + reach[:, None] * radius, np.maximum(place.depth + reach * long, 0.2)[None])
    angle, depth = turned(view.angle[window], place.angle), view.depth[window]
    x, y = angle * np.float32(1 / radius), (depth - np.float32(place.depth)) * np.float32(1 / long)
    out = np.hypot(x, y)
    pixel = depth * np.float32(1 / (view.pixels * radius))
    ragged = np.float32(random.choice([0.0, 0.03])) * line((np.arctan2(x, y) + 4) * 12, random.uniform(0, 4096))
    cover = np.clip((1 - out + ragged) / pixel + 0.5, 0, 1)
    run = np.sqrt(np.maximum(1 - x * x, 0))
    inward = np.maximum(run - y, 0) * np.float32(long) / depth
    noise = sample(
        "cloud",
        angle * np.float32(2 / CELL) + 2 * EDGE,
        inward * np.float32(3 / CELL) + np.float32(random.uniform(0, EDGE)),
    )
    inside = tinted(PIPES[random.integers(len(PIPES))], 1 + 0.15 * noise)
    fade = 1.15 * np.exp(inward * np.float32(-1 / random.uniform(0.10, 0.35)))
    ring = np.exp(-(((out - 1 - 0.06) / 0.07) ** 2)) * (1 - cover)
    shade = 1 + np.float32(random.choice([-0.5, -0.35, 0.35])) * ring
    light = scene.lamp.at(depth) * fade
    return Layer(window, cover, inside, light, shade=shade, mask=out < 1.06)


KIND = Kind("lateral", "wall", paint)
