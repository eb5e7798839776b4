"""Near-duplicates: images so alike that one in train gives the answer to the other in test.

    hash(x) = the 64 signs of g[y, x + 1] − g[y, x],  g = x in grey, averaged down to 8 rows of 9 (the difference hash)
    near-duplicates = pairs from two splits, or two folds, whose hashes differ in at most d bits, and whose edges agree:
              the smaller of corr(∂x g, ∂x g′) and corr(∂y g, ∂y g′) on 24 × 24 means is at least 0.8

If two hashes of 64 bits differ in at most d places, then of d + 1 bands at least one is equal: so only images that
share a band are compared. The edges tell duplicates from mere relatives: two smooth images lit alike agree in every
sign. An image without contrast has no hash, and no duplicate.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from foveal.data.source import Source
from foveal.data.splits import SPLITS
from foveal.errors import expect, is_integer, short_repr
from foveal.runtime.image import BadImage, Pixels

SIDE = 72  # a multiple of the 9 columns and the 8 rows
DISTANCE, LIKENESS = 4, 0.8
FINE = 24  # means a side, for the edges
KEPT = 10_000  # small images that are kept in memory
GREY = np.array([0.299, 0.587, 0.114])
CONTRAST = 8.0  # grey levels between the darkest and the brightest of the 72 means, below which nothing is to be seen
ALL = (1 << 64) - 1

Codes = NDArray[np.uint64]


@dataclass(frozen=True)
class NearDuplicates:
    """Two images of two splits or two folds, in how many of 64 bits their hashes differ, and how alike they are."""

    first: str
    second: str
    splits: tuple[str, str]  # or folds: in which part each is
    distance: int
    likeness: float  # of their edges, up to 1


def hash_of(pixels: Pixels) -> int | None:
    """The difference hash of (72, 72, 3) pixels; None where there is nothing to be seen."""
    expect(pixels.shape == (SIDE, SIDE, 3), "pixels", (SIDE, SIDE, 3), pixels.shape)
    means = _means(pixels, 8, 9)
    signs = np.diff(means, axis=1) > 0
    code = int.from_bytes(np.packbits(signs).tobytes(), "big")
    return None if np.ptp(means) < CONTRAST or code in (0, ALL) else code


def likeness_of(pixels: Pixels, other: Pixels) -> float:
    """How well the edges of two images agree, −1 to 1: the worse of the two directions."""
    here, there = _means(pixels, FINE, FINE), _means(other, FINE, FINE)
    agreements = []
    for axis in (0, 1):
        one, two = (np.diff(means, axis=axis).ravel() for means in (here, there))
        one, two = one - one.mean(), two - two.mean()
        length = float(np.sqrt((one @ one) * (two @ two)))
        if (one @ one) + (two @ two) > 0:  # bars have no edge along themselves, and that says nothing
            agreements.append(float(one @ two) / length if length else 0.0)
    return min(agreements, default=0.0)


def _means(pixels: Pixels, rows: int, columns: int) -> NDArray[np.float64]:
    return np.asarray((pixels @ GREY).reshape(rows, SIDE // rows, columns, SIDE // columns).mean((1, 3)))


def hashes(source: Source) -> tuple[Codes, NDArray[np.bool_]]:
    """(N,) hashes, and (N,) whether there is one: a bad or an empty image has none."""
    codes, there = np.zeros(len(source), np.uint64), np.zeros(len(source), bool)
    for index in range(len(source)):
        try:
            code = hash_of(source.image(index, SIDE))
        except BadImage:
            continue
        if code is not None:
            codes[index], there[index] = code, True
    return codes, there


def near_duplicates(
    source: Source,
    codes: Codes,
    there: NDArray[np.bool_],
    distance: int = DISTANCE,
    likeness: float = LIKENESS,
    across: str = "splits",
) -> list[NearDuplicates]:
    """All near-duplicates across the splits of a source, or across its "folds", nearest first."""
    expect(across in ("splits", "folds"), "across", "splits or folds", across)
    part = source.split if across == "splits" else source.fold
    if part is None:
        return []
    use = np.flatnonzero(there & (part >= 0))
    first, second, bits = pairs(codes[use], part[use], distance)
    opened: dict[int, Pixels] = {}
    found = []
    for one, other, apart in zip(use[first].tolist(), use[second].tolist(), bits.tolist(), strict=True):
        if len(opened) > KEPT:
            opened.clear()
        for index in (one, other):
            if index not in opened:
                opened[index] = source.image(index, SIDE)
        alike = likeness_of(opened[one], opened[other])
        if alike >= likeness:
            here, away = (
                SPLITS[part[k]] if across == "splits" else source.fold_name(int(part[k])) for k in (one, other)
            )
            found.append(NearDuplicates(source.file(one), source.file(other), (here, away), apart, round(alike, 3)))
    return sorted(found, key=lambda pair: (-pair.likeness, pair.first, pair.second))


def pairs(
    codes: Codes, part: NDArray[np.integer], distance: int = DISTANCE
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """(i, j, bits that differ) of all pairs of two parts within the distance, part[i] < part[j]."""
    expect(is_integer(distance) and 0 <= distance <= 15, "distance", "0 to 15 bits of 64", short_repr(distance))
    found = [np.stack(some) for some in _candidates(codes, part, distance)]
    joined = np.concatenate(found, 1) if found else np.zeros((3, 0), np.int64)
    order = np.lexsort((joined[1], joined[0], joined[2]))
    return joined[0, order], joined[1, order], joined[2, order]


def _candidates(
    codes: Codes, part: NDArray[np.integer], distance: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
    masks = _bands(distance + 1)
    for number, mask in enumerate(masks):
        order = np.argsort(codes & mask, kind="stable")
        keys = (codes & mask)[order]
        here = np.arange(len(codes))
        lag = 0
        while len(here):  # compare each with the next but `lag`, as long as any two share the band
            lag += 1
            here = here[here + lag < len(codes)]
            here = here[keys[here] == keys[here + lag]]
            i, j = order[here], order[here + lag]
            crossing = part[i] != part[j]
            i, j = i[crossing], j[crossing]
            differ = codes[i] ^ codes[j]
            apart = _ones(differ)
            near = apart <= distance
            for earlier in masks[:number]:
                near &= (differ & earlier) != 0  # else that band has found the pair
            i, j, apart = i[near], j[near], apart[near]
            if len(i):
                swapped = part[i] > part[j]
                yield np.where(swapped, j, i), np.where(swapped, i, j), apart


def _bands(count: int) -> list[np.uint64]:
    edges = [64 * band // count for band in range(count + 1)]
    return [np.uint64((1 << high) - (1 << low)) for low, high in pairwise(edges)]


_ONES_IN_SIXTEEN = np.array([value.bit_count() for value in range(1 << 16)], np.int64)


def _ones(values: Codes) -> NDArray[np.int64]:
    return np.asarray(_ONES_IN_SIXTEEN[values.view(np.uint16).reshape(-1, 4)].sum(1))
