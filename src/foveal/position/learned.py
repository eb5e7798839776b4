"""Learned positions: one vector for each place, stretched when a sequence is longer than the table.

    embed(x)_pos = x_pos + E_pos,   E ∈ R^{length × C};   N > length:  E ← linear interpolation of E to N places

Symbols: the places pos = start … start + N − 1 are read from the table while it reaches, so a decoder that goes step
    by step sees what a whole pass sees.
Paper: Jonas Gehring, Michael Auli, David Grangier, Denis Yarats, Yann N. Dauphin (2017). Convolutional sequence to
    sequence learning. ICML. arXiv:1705.03122.
Departs from the paper: a longer sequence stretches the table to its length, and `resized` makes a table of any other
    length; the paper does neither.
Cost: O(N·C); length·C parameters.
Example: Learned(14, length=11)(x)
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from foveal.errors import expect, expect_integer
from foveal.position.position import Position, check_places


class Learned(Position):
    def __init__(self, width: int, length: int) -> None:
        super().__init__()
        expect_integer(width, "Learned's width")
        expect_integer(length, "Learned's length")
        self.width, self.length = width, length
        self.table = nn.Parameter(nn.init.trunc_normal_(torch.empty(length, width), std=0.02))

    def embed(self, x: Tensor, start: int = 0) -> Tensor:
        """Tokens (B, N, C) with rows start … start + N − 1 of the table added.

        With start = 0 and N > length, of the stretched table.
        """
        check_places(self, x, f"(B, N, {self.width})", self.width, start, "use Learned2d for a grid")
        expect(start >= 0, "Learned's start", "at least 0", start)
        end = start + x.shape[1]
        if end <= self.length:
            return x + self.table[start:end].to(x.dtype)
        # Past the table, what a step sees would depend on how far the table had been stretched by then.
        expect(
            start == 0,
            "Learned's positions",
            f"at most {self.length}",
            end,
            "make it longer, or use resized() before the first step",
        )
        return x + stretched(self.table, end).to(x.dtype)

    def resized(self, length: int) -> "Learned":
        """A position of another length, whose table is this one's, interpolated:
        for a sequence that was sampled more or less finely.
        """
        other = Learned(self.width, length).to(self.table)
        with torch.no_grad():
            other.table.copy_(stretched(self.table, length))
        other.table.requires_grad_(self.table.requires_grad)
        return other

    def extra_repr(self) -> str:
        return f"{self.width}, length={self.length}"


def stretched(table: Tensor, length: int) -> Tensor:
    """Linear interpolation along the first axis, (L, C) → (length, C): both tables cover the same extent,
    a place is a cell's middle.
    """
    return interpolate(table.T[None], size=length, mode="linear", align_corners=False)[0].T
