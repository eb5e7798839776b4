"""A mask is a predicate on (query i, key j): True = may look.

    mask(i, j) ∈ {True, False},   closed under  &  |  ~

From one definition (`&`, `|` and `~` are in `algebra.py`) come the dense form, FlexAttention's block mask, the tiles
that a CPU visits (`tile.py`), the picture and the count of pairs. The patterns themselves stand in `pattern/`, one
file each, and are reached as `foveal.mask.local(3)`: a new file there is a new mask, with no change elsewhere.
"""

import importlib
import os
import pkgutil
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from foveal.core.trace import is_tracing
from foveal.errors import FovealError, is_integer, short_repr, unknown

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

Predicate = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # (b, h, i, j) → whether the pair is kept


class Mask:
    """A set of (query, key) pairs.

    A pattern gives `keeps`; `reach` and `full` are hints that save work, and may stay as they are.
    """

    batched = False  # whether the samples of a batch differ
    heads = 1  # how many heads it distinguishes; 1: all are alike
    depth = 1  # how many levels of & | ~ it is made of
    leaves = 1  # how many patterns it is made of
    grows = True  # whether a pair that is kept stays kept when more keys come, as decoding with a cache needs
    period = 1  # rows that agree modulo the period look at similar keys, so they share a tile

    def keeps(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor, keys: int) -> Tensor:
        """Whether query i may look at key j, for sample b and head h, of `keys` keys in all. The indices broadcast."""
        raise NotImplementedError

    def predicate(self, keys: int, device: torch.device) -> Predicate:
        """`keeps` as a function of (b, h, i, j) whose tensors, if it has any, are on the device already:
        what FlexAttention compiles.
        """
        return lambda b, h, i, j: self.keeps(b, h, i, j, keys)

    def reach(self, first: int, last: int, keys: int) -> tuple[int, int]:
        """A range of keys, [low, high), outside of which no query of [first, last) looks."""
        return 0, keys

    def candidates(self, rows: Tensor, keys: int) -> Tensor:
        """The keys, in order, among which all are that one of these queries (in order) looks at."""
        low, high = self.reach(int(rows[0]), int(rows[-1]) + 1, keys)
        return torch.arange(max(low, 0), max(min(high, keys), low, 0), device=rows.device)

    def full(self, first: int, last: int, keys: int) -> bool:
        """True only if every query of [first, last) certainly looks at every key."""
        return False

    def structure(self) -> "Mask":
        """A mask without batch that keeps at least these pairs."""
        from foveal.core.algebra import Everything

        return Everything() if self.batched else self

    def remainder(self) -> "Mask | None":
        """What the structure leaves open: self = structure & remainder; None if nothing."""
        return self if self.batched else None

    def check(self, batch: int, queries: int, keys: int) -> None:
        """Raise a FovealError if this mask does not fit attention of that size."""

    def counted(self, batch: int, queries: int, keys: int) -> int | None:
        """How many pairs are kept, if a formula says so; None: they must be counted."""
        return None

    def __and__(self, other: "Mask | Tensor") -> "Mask":
        from foveal.core.algebra import And, joined

        return joined(And, self, _a_mask(other, "&"))

    def __rand__(self, other: object) -> "Mask":
        return _a_mask(other, "&") & self  # reached only if `other` is no mask: a tensor, or it raises

    def __or__(self, other: "Mask | Tensor") -> "Mask":
        from foveal.core.algebra import Or, joined

        return joined(Or, self, _a_mask(other, "|"))

    def __ror__(self, other: object) -> "Mask":
        return _a_mask(other, "|") | self

    def __invert__(self) -> "Mask":
        from foveal.core.algebra import Not, shallow

        return self.inner if isinstance(self, Not) else shallow(Not(self))

    def __bool__(self) -> bool:
        raise FovealError("a mask is neither true nor false: expected & | ~ between masks, got 'and', 'or' or 'not'")

    def starting_at(self, row: int) -> "Mask":
        """The same mask for queries the first of which stands at position `row`: what a cache needs."""
        expect_whole(row, "the first query's position")
        from foveal.core.algebra import Starting, shallow

        if isinstance(self, Starting):
            return Starting(self.inner, self.row + row)
        return shallow(Starting(self, row)) if row else self

    def dense(self, queries: int, keys: int, *, batch: int = 1, device: torch.device | str | None = None) -> Tensor:
        """The mask written out: (N, M), or (B, 1, N, M) where samples differ, or (B, H, N, M) where heads do."""
        self._fit(batch, queries, keys)
        if not torch.compiler.is_compiling() and not is_tracing() and torch.device(device or "cpu").type != "meta":
            size = queries * keys * (batch * self.heads if self.batched else 1)
            if size > LARGE and size > _memory():
                raise FovealError(
                    f"dense {queries:,} × {keys:,} mask: expected at most {_memory():,} bytes, this machine's memory, "
                    f"got {size:,}"
                )
        return self.part(torch.arange(queries, device=device), torch.arange(keys, device=device), keys, batch=batch)

    def part(self, rows: Tensor, columns: Tensor, keys: int, *, batch: int = 1) -> Tensor:
        """The dense form of some rows (n,) and columns (m,) only: (n, m), or (B, 1, n, m) where samples differ,
        (B, H, n, m) where heads do.
        """
        zero = torch.zeros((), dtype=torch.long, device=rows.device)
        n, m = rows.shape[0], columns.shape[0]  # len() would make a dynamic size a constant of an exported graph
        if not self.batched:
            return self.keeps(zero, zero, rows[:, None], columns[None, :], keys).expand(n, m)
        samples = torch.arange(batch, device=rows.device)[:, None, None, None]
        heads = torch.arange(self.heads, device=rows.device)[:, None, None] if self.heads > 1 else zero
        return self.keeps(samples, heads, rows[:, None], columns[None, :], keys).expand(batch, self.heads, n, m)

    def pairs(self, queries: int, keys: int, *, batch: int = 1) -> int:
        """How many (query, key) pairs are kept; summed over the batch where samples differ."""
        from foveal.core.tile import HEIGHT, strips

        self._fit(batch, queries, keys)
        known = self.counted(batch, queries, keys)
        if known is not None:
            return known
        total, looked_at = 0, 0
        samples = (batch * self.heads if self.batched else 1) * self.leaves
        _expect_countable(self, queries, keys, keys * HEIGHT * self.leaves)
        for rows, columns in strips(self, queries, keys):
            looked_at += samples * len(rows) * len(columns) + STRIP
            _expect_countable(self, queries, keys, looked_at)
            total += int(self.part(rows, columns, keys, batch=batch).sum())
        return total

    def block_mask(
        self, queries: int, keys: int, *, batch: int | None = None, device: torch.device | str = "cpu"
    ) -> "BlockMask":
        """FlexAttention's form of the same mask."""
        from torch.nn.attention.flex_attention import create_block_mask

        self._fit(batch or 1, queries, keys)

        mask_mod = self.predicate(keys, torch.device(device))
        return create_block_mask(mask_mod, *self._apart(batch), queries, keys, device=str(device))

    def picture(self, queries: int = 32, keys: int | None = None, *, batch: int = 1) -> Tensor:
        """What to draw: (N, M) in [0, 1], the share of samples that keep each pair."""
        kept = self.dense(queries, queries if keys is None else keys, batch=batch).float()
        return kept if kept.dim() == 2 else kept.mean((0, 1)).expand(queries, queries if keys is None else keys)

    def _repr_png_(self) -> bytes | None:
        """What a notebook shows: the first 32 queries and keys, or nothing where the mask does not fit that size."""
        from foveal.core.notebook import picture, png

        try:
            drawn = self.picture(DRAWN, batch=self._samples())
        except (FovealError, NotImplementedError):
            return None
        return png(picture(drawn))

    def _samples(self) -> int:
        """How many samples it was made for; 1: any number."""
        return 1

    def _apart(self, batch: int | None) -> tuple[int | None, int | None]:
        """How many samples and heads differ; None: none of them."""
        return batch if self.batched else None, self.heads if self.heads > 1 else None

    def _fit(self, batch: int, queries: int, keys: int) -> None:
        for what, size in (("batch", batch), ("queries", queries), ("keys", keys)):
            expect_whole(size, f"the mask's {what}")
        self.check(batch, queries, keys)


