"""Random mask: each query looks at `count` keys drawn without replacement; with block > 1, each block of queries at `count` blocks of keys.

    keeps(i, j) = ⌊j / block⌋ ∈ R(⌊i / block⌋),   R(a) = `count` blocks drawn from the seed

Paper: Manzil Zaheer, Guru Guruganesh, Avinava Dubey, Joshua Ainslie, Chris Alberti, Santiago Ontanon, Philip Pham, Anirudh Ravula, Qifan Wang, Li Yang, Amr Ahmed (2020). Big Bird: transformers for longer sequences. NeurIPS. arXiv:2007.14062.
Departs from the paper: the draw does not avoid the local and global blocks, so that patterns stay independent of each other; draws repeat after 65,536 blocks of queries.
Cost: N·count·block pairs: linear in N.
Example: random(count=3, seed=1)
"""

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from foveal.core.mask import Mask
from foveal.errors import expect


@dataclass(frozen=True)
class random(Mask):
    count: int
    seed: int = 0
    block: int = 1

    def __post_init__(self) -> None:
        expect(self.count >= 0, "random's count", "at least 0", self.count)
        expect(self.block >= 1, "random's block", "at least 1", self.block)

    def keeps(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor, keys: int) -> Tensor:
        drawn = _drawn(self.count, self.seed, -(-keys // self.block), str(i.device))  # (rows, count)
        row, column = (i // self.block) % len(drawn), j // self.block
        kept = (row < 0) & (column < 0)  # nothing yet
        for draw in range(drawn.shape[1]):
            kept = kept | (drawn[row, draw] == column)
        return kept

    def candidates(self, rows: Tensor, keys: int) -> Tensor:
        drawn = _drawn(self.count, self.seed, -(-keys // self.block), "cpu")
        blocks = torch.unique(drawn[(rows // self.block) % len(drawn)])
        columns: Tensor = (blocks[:, None] * self.block + torch.arange(self.block)).flatten()
        return columns[columns < keys]


ROWS = 65536  # the draw of query block a is that of a mod ROWS: a table of fixed size, whatever the length


@lru_cache(maxsize=32)
def _drawn(count: int, seed: int, columns: int, device: str) -> Tensor:
    """Floyd's draw without replacement, for all rows at once: (ROWS, min(count, columns))."""
    count = min(count, columns)
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.full((ROWS, count), -1)
    for draw in range(count):
        last = columns - count + draw
        candidate = torch.randint(0, last + 1, (ROWS,), generator=generator)
        taken = (drawn == candidate[:, None]).any(1)
        drawn[:, draw] = torch.where(taken, last, candidate)
    return drawn.to(device)
