"""A position that is a term on the scores: what Shaw's relative vectors, Swin's table and T5's buckets share."""

import torch
from torch import Tensor, nn

from foveal.core.request import check_tensor
from foveal.core.term import Term
from foveal.errors import expect_integer
from foveal.position.position import Position

__all__: list[str] = []  # a base of positions, and none itself


class Biased(Position):
    def term(self, query_start: int = 0) -> Term:
        raise NotImplementedError

    def bias(self, q: Tensor, keys: int, query_start: int = 0) -> Tensor:
        """The term written out for queries (B, H, N, D) and so many keys, (1 or B, H, N, M): to look at,
        as a kernel never needs it whole.
        """
        check_tensor("q", q, "(B, H, N, D)")
        expect_integer(keys, f"{type(self).__name__}'s keys", 0)
        term = self.term(query_start)
        term.check(q, keys)
        rows, columns = torch.arange(q.shape[2], device=q.device), torch.arange(keys, device=q.device)
        return term.scores(q, rows, columns, *term.tensors)


def without_heads(table: Tensor, axis: int, indices: list[int]) -> tuple[nn.Parameter, int]:
    """A table without the entries of some heads, for a layer that drops them; and how many heads are left."""
    kept = [head for head in range(table.shape[axis]) if head not in indices]
    rest = table.detach().index_select(axis, torch.tensor(kept, device=table.device))
    return nn.Parameter(rest, requires_grad=table.requires_grad), len(kept)
