"""A large image in tiles that overlap, and one label map of what a model says of each: no seam shows.

    z = Σ_i w_i z_i,   label map = argmax_k z_k, enlarged to the image's size (bilinear)
    w_i(u) = r(u − c_{i−1}) − r(u − c_i),   r(v) = min(max(v/b + ½, 0), 1)

Symbols: i a tile, along one side of the image; z_i the logits of its cells, which are pixels at the model's stride; u
    the middle of a cell; c_i the middle of what the tiles i and i + 1 share; b half of the overlap. The weights of both
    sides are multiplied. Those of all tiles add up to 1, and the outermost quarter of an overlap has none: there a
    model sees too little of what lies around a cell.

Tiles begin at multiples of `grid`, so that cells lie in a tile as they lie in the image.
Cost: O(K·S·W/s²) memory beside the label map: of an image W pixels wide one row of tiles of S pixels, at the stride s.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foveal.errors import expect

AT_ONCE = 1 << 18  # pixels that are enlarged at a time

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Tiling:
    """side, overlap: of tiles, in pixels of the image; grid: what divides both, and all places."""

    side: int
    overlap: int
    grid: int = 1

    @staticmethod
    def of(side: int, overlap: int, multiple: int, zoom: float = 1.0) -> "Tiling":
        """side, overlap: in pixels as a model sees them that enlarges images by `zoom` and takes multiples of
        `multiple`. The one is made smaller, the other larger, until they fit.
        """
        grid = multiple if multiple % max(zoom, 1) == 0 else multiple * round(zoom)
        fitting, wide = side // grid * grid, -(-overlap // grid) * grid
        least = max(2 * wide, grid)
        why = f"twice the overlap, in steps of {grid}" if wide else "the least that the model sees"
        do = "lower --overlap, or see images as a whole with 0"
        expect(fitting >= least, "--tile", f"at least {least} pixels, {why}", side, do)
        return Tiling(*(round(one / zoom) for one in (fitting, wide, grid)))

    def holds(self, height: int, width: int) -> bool:
        """Whether an image is no larger than one tile."""
        return max(height, width) <= self.side


@dataclass(frozen=True)
class Span:
    """One tile along one side of the image."""

    start: int
    stop: int
    low: float  # c_{i−1}
    high: float  # c_i
    blend: float  # b

    def weights(self, cell: float, count: int) -> tuple[int, Floats]:
        """The first cell of the image that counts, and the weights of those that do. cell: its side in pixels; count:
        cells that the tile has.
        """
        first = round(self.start / cell)
        middles = (first + np.arange(count) + 0.5) * cell
        weights = _ramp(middles - self.low, self.blend) - _ramp(middles - self.high, self.blend)
        begin, last = np.flatnonzero(weights)[[0, -1]].tolist()
        return first + begin, weights[begin : last + 1].astype(np.float32)


def _ramp(distance: NDArray[np.floating], wide: float) -> NDArray[np.floating]:
    if not wide:
        return (distance >= 0).astype(np.float64)
    return np.asarray(np.clip(distance / wide + 0.5, 0, 1))


def spans(length: int, tiling: Tiling) -> list[Span]:
    """Along a side of this length, evenly spread."""
    if length <= tiling.side:
        return [Span(0, length, -math.inf, math.inf, 0)]
    gaps = math.ceil((length - tiling.side) / (tiling.side - tiling.overlap))
    last = math.ceil((length - tiling.side) / tiling.grid) * tiling.grid
    starts = [last * number // gaps // tiling.grid * tiling.grid for number in range(gaps + 1)]
    middles = [-math.inf, *((before + tiling.side + start) / 2 for before, start in pairwise(starts)), math.inf]
    return [
        Span(start, min(start + tiling.side, length), *bounds, tiling.overlap / 2)
        for start, bounds in zip(starts, pairwise(middles), strict=True)
    ]


def blended(pixels: Bytes, tiling: Tiling, logits: Callable[[Bytes], Floats]) -> tuple[Bytes, Floats]:
    """The label map of an image (H, W, 3), and its scores (K,), as graph.py has them. logits: tile (h, w, 3) → (K,
    cells down, cells along).
    """
    height, width = pixels.shape[:2]
    canvas = _Canvas(height, width, tiling.grid)
    for row in spans(height, tiling):
        for column in spans(width, tiling):
            said = logits(pixels[row.start : row.stop, column.start : column.stop])
            canvas.look_at(said, row.stop - row.start, column.stop - column.start)
            top, down = row.weights(canvas.cell, said.shape[1])
            left, along = column.weights(canvas.cell, said.shape[2])
            y, x = top - round(row.start / canvas.cell), left - round(column.start / canvas.cell)
            part = said[:, y : y + len(down), x : x + len(along)]
            canvas.add(top, left, part * (down[:, None] * along))
    return canvas.finished()


class _Canvas:
    """A label map, which is painted from above as far as all tiles have said what they say."""

    cell = 0.0  # side of a cell in pixels, as the first tile tells

    def __init__(self, height: int, width: int, grid: int) -> None:
        self.label_map = np.zeros((height, width), np.uint8)
        self.grid = grid
        self.first, self.logits = 0, np.zeros((0, 0, 0), np.float32)  # of the cells from this row on
        self.painted = self.scored = 0  # rows of pixels, rows of cells
        self.scores = np.zeros(0, np.float32)

    def look_at(self, said: Floats, height: int, width: int) -> None:
        """Logits of a tile of this size."""
        down, along = (self._fitting(side) for side in (height, width))
        cell = self.cell or along / said.shape[2]
        fits = (down, along) == (cell * said.shape[1], cell * said.shape[2])
        expect(fits, "the model's logits", f"cells of one size for a tile of {width}×{height} pixels", said.shape)
        if not self.cell:
            self.cell = cell
            self.logits = np.zeros((len(said), 0, round(self._fitting(self.label_map.shape[1]) / cell)), np.float32)
            self.scores = np.zeros(len(said), np.float32)

    def _fitting(self, side: int) -> int:
        return -(-side // self.grid) * self.grid

    def add(self, top: int, left: int, part: Floats) -> None:
        """Logits (K, h, w) of cells, of which none above `top` will come any more."""
        missing = top + part.shape[1] - self.first - self.logits.shape[1]
        if missing > 0:
            self._settle(top)
            room = np.zeros((len(part), missing, self.logits.shape[2]), np.float32)
            self.logits = np.concatenate([self.logits, room], 1)
        y = top - self.first
        self.logits[:, y : y + part.shape[1], left : left + part.shape[2]] += part

    def finished(self) -> tuple[Bytes, Floats]:
        self._settle(self.first + self.logits.shape[1])
        return self.label_map, self.scores

    def _settle(self, until: int) -> None:
        """What the rows of cells above this one say."""
        height, width = self.label_map.shape
        rows, columns = (between(side, self.cell, self._fitting(side)) for side in (height, width))
        stop, band = int(np.searchsorted(rows.upper, until)), max(1, AT_ONCE // width)
        for top in range(self.painted, stop, band):
            some = slice(top, min(top + band, stop))
            self._paint(some, rows.lower[some] - self.first, rows.upper[some] - self.first, rows.share[some], columns)
        last = until * self.cell >= height
        self._score(until if last else until - 1, last)
        self.painted = stop
        if not last:
            needed = max(min(int(rows.lower[stop]), until - 2), 0)
            self.logits, self.first = self.logits[:, needed - self.first :], needed

    def _paint(self, some: slice, lower: Indices, upper: Indices, share: Floats, columns: "Between") -> None:
        """These rows of pixels, which lie between these rows of cells."""
        labels = self.label_map[some]
        best = np.full(labels.shape, -np.inf, np.float32)
        for label, cells in enumerate(self.logits):
            down = cells[lower] + share[:, None] * (cells[upper] - cells[lower])
            fine = down[:, columns.lower]
            fine += columns.share * (down[:, columns.upper] - fine)
            labels[fine > best] = label
            np.maximum(best, fine, out=best)

    def _score(self, until: int, last: bool) -> None:
        """The largest means of 3 × 3 cells so far, around the rows above this one."""
        band = max(1, AT_ONCE // max(self.logits.shape[2], 1))
        for top in range(self.scored, until, band):
            stop = min(top + band, until)
            edges = int(top == 0), int(last and stop == until)
            begin, end = top - 1 + edges[0] - self.first, stop + 1 - edges[1] - self.first
            found = np.pad(_likely(self.logits[:, begin:end]), ((0, 0), edges, (1, 1)))
            found = found[:, :-2] + found[:, 1:-1] + found[:, 2:]
            found = found[:, :, :-2] + found[:, :, 1:-1] + found[:, :, 2:]
            self.scores = np.maximum(self.scores, found.max((1, 2)) / 9)
        self.scored = max(until, self.scored)


def _likely(logits: Floats) -> Floats:
    """(K, h, w) → how likely each class is; the first: how likely any other is."""
    grown = np.exp(logits - logits.max(0))
    likely = grown / grown.sum(0)
    likely[0] = 1 - likely[0]
    return np.asarray(likely)


class Between(NamedTuple):
    """Of each pixel along a side: the cells between whose middles it lies, and how far it is from the lower to the
    upper one.
    """

    lower: Indices
    upper: Indices
    share: Floats


def between(length: int, cell: float, padded: int) -> Between:
    """padded: the side that cells fill, in pixels."""
    last = round(padded / cell) - 1
    place = np.clip((np.arange(length) + 0.5) / cell - 0.5, 0, last)
    lower = place.astype(np.int64)
    return Between(lower, np.minimum(lower + 1, last), (place - lower).astype(np.float32))
