"""Global tokens: the first n tokens look at everything, and everything looks at them.

    keeps(i, j) = (i < n) or (j < n)

Paper: Iz Beltagy, Matthew E. Peters, Arman Cohan (2020). Longformer: the long-document transformer. arXiv:2004.05150.
Departs from the paper: global tokens share the projections of the others; the paper gives them their own.
Cost: n·(N + M) pairs.
Example: to_global(n=2)
"""

from dataclasses import dataclass

from torch import Tensor

from foveal.core.mask import Mask, expect_whole


@dataclass(frozen=True)
class to_global(Mask):
    n: int

    def __post_init__(self) -> None:
        expect_whole(self.n, "to_global's n")

    def keeps(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor, keys: int) -> Tensor:
        return (i < self.n) | (j < self.n)

    def reach(self, first: int, last: int, keys: int) -> tuple[int, int]:
        return (0, keys) if first < self.n else (0, min(self.n, keys))

    def full(self, first: int, last: int, keys: int) -> bool:
        return last <= self.n or keys <= self.n

    def counted(self, batch: int, queries: int, keys: int) -> int:
        return queries * keys - max(queries - self.n, 0) * max(keys - self.n, 0)
