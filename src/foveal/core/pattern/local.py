"""Local mask: a window of `radius` keys to each side.

    keeps(i, j) = |i − j| ≤ radius

Paper: Iz Beltagy, Matthew E. Peters, Arman Cohan (2020). Longformer: the long-document transformer. arXiv:2004.05150.
Departs from the paper: nothing. The paper's window w counts both sides: w = 2·radius.
Cost: at most N·(2·radius + 1) pairs: linear in N.
Example: local(radius=3)
"""

from dataclasses import dataclass

from torch import Tensor

from foveal.core.mask import Mask, below_diagonal, expect_whole


@dataclass(frozen=True)
class local(Mask):
    radius: int

    def __post_init__(self) -> None:
        expect_whole(self.radius, "local's radius")

    def keeps(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor, keys: int) -> Tensor:
        return (i - j).abs() <= self.radius

    def reach(self, first: int, last: int, keys: int) -> tuple[int, int]:
        return max(first - self.radius, 0), min(last + self.radius, keys)

    def full(self, first: int, last: int, keys: int) -> bool:
        return last - 1 <= self.radius and keys - 1 - first <= self.radius

    def counted(self, batch: int, queries: int, keys: int) -> int:
        return below_diagonal(queries, keys, self.radius) - below_diagonal(queries, keys, -self.radius - 1)
