"""Window mask: a grid of h × w tokens cut into windows of side `size`; a token looks inside its own window.

    keeps(i, j) = window(i) = window(j),   window(y·w + x) = (⌊(y − shift)/size⌋, ⌊(x − shift)/size⌋)

Paper: Ze Liu, Yutong Lin, Yue Cao, Han Hu, Yixuan Wei, Zheng Zhang, Stephen Lin, Baining Guo (2021). Swin transformer:
    hierarchical vision transformer using shifted windows. ICCV. arXiv:2103.14030.
Departs from the paper: the shifted grid is not rolled around, so its border windows are smaller: the same pairs as the
    paper's roll with its mask.
Cost: N·size² pairs: linear in N.
Example: window(h=6, w=6, size=3, shift=1)
"""

from dataclasses import dataclass

from torch import Tensor

from foveal.core.mask import Mask, expect_whole
from foveal.errors import expect


@dataclass(frozen=True)
class window(Mask):
    h: int
    w: int
    shift: int = 0
    size: int = 7

    def __post_init__(self) -> None:
        for side in ("h", "w", "size"):
            expect_whole(getattr(self, side), f"window's {side}", least=1)
        expect_whole(self.shift, "window's shift")
        expect(self.shift < self.size, "window's shift", f"below its size {self.size}", self.shift)

    def keeps(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor, keys: int) -> Tensor:
        def side(position: Tensor) -> Tensor:
            return (position + (self.size - self.shift)) // self.size

        same_row = side(i // self.w) == side(j // self.w)
        same_column = side(i % self.w) == side(j % self.w)
        return same_row & same_column

    def reach(self, first: int, last: int, keys: int) -> tuple[int, int]:
        offset = self.size - self.shift
        top = ((first // self.w + offset) // self.size) * self.size - offset
        bottom = (((last - 1) // self.w + offset) // self.size + 1) * self.size - offset
        return max(top * self.w, 0), min(bottom * self.w, keys)

    def check(self, batch: int, queries: int, keys: int) -> None:
        expect(
            queries == keys == self.h * self.w,
            "window's grid",
            f"{self.h} × {self.w} = {self.h * self.w} tokens",
            f"N={queries}, M={keys}",
        )
