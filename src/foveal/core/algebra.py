"""Masks made of masks: and, or, not, the same mask for later queries, everything; and a mask that the caller wrote out.

    (A & B)(i, j) = A(i, j) ∧ B(i, j);   (A | B)(i, j) = A(i, j) ∨ B(i, j);   (~A)(i, j) = ¬A(i, j)
    A.starting_at(r)(i, j) = A(i + r, j)

A boolean tensor joins patterns as one of them (`causal & tensor`): True = may look, its rows count from the first
query. Each also joins its parts' hints (reach, candidates, full), so that a combined pattern skips what its parts let
it skip.
"""

from dataclasses import dataclass
from functools import reduce
from operator import and_, or_

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

    def counted(self, batch: int, queries: int, keys: int) -> int:
        return queries * keys


@dataclass(frozen=True, init=False, repr=False)
class _Many(Mask):
    """Masks joined by one sign.

    A chain a & b & c is one mask of three parts, so a long one is no deeper than a short one.
    """

    parts: tuple[Mask, ...]

    def __init__(self, *parts: Mask) -> None:
        flat = tuple(inner for part in parts for inner in (part.parts if isinstance(part, type(self)) else (part,)))
        self._set(flat, 1 + max(part.depth for part in flat))

    def _set(self, parts: tuple[Mask, ...], depth: int) -> None:
        object.__setattr__(self, "parts", parts)
        object.__setattr__(self, "depth", depth)

    @property
    def leaves(self) -> int:  # type: ignore[override]
        return sum(part.leaves for part in self.parts)

    @property
    def batched(self) -> bool:  # type: ignore[override]
        return any(part.batched for part in self.parts)

    @property
    def heads(self) -> int:  # type: ignore[override]
        return max(part.heads for part in self.parts)

    @property
    def grows(self) -> bool:  # type: ignore[override]
        return all(part.grows for part in self.parts)

    def structure(self) -> Mask:
        return type(self)(*(part.structure() for part in self.parts)) if self.batched else self

    def check(self, batch: int, queries: int, keys: int) -> None:
        for part in self.parts:
            part.check(batch, queries, keys)

    def _samples(self) -> int:
        return max(part._samples() for part in self.parts)

    def _written(self, sign: str) -> str:
        some = [repr(part) for part in self.parts[:SHOWN]]
        more = [f"{len(self.parts) - SHOWN:,} more"] if len(self.parts) > SHOWN else []
        return f"({f' {sign} '.join(some + more)})"


@dataclass(frozen=True)
class _Single(Mask):
    inner: Mask

    def __post_init__(self) -> None:
        object.__setattr__(self, "depth", 1 + self.inner.depth)

    @property
    def leaves(self) -> int:  # type: ignore[override]
        return self.inner.leaves

    @property
    def batched(self) -> bool:  # type: ignore[override]
        return self.inner.batched

    @property
    def heads(self) -> int:  # type: ignore[override]
        return self.inner.heads

    @property
    def grows(self) -> bool:  # type: ignore[override]
        return self.inner.grows

    @property
    def period(self) -> int:  # type: ignore[override]
        return self.inner.period

    def check(self, batch: int, queries: int, keys: int) -> None:
        self.inner.check(batch, queries, keys)

    def _samples(self) -> int:
        return self.inner._samples()


@dataclass(frozen=True, init=False, repr=False)
class And(_Many):
    @property
    def period(self) -> int:  # type: ignore[override]
        return max(part.period for part in self.parts)

    def keeps(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor, keys: int) -> Tensor:
        return reduce(and_, (part.keeps(b, h, i, j, keys) for part in self.parts))

    def predicate(self, keys: int, device: torch.device) -> Predicate:
        predicates = [part.predicate(keys, device) for part in self.parts]
        return lambda b, h, i, j: reduce(and_, [predicate(b, h, i, j) for predicate in predicates])

    def reach(self, first: int, last: int, keys: int) -> tuple[int, int]:
        lows, highs = zip(*(part.reach(first, last, keys) for part in self.parts), strict=True)
        return max(lows), min(highs)

    def candidates(self, rows: Tensor, keys: int) -> Tensor:
        some = [part.candidates(rows, keys) for part in self.parts if type(part).candidates is not Mask.candidates]
        # The others give ranges: where these overlap is a range again, and none of them need be written out.
        fewest, *others = sorted([*some, super().candidates(rows, keys)], key=len)
        for more in others:
            fewest = fewest[torch.isin(fewest, more, assume_unique=True)]
        return fewest

    def full(self, first: int, last: int, keys: int) -> bool:
        return all(part.full(first, last, keys) for part in self.parts)

    def remainder(self) -> Mask | None:
        open_parts = [rest for part in self.parts if (rest := part.remainder()) is not None]
        return And(*open_parts) if len(open_parts) > 1 else open_parts[0] if open_parts else None

    def __repr__(self) -> str:
        return self._written("&")


