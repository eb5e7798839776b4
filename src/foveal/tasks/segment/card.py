"""What a segmenter's file says beside what every image model says: how large it sees the image's pixels.

Its classes are those of a label map, so that the first is the background.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

from foveal.errors import expect, is_integer, is_number, short_repr
from foveal.runtime.card import ImageCard

BACKGROUND = "background"
ZOOMS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)  # what an image's sides are multiplied by before the model sees it
LARGEST_MULTIPLE = 1024


@dataclass(frozen=True, kw_only=True)
class SegmentCard(ImageCard):
    tuples: ClassVar[tuple[str, ...]] = (*ImageCard.tuples, "offsets")

    task: str = "segment"
    zoom: float = 1.0
    multiple: int = 32  # sides of the images that the model takes are multiples of it: what is missing is padded
    offsets: tuple[float, ...] = ()  # added to the logits of each class; empty: nothing is

    @property
    def kinds(self) -> tuple[str, ...]:
        """The classes of what is found."""
        return self.classes[1:]

    def check(self, where: str) -> None:
        super().check(where)
        fits = len(self.classes) > 1 and self.classes[0] == BACKGROUND
        expect(fits, where, f"classes of which the first is {BACKGROUND}", short_repr(self.classes))
        fits = is_number(self.zoom) and self.zoom in ZOOMS
        expect(fits, where, f"a zoom of {', '.join(f'{one:g}' for one in ZOOMS)}", short_repr(self.zoom))
        fits = isinstance(self.offsets, tuple) and len(self.offsets) in (0, len(self.classes))
        fits = fits and all(is_number(one) and math.isfinite(one) for one in self.offsets)
        expect(fits, where, "no offsets, or a number for each class", short_repr(self.offsets))
        fits = is_integer(self.multiple) and 0 < self.multiple <= LARGEST_MULTIPLE
        expect(fits, where, f"a multiple from 1 to {LARGEST_MULTIPLE}", short_repr(self.multiple))
