"""Shaw's relative term, q_i·R_{clip(i−j)}: pure functions of q and the table of distances, tile by tile.

    term(q_i, i, j) = q_i·R_{clip(i−j, ±K)}·scale,   R ∈ R^{(2K+1) × D}, row K + d holds R_d

Paper: Peter Shaw, Jakob Uszkoreit, Ashish Vaswani (2018). Self-attention with relative position representations.
NAACL. arXiv:1803.02155.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from foveal.core.term import Term
from foveal.core.trace import is_tracing
from foveal.errors import FovealError, expect


class RelativeTerm(Term):
    """q_i·R_{clip(i−j)}·scale, for queries the first of which stands at query_start."""

    def __init__(self, table: Tensor, scale: float, query_start: int = 0) -> None:
        self.tensors = (table,)
        self.scale, self.start, self.reach = scale, query_start, table.shape[1] // 2

    @property
    def kind(self) -> object:
        return RelativeTerm, self.start > 0

    def scores(self, q: Tensor, rows: Tensor, columns: Tensor, *tensors: Tensor) -> Tensor:
        (table,) = tensors
        q = q * self.scale
        recording = q.is_cuda and torch.cuda.is_current_stream_capturing()
        if (
            torch.compiler.is_compiling() or is_tracing() or recording
        ):  # a graph may not look at the values of rows and columns
            return _gathered(q, table, self._place(rows[:, None], columns))
        if _consecutive(rows) and _consecutive(columns):
            return self._skewed(q, table, rows, columns)
        needed, place = torch.unique(self._place(rows[:, None], columns), return_inverse=True)
        if len(needed) > len(rows) + len(columns):  # scattered: more distances than the tile is wide
            return torch.einsum("bhnd,hnmd->bhnm", q, table[:, needed].to(q.dtype)[:, place])
        return _gathered(q, table[:, needed], place)

    def check(self, q: Tensor, keys: int) -> None:
        tables, _, width = self.tensors[0].shape
        expect(
            q.shape[3] == width, "Relative's heads", f"{width} wide", q.shape[3], "give Relative the width of one head"
        )
        if tables not in (1, q.shape[1]):
            raise FovealError(
                f"Relative's tables: expected 1 for all heads, or {q.shape[1]}, got {tables}; give heads= that number"
            )

    def score_mod(self, q: Tensor) -> Callable[..., Tensor]:
        wide = torch.promote_types(q.dtype, torch.float32)
        products = (q.to(wide) * self.scale) @ self.tensors[0].to(wide).mT  # (B, H, N, 2K+1)

        def modified(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return score + products[b, h, i, self._place(i, j)]

        return modified

    def _place(self, i: Tensor, j: Tensor) -> Tensor:
        """The table's row for query i and key j."""
        return (i + (self.start - j)).clamp(-self.reach, self.reach) + self.reach

    def _skewed(self, q: Tensor, table: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        """Runs of rows and columns: one product with the n + m distances of the tile,
        then each row moves one step further to the left.
        """
        n, m = len(rows), len(columns)
        # with key columns[0]: from the largest distance to the least
        falling = rows[-1] - torch.arange(n + m, device=q.device)
        # (B, H, n, n + m); pair (i, j) stands at n − 1 − i + j
        products = q @ table[:, self._place(falling, columns[0])].to(q.dtype).mT
        # rows one shorter: each begins one place further left
        flat = products.flatten(-2)[..., n - 1 : n - 1 + n * (n + m - 1)]
        return flat.view(*q.shape[:3], n + m - 1)[..., :m]


def _gathered(q: Tensor, table: Tensor, place: Tensor) -> Tensor:
    """The products of q with each row of the table, (B, H, n, R), picked by place (n, m)."""
    return (q @ table.to(q.dtype).mT).gather(-1, place.expand(*q.shape[:2], *place.shape))


def _consecutive(positions: Tensor) -> bool:
    return len(positions) > 0 and bool((positions.diff() == 1).all())
