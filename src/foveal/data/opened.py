"""Images opened in threads, a batch ahead of whoever works on them."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from foveal.runtime.image import BadImage

THREADS = 4
Opened = TypeVar("Opened")


def opened_batches(
    open_one: Callable[[int], Opened], indices: Sequence[int] | NDArray[np.int64], batch: int
) -> Iterator[list[tuple[int, Opened | BadImage]]]:
    """(index, what was opened, or why it could not be) in their order."""

    def one(index: int) -> Opened | BadImage:
        try:
            return open_one(index)
        except BadImage as bad:
            return bad

    def submitted(start: int) -> "list[tuple[int, Future[Opened | BadImage]]]":
        return [(int(index), pool.submit(one, int(index))) for index in indices[start : start + batch]]

    with ThreadPoolExecutor(THREADS) as pool:
        ahead = submitted(0)
        for start in range(batch, len(indices) + batch, batch):
            now, ahead = ahead, submitted(start)
            yield [(index, future.result()) for index, future in now]
