"""The skeleton of a map: lines of one pixel in the middle of what is there, with the same parts and the same holes.

    two turns, again and again, until neither takes a pixel away; in each all pixels p at once for which
        C(p) = 1,   2 ≤ N(p) ≤ 3,   m(p) = 0
    C  = ¬n₂(n₃ ∨ n₄) + ¬n₄(n₅ ∨ n₆) + ¬n₆(n₇ ∨ n₈) + ¬n₈(n₉ ∨ n₂)
    N  = min[(n₉ ∨ n₂) + (n₃ ∨ n₄) + (n₅ ∨ n₆) + (n₇ ∨ n₈),  (n₂ ∨ n₃) + (n₄ ∨ n₅) + (n₆ ∨ n₇) + (n₈ ∨ n₉)]
    m  = (n₂ ∨ n₃ ∨ ¬n₅) n₄ in the first turn,   (n₆ ∨ n₇ ∨ ¬n₉) n₈ in the second

Symbols: n₂ … n₉ whether the neighbours of p are of its own value, clockwise from the one above; C how many parts they
    fall into, N how many there are, but for the staircase that a slanting line is.
Paper: Zicheng Guo, Richard W. Hall (1989). Parallel thinning with two-subiteration algorithms. Communications of the
    ACM. doi:10.1145/62065.62074.
Departs from the paper: the skeletons of all values of a map at once, each as if it were alone; a turn asks only pixels
    that have a neighbour of another value. (Zhang and Suen's conditions, the best known, take a square of 2 × 2
    pixels away altogether.)
Cost: O(pixels on the rim) for each turn, and as many turns as the thickest part is pixels wide.
"""

import numpy as np
from numpy.typing import NDArray

from foveal.errors import expect
from foveal.runtime.distance import within

Map = NDArray[np.integer]


def _goes() -> NDArray[np.bool_]:
    """(turn, 256): whether a pixel goes, by its neighbours; n₂ is bit 0, n₉ bit 7."""
    n2, n3, n4, n5, n6, n7, n8, n9 = ((np.arange(256) >> bit & 1).astype(bool) for bit in range(8))
    parts = [~n2 & (n3 | n4), ~n4 & (n5 | n6), ~n6 & (n7 | n8), ~n8 & (n9 | n2)]
    one = np.sum([n9 | n2, n3 | n4, n5 | n6, n7 | n8], axis=0)
    other = np.sum([n2 | n3, n4 | n5, n6 | n7, n8 | n9], axis=0)
    many = np.minimum(one, other)
    goes = (np.sum(parts, axis=0) == 1) & (many >= 2) & (many <= 3)
    return np.stack([goes & ~((n2 | n3 | ~n5) & n4), goes & ~((n6 | n7 | ~n9) & n8)])


GOES = _goes()
ALL = 255  # every neighbour is of the pixel's own value


def skeleton(label_map: Map | NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(…, H, W) → which pixels are on the skeleton of their own value; 0 is background."""
    expect(label_map.ndim >= 2, "a label map", "(…, H, W)", label_map.shape)
    framed = np.pad(label_map, [(0, 0)] * (label_map.ndim - 2) + [(1, 1)] * 2)
    flat, wide = framed.reshape(-1), framed.shape[-1]
    around = np.array([-wide, 1 - wide, 1, 1 + wide, wide, wide - 1, -1, -1 - wide])[:, None]  # n₂ … n₉
    inside = np.flatnonzero(flat)
    rim = inside[_neighbours(flat, inside, around) != ALL]
    on_rim = np.zeros(flat.shape, bool)
    on_rim[rim] = True
    turn, idle = 0, 0
    while idle < 2:
        goes = GOES[turn][_neighbours(flat, rim, around)]
        gone, rim = rim[goes], rim[~goes]
        flat[gone] = 0
        bare = (gone + around).reshape(-1)
        bare = np.unique(bare[(flat[bare] != 0) & ~on_rim[bare]])
        on_rim[bare] = True
        rim = np.concatenate([rim, bare])
        turn, idle = 1 - turn, 0 if len(gone) else idle + 1
    return np.asarray(framed[..., 1:-1, 1:-1] != 0)


def _neighbours(flat: NDArray[np.generic], places: NDArray[np.int64], around: NDArray[np.int64]) -> NDArray[np.int64]:
    """Which neighbours of each place have its value: n₂ … n₉ as bits."""
    alike = flat[places + around] == flat[places]  # (8, n)
    return np.asarray(np.packbits(alike, axis=0, bitorder="little")[0], np.int64)


def tubes(label_map: Map, radius: float = 2.0) -> Map:
    """(…, H, W) → the same map, but for 0 where a pixel is further than `radius` from the skeleton of its own value: no
    finding is wider there than 2·radius + 1.
    """
    thin, kept = skeleton(label_map), np.zeros_like(label_map)
    for value in np.unique(label_map[thin]):
        own = label_map == value
        kept[within(thin & own, radius) & own] = value
    return kept