def patterns() -> list[str]:
    """The names of all masks there are: the files of `pattern/`."""
    from foveal.core import pattern

    return sorted(module.name for module in pkgutil.iter_modules(pattern.__path__))


def expect_whole(value: object, what: str, least: int = 0) -> None:
    """Raise a FovealError unless `value` is an integer that an index can hold."""
    if isinstance(value, Tensor) and is_tracing():  # a tracer hands out sizes as tensors
        return
    if not is_integer(value) or not least <= value < 2**31:  # type: ignore[operator]
        raise FovealError(f"{what}: expected an integer, at least {least} and below 2³¹, got {short_repr(value)}")


def _a_mask(mask: object, sign: str) -> Mask:
    if isinstance(mask, Tensor):
        from foveal.core.algebra import Given

        return Given(mask)
    if not isinstance(mask, Mask):
        raise FovealError(f"{sign}: expected masks on both sides, got {type(mask).__name__}")
    return mask


def below_diagonal(queries: int, keys: int, offset: int = 0) -> int:
    """How many pairs have j ≤ i + offset: Σ_i of i + offset + 1, within 0 and M."""

    def upto(last: int) -> int:  # the same sum over v = … to last, of v within 0 and M
        inside = max(min(last, keys), 0)
        return inside * (inside + 1) // 2 + max(last - keys, 0) * keys

    return upto(offset + queries) - upto(offset)


DRAWN = 32  # queries and keys of the picture in a notebook
LARGE = 2**30  # bytes from which a mask is compared with the memory that there is
COUNTED = 2**27  # pairs that are looked at one by one: about a second
STRIP = 2**15  # what the overhead of a strip of rows counts


def _expect_countable(mask: Mask, queries: int, keys: int, pairs: int) -> None:
    if pairs > COUNTED:
        raise FovealError(
            f"pairs of {mask!r}: expected at most {COUNTED:,} pairs to look at one by one, got {queries:,} × {keys:,}; "
            "ask for a smaller size, a pattern repeats itself"
        )


def _memory() -> int:
    """The bytes of this machine's memory; where the system does not say, as many as none has."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 2**44


if not TYPE_CHECKING:  # a type checker that saw it would take any name

    def __getattr__(name: str) -> Any:
        # Patterns are found by their file, so that adding one changes nothing here.
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in patterns():
            error = unknown("mask", name, patterns())
            raise AttributeError(str(error))
        return getattr(importlib.import_module(f"foveal.core.pattern.{name}"), name)


def __dir__() -> list[str]:
    return [*globals(), *patterns()]
