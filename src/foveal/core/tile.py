"""The tiles of a mask: which queries meet which keys, so that a kernel skips the rest.

    {(i, j) : mask(i, j)} ⊆ ∪_t rows_t × columns_t

Rows go in groups of HEIGHT (of equal residue, for a mask with a period); a group's columns are those that one of its
rows keeps. An `|` of masks with different periods becomes disjoint parts, A and B & ~A, so a row may stand in several
tiles; a kernel then joins them by their log-sum-exp. The work and the memory of a plan grow with the pairs kept.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from foveal.core.algebra import And, Not, Or, Starting
from foveal.core.mask import Mask

HEIGHT = 64  # rows of a tile: measured fastest on a CPU among 32, 64, 128, 256


@dataclass(frozen=True)
class Tile:
    rows: slice
    columns: slice | Tensor
    kept: Tensor | None  # (n, m′) additive: 0 where kept, −inf elsewhere; None if the whole tile is kept
    partly: slice  # the m′ of the tile's columns that `kept` is about; every row keeps all the others
    bare: bool  # a row of it sees nothing here
    device: str

    @property
    def row_positions(self) -> Tensor:
        """The rows as numbers, (n,)."""
        return torch.arange(self.rows.start, self.rows.stop, self.rows.step, device=self.device)

    @property
    def positions(self) -> Tensor:
        """The columns as numbers, (m,)."""
        if isinstance(self.columns, Tensor):
            return self.columns
        return torch.arange(self.columns.start, self.columns.stop, self.columns.step, device=self.device)


@dataclass(frozen=True)
class Plan:
    tiles: tuple[Tile, ...]
    once: bool  # no row stands in two tiles

    @property
    def work(self) -> int:
        """How many pairs a kernel computes when it follows this plan."""
        return sum(len(tile.row_positions) * len(tile.positions) for tile in self.tiles)


@lru_cache(maxsize=64)
def plan(mask: Mask, queries: int, keys: int, device: str = "cpu", height: int = HEIGHT) -> Plan:
    """The tiles of a mask without batch. Kept by mask and size, as the same mask comes again at every step."""
    known: dict[bytes, Tensor] = {}  # tiles along a diagonal are often the same: one copy serves all
    parts = _disjoint(mask)
    found = []
    with torch.inference_mode(False):  # a plan made while inferring must serve when training
        for part in parts:
            for rows in _groups(queries, part.period, height):
                tile = _tile(part, rows, keys, device, known)
                if tile is not None:
                    found.append(tile)
    return Plan(tuple(found), once=len(parts) == 1)


def strips(mask: Mask, queries: int, keys: int, height: int = HEIGHT) -> Iterator[tuple[Tensor, Tensor]]:
    """Rows and the columns they may look at, by the mask's own hints: together they hold every pair."""
    for group in _groups(queries, 1, height):
        rows = _numbers(group)
        yield rows, mask.candidates(rows, keys)


def _disjoint(mask: Mask) -> list[Mask]:
    """Masks, no two with a pair in common, that together are the mask: one for each period."""
    found: list[Mask] = []
    before: Mask | None = None
    for _, part in sorted(_by_period(mask).items()):
        found.append(part if before is None else And(part, Not(before)))
        before = part if before is None else Or(before, part)
    return found


def _by_period(mask: Mask) -> dict[int, Mask]:
    """Masks that together are the mask, by their periods: an `|` inside an `&` is taken apart too."""
    if isinstance(mask, Starting):
        return {period: Starting(part, mask.row) for period, part in _by_period(mask.inner).items()}
    if not isinstance(mask, (And, Or)):
        return {mask.period: mask}
    parts = [_by_period(part) for part in mask.parts]
    periods = {period for part in parts for period in part}
    if len(periods) == 1 or (isinstance(mask, And) and all(len(part) == 1 for part in parts)):
        return {mask.period: mask}
    found = parts[0]
    for part in parts[1:]:
        found = _joined(isinstance(mask, Or), found, part)
    return {mask.period: mask} if len(found) == 1 else found


def _joined(either: bool, left: dict[int, Mask], right: dict[int, Mask]) -> dict[int, Mask]:
    """Left | right, or left & right, by their periods."""
    if either:
        parts = [*left.values(), *right.values()]
    else:
        parts = [And(one, other) for one in left.values() for other in right.values()]
    found: dict[int, Mask] = {}
    for part in parts:
        found[part.period] = Or(found[part.period], part) if part.period in found else part
    return found


def _groups(queries: int, period: int, height: int) -> Iterator[slice]:
    for residue in range(min(period, queries)):
        for start in range(residue, queries, height * period):
            yield slice(start, min(start + height * period, queries), period)


def _numbers(rows: slice) -> Tensor:
    return torch.arange(rows.start, rows.stop, rows.step, device="cpu")


def _tile(mask: Mask, group: slice, keys: int, device: str, known: dict[bytes, Tensor]) -> Tile | None:
    rows = _numbers(group)
    if keys and mask.full(group.start, group.stop, keys):
        return Tile(group, slice(0, keys, 1), None, slice(0, 0), False, device)
    columns = mask.candidates(rows, keys)
    kept = mask.part(rows, columns, keys)  # (n, m)
    used = kept.any(0)
    columns, kept = columns[used], kept[:, used]
    if not len(columns):
        return None
    partly, additive = _partly(kept), None
    if partly.stop:
        some = kept[:, partly]
        key = some.numpy().tobytes() + str(tuple(some.shape)).encode()
        if key not in known:
            known[key] = torch.zeros(some.shape, device=device).masked_fill_(~some.to(device), -torch.inf)
        additive = known[key]
    return Tile(group, _as_slice(columns, device), additive, partly, not bool(kept.any(1).all()), device)


def _partly(kept: Tensor) -> slice:
    """The columns from the first to the last that some row drops: a causal tile drops pairs at its end only."""
    dropped = (~kept.all(0)).nonzero().flatten()
    return slice(int(dropped[0]), int(dropped[-1]) + 1) if len(dropped) else slice(0, 0)


def _as_slice(columns: Tensor, device: str) -> slice | Tensor:
    """Evenly spaced columns are a view; others must be gathered."""
    if len(columns) == 1:
        return slice(int(columns[0]), int(columns[0]) + 1, 1)
    steps = columns.diff()
    if bool((steps == steps[0]).all()):
        return slice(int(columns[0]), int(columns[-1]) + 1, int(steps[0]))
    return columns.to(device)
