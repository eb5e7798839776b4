"""Light from the robot's own lamp: level·(1 + 1/r²)/(1 + (z/r)²),
strong on the near wall and nothing far down the pipe.
"""

from dataclasses import dataclass

import numpy as np

from foveal.data.pipes.camera import Map, Values, View
from foveal.data.pipes.layer import Colour


@dataclass(frozen=True)
class Lamp:
    """How the light falls. `level` is the light at depth 1."""

    level: float
    reach: float
    aim: float  # angle of the wall that gets most of it
    lean: float  # how much more
    lobes: tuple[float, float]  # angle and strength of two bright flanks, as two lamps make them
    spot: tuple[float, float, float]  # angle, depth and strength of a glare on the wall
    haze: Colour  # mist in the air, seen against the dark
    thick: float  # depth at which the mist takes over

    def at(self, depth: Values | float) -> Map:
        """The light on something at this depth that faces the lamp."""
        return np.asarray(
            self.level * (1 + self.reach**-2) / (1 + (depth * np.float32(1 / self.reach)) ** 2), np.float32
        )

    def on_wall(self, view: View) -> Map:
        """The light on the wall, (S, S)."""
        light = self.at(view.depth)
        turned = np.cos(view.angle - np.float32(self.aim))
        uneven = 1 + np.float32(self.lean) * turned
        side = np.cos(view.angle - np.float32(self.lobes[0]))
        uneven += np.float32(self.lobes[1]) * (2 * side * side - 1)
        light *= uneven
        angle, depth, strength = self.spot
        if strength > 0:
            turned = np.cos(view.angle - np.float32(angle)) - 1
            ratio = view.depth * np.float32(1 / depth)
            light += np.float32(strength) * np.exp(6 * turned - 2 * (ratio + 1 / (ratio + 0.05) - 1.95))
        return light

    def clear(self, depth: float) -> float:
        """How much of the light from this depth comes through the mist."""
        return float(np.exp(-depth / self.thick)) if max(self.haze) > 0 else 1.0
