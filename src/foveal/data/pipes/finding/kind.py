"""What a kind of finding is: a name, where in the pipe it may be, whether water hides it, and how it is painted.

A new kind is one new file beside this one that ends in KIND = Kind(…), and its name in the list of
`finding/__init__.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from foveal.data.pipes.camera import Map
from foveal.data.pipes.layer import Layer
from foveal.data.pipes.scene import Scene


@dataclass(frozen=True)
class Place:
    """The middle of a finding on the wall: angle from the crown, clockwise, and depth in radii."""

    angle: float
    depth: float

    @property
    def clock(self) -> float:
        """Hours, 0 to 12; the crown is 0 (twelve o'clock), the invert 6."""
        return float(self.angle % (2 * np.pi) * 6 / np.pi) % 12.0


@dataclass(frozen=True)
class Kind:
    """One kind of finding."""

    name: str
    where: Literal["wall", "ring", "joint", "roof", "roof-joint", "invert"]
    paint: Callable[[Scene, Place, np.random.Generator], Layer]
    in_wall: bool = True  # painted before the water, which may hide it
    floods: bool = False  # is water itself, and may hide what is in the wall


def middle(angle: Map, mask: NDArray[np.bool_]) -> float | None:
    """The angle around which a mask's pixels lie; None for an empty mask."""
    seen = angle[mask]
    return float(np.arctan2(np.sin(seen).mean(), np.cos(seen).mean())) if len(seen) else None


def turned(angle: Map, middle: float) -> Map:
    """Angles measured from `middle`, within ±π."""
    away = angle - np.float32(middle)
    return np.asarray(away - np.float32(2 * np.pi) * np.rint(away * np.float32(0.5 / np.pi)))
