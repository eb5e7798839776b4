"""Random mask: each query looks at `count` keys drawn without replacement; with block > 1, each block of queries at
`count` blocks of keys.

    keeps(i, j) = ⌊j / block⌋ ∈ R(⌊i / block⌋),   R(a) = `count` blocks drawn from the seed

Paper: Manzil Zaheer, Guru Guruganesh, Avinava Dubey, Joshua Ainslie, Chris Alberti, Santiago Ontanon, Philip Pham,
    Anirudh Ravula, Qifan Wang, Li Yang, Amr Ahmed (2020). Big Bird: transformers for longer sequences. NeurIPS.
    arXiv:2007.14062.
Departs from the paper: the draw does not avoid the local and global blocks, so that patterns stay independent of each
    other; draws repeat after 65,536 blocks of queries. The draw depends on the number of keys, so it cannot be decoded
    with a cache, and a graph of torch.jit.trace takes the length that it was traced with and refuses others.
Cost: N·count·block pairs: linear in N.
Example: random(count=3, seed=1)
"""

from dataclasses import dataclass
from functools import lru_cache
from operator import index
from typing import ClassVar

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from foveal.core.mask import Mask, Predicate, expect_whole
from foveal.core.trace import only_for, outside_of_trace


@dataclass(frozen=True)
class random(Mask):
    grows: ClassVar[bool] = False  # type: ignore[misc]  # the draw depends on the number of keys

    count: int
    seed: int = 0
    block: int = 1

    def __post_init__(self) -> None:
        expect_whole(self.count, "random's count")
        expect_whole(self.seed, "random's seed")
        expect_whole(self.block, "random's block", least=1)

    def keeps(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor, keys: int) -> Tensor:
        return self.predicate(keys, i.device)(b, h, i, only_for(keys, "random", j))

    def predicate(self, keys: int, device: torch.device) -> Predicate:
        if self.full(0, ROWS, keys):
            return lambda b, h, i, j: (i >= 0) & (j >= 0)
        drawn, block, count = self._drawn(keys, device), self.block, self.count

        def keeps(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            row, column = (i // block) % ROWS, j // block
            kept = (row < 0) & (column < 0)  # nothing yet
            for draw in range(count):
                kept = kept | (drawn[row, draw] == column)
            return kept

        return keeps

    def candidates(self, rows: Tensor, keys: int) -> Tensor:
        if self.full(0, ROWS, keys):
            return torch.arange(keys, device=rows.device)
        drawn = self._drawn(keys, rows.device)
        blocks = torch.unique(drawn[(rows // self.block) % ROWS])
        columns: Tensor = (blocks[:, None] * self.block + torch.arange(self.block, device=rows.device)).flatten()
        inside: Tensor = columns[columns < keys]
        return inside

    def full(self, first: int, last: int, keys: int) -> bool:
        return self.count * self.block >= keys

    def check(self, batch: int, queries: int, keys: int) -> None:
        if not self.full(0, queries, keys):  # draw now: FlexAttention asks `keeps` where nothing may be drawn
            self._drawn(keys, torch.device("cpu"))

    def _drawn(self, keys: int, device: torch.device) -> Tensor:
        # A table has one size: what a graph leaves open, or looks up late, is settled here.
        # (+ 0 makes torch.compile look the number up now: a constant is all that a drawn table may depend on)
        numbers = [index(number) + 0 for number in (self.count, self.seed, -(-index(keys) // self.block))]
        drawn: Tensor = _drawn(*numbers, str(device))
        return drawn


ROWS = 65536  # the draw of query block a is that of a mod ROWS: a table of fixed size, whatever the length


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _drawn(count: int, seed: int, columns: int, device: str) -> Tensor:
    # The table stays after the call, so it must be a plain tensor, also when the caller is being traced or infers.
    with _disable_current_modes(), torch.inference_mode(False), outside_of_trace():
        return _table(count, seed, columns) if device == "cpu" else _table_on(count, seed, columns, device)


@lru_cache(maxsize=32)
def _table(count: int, seed: int, columns: int) -> Tensor:
    """Floyd's draw without replacement, for all rows at once: (ROWS, count)."""
    generator = torch.Generator("cpu").manual_seed(seed)
    drawn = torch.full((ROWS, count), -1, device="cpu")
    for draw in range(count):
        last = columns - count + draw
        candidate = torch.randint(0, last + 1, (ROWS,), generator=generator, device="cpu")
        taken = (drawn == candidate[:, None]).any(1)
        drawn[:, draw] = torch.where(taken, last, candidate)
    return drawn


@lru_cache(maxsize=32)
def _table_on(count: int, seed: int, columns: int, device: str) -> Tensor:
    return _table(count, seed, columns).to(device)
