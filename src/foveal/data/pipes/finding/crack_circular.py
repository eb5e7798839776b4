"""A crack around the pipe: a dark line at nearly one depth that wanders, over a part of the circumference.

A joint is straight; this is not.
"""

import numpy as np

from foveal.data.pipes.finding.kind import Kind, Place, turned
from foveal.data.pipes.layer import Layer, plain
from foveal.data.pipes.noise import line
from foveal.data.pipes.scene import Scene


def paint(scene: Scene, place: Place, random: np.random.Generator) -> Layer:
    """The crack in the wall."""
    view = scene.view
    half = random.uniform(0.6, 2.4)
    sway, slope = random.uniform(0.03, 0.08) * place.depth, random.normal(0, 0.08)
    angles = np.linspace(-half, half, 40)
    spread = 0.1 + 3 * sway + abs(slope) * half
    window = view.window(place.angle + angles[None], np.maximum(place.depth + np.array([[-spread], [spread]]), 0.2))
    angle, depth = turned(view.angle[window], place.angle), view.depth[window]
    width = random.uniform(0.012, 0.032) * (1.5 if scene.material.ribs else 1.0)  # among ribs a fine line is lost
    pixel = depth * depth * np.float32(1 / view.pixels)
    begun = random.uniform(0, 4096, 3)
    taper = np.clip(4 * (1 - np.abs(angle) * np.float32(1 / half)), 0, 1)
    track = (
        np.float32(sway) * (line((angle + 4) * 30, begun[0]) + 0.35 * line((angle + 4) * 110, begun[2]))
        + np.float32(slope) * angle
        + np.float32(place.depth)
    )
    open_ = np.maximum(width * (1 + 0.6 * line((angle + 4) * 50, begun[1])) * taper, 0.5 * pixel)
    away = np.abs(depth - track)
    cover = np.clip((open_ - away) / pixel + 0.5, 0, 1) * (taper > 0.02)
    edge = np.clip(1 - (away - open_) / (4 * width), 0, 1) * (taper > 0.02)
    if scene.material.ribs:  # the ribs beside it are broken down: a pale, smeared border
        edge *= np.float32(-1.4)
    # broken ground beside it: small chips along the line
    chips = (line((angle + 4) * 34, begun[2]) > 1.3) & (away < 3.5 * width) & (depth > track) & (taper > 0.3)
    cover = np.maximum(0.92 * cover, 0.75 * chips).astype(np.float32)
    return Layer(window, cover, plain((0.05, 0.04, 0.04)), shade=1 - np.float32(random.uniform(0.05, 0.35)) * edge)


KIND = Kind("crack-circular", "ring", paint)
