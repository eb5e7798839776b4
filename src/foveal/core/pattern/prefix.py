"""Prefix mask: everybody may look at the first n keys; or-ed with causal it is the prefix language model.

    keeps(i, j) = j < n

Paper: Colin Raffel, Noam Shazeer, Adam Roberts, Katherine Lee, Sharan Narang, Michael Matena, Yanqi Zhou, Wei Li,
    Peter J. Liu (2020). Exploring the limits of transfer learning with a unified text-to-text transformer. JMLR.
    arXiv:1910.10683.
Departs from the paper: nothing. The paper's mask is `causal | prefix(n)`.
Cost: N·n pairs.
Example: prefix(n=4)
"""

from dataclasses import dataclass

from torch import Tensor

from foveal.core.mask import Mask, expect_whole


@dataclass(frozen=True)
class prefix(Mask):
    n: int

    def __post_init__(self) -> None:
        expect_whole(self.n, "prefix's n")

    def keeps(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor, keys: int) -> Tensor:
        return (j < self.n) & (i >= 0)

    def reach(self, first: int, last: int, keys: int) -> tuple[int, int]:
        return 0, min(self.n, keys)

    def full(self, first: int, last: int, keys: int) -> bool:
        return self.n >= keys

    def counted(self, batch: int, queries: int, keys: int) -> int:
        return queries * min(self.n, keys)
