"""Relative bias table: in a window of h × w tokens, each head learns a number for each offset between two tokens.

    e_ij = q_i·k_j/√D + T[Δy + h − 1, Δx + w − 1, head];   (Δy, Δx) = (y_i − y_j, x_i − x_j),   i = y_i·w + x_i

Symbols: the table is stored flat, ((2h−1)(2w−1), heads), row (Δy + h − 1)(2w − 1) + Δx + w − 1, so that Swin's weights
    fit as they are.
Paper: Ze Liu, Yutong Lin, Yue Cao, Han Hu, Yixuan Wei, Zheng Zhang, Stephen Lin, Baining Guo (2021). Swin transformer:
    hierarchical vision transformer using shifted windows. ICCV. arXiv:2103.14030.
Departs from the paper: nothing.
Cost: O(N²) for N = h·w, once for all samples of a batch; (2h−1)(2w−1)·heads parameters.
Example: BiasTable(heads=6, height=2, width=3).bias(q[:, :, :6], keys=6)
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from foveal.core.term import Term
from foveal.errors import FovealError, expect, expect_integer, is_integer, short_repr
from foveal.position.biased import Biased, without_heads

__all__ = ["BiasTable"]


class BiasTable(Biased):
    def __init__(self, heads: int, height: int, width: int) -> None:
        super().__init__()
        expect_integer(heads, "BiasTable's heads")
        fits = is_integer(height) and is_integer(width) and height >= 1 and width >= 1
        expect(fits, "BiasTable's window", "at least 1 × 1", f"{short_repr(height)} × {short_repr(width)}")
        self.heads, self.height, self.width = heads, height, width
        offsets = (2 * height - 1) * (2 * width - 1)
        self.table = nn.Parameter(nn.init.trunc_normal_(torch.empty(offsets, heads), std=0.02))

    def term(self, query_start: int = 0) -> Term:
        return WindowTerm(self.table, self.height, self.width, query_start)

    def drop_heads(self, indices: list[int]) -> None:
        self.table, self.heads = without_heads(self.table, 1, indices)

    def extra_repr(self) -> str:
        return f"heads={self.heads}, height={self.height}, width={self.width}"


class WindowTerm(Term):
    """T[offset of i and j, head], for queries the first of which is token query_start of the window."""

    def __init__(self, table: Tensor, height: int, width: int, query_start: int = 0) -> None:
        self.tensors = (table,)
        self.height, self.width, self.start = height, width, query_start

    def scores(self, q: Tensor, rows: Tensor, columns: Tensor, *tensors: Tensor) -> Tensor:
        bias = tensors[0].to(q.dtype)[self._place(rows[:, None], columns)]  # (n, m, H)
        return bias.permute(2, 0, 1)[None]

    def written(self, q: Tensor, keys: int) -> Tensor:
        rows, columns = torch.arange(q.shape[2], device=q.device), torch.arange(keys, device=q.device)
        return self.scores(q, rows, columns, *self.tensors)

    def check(self, q: Tensor, keys: int) -> None:
        tokens, heads = self.height * self.width, self.tensors[0].shape[1]
        expect(q.shape[1] == heads, "BiasTable's heads", heads, q.shape[1])
        if self.start < 0 or self.start + q.shape[2] > tokens or keys > tokens:
            got = f"queries {self.start} to {self.start + q.shape[2]} and {keys} keys"
            raise FovealError(
                f"BiasTable's window: expected at most {self.height} × {self.width} = {tokens} tokens, got {got}; cut "
                "the grid into windows"
            )

    def score_mod(self, q: Tensor) -> Callable[..., Tensor]:
        table = self.tensors[0]

        def modified(score: Tensor, _b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return score + table[self._place(i, j), h]

        return modified

    def _place(self, i: Tensor, j: Tensor) -> Tensor:
        """The table's row for query i and key j."""
        i = i + self.start
        down = i // self.width - j // self.width + (self.height - 1)
        right = i % self.width - j % self.width + (self.width - 1)
        return down * (2 * self.width - 1) + right
