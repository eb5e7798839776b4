"""All images of a set, decoded once to one size: an array (N, S, S, 3) of bytes.

An image that cannot be read is left out and listed with its reason; it never ends a run.
"""

import os
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foveal.data.source import Source
from foveal.errors import FovealError
from foveal.runtime.image import BadImage

# items, how many, what is done: shows how far it is, and hands the items on
Progress = Callable[[Iterable[Any], int, str], Iterable[Any]]


def silent(items: Iterable[Any], total: int, what: str) -> Iterable[Any]:
    return items


@dataclass(frozen=True, eq=False)
class Bad:
    file: str
    reason: str


@dataclass(frozen=True, eq=False)
class Pack:
    """Images by their index in the source; `good` marks those that could be read."""

    pixels: NDArray[np.uint8]  # (N, S, S, 3)
    good: NDArray[np.bool_]  # (N,)
    bad: tuple[Bad, ...]

    def keep(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        return indices[self.good[indices]]


def pack(source: Source, size: int, progress: Progress = silent) -> Pack:
    """Decode every image to size × size.

    Threads are enough: Pillow lets go of the interpreter while it decodes and resizes.
    """
    count = len(source)
    pixels = _room((count, size, size, 3))
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
        try:
            for _ in progress(pool.map(one, range(count)), count, "opening images"):
                pass
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return Pack(pixels, good, tuple(bad[index] for index in sorted(bad)))


def _room(shape: tuple[int, ...]) -> NDArray[np.uint8]:
    try:
        return np.zeros(shape, np.uint8)
    except MemoryError:
        raise FovealError(
            f"the images: expected {np.prod(shape) / 2**30:.1f} GiB of memory for them, got less; ask for a smaller "
            "size"
        ) from None


def why(source: Source, index: int, size: int) -> Bad:
    """Why an image that could not be read cannot."""
    try:
        source.image(index, size)
    except BadImage as problem:
        return Bad(source.file(index), problem.reason)
    return Bad(source.file(index), "it could not be read before, and can be now")
