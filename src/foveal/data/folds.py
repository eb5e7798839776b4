"""The folds and the groups of a labels.csv.

A fold is a number in the column fold, or a value of any other column: to leave out one campaign, one city, one camera.
A group is what may not be torn apart: frames of one pipe, which would give each other's answer away.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from foveal.data.table import Table

LISTED = 24  # values that a note names

Numbers = NDArray[np.int64]
DIGITS = 19  # of a number that fits 64 bits


def folds(table: "Table", fold_column: str | None, notes: list[str]) -> tuple[Numbers | None, tuple[str, ...]]:
    """(N,) folds as 0 to F − 1, None without any;
    and their names, where they are the values of the column `fold_column`.
    """
    if fold_column is not None:
        return _by_value(table, fold_column, notes)
    return (_by_number(table, notes) if "fold" in table.columns else None), ()


def groups(
    table: "Table", split: NDArray[np.int8], fold: Numbers | None, fold_column: str | None, notes: list[str]
) -> Numbers | None:
    """(N,) groups as numbers, None without any. An image without one is a group of its own.

    A group in two splits, or two folds of the column fold, is an error: somebody divided badly. Campaigns are what
    they are: a group that lies in two of them is noted.
    """
    if "group" not in table.columns:
        return None
    names = table.columns["group"]
    group = numbered_groups(names)
    _expect_whole(table, group, "split", split)
    if fold is not None and fold_column is None:
        _expect_whole(table, group, "fold", fold)
    elif fold is not None and (torn := sorted({names[row] for row in _torn(group, fold)})):
        notes.append(
            f"groups in more than one fold by {fold_column}, so that what is tested was partly trained on: "
            f"{_shortened(torn)}"
        )
    return group


def numbered_groups(names: Sequence[str]) -> Numbers:
    """(N,) groups as numbers; "" is a group of its own."""
    place: dict[str, int] = {}
    return np.array([place.setdefault(name or f"\0{row}", len(place)) for row, name in enumerate(names)], np.int64)


def _by_number(table: "Table", notes: list[str]) -> Numbers:
    numbers = []
    for row, value in enumerate(table.columns["fold"]):
        if not (value.isascii() and value.isdigit() and len(value) < DIGITS):
            raise table.error(row, f"column fold: expected an integer from 0, got {value[:50]!r}")
        numbers.append(int(value))
    there, fold = np.unique(numbers, return_inverse=True)
    if (there != np.arange(len(there))).any():
        notes.append(f"the folds {', '.join(map(str, there))} are counted from 0 to {len(there) - 1}")
    return fold.astype(np.int64)


def _by_value(table: "Table", fold_column: str, notes: list[str]) -> tuple[Numbers, tuple[str, ...]]:
    """A fold for each value, in their order: numbers by size, words by letter."""
    column = table.columns[fold_column]
    for row, value in enumerate(column):
        if not value:
            raise table.error(row, f"column {fold_column}: expected a value, which is the image's fold, got nothing")
    numbers = all(value.isascii() and value.isdigit() and len(value) < DIGITS for value in column)
    values = sorted(set(column), key=lambda value: (int(value) if numbers else 0, value))
    place = {value: fold for fold, value in enumerate(values)}
    notes.append(f"folds by {fold_column}: {_shortened(values)}")
    return np.array([place[value] for value in column], np.int64), tuple(values)


def _expect_whole(table: "Table", group: Numbers, column: str, values: NDArray[np.integer]) -> None:
    first: dict[int, int] = {}
    for row, number in enumerate(group.tolist()):
        earlier = first.setdefault(number, row)
        if values[row] != values[earlier]:
            name, here, there = (
                table.columns[one][line] for one, line in (("group", row), (column, row), (column, earlier))
            )
            raise table.error(
                row,
                f"group {name} is in the {column}s {there or 'none'} (line {table.lines[earlier]}) and "
                f"{here or 'none'}; "
                f"a group stays in one {column}, or what is tested was trained on",
            )


def _torn(group: Numbers, fold: Numbers) -> Numbers:
    """The images whose group lies in more than one fold."""
    pairs = np.unique(np.stack([group, fold]), axis=1)
    return np.flatnonzero(np.bincount(pairs[0])[group] > 1)


def _shortened(words: list[str]) -> str:
    return ", ".join(words if len(words) <= LISTED else [*words[: LISTED - 1], f"… {len(words) - LISTED + 1} more"])
