"""What a label map shows, one by one: a finding is a component of one class, whose pixels touch at a side or a corner.

    length = n_s + √2·n_d − 0.12·n_c + Σ_e (d_e − ½),   mean width = area / length

Symbols, of the finding's skeleton: n_s, n_d how many of its links are straight and how many slant; n_c how often the
    one meets the other, so that a line at any angle has its length, to 3 %; e an end; d_e how far the nearest pixel
    outside is from there, since thinning shortens a line by half of its width. Only thin findings have a length and a
    width: those whose area is less than an eighth of the square of their box's diagonal, as a crack's is, or a ring's.
Paper: Albert M. Vossepoel, Arnold W. M. Smeulders (1982). Vector code probability and metrication error in the
    representation of straight lines of finite length. Computer Graphics and Image Processing 20(4), 347–364.
Departs from the paper: its weights, 0.980, 1.406 and 0.091, are the best for lines of random angle; with these, lines
    that do not slant have their own length.
A pixel (row r, column c) is the square from (c, r) to (c + 1, r + 1): so are boxes and centres.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foveal.runtime.components import BACKGROUND, Components, components
from foveal.runtime.skeleton import skeleton

THIN, MEETING = 8.0, 0.12
AT_ONCE = 1 << 22  # pixels whose places are summed at a time
COLUMNS = ("area", "share", "x", "y", "width", "height", "centre_x", "centre_y", "length", "mean_width")  # of a table

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Finding:
    """Lengths and places in pixels of the image."""

    kind: str  # its class
    label: int  # of its pixels in the label map
    area: int
    share: float  # of the image's area
    box: tuple[int, int, int, int]  # x and y of the upper left corner, width, height
    centre: tuple[float, float]  # x and y of the centre of mass
    length: float | None = None  # of a thin one
    mean_width: float | None = None

    def values(self) -> dict[str, int | float | None]:
        """Its row of a table: COLUMNS."""
        long, wide = (None if one is None else round(one, 2) for one in (self.length, self.mean_width))
        values = (self.area, round(self.share, 8), *self.box, *(round(one, 2) for one in self.centre), long, wide)
        return dict(zip(COLUMNS, values, strict=True))


def findings(label_map: Bytes, classes: Sequence[str], smallest: int = 0) -> tuple[Bytes, tuple[Finding, ...]]:
    """Of a label map (H, W): the map without what is smaller than `smallest` pixels, and what is left, in the order of
    first pixels, row by row. classes: the names of the labels, that of 0 first.
    """
    found = components(label_map, (BACKGROUND,))
    kept = found.area >= smallest
    if not kept.all():
        number = np.append(0, np.cumsum(kept) * kept).astype(np.int32)
        found = Components(found.value[kept], found.area[kept], found.box[kept], number[found.numbers])
        label_map = label_map * (found.numbers > 0)
    rows = zip(found.value, found.area, found.box, _centres(found), _lengths(label_map, found), strict=True)
    return label_map, tuple(_finding(*row, classes=classes, pixels=label_map.size) for row in rows)


def _finding(
    label: int, area: int, box: Indices, centre: Floats, length: float, classes: Sequence[str], pixels: int
) -> Finding:
    x0, y0, x1, y1 = box.tolist()
    x, y = centre.tolist()
    long = {"length": float(length), "mean_width": float(area / length)} if length else {}
    sides = (x0, y0, x1 - x0, y1 - y0)
    return Finding(classes[label], int(label), int(area), float(area / pixels), sides, (x, y), **long)


def _centres(found: Components) -> Floats:
    """(M, 2) x and y."""
    height, width = found.numbers.shape
    sums = np.zeros((2, len(found) + 1))
    band = max(1, AT_ONCE // max(width, 1))
    for top in range(0, height, band):
        rows, columns = np.nonzero(found.numbers[top : top + band])
        numbers = found.numbers[top + rows, columns]
        for side, place in enumerate((columns, top + rows)):
            sums[side] += np.bincount(numbers, place + 0.5, len(found) + 1)
    return (sums[:, 1:] / found.area).T


def _lengths(label_map: Bytes, found: Components) -> Floats:
    """(M,) of thin ones; 0 of all others."""
    thin = found.area * THIN < found.length() ** 2
    lengths = np.zeros(len(found) + 1)
    if not thin.any():
        return lengths[1:]
    (x0, y0), (x1, y1) = found.box[thin, :2].min(0), found.box[thin, 2:].max(0)
    numbers = np.pad(found.numbers[y0:y1, x0:x1], 1)
    inside = np.append(False, thin)[numbers]
    line = skeleton(np.where(inside, np.pad(label_map[y0:y1, x0:x1], 1), np.uint8(BACKGROUND)))
    places = np.argwhere(line)
    own = np.where(line, numbers, 0)
    up, right, down, left = (_is_beside(own, places, *way) for way in ((-1, 0), (0, 1), (1, 0), (0, -1)))
    slants = {(-1, 1): (up, right), (1, 1): (right, down), (1, -1): (down, left), (-1, -1): (left, up)}
    # a slant is no way of its own where a corner joins the two
    slanting = [_is_beside(own, places, *way) & ~one & ~other for way, (one, other) in slants.items()]
    straight, slant = np.sum([up, right, down, left], axis=0), np.sum(slanting, axis=0)
    links = (straight + 2**0.5 * slant) / 2 - MEETING * ((straight == 1) & (slant == 1))  # each link joins two places
    number = own[*places.T]
    lengths += np.bincount(number, links, len(lengths))
    ends = straight + slant <= 1
    lengths += np.bincount(number[ends], _depths(numbers, places[ends]) - 0.5, len(lengths))
    return lengths[1:]


def _is_beside(own: NDArray[np.int32], places: Indices, down: int, along: int) -> NDArray[np.bool_]:
    """Whether the line of the same finding goes there from each of its places."""
    return np.asarray(own[places[:, 0] + down, places[:, 1] + along] == own[*places.T])


def _depths(numbers: NDArray[np.int32], places: Indices) -> Floats:
    """How far each place is from the nearest pixel that is not of its finding, ring by ring."""
    depths, left, radius = np.zeros(len(places)), np.arange(len(places)), 0
    while len(left):
        radius += 1
        offsets = np.argwhere(np.ones((2 * radius + 1,) * 2)) - radius
        far = np.hypot(*offsets.T)
        offsets, far = (part[(far > radius - 1) & (far <= radius)] for part in (offsets, far))
        around = np.clip(places[left, None] + offsets, 0, np.array(numbers.shape) - 1)  # the rim is outside
        other = numbers[around[..., 0], around[..., 1]] != numbers[*places[left].T][:, None]
        depth = np.where(other, far, np.inf).min(1)
        depths[left] = depth
        left = left[np.isinf(depth)]
    return depths
