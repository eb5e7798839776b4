"""All pictures of a set, decoded once to one size: an array (N, S, S, 3) of bytes, in memory or in a file that processes share.

A picture that cannot be read is left out and listed with its reason; it never ends a run.
"""

import contextlib
import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from foveal.data.image import BadImage
from foveal.data.source import Source
from foveal.errors import FovealError, expect, is_number, shown

GREY = 128


@dataclass(frozen=True, eq=False)
class Bad:
    file: str
    reason: str


@dataclass(frozen=True, eq=False)
class Pack:
    """Pictures by their index in the source; `good` tells which of them could be read."""

    pixels: NDArray[np.uint8]  # (N, S, S, 3)
    good: NDArray[np.bool_]  # (N,)
    bad: tuple[Bad, ...]

    def keep(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        return indices[self.good[indices]]


def pack(
    source: Source,
    size: int,
    *,
    file: Path | None = None,
    only: Sequence[int] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Pack:
    """Decode every picture, or `only` some, to size × size. file: where the array lies; in memory unless given.

    Threads are enough: Pillow lets go of the interpreter while it decodes and resizes.
    """
    count = len(source)
    wanted = range(count) if only is None else only
    pixels = _room(file, (count, size, size, 3))
    good = np.zeros(count, bool)
    bad: dict[int, Bad] = {}

    def one(index: int) -> None:
        try:
            pixels[index] = source.image(index, size)
            good[index] = True
        except BadImage as problem:
            bad[index] = Bad(source.file(index), problem.reason)

    # Threads that silence warnings at the same time would leave them silent for good.
    with warnings.catch_warnings(), ThreadPoolExecutor(os.cpu_count()) as pool:
        for done, _ in enumerate(pool.map(one, wanted), 1):
            if progress is not None:
                progress(done)
    return Pack(pixels, good, tuple(bad[index] for index in sorted(bad)))


def _room(file: Path | None, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    if file is None:
        try:
            return np.zeros(shape, np.uint8)
        except MemoryError:
            raise FovealError(
                f"the pictures: expected {np.prod(shape) / 2**30:.1f} GiB of memory for them, got less; ask for a smaller size"
            ) from None
    file.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        file.unlink()
    return np.lib.format.open_memmap(file, mode="w+", dtype=np.uint8, shape=shape)


def why(source: Source, index: int, size: int) -> Bad:
    """Why a picture that could not be read cannot."""
    try:
        source.image(index, size)
    except BadImage as problem:
        return Bad(source.file(index), problem.reason)
    return Bad(source.file(index), "it could not be read before, and can be now")


def paint(pixels: NDArray[np.uint8], boxes: Iterable[Sequence[float]]) -> None:
    """Paint boxes, in shares of the picture, grey: (…, S, S, 3) in place."""
    side = pixels.shape[-2]
    for box in boxes:
        expect_box(box)
        x0, y0, x1, y1 = (round(share * side) for share in box)
        pixels[..., y0:y1, x0:x1, :] = GREY


def expect_box(box: object) -> None:
    numbers = isinstance(box, (list, tuple)) and len(box) == 4 and all(map(is_number, box))
    fits = numbers and 0 <= box[0] < box[2] <= 1 and 0 <= box[1] < box[3] <= 1  # type: ignore[index]
    expect(fits, "the setting blank", "boxes [x0, y0, x1, y1] in shares of the picture, from 0 to 1", shown(box))
