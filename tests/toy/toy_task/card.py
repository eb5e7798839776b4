"""What a gauge's file says of itself beside what every model's does. No torch."""

from dataclasses import dataclass

from foveal.errors import expect, is_integer, short_repr
from foveal.runtime.card import LARGEST_IMAGE, Card


@dataclass(frozen=True, kw_only=True)
class GaugeCard(Card):
    size: int  # side of the images in pixels
    unit: str = ""  # of the value

    def check(self, where: str) -> None:
        super().check(where)
        fits = is_integer(self.size) and 0 < self.size <= LARGEST_IMAGE
        expect(fits, where, f"a size of at most {LARGEST_IMAGE} pixels", short_repr(self.size))
        expect(isinstance(self.unit, str), where, "a unit that is text", short_repr(self.unit))
