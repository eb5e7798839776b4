"""The rendered pipes as a Source: `pipes` is 2,400 frames, `pipes:N` is N, `pipes:N:SEED` is N others.

Nothing is stored: frame i of a set is render(SEED · 1,000,000 + i), drawn when it is asked for and the same every
time. What it shows is decided before it is drawn, so that the labels of all frames are known at once.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from foveal.data.divide import SHARES
from foveal.data.source import Source
from foveal.errors import FovealError
from foveal.runtime.image import Pixels

if TYPE_CHECKING:
    from foveal.data.pipes.render import Frame

COUNT, STRIDE, LARGEST_SEED = 2400, 1_000_000, 2000
SIZE = 224


@dataclass(frozen=True)
class RenderedImages:
    """Frames that are drawn when they are asked for."""

    count: int
    seed: int

    def __len__(self) -> int:
        return self.count

    def frame_seed(self, index: int) -> int:
        """What to give to foveal.data.pipes.render for this image."""
        return self.seed * STRIDE + index

    def file(self, index: int) -> str:
        return f"pipe-{self.frame_seed(index):07d}"

    def image(self, index: int, size: int | None) -> Pixels:
        from foveal.data.pipes.render import LARGEST, SMALLEST, render

        wanted = size or SIZE
        drawn = min(max(wanted, SMALLEST), LARGEST)
        pixels = render(self.frame_seed(index), drawn).image
        if drawn == wanted:
            return pixels
        return np.array(Image.fromarray(pixels).resize((wanted, wanted), Image.Resampling.BILINEAR))


def label_map_of(frame: "Frame") -> NDArray[np.uint8]:
    """(S, S): 0 nothing, k + 1 the k-th kind; of two findings at one pixel, the one that is seen."""
    from foveal.data.pipes.render import KINDS

    label_map = np.zeros(frame.image.shape[:2], np.uint8)
    for finding in frame.findings:
        label_map[finding.mask] = KINDS.index(finding.kind) + 1
    return label_map


def seen_labels(images: RenderedImages, index: int) -> NDArray[np.uint8]:
    """The label map of a frame at its own size."""
    from foveal.data.pipes.render import render

    return label_map_of(render(images.frame_seed(index), SIZE))


def read_pipes(name: str) -> Source:
    """The Source that `pipes`, `pipes:N` or `pipes:N:SEED` names, divided 70 · 15 · 15."""
    from foveal.data.pipes.render import KINDS

    images = RenderedImages(*_count_and_seed(name))
    labels = kinds_shown(images)
    return Source(name, "pipes", KINDS, True, labels, split_of(images), images)


def split_of(images: RenderedImages) -> NDArray[np.int8]:
    """(N,) index in SPLITS: a function of the frame's own seed,
    so that pipes:300 tests on nothing that pipes:1600 trains on.
    """
    seeds = np.array([images.frame_seed(index) for index in range(len(images))], np.uint64)
    with np.errstate(over="ignore"):  # the finaliser of splitmix64, which scatters neighbours
        seeds += np.uint64(0x9E3779B97F4A7C15)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            seeds = (seeds ^ (seeds >> np.uint64(shift))) * np.uint64(factor)
        share = (seeds ^ (seeds >> np.uint64(31))).astype(np.float64) / 2.0**64
    return np.searchsorted(np.cumsum(SHARES)[:2], share, side="right").astype(np.int8)


def kinds_shown(images: RenderedImages) -> NDArray[np.uint8]:
    """(N, C) of 0/1: which kinds each frame shows. The same draw as the renderer's, without the drawing."""
    from foveal.data.pipes.plan import draw_kinds
    from foveal.data.pipes.render import KINDS
    from foveal.data.pipes.scene import stream

    labels = np.zeros((len(images), len(KINDS)), np.uint8)
    for index in range(len(images)):
        for kind in draw_kinds(stream(images.frame_seed(index), "plan")):
            labels[index, KINDS.index(kind)] = 1
    return labels


def _count_and_seed(name: str) -> tuple[int, int]:
    _, *rest = name.split(":")
    numbers = [int(part) for part in rest if part.isascii() and part.isdigit() and len(part) < 10]
    if len(numbers) != len(rest) or len(rest) > 2:
        raise FovealError(
            f"rendered pipes: expected pipes, pipes:N or pipes:N:SEED with integers, such as pipes:5000, got {name!r}"
        )
    count, seed = (*numbers, *(COUNT, 0)[len(numbers) :])
    if not 1 <= count <= STRIDE or seed > LARGEST_SEED:
        raise FovealError(
            f"rendered pipes: expected 1 to {STRIDE} frames and a seed from 0 to {LARGEST_SEED}, got {name!r}"
        )
    return count, seed
