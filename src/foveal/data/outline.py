"""Outlines of what a label map shows, along the edges of pixels, and the map of outlines: the one undoes the other.

outlines   label map → one closed polygon for each component. A pixel (row r, column c) is the square from (c, r) to
           (c + 1, r + 1). The polygon goes round with the component on its right; where two of its pixels touch at a
           corner only, it crosses over. A hole is joined to what lies above it by a line that is gone along twice
filled     a pixel is inside where a line from its centre to the left crosses the polygon an odd number of times:
           lines that are gone along twice change nothing
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from foveal.runtime.components import components

STEP = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])  # right, down, left, up
AT_ONCE = 1 << 22  # crossings that are held in memory

Points = NDArray[np.float64]  # (n, 2) x and y; the last is joined to the first
Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Outline:
    """One component: its label, and its polygon."""

    label: int
    points: Points


def outlines(label_map: NDArray[np.integer] | NDArray[np.bool_]) -> list[Outline]:
    """Of all components of a label map (H, W), in the order of their first pixels."""
    found = components(label_map)
    loops = _loops(found.numbers)
    parts: list[list[Indices]] = [[] for _ in found.value]
    for number, loop in loops:
        parts[number - 1].append(loop)
    return [
        Outline(label, _corners(_joined(part)).astype(np.float64))
        for label, part in zip(found.value.tolist(), parts, strict=True)
    ]


def filled(shapes: Iterable[Outline], height: int, width: int) -> NDArray[np.uint8]:
    """The label map (height, width) of outlines; later ones lie over earlier ones."""
    label_map = np.zeros((height, width), np.uint8)
    for one in shapes:
        rows, columns, inside = window_of([one.points], height, width)
        label_map[rows, columns][inside] = one.label
    return label_map


def window_of(polygons: Sequence[Points], height: int, width: int) -> tuple[slice, slice, NDArray[np.bool_]]:
    """Where polygons lie in an image, and which pixels there are inside any of them."""
    corners = np.concatenate([np.zeros((0, 2)), *polygons])
    if not len(corners):
        return slice(0, 0), slice(0, 0), np.zeros((0, 0), bool)
    limit = np.array([width, height])
    first = np.clip(np.floor(corners.min(0)), 0, limit).astype(int)
    last = np.clip(np.ceil(corners.max(0)), first, limit).astype(int)
    inside = np.zeros((last[1] - first[1], last[0] - first[0]), bool)
    if inside.size:
        for points in polygons:
            inside |= _inside(points - first, *inside.shape)
    return slice(first[1], last[1]), slice(first[0], last[0]), inside


def _inside(points: Points, height: int, width: int) -> NDArray[np.bool_]:
    """(height, width): which pixels have their centre inside one polygon."""
    start, end = points, np.roll(points, -1, axis=0)
    upper, lower = (np.where((start[:, 1:] <= end[:, 1:]) == down, start, end) for down in (True, False))
    first, after = (np.clip(np.ceil(ends[:, 1] - 0.5), 0, height).astype(np.int64) for ends in (upper, lower))
    count = after - first  # rows whose centre an edge crosses
    before = np.cumsum(count) - count
    turns = np.zeros(height * (width + 1), np.uint8)
    bounds = np.searchsorted(before, np.arange(0, count.sum(), AT_ONCE)).tolist()
    for begin, stop in pairwise([*bounds, len(count)]):
        edge = np.repeat(np.arange(begin, stop), count[begin:stop])
        row = first[edge] + np.arange(len(edge)) - (before - before[begin])[edge]
        slope = (lower[edge, 0] - upper[edge, 0]) / (lower[edge, 1] - upper[edge, 1])
        x = upper[edge, 0] + (row + 0.5 - upper[edge, 1]) * slope
        column = np.clip(np.ceil(x - 0.5), 0, width).astype(np.int64)
        turns ^= (np.bincount(row * (width + 1) + column, minlength=len(turns)) & 1).astype(np.uint8)
    return np.asarray(np.cumsum(turns.reshape(height, width + 1)[:, :-1], axis=1, dtype=np.uint8) & 1 == 1)


def _loops(numbers: NDArray[np.int32]) -> list[tuple[int, Indices]]:
    """The closed ways along the edges of numbered pixels, with a corner (x, y) at every pixel: (number, (n, 2))."""
    width = numbers.shape[1]
    around = np.pad(numbers, 1)
    inner = around[1:-1, 1:-1]
    beside = (around[:-2, 1:-1], around[1:-1, 2:], around[2:, 1:-1], around[1:-1, :-2])  # above, right, below, left
    starts = ((0, 0), (1, 0), (1, 1), (0, 1))  # from which corner of a pixel each of its edges goes
    number: list[NDArray[np.int32]] = []
    way: list[Indices] = []
    corner: list[Indices] = []
    for direction, (other, (dx, dy)) in enumerate(zip(beside, starts, strict=True)):
        rows, columns = np.nonzero((inner != other) & (inner > 0))
        number.append(inner[rows, columns])
        way.append(np.full(len(rows), direction))
        corner.append((rows + dy) * (width + 1) + columns + dx)
    of, ways, start = np.concatenate(number), np.concatenate(way), np.concatenate(corner)
    if not len(of):
        return []
    order = np.argsort(start * 4 + ways)
    of, ways, start = of[order], ways[order], start[order]
    after = _next_edge(start * 4 + ways, of, ways, start + (STEP @ [1, width + 1])[ways])
    first, place = _ranked(after)
    order = np.lexsort((place, first))
    ends = np.flatnonzero(np.diff(first[order], append=-1)) + 1
    points = np.stack([start % (width + 1), start // (width + 1)], 1)[order]
    return [(int(of[order[end - 1]]), loop) for end, loop in zip(ends, np.split(points, ends[:-1]), strict=True)]


def _next_edge(key: Indices, of: NDArray[np.int32], direction: Indices, end: Indices) -> Indices:
    """Which edge goes on where each ends: to the left where there is one, else straight on, else to the right."""
    after = np.zeros(len(key), np.int64)
    for turn in (1, 0, -1):
        wanted = end * 4 + (direction + turn) % 4
        place = np.minimum(np.searchsorted(key, wanted), len(key) - 1)
        there = (key[place] == wanted) & (of[place] == of)
        after[there] = place[there]
    return after


def _ranked(after: Indices) -> tuple[Indices, Indices]:
    """The first edge of each edge's loop, and how many steps come before it."""
    count = len(after)
    first, further = np.arange(count), after
    for _ in range(count.bit_length()):
        first, further = np.minimum(first, first[further]), further[further]
    last = after == first  # its loop begins again
    further = np.where(last, np.arange(count), after)
    left = (~last).astype(np.int64)  # steps until the last
    for _ in range(count.bit_length()):
        left, further = left + left[further], further[further]
    return first, -left


