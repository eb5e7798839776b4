"""Images in, one result per image, in their order, as they come: what the predictors of all tasks on images share.

No torch here.

Files are opened in threads, a little ahead of the model. An image goes in as its training images did, resized to the
card's side, or at its own size. One that cannot be used becomes a Problem at its place, and the stream goes on.
"""

import contextlib
import os
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from foveal.errors import expect_integer, short_repr
from foveal.runtime.image import BadImage, Frame, from_pillow, open_frame
from foveal.runtime.paths import image_files

THREADS = min(4, os.cpu_count() or 1)  # that decode; more of them would wait for the model
AHEAD = 4  # images per thread that are decoded before they are asked for


@dataclass(frozen=True)
class Problem:
    """An image without a result, and why."""

    file: str
    error: str


class ImagePredictor(ABC):
    """A model at work on images. Which images share a batch changes its answers by rounding only."""

    noun = "image"
    formats: tuple[str, ...] = ("table", "csv", "jsonl")

    def __init__(self, size: int | None, batch: int) -> None:
        """size: side of the images that the model takes, in pixels; None: each at its own size."""
        expect_integer(batch, "--batch")
        self.size, self.batch = size, batch

    @abstractmethod
    def answers(self, names: Sequence[str], frames: Sequence[Frame]) -> Iterable[Any]:
        """One result per image, whose pixels are (S, S, 3) uint8, or (H, W, 3) where they keep their size, and whose
        own height and width are known.
        """

    def inputs(self, words: Sequence[str]) -> Sequence[str]:
        return image_files(words)

    def predict(self, inputs: Iterable[Any]) -> Iterator[Any]:
        """Results in the order of the inputs: paths, arrays (H, W, 3) uint8, or images of Pillow."""
        waiting: list[tuple[str, Frame | Problem]] = []
        good = 0
        for name, frame in opened(inputs, self.size):
            waiting.append((name, frame))
            good += not isinstance(frame, Problem)
            if good == self.batch or not good:  # a problem that waits for nobody is reported at once
                yield from self._results(waiting)
                waiting, good = [], 0
        yield from self._results(waiting)

    def _results(self, waiting: list[tuple[str, Frame | Problem]]) -> Iterator[Any]:
        usable = [(name, frame) for name, frame in waiting if not isinstance(frame, Problem)]
        results = iter(self.answers([name for name, _ in usable], [frame for _, frame in usable]) if usable else ())
        for _, frame in waiting:
            yield frame if isinstance(frame, Problem) else next(results)


def opened(inputs: Iterable[Any], size: int | None, threads: int = THREADS) -> Iterator[tuple[str, Frame | Problem]]:
    """(name, frame or a Problem) of each input in their order, decoded in threads a little ahead; of images that keep
    their size, which may be large, one thread decodes the next ones.

    The inputs are read in a thread of their own: where they come slowly, the images that are there do not wait for the
    next one.
    """
    threads, ahead = (1, 1) if size is None else (threads, AHEAD * threads)
    line: queue.Queue[tuple[str, Future[Frame | Problem]] | BaseException | None] = queue.Queue(ahead)

    def feed() -> None:
        try:
            for number, one in enumerate(inputs):
                name = name_of(one, number)
                line.put((name, pool.submit(_frame, one, name, size)))
            line.put(None)
        except BaseException as error:  # noqa: BLE001 — raised again where the images are asked for
            line.put(error)  # or nobody asks any more: a pool that is shut takes nothing

    pool = ThreadPoolExecutor(threads)
    threading.Thread(target=feed, daemon=True).start()
    try:
        while (item := line.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item[0], item[1].result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        with contextlib.suppress(queue.Empty):
            while True:  # room for the feeder, which then finds the pool shut
                line.get_nowait()


def name_of(one: Any, number: int) -> str:
    """What an input is called in its result: its path, or its place among the inputs."""
    if isinstance(one, (str, Path)):
        return str(one)
    return str(getattr(one, "filename", "") or f"image {number}")


def frame_of(one: Any, size: int | None = None) -> Frame:
    """An input as (S, S, 3) uint8, by the same resizing as a file's, or as it is without a size, and its own size.
    Raises BadImage.
    """
    if isinstance(one, (str, Path)):
        return open_frame(one, size)
    if isinstance(one, Image.Image):
        return from_pillow(one, size)
    if isinstance(one, np.ndarray) and one.ndim == 2:  # grey
        one = np.repeat(one[..., None], 3, -1)
    fits = (
        isinstance(one, np.ndarray) and one.dtype == np.uint8 and one.ndim == 3 and one.shape[2] == 3 and one.size > 0
    )
    if not fits:
        got = f"{one.dtype} {one.shape}" if isinstance(one, np.ndarray) else short_repr(one)
        raise BadImage(
            "an image", f"expected a path, pixels (H, W, 3) or (H, W) of uint8, or an image of Pillow, got {got}"
        )
    height, width = one.shape[:2]
    if size is None or (height, width) == (size, size):
        return Frame(np.asarray(one), height, width)
    return Frame(np.array(Image.fromarray(one).resize((size, size), Image.Resampling.BILINEAR)), height, width)


def _frame(one: Any, name: str, size: int | None) -> Frame | Problem:
    try:
        return frame_of(one, size)
    except BadImage as bad:
        return Problem(name, bad.reason)
