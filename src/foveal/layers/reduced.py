"""Spatial-reduction attention: every token of a grid looks at a coarser copy of the grid.

    y = MultiHead(queries x, memory SR(x));   SR(x) = LN(Conv_{R×R, stride R}(x))

Symbols: R the reduction; with R = 1 there is neither convolution nor LayerNorm, and the memory is x.
Paper: Wenhai Wang, Enze Xie, Xiang Li, Deng-Ping Fan, Kaitao Song, Ding Liang, Tong Lu, Ping Luo, Ling Shao (2021).
    Pyramid vision transformer: a versatile backbone for dense prediction without convolutions. ICCV. arXiv:2102.12122.
Departs from the paper: a grid that R does not divide is filled up with zeros, where the paper's code leaves its last
    rows and columns unseen, as border=cut_off does.
Cost: O(N²·C/R² + N·C²) time, N = h·w; attention over R² times fewer pairs.
Example: Reduced(14, 2, reduction=2)(image)
"""

from collections.abc import Callable

from torch import Tensor, nn

from foveal.errors import expect, expect_integer, short_repr
from foveal.layers.attention import check_dtype, check_grid, filled_up
from foveal.layers.multihead import MultiHead


class Reduced(nn.Module):
    """Multi-head attention of a grid (B, h, w, C) on its own reduced copy."""

    def __init__(
        self,
        width: int,
        heads: int,
        reduction: int,
        *,
        head_width: int | None = None,
        dropout: float = 0.0,
        bias: bool = True,
        border: Callable[[Tensor, int], Tensor] = filled_up,
    ) -> None:
        """head_width: C/heads unless given. border: (grid, R) → a grid whose sides R divides, for the memory; of
        layers/attention.py, `filled_up` with zeros or `cut_off`.
        """
        super().__init__()
        expect_integer(reduction, "Reduced's reduction")
        expect(callable(border), "Reduced's border", "a function (grid, R) → grid", short_repr(border))
        self.width, self.reduction, self.border = width, reduction, border
        self.attention = MultiHead(width, heads, key_width=width, head_width=head_width, dropout=dropout, bias=bias)
        if reduction > 1:
            self.reduce = nn.Conv2d(width, width, reduction, stride=reduction)
            self.norm = nn.LayerNorm(width)

    def forward(self, grid: Tensor, *, kernel: str = "auto") -> Tensor:
        """(B, h, w, C) → (B, h, w, C)."""
        check_grid(self, grid, self.width)
        check_dtype(self, "grid", grid, self.attention.out.weight)
        tokens = grid.flatten(1, 2)  # (B, h·w, C)
        y = self.attention(tokens, self.memory(grid), kernel=kernel)
        return y.view(grid.shape)  # type: ignore[no-any-return]

    def memory(self, grid: Tensor) -> Tensor:
        """What the tokens look at: (B, ⌈h/R⌉·⌈w/R⌉, C), or ⌊h/R⌋·⌊w/R⌋ of them with `cut_off`.

        Filled up, a grid without tokens has one cell of zeros.
        """
        if self.reduction == 1:
            return grid.flatten(1, 2)
        x = self.border(grid, self.reduction)
        coarse = self.reduce(x.permute(0, 3, 1, 2))  # (B, C, ⌈h/R⌉, ⌈w/R⌉)
        return self.norm(coarse.flatten(2).transpose(1, 2))  # type: ignore[no-any-return]

    def drop_heads(self, indices: list[int]) -> None:
        """Cut these heads out, in place."""
        self.attention.drop_heads(indices)
