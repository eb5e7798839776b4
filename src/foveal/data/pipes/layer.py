"""What is painted onto a frame: a canvas of albedo and light, and layers laid over it, each with the pixels it covers.

A pixel's colour is albedo · light + gloss. A layer blends its own albedo and light in by its cover α, and may shade or
light what lies beside it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foveal.data.pipes.camera import Map, Values

Window = tuple[slice, slice]
Colour = tuple[float, float, float]


@dataclass
class Canvas:
    """The picture in the making: colours as planes (3, S, S), the rest (S, S)."""

    albedo: Map
    light: Map
    gloss: Map


@dataclass
class Layer:
    """One thing, in its window of the picture (h, w)."""

    window: Window
    cover: Values
    albedo: Values  # (3, h, w) or (3, 1, 1)
    light: Values | None = None  # the light on the thing itself; None: what falls on the wall there
    gloss: Values | None = None
    shade: Values | None = None  # the light on the wall is multiplied by this, within the window
    mask: NDArray[np.bool_] | None = None  # None: where the cover is at least a third
    angle: float | None = None  # where on the clock it came to lie, if not where it was placed
    moved: tuple[NDArray[np.intp], NDArray[np.intp]] | None = (
        None  # rows and columns of the picture from which the wall is taken here
    )

    def __post_init__(self) -> None:
        for name in ("cover", "albedo", "light", "gloss", "shade"):
            values = getattr(self, name)
            setattr(self, name, values if values is None else np.asarray(values, np.float32))

    def seen(self) -> NDArray[np.bool_]:
        """The pixels of the window that show the thing."""
        return self.mask if self.mask is not None else self.cover > 0.33

    def contrast(self, canvas: Canvas) -> float:
        """How much light of its own colour the thing adds to or takes from its pixels, on average.

        0 if it shows nowhere.
        """
        seen = self.seen()
        if not seen.any():
            return 0.0
        light = canvas.light[self.window]
        behind = canvas.albedo[1][self.window] * light
        own = light if self.light is None else self.light
        after = behind * (1 if self.shade is None else self.shade)
        after = after + self.cover * (self.albedo[1] * own - after)
        if self.gloss is not None:
            after = after + self.gloss
        return float(np.abs(after - behind)[seen].mean())

    def lay(self, canvas: Canvas) -> None:
        """Blend this over the canvas."""
        at = self.window
        if self.moved is not None:
            rows, columns = self.moved
            canvas.albedo[:, at[0], at[1]] = canvas.albedo[:, rows, columns]
            canvas.light[at] = canvas.light[rows, columns]
            canvas.gloss[at] = canvas.gloss[rows, columns]
        albedo = canvas.albedo[:, at[0], at[1]]
        albedo += self.cover * (self.albedo - albedo)
        light = canvas.light[at]
        if self.shade is not None:
            light *= self.shade
        if self.light is not None:
            light += self.cover * (self.light - light)
        gloss = canvas.gloss[at]
        gloss -= self.cover * gloss
        if self.gloss is not None:
            gloss += self.gloss


def plain(colour: Colour) -> Map:
    """One colour for a whole layer, (3, 1, 1)."""
    return np.asarray(colour, np.float32)[:, None, None]


def tinted(colour: Colour, tone: Values) -> Map:
    """A colour made lighter and darker by a map, (3, h, w)."""
    return np.asarray(np.maximum(plain(colour) * tone, 0), np.float32)
