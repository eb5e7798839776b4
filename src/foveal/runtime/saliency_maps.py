"""Where a model looked, as arrays: whatever computed them. No torch here."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Sides = tuple[int, int]  # rows and columns of cells
MOST_HIDDEN = 14  # cells a side that are hidden one by one


@dataclass(frozen=True, eq=False)
class SaliencyMaps:
    """Attention on B images: by the name of the layer, (B, H, N, rows, columns)."""

    maps: Mapping[str, Array]

    @property
    def layers(self) -> tuple[str, ...]:
        return tuple(self.maps)

    @property
    def sides(self) -> Sides:
        rows, columns = next(iter(self.maps.values())).shape[-2:]
        return rows, columns

    @property
    def average(self) -> Array:
        """(B, rows, columns): the mean over queries and heads, then over layers, each layer alike."""
        return np.asarray(np.mean([maps.mean((1, 2)) for maps in self.maps.values()], axis=0))

    def each(self, image: int = 0) -> Iterator[tuple[str, int, int, Array]]:
        """(layer, head, query, map (rows, columns)) of one image, in the order of the forward pass."""
        for layer, maps in self.maps.items():
            for head, query in np.ndindex(*maps.shape[1:3]):
                yield layer, head, query, maps[image, head, query]


def coarse(sides: Sides) -> Sides:
    """Squares to hide one by one: the cells of a map of up to 14 × 14, of a larger one k × k of its cells, since each
    costs an answer. Where k does not divide a side, some squares are a cell narrower.
    """

    def side(cells: int) -> int:
        return -(-cells // -(-cells // MOST_HIDDEN))

    return side(sides[0]), side(sides[1])


def square_of(height: int, width: int, sides: Sides) -> NDArray[np.int64]:
    """(height, width): the number of the square that a pixel is hidden with, row by row; a cell is never cut in two."""
    rows, columns = coarse(sides)
    down = _shared(sides[0], rows)[np.arange(height) * sides[0] // height]
    along = _shared(sides[1], columns)[np.arange(width) * sides[1] // width]
    return np.asarray(down[:, None] * columns + along)


def finer(maps: Array, sides: Sides) -> Array:
    """(…, rows, columns) of squares → the same of their cells, which share what a square has."""
    down, along = _shared(sides[0], maps.shape[-2]), _shared(sides[1], maps.shape[-1])
    cells = np.bincount(down)[:, None] * np.bincount(along)
    return np.asarray((maps / cells)[..., down[:, None], along])


def _shared(cells: int, squares: int) -> NDArray[np.int64]:
    """(cells,): the square in which each cell of a side lies."""
    return np.asarray(np.arange(cells) * squares // cells)


def shares(maps: Array) -> Array:
    """Maps (…, rows, columns) that sum to 1; one that is 0 everywhere stays so."""
    total = maps.sum((-2, -1), keepdims=True)
    return np.asarray(np.divide(maps, total, out=np.zeros_like(maps), where=total > 0))
