"""Causal mask: nobody looks at what comes later.

    keeps(i, j) = j ≤ i

Paper: Ashish Vaswani, Noam Shazeer, Niki Parmar, Jakob Uszkoreit, Llion Jones, Aidan N. Gomez, Łukasz Kaiser, Illia
    Polosukhin (2017). Attention is all you need. NeurIPS. arXiv:1706.03762.
Departs from the paper: nothing. With N ≠ M the first query stands at key 0, as in torch; `causal.starting_at(M - N)`
    puts the last at the last key.
Cost: N(N+1)/2 pairs: half the work of full attention.
Example: causal
"""

from dataclasses import dataclass

from torch import Tensor

from foveal.core.mask import Mask, below_diagonal
from foveal.errors import FovealError


@dataclass(frozen=True, repr=False)
class Causal(Mask):
    def keeps(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor, keys: int) -> Tensor:
        return j <= i

    def reach(self, first: int, last: int, keys: int) -> tuple[int, int]:
        return 0, min(last, keys)

    def full(self, first: int, last: int, keys: int) -> bool:
        return keys - 1 <= first

    def counted(self, batch: int, queries: int, keys: int) -> int:
        return below_diagonal(queries, keys)

    def __call__(self, *arguments: object) -> Mask:
        raise FovealError("causal: expected no call, got one; it takes no arguments: write mask=causal")

    def __repr__(self) -> str:
        return "causal"


causal = Causal()
