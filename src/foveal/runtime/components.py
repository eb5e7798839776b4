"""Connected components of a label map: pixels of one label that touch at a side or at a corner are one finding.

    run         the pixels of one label that follow each other in a row
    pair        two runs of one label in neighbouring rows that overlap, or touch at a corner
    component   runs that a chain of pairs joins

There are far fewer runs than pixels, and one sorted search finds all pairs. Then the root of every tree of runs is
hung below the smallest root that it meets, and the trees are made flat, until no root meets another.

Paper: Azriel Rosenfeld, John L. Pfaltz (1966). Sequential operations in digital picture processing. Journal of the ACM.
    doi:10.1145/321356.321357.
Departs from the paper: runs are joined instead of pixels, and all pairs of a map at once.
Cost: O(H·W) time, and O(runs · log runs).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foveal.errors import expect

BACKGROUND, UNLABELLED = 0, 255  # of a label map: nothing is found here; nobody says what is here

Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Components:
    """M components, in the order of their first pixels, row by row."""

    value: Indices  # (M,) the label
    area: Indices  # (M,) pixels
    box: Indices  # (M, 4) x0, y0, x1, y1: from the first pixel to after the last
    numbers: NDArray[np.int32]  # (H, W): 0 where nothing is found, else 1 + the component's place

    def __len__(self) -> int:
        return len(self.value)

    def length(self) -> NDArray[np.float64]:
        """(M,) how far each reaches: the diagonal of its box."""
        return np.asarray(np.hypot(self.box[:, 2] - self.box[:, 0], self.box[:, 3] - self.box[:, 1]))


def components(
    label_map: NDArray[np.integer] | NDArray[np.bool_],
    nothing: tuple[int, ...] = (BACKGROUND, UNLABELLED),
    *,
    neighbours: int = 8,
) -> Components:
    """Of a map (H, W); the labels in `nothing` are no finding. With 4 neighbours a corner joins nothing."""
    expect(label_map.ndim == 2, "a label map", "(H, W)", label_map.shape)
    expect(neighbours in (4, 8), "neighbours", "4 or 8", neighbours)
    height, width = label_map.shape
    begins = np.ones((height, width), bool)
    np.not_equal(label_map[:, 1:], label_map[:, :-1], out=begins[:, 1:])
    start = np.flatnonzero(begins)
    value = label_map.reshape(-1)[start].astype(np.int64)
    stop, there = np.append(start[1:], label_map.size), ~np.isin(value, nothing)
    start, stop, value = start[there], stop[there], value[there]
    row = start // max(width, 1)
    runs = stop - start
    number, count = _numbers(len(row), *_pairs(row, start - row * width, runs, value, width, neighbours == 8))
    of_component = np.zeros(count, np.int64)
    of_component[number] = value
    box = np.tile(np.array([width, height, 0, 0]), (count, 1))
    for side, of_run in enumerate((start - row * width, row)):
        np.minimum.at(box[:, side], number, of_run)
    for side, of_run in enumerate((stop - row * width, row + 1), 2):
        np.maximum.at(box[:, side], number, of_run)
    numbers = np.zeros((height, width), np.int32)
    numbers[~np.isin(label_map, nothing)] = np.repeat(number + 1, runs)  # both go row by row
    return Components(of_component, np.bincount(number, runs, count).astype(np.int64), box, numbers)


def numbered(
    label_map: NDArray[np.integer] | NDArray[np.bool_], nothing: tuple[int, ...] = (BACKGROUND, UNLABELLED)
) -> NDArray[np.int32]:
    """(H, W): 0 where nothing is found, else 1 + the component's place in `components`."""
    return components(label_map, nothing).numbers


def _pairs(
    row: Indices, left: Indices, runs: Indices, value: Indices, width: int, corners: bool
) -> tuple[Indices, Indices]:
    """Which runs meet one of the row below, and which those are: one that begins before the end and ends after the
    start.
    """
    wide = width + 2  # so that no run meets one two rows further
    start = row * wide + left
    reach = int(corners)
    first = np.searchsorted(start + runs, start + wide - reach, side="right")
    after = np.searchsorted(start, start + runs + wide + reach, side="left")
    count = np.maximum(after - first, 0)
    upper = np.repeat(np.arange(len(row)), count)
    lower = np.arange(len(upper)) - np.repeat(np.cumsum(count) - count - first, count)
    alike = value[upper] == value[lower]
    return upper[alike], lower[alike]


def _numbers(count: int, upper: Indices, lower: Indices) -> tuple[Indices, int]:
    """The component of each run, in the order of their first runs, and how many components there are."""
    root = np.arange(count)
    while True:
        one, other = root[upper], root[lower]
        if (one == other).all():
            roots, number = np.unique(root, return_inverse=True)
            return number.reshape(-1).astype(np.int64), len(roots)
        np.minimum.at(root, np.maximum(one, other), np.minimum(one, other))
        while (root != root[root]).any():
            root = root[root]