@dataclass(frozen=True, init=False, repr=False)
class Or(_Many):
    @property
    def period(self) -> int:  # type: ignore[override]
        periods = {part.period for part in self.parts}
        return periods.pop() if len(periods) == 1 else 1

    def keeps(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor, keys: int) -> Tensor:
        return reduce(or_, (part.keeps(b, h, i, j, keys) for part in self.parts))

    def predicate(self, keys: int, device: torch.device) -> Predicate:
        predicates = [part.predicate(keys, device) for part in self.parts]
        return lambda b, h, i, j: reduce(or_, [predicate(b, h, i, j) for predicate in predicates])

    def reach(self, first: int, last: int, keys: int) -> tuple[int, int]:
        reaches = [part.reach(first, last, keys) for part in self.parts]
        some = [(low, high) for low, high in reaches if low < high] or reaches[-1:]
        return min(low for low, _ in some), max(high for _, high in some)

    def candidates(self, rows: Tensor, keys: int) -> Tensor:
        both: Tensor = torch.unique(torch.cat([part.candidates(rows, keys) for part in self.parts]))
        return both

    def full(self, first: int, last: int, keys: int) -> bool:
        return any(part.full(first, last, keys) for part in self.parts)

    def __repr__(self) -> str:
        return self._written("|")


def joined(kind: type[And] | type[Or], left: Mask, right: Mask) -> Mask:
    """left & right, or left | right: without what is there already, as A & A = A | A = A."""
    before, added = (mask.parts if isinstance(mask, kind) else (mask,) for mask in (left, right))
    if len(before) + len(added) <= COMPARED:
        added = tuple(part for part in added if part not in before)
    if not added:
        return left
    # not by its __init__, which walks through all parts: a chain of n signs would take n² steps
    both = kind.__new__(kind)
    both._set(before + added, max(mask.depth + (not isinstance(mask, kind)) for mask in (left, right)))
    return shallow(both)


def shallow(mask: Mask) -> Mask:
    """The mask, or a FovealError if it is nested more deeply than Python could walk through."""
    advice = "write it as one pattern: a Mask with a keeps() of its own"
    expect(mask.depth <= DEEPEST, "mask", f"at most {DEEPEST} levels of & | ~ inside each other", mask.depth, advice)
    return mask


DEEPEST = 100  # levels of one sign inside another: a walk takes several of Python's 1,000 frames a level
COMPARED = 64  # parts of a chain up to which each is compared with each other one
SHOWN = 8  # parts of a chain that are written out


@dataclass(frozen=True, repr=False)
class Not(_Single):
    def keeps(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor, keys: int) -> Tensor:
        return ~self.inner.keeps(b, h, i, j, keys)

    def predicate(self, keys: int, device: torch.device) -> Predicate:
        inner = self.inner.predicate(keys, device)
        return lambda b, h, i, j: ~inner(b, h, i, j)

    def counted(self, batch: int, queries: int, keys: int) -> int | None:
        others = self.inner.counted(batch, queries, keys)
        return None if others is None else queries * keys * (batch if self.batched else 1) - others

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

    def __init__(self, tensor: Tensor) -> None:
        expect(
            tensor.dtype == torch.bool,
            "mask",
            "a boolean tensor, True = may look",
            tensor.dtype,
            "put additive scores into bias=",
        )
        expect(tensor.layout is torch.strided and not tensor.is_nested, "mask", "a dense tensor", tensor.layout)
        # Three axes could be samples or heads; a guess would be silently wrong where B = H.
        expect(
            tensor.dim() in (2, 4),
            "mask",
            "(N, M) or (B, H, N, M)",
            tuple(tensor.shape),
            "one for each sample is mask[:, None]",
        )
        self.tensor = tensor[(None,) * (4 - tensor.dim())]

    @property
    def heads(self) -> int:  # type: ignore[override]
        return self.tensor.shape[1]

    def keeps(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor, keys: int) -> Tensor:
        # An axis of size 1 stands for all: index it at 0.
        at = [index if size > 1 else index * 0 for index, size in zip((b, h, i, j), self.tensor.shape, strict=True)]
        return self.tensor.to(b.device)[at[0], at[1], at[2], at[3]]

    def predicate(self, keys: int, device: torch.device) -> Predicate:
        moved = Given(self.tensor.to(device))
        return lambda b, h, i, j: moved.keeps(b, h, i, j, keys)

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

    def _samples(self) -> int:
        return self.tensor.shape[0]

    def _repr_png_(self) -> bytes | None:
        from foveal.core.notebook import picture, png

        return png(picture(self.tensor.float().mean((0, 1))))

    def __repr__(self) -> str:
        return f"given{tuple(self.tensor.shape)}"
