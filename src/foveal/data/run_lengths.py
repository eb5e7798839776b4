"""Run lengths of a mask, as in COCO: how many pixels are outside, how many inside, how many outside …, by columns.

counts    0 1 1 0 1 → 1, 2, 1, 1; a mask that begins inside begins with a run of 0
string    COCO's compressed form: from the fourth count on the difference to the one two before; each number in groups
          of five bits, the lowest first, a sixth bit where another group follows, plus 48, as letters
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from foveal.errors import FovealError, short_repr

FIRST, BITS = 48, 5  # the letter of 0; bits of a group
SIGN, MORE = 0x10, 0x20


def run_lengths(mask: NDArray[np.bool_]) -> list[int]:
    """Of a mask (H, W), column by column."""
    flat = mask.ravel(order="F")
    if not flat.size:
        return []
    edges = np.flatnonzero(np.diff(flat)) + 1
    counts: list[int] = np.diff([0, *edges.tolist(), flat.size]).tolist()
    return [0, *counts] if flat[0] else counts


def mask_of(counts: Sequence[int], height: int, width: int, what: str = "run lengths") -> NDArray[np.bool_]:
    """The mask (height, width) that these are of. what: names it in an error."""
    lengths = np.asarray(counts)
    fits = lengths.ndim == 1 and (lengths.dtype.kind in "iu" or not len(lengths)) and bool((lengths >= 0).all())
    if not fits or sum(lengths.tolist()) != height * width:
        got = f"{sum(lengths.tolist()):,}" if fits else short_repr(counts)
        raise FovealError(f"{what}: expected run lengths that add up to {height} · {width} pixels, got {got}")
    inside = np.arange(len(lengths)) % 2 == 1
    return np.repeat(inside, lengths.astype(np.int64)).reshape(width, height).T


def compressed(counts: Sequence[int]) -> str:
    """Run lengths as COCO's string."""
    letters = bytearray()
    for place, count in enumerate(counts):
        rest = count - (counts[place - 2] if place > 2 else 0)
        while True:
            group, rest = rest & (MORE - 1), rest >> BITS
            done = rest == (-1 if group & SIGN else 0)
            letters.append(FIRST + group + (0 if done else MORE))
            if done:
                break
    return letters.decode("ascii")


def decompressed(text: str, what: str = "run lengths") -> list[int]:
    """COCO's string as run lengths."""
    counts: list[int] = []
    number = shift = 0
    for letter in text.encode("utf-8", "replace"):
        group = letter - FIRST
        if not 0 <= group < 2 * MORE or shift > 8 * BITS:
            break
        number |= (group & (MORE - 1)) << shift
        shift += BITS
        if group & MORE:
            continue
        if group & SIGN:
            number -= 1 << shift
        counts.append(number + (counts[-2] if len(counts) > 2 else 0))
        number = shift = 0
    else:
        if not shift:
            return counts
    raise FovealError(f"{what}: expected run lengths as COCO's letters, got {short_repr(text)}")
