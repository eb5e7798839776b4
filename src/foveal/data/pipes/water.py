"""Water at the invert: all wall below the level y = h is hidden by a plane that is dark,
mirrors the lit pipe and ripples.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foveal.data.pipes.camera import Map, View
from foveal.data.pipes.lamp import Lamp
from foveal.data.pipes.layer import Colour, Layer, Window, tinted
from foveal.data.pipes.noise import EDGE, sample

COLOURS: tuple[Colour, ...] = (
    (0.16, 0.15, 0.14),
    (0.22, 0.21, 0.12),
    (0.26, 0.20, 0.13),
    (0.14, 0.15, 0.18),
    (0.30, 0.28, 0.25),
    (0.10, 0.10, 0.10),
)


@dataclass(frozen=True)
class Water:
    """How high it stands (+1 is the invert: none) and how it looks."""

    level: float
    colour: Colour
    mirror: float
    ripple: float
    scale: float
    murk: float  # cover where it is shallow
    ragged: float  # how uneven its edge is

    @property
    def dry(self) -> float:
        """The angle from the crown down to which the wall is dry."""
        return float(np.arccos(-np.clip(self.level, -1, 1)))

    def layer(self, view: View, lamp: Lamp, random: np.random.Generator) -> Layer | None:
        """The visible surface; None if the pipe is dry or the surface out of sight."""
        shift = random.uniform(0, EDGE, 6).astype(np.float32)
        window = bounds(view.height > np.float32(self.level - 0.03))
        if self.level >= 1 or window is None:
            return None
        x, z = plane(view, window, self.level)
        around, along = (x + 4) * np.float32(60 * self.scale), z * np.float32(60 * self.scale)
        smooth = view.size > 300
        waves = sample("cloud", around + shift[0], along + shift[1], smooth)
        waves += 0.7 * sample("around", around * 2 + shift[2], along + shift[3], smooth)
        waves *= np.float32(self.ripple) / (1 + 0.02 * z * z)
        # where the water is shallow the bed shows through; its edge follows the roughness of the wall
        edge = sample("cloud", shift[4] + 40 * np.sign(x) + 50, z * np.float32(90) + shift[5], smooth)
        deep = view.height[window] - np.float32(self.level) + np.float32(self.ragged) * edge
        pixel = z * np.float32(1 / view.pixels)
        cover = np.clip(deep / pixel + 0.5, 0, 1) * np.clip(np.float32(self.murk) + deep * 8, 0, 1)
        light = lamp.at(z)
        # a flat mirror shows the wall as far behind the surface as it is above it: the dimmer, farther pipe
        slope = np.clip(view.ray[1][window] / view.ray[2][window], 0.02, 4)
        glancing = 1 / (1 + 5 * slope)
        seen = lamp.at(z + (1 + np.float32(self.level)) / slope * 0.5)
        gloss = np.float32(self.mirror) * glancing * seen * np.clip(1 + 2 * waves, 0, 2.2)
        gloss += np.float32(0.6 * self.mirror) * light * np.clip(waves - 0.7, 0, 1)
        # wet glints along the edge
        gloss += np.float32(0.35) * light * np.clip(1 - np.abs(deep) * np.float32(60), 0, 1) * (edge > 0.6)
        gloss *= cover
        return Layer(window, cover, tinted(self.colour, 1 + 0.45 * waves), light, gloss)


def plane(view: View, window: Window, level: float) -> tuple[Map, Map]:
    """Where the window's rays meet a level plane: x across the pipe and z along it."""
    ox, oy = view.camera.offset
    reach = np.float32(level - oy) / np.maximum(view.ray[1][window], np.float32(1e-3))
    return ox + reach * view.ray[0][window], np.clip(reach * view.ray[2][window], 0.05, 60)


def bounds(mask: NDArray[np.bool_]) -> Window | None:
    """The least window that holds a mask."""
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    if len(rows) == 0:
        return None
    return slice(int(rows[0]), int(rows[-1]) + 1), slice(int(columns[0]), int(columns[-1]) + 1)


def draw_water(random: np.random.Generator, eye: float) -> Water:
    """Dry, a trickle, or up to a third full; always below the camera, whose height is `eye`."""
    choice = random.random()
    level = (
        1.0
        if choice < 0.3
        else random.uniform(0.82, 0.96)
        if choice < 0.7
        else max(random.uniform(0.45, 0.82), eye + 0.3)
    )
    colour = COLOURS[random.integers(len(COLOURS))]
    return Water(
        level,
        colour,
        random.uniform(0.15, 0.7),
        random.uniform(0.1, 0.7),
        random.uniform(0.6, 2.0),
        random.uniform(0.3, 0.95),
        random.uniform(0.0, 0.02),
    )
