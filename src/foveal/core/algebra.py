"""Masks made of masks: and, or, not, the same mask for later queries, everything; and a mask that the caller wrote out.

    (A & B)(i, j) = A(i, j) ∧ B(i, j);   (A | B)(i, j) = A(i, j) ∨ B(i, j);   (~A)(i, j) = ¬A(i, j);   A.starting_at(r)(i, j) = A(i + r, j)

Each also joins its parts' hints (reach, candidates, full), so that a combined pattern skips what its parts let it skip.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from foveal.core.mask import Mask, Predicate
from foveal.errors import expect


@dataclass(frozen=True)
class Everything(Mask):
    """Every query may look at every key."""

    def keeps(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor, keys: int) -> Tensor:
        return (i >= 0) & (j >= 0)

    def full(self, first: int, last: int, keys: int) -> bool:
        return True


@dataclass(frozen=True)
class _Pair(Mask):
    left: Mask
    right: Mask

    @property
    def batched(self) -> bool:  # type: ignore[override]
        return self.left.batched or self.right.batched

    @property
    def grows(self) -> bool:  # type: ignore[override]
        return self.left.grows and self.right.grows

    def structure(self) -> Mask:
        return type(self)(self.left.structure(), self.right.structure()) if self.batched else self

    def check(self, batch: int, queries: int, keys: int) -> None:
        self.left.check(batch, queries, keys)
        self.right.check(batch, queries, keys)


@dataclass(frozen=True)
class _Single(Mask):
    inner: Mask

    @property
    def batched(self) -> bool:  # type: ignore[override]
        return self.inner.batched

    @property
    def grows(self) -> bool:  # type: ignore[override]
        return self.inner.grows

    @property
    def period(self) -> int:  # type: ignore[override]
        return self.inner.period

    def check(self, batch: int, queries: int, keys: int) -> None:
        self.inner.check(batch, queries, keys)


@dataclass(frozen=True, repr=False)
class And(_Pair):
    @property
    def period(self) -> int:  # type: ignore[override]
        return max(self.left.period, self.right.period)

    def keeps(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor, keys: int) -> Tensor:
        return self.left.keeps(b, h, i, j, keys) & self.right.keeps(b, h, i, j, keys)

    def predicate(self, keys: int, device: torch.device) -> Predicate:
        left, right = self.left.predicate(keys, device), self.right.predicate(keys, device)
        return lambda b, h, i, j: left(b, h, i, j) & right(b, h, i, j)

    def reach(self, first: int, last: int, keys: int) -> tuple[int, int]:
        (low, high), (other_low, other_high) = self.left.reach(first, last, keys), self.right.reach(first, last, keys)
        return max(low, other_low), min(high, other_high)

    def candidates(self, rows: Tensor, keys: int) -> Tensor:
        fewer, more = sorted((self.left.candidates(rows, keys), self.right.candidates(rows, keys)), key=len)
        return fewer[torch.isin(fewer, more, assume_unique=True)]

    def full(self, first: int, last: int, keys: int) -> bool:
        return self.left.full(first, last, keys) and self.right.full(first, last, keys)

    def remainder(self) -> Mask | None:
        left, right = self.left.remainder(), self.right.remainder()
        return And(left, right) if left is not None and right is not None else right if left is None else left

    def __repr__(self) -> str:
        return f"({self.left!r} & {self.right!r})"


@dataclass(frozen=True, repr=False)
class Or(_Pair):
    @property
    def period(self) -> int:  # type: ignore[override]
        return self.left.period if self.left.period == self.right.period else 1

    def keeps(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor, keys: int) -> Tensor:
        return self.left.keeps(b, h, i, j, keys) | self.right.keeps(b, h, i, j, keys)

    def predicate(self, keys: int, device: torch.device) -> Predicate:
        left, right = self.left.predicate(keys, device), self.right.predicate(keys, device)
        return lambda b, h, i, j: left(b, h, i, j) | right(b, h, i, j)

    def reach(self, first: int, last: int, keys: int) -> tuple[int, int]:
        (low, high), (other_low, other_high) = self.left.reach(first, last, keys), self.right.reach(first, last, keys)
        if low >= high:
            return other_low, other_high
        if other_low >= other_high:
            return low, high
        return min(low, other_low), max(high, other_high)

    def candidates(self, rows: Tensor, keys: int) -> Tensor:
        both: Tensor = torch.unique(torch.cat([self.left.candidates(rows, keys), self.right.candidates(rows, keys)]))
        return both

    def full(self, first: int, last: int, keys: int) -> bool:
        return self.left.full(first, last, keys) or self.right.full(first, last, keys)

    def __repr__(self) -> str:
        return f"({self.left!r} | {self.right!r})"


@dataclass(frozen=True, repr=False)
class Not(_Single):
    def keeps(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor, keys: int) -> Tensor:
        return ~self.inner.keeps(b, h, i, j, keys)

    def predicate(self, keys: int, device: torch.device) -> Predicate:
        inner = self.inner.predicate(keys, device)
        return lambda b, h, i, j: ~inner(b, h, i, j)

    def __repr__(self) -> str:
        return f"~{self.inner!r}"


@dataclass(frozen=True, repr=False)
class Starting(_Single):
    row: int

    def keeps(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor, keys: int) -> Tensor:
        return self.inner.keeps(b, h, i + self.row, j, keys)

    def predicate(self, keys: int, device: torch.device) -> Predicate:
        inner, row = self.inner.predicate(keys, device), self.row
        return lambda b, h, i, j: inner(b, h, i + row, j)

    def reach(self, first: int, last: int, keys: int) -> tuple[int, int]:
        return self.inner.reach(first + self.row, last + self.row, keys)

    def candidates(self, rows: Tensor, keys: int) -> Tensor:
        return self.inner.candidates(rows + self.row, keys)

    def full(self, first: int, last: int, keys: int) -> bool:
        return self.inner.full(first + self.row, last + self.row, keys)

    def structure(self) -> Mask:
        return Starting(self.inner.structure(), self.row)

    def check(self, batch: int, queries: int, keys: int) -> None:
        self.inner.check(batch, queries + self.row, keys)

    def __repr__(self) -> str:
        return f"{self.inner!r}.starting_at({self.row})"


class Given(Mask):
    """A mask that the caller wrote out: a boolean tensor that broadcasts to (B, H, N, M). It is as large as it is."""

    batched = True
    combines = False  # its heads may differ, which patterns never do

    def __init__(self, tensor: Tensor) -> None:
        expect(tensor.dtype == torch.bool, "mask", "a boolean tensor, True = may look", tensor.dtype, "put additive scores into bias=")
        expect(tensor.layout is torch.strided and not tensor.is_nested, "mask", "a dense tensor", tensor.layout)
        # Three axes could be samples or heads; a guess would be silently wrong where B = H.
        expect(tensor.dim() in (2, 4), "mask", "(N, M) or (B, H, N, M)", tuple(tensor.shape), "one for each sample is mask[:, None]")
        self.tensor = tensor[(None,) * (4 - tensor.dim())]

    def keeps(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor, keys: int) -> Tensor:
        # An axis of size 1 stands for all: index it at 0.
        at = [index if size > 1 else index * 0 for index, size in zip((b, h, i, j), self.tensor.shape, strict=True)]
        return self.tensor[at[0], at[1], at[2], at[3]]

    def dense(self, queries: int, keys: int, *, batch: int = 1, device: torch.device | str | None = None) -> Tensor:
        self._fit(batch, queries, keys)
        return self.tensor

    def pairs(self, queries: int, keys: int, *, batch: int = 1) -> int:
        self._fit(batch, queries, keys)
        return int(self.tensor.expand(batch, -1, queries, keys).sum())

    def _apart(self, batch: int | None) -> tuple[int | None, int | None]:
        return self.tensor.shape[0], self.tensor.shape[1]

    def part(self, rows: Tensor, columns: Tensor, keys: int, *, batch: int = 1) -> Tensor:
        some = self.tensor if self.tensor.shape[2] == 1 else self.tensor[:, :, rows]
        return some if self.tensor.shape[3] == 1 else some[:, :, :, columns]

    def check(self, batch: int, queries: int, keys: int) -> None:
        shape = tuple(self.tensor.shape)
        fits = all(got in (1, want) for got, want in zip((shape[0], *shape[2:]), (batch, queries, keys), strict=True))
        expect(fits, "mask", f"a shape that broadcasts to ({batch}, H, {queries}, {keys})", shape)

    def __repr__(self) -> str:
        return f"given{tuple(self.tensor.shape)}"
