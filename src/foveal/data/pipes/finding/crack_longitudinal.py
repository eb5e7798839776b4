"""A crack along the pipe: a dark line at nearly one angle that wanders, thins out at both ends and may branch once."""

import numpy as np

from foveal.data.pipes.finding.kind import Kind, Place, turned
from foveal.data.pipes.layer import Layer, plain
from foveal.data.pipes.noise import line
from foveal.data.pipes.scene import Scene


def paint(scene: Scene, place: Place, random: np.random.Generator) -> Layer:
    """The crack in the wall."""
    view = scene.view
    half = random.uniform(0.35, 0.75) * place.depth
    start, end = max(place.depth - 0.7 * half, 0.3), place.depth + 1.6 * half
    sway, slope = random.uniform(0.02, 0.07), random.normal(0, 0.06)
    depths = np.linspace(start, end, 30)
    spread = 0.1 + 3 * sway
    window = view.window(place.angle + np.array([[-spread], [spread]]), depths[None])
    angle, depth = turned(view.angle[window], place.angle), view.depth[window]
    width = random.uniform(0.008, 0.022)
    pixel = depth * np.float32(1 / view.pixels)
    begun = random.uniform(0, 4096, 3)
    share = np.clip((depth - np.float32(start)) / np.float32(end - start), 0, 1)
    taper = np.clip(5 * np.minimum(share, 1 - share), 0, 1)
    track = np.float32(sway) * (line(depth * 26, begun[0]) + 0.3 * line(depth * 120, begun[1])) + np.float32(slope) * (
        depth - np.float32(place.depth)
    )
    open_ = np.maximum(width * (1 + 0.5 * line(depth * 60, begun[1])) * taper, 0.55 * pixel)
    away = np.abs(angle - track)
    if random.random() < 0.45:  # a branch leaves the crack somewhere and runs apart from it
        fork = np.maximum(depth - np.float32(random.uniform(min(start, place.depth), place.depth)), 0) * np.float32(
            random.choice([-0.25, 0.25])
        )
        other = np.abs(angle - track - fork + np.float32(0.3 * sway) * line(depth * 30, begun[2]))
        away = np.minimum(away, other + 0.3 * pixel)
    within = (taper > 0.02) & (away < 1.5)
    cover = np.clip((open_ - away) / pixel + 0.5, 0, 1) * within
    edge = np.clip(1 - (away - open_) / (3 * width), 0, 1) * within
    return Layer(
        window,
        (0.92 * cover).astype(np.float32),
        plain((0.05, 0.04, 0.04)),
        shade=1 - np.float32(random.uniform(0.05, 0.3)) * edge,
    )


KIND = Kind("crack-longitudinal", "wall", paint)
