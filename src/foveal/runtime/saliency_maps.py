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
    """Cells to hide one by one: of a map of more than 14 × 14, squares of its cells, since each costs an answer."""

    def side(cells: int) -> int:
        return next((cells // k for k in range(1, 5) if cells % k == 0 and cells // k <= MOST_HIDDEN), cells)

    return side(sides[0]), side(sides[1])


def finer(maps: Array, sides: Sides) -> Array:
    """(…, rows, columns) → the same on a grid that divides each cell."""
    down, along = sides[0] // maps.shape[-2], sides[1] // maps.shape[-1]
    return maps.repeat(down, -2).repeat(along, -1)


def shares(maps: Array) -> Array:
    """Maps (…, rows, columns) that sum to 1; one that is 0 everywhere stays so."""
    total = maps.sum((-2, -1), keepdims=True)
    return np.asarray(np.divide(maps, total, out=np.zeros_like(maps), where=total > 0))
