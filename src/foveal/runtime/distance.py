"""How far every pixel is from the nearest one that is marked: exact, and pass by pass for a whole map at once.

    d²(y, x) = min_{x′} (x − x′)² + g²(y, x′),   g(y, x) = min_{y′ : mask(y′, x)} |y − y′|

g takes one pass down and one up. The second minimum is taken for all pixels together: over the columns x′ that hold a
mark, where these are few, as of a small finding; otherwise over the offsets, x′ = x ± 1, x ± 2, …, until the offset
alone is as far as any pixel still is. A distance runs from centre to centre.

Cost: O(H·W·min(columns with a mark, max d)) time, O(H·W) memory.
"""

import math

import numpy as np
from numpy.typing import NDArray

from foveal.errors import expect

Mask = NDArray[np.bool_]
FEW = 2  # columns are few if they are at most this part of all: a column takes as long as an offset


def distances(mask: Mask) -> NDArray[np.float32]:
    """(H, W) → pixels to the nearest True, (H, W): 0 on it, infinite where there is none."""
    expect(mask.ndim == 2, "a mask", "(H, W)", mask.shape)
    if not mask.any():
        return np.full(mask.shape, np.inf, np.float32)
    columns = np.flatnonzero(mask.any(0))
    if len(columns) > mask.any(1).sum():
        return np.ascontiguousarray(_along(mask.T, np.flatnonzero(mask.any(1))).T)
    return _along(mask, columns)


def _along(mask: Mask, columns: NDArray[np.int64]) -> NDArray[np.float32]:
    """columns: those that hold a mark."""
    row, place = (np.arange(size, dtype=np.float32) for size in mask.shape)
    above = np.maximum.accumulate(np.where(mask, row[:, None], np.float32(-np.inf)), 0)
    below = np.minimum.accumulate(np.where(mask, row[:, None], np.float32(np.inf))[::-1], 0)[::-1]
    column = np.minimum(row[:, None] - above, below - row[:, None]) ** 2  # g²
    found, sum_ = column.copy(), np.empty_like(column)
    if len(columns) <= mask.shape[1] // FEW:
        for x in columns:
            np.minimum(found, np.add(column[:, x, None], (place - x) ** 2, out=sum_), out=found)
        return np.asarray(np.sqrt(found, out=found))
    for offset in range(1, mask.shape[1]):
        further, room = np.float32(offset * offset), sum_[:, offset:]
        if further >= found.max():
            break
        for to, of in ((slice(offset, None), slice(-offset)), (slice(-offset), slice(offset, None))):
            np.minimum(found[:, to], np.add(column[:, of], further, out=room), out=found[:, to])
    return np.asarray(np.sqrt(found, out=found))


def within(mask: Mask, radius: float) -> Mask:
    """(…, H, W) → the pixels that are at most `radius` from a True one: a dilation by a disc."""
    expect(radius >= 0, "radius", "at least 0", radius)
    found = mask.copy()
    height, width = mask.shape[-2:]
    for down in range(min(int(radius), height - 1) + 1):
        for along in range(min(math.isqrt(int(radius * radius) - down * down), width - 1) + 1):
            for up, left in {(down, along), (down, -along), (-down, along), (-down, -along)}:
                found[..., _to(up, height), _to(left, width)] |= mask[..., _to(-up, height), _to(-left, width)]
    return found


def _to(offset: int, size: int) -> slice:
    """What of a side is covered by a copy that was moved by `offset`."""
    return slice(max(0, offset), min(size, size + offset))