def _joined(loops: Sequence[Indices]) -> Indices:
    """One loop of all. Each hole hangs on the corner of another loop that is nearest above its own highest corner, the
    first: so on a loop that begins higher.
    """
    if len(loops) == 1:
        return loops[0]
    sizes = [len(one) for one in loops]
    loop, place = np.repeat(np.arange(len(loops)), sizes), np.concatenate([np.arange(size) for size in sizes])
    corners = np.concatenate(loops)
    key = corners @ [corners.max() + 1, 1]  # down the columns, one after the other
    order = np.lexsort((loop, key))
    holes = np.arange(1, len(loops))
    at = np.searchsorted(key[order], key[np.cumsum(sizes)[:-1]])
    above = np.where(loop[order[at]] < holes, order[at], order[at - 1])  # where two touch, the line has no length
    hung: dict[tuple[int, int], list[int]] = {}  # loop and place in it → the holes that hang there
    for hole, parent, corner in zip(holes.tolist(), loop[above].tolist(), place[above].tolist(), strict=True):
        hung.setdefault((parent, corner), []).append(hole)
    return np.array(list(_walk(loops, hung)))


def _walk(loops: Sequence[Indices], hung: dict[tuple[int, int], list[int]]) -> Iterator[Indices]:
    """The corners of the first loop and of all that hangs on it, as a walk meets them that turns off at each hole."""
    ways = [(0, 0)]
    while ways:
        loop, place = ways.pop()
        yield loops[loop][place % len(loops[loop])]
        if place < len(loops[loop]):
            if holes := hung.get((loop, place)):
                ways += [(loop, place), (holes.pop(), 0)]
            else:
                ways.append((loop, place + 1))


def _corners(loop: Indices) -> Indices:
    """Without what lies on a straight line between its neighbours."""
    loop = loop[(loop != np.roll(loop, 1, axis=0)).any(1)]
    way = np.sign(np.roll(loop, -1, axis=0) - loop)
    return np.asarray(loop[(way != np.roll(way, 1, axis=0)).any(1)])
