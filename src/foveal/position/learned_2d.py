"""Learned positions on a grid: one vector for each cell, stretched to another grid.

    embed(x)_{y,x} = x_{y,x} + E_{y,x},   E ∈ R^{h × w × C};   another grid:  E ← bicubic interpolation of E to it

Paper: Alexey Dosovitskiy, Lucas Beyer, Alexander Kolesnikov, Dirk Weissenborn, Xiaohua Zhai, Thomas Unterthiner,
    Mostafa Dehghani, Matthias Minderer, Georg Heigold, Sylvain Gelly, Jakob Uszkoreit, Neil Houlsby (2021). An image
    is worth 16x16 words: transformers for image recognition at scale. ICLR. arXiv:2010.11929.
Departs from the paper: interpolation is bicubic, as in most ports; the paper says 2-D interpolation, and its code
    takes bilinear, as interpolation="bilinear" does. A class token, which has no cell, gets no position here.
Cost: O(h·w·C); h·w·C parameters.
Example: Learned2d(14, height=5, grid_width=6)(image)
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from foveal.errors import expect, expect_integer, is_integer, short_repr, unknown
from foveal.position.position import Position, check_places

INTERPOLATIONS = ("bicubic", "bilinear")


class Learned2d(Position):
    def __init__(self, width: int, height: int, grid_width: int, *, interpolation: str = "bicubic") -> None:
        super().__init__()
        if interpolation not in INTERPOLATIONS:
            raise unknown("interpolation", str(interpolation), INTERPOLATIONS)
        expect_integer(width, "Learned2d's width")
        fits = is_integer(height) and is_integer(grid_width) and height >= 1 and grid_width >= 1
        expect(fits, "Learned2d's grid", "at least 1 × 1", f"{short_repr(height)} × {short_repr(grid_width)}")
        self.width, self.height, self.grid_width, self.interpolation = width, height, grid_width, interpolation
        self.table = nn.Parameter(nn.init.trunc_normal_(torch.empty(height, grid_width, width), std=0.02))

    def embed(self, x: Tensor, start: int = 0) -> Tensor:
        """A grid of tokens (B, h, w, C) with its positions added, stretched if the grid is another.

        A grid begins at its corner: start is 0.
        """
        check_places(self, x, f"a grid (B, h, w, {self.width})", self.width, start, "use Learned for (B, N, C)")
        expect(start == 0, "Learned2d's start", "0, the corner of the grid", start)
        height, grid_width = x.shape[1], x.shape[2]
        if height == self.height and grid_width == self.grid_width:
            return x + self.table.to(x.dtype)
        return x + stretched_2d(self.table, height, grid_width, self.interpolation).to(x.dtype)

    def resized(self, height: int, grid_width: int) -> "Learned2d":
        """A position for another grid, whose table is this one's, interpolated:
        to go on training at another resolution.
        """
        other = Learned2d(self.width, height, grid_width, interpolation=self.interpolation).to(self.table)
        with torch.no_grad():
            other.table.copy_(stretched_2d(self.table, height, grid_width, self.interpolation))
        other.table.requires_grad_(self.table.requires_grad)
        return other

    def extra_repr(self) -> str:
        return f"{self.width}, height={self.height}, grid_width={self.grid_width}"


def stretched_2d(table: Tensor, height: int, width: int, interpolation: str = "bicubic") -> Tensor:
    """Interpolation of a grid, (h, w, C) → (height, width, C): both grids cover the same image."""
    by_channel = table.permute(2, 0, 1)[None]  # (1, C, h, w)
    return interpolate(by_channel, size=(height, width), mode=interpolation, align_corners=False)[0].permute(1, 2, 0)
