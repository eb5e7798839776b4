"""An ONNX graph as a contender: anybody's, fed with noise of the shapes that it takes.

    shape of an input = (batch, …), of an image's sides what the graph says, or the size where it leaves them free

A size that was asked for is every image's: a graph of another one is refused.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foveal.deploy.measure.clock import Job
from foveal.deploy.measure.footprint import Footprint, footprint
from foveal.errors import FovealError, expect, expect_plain_file, reading
from foveal.runtime.card import LARGEST_IMAGE, ImageCard
from foveal.runtime.exported import metadata
from foveal.runtime.onnx_names import CARD, EXPORTED
from foveal.runtime.onnx_session import opened
from foveal.tasks.load import find_model, load
from foveal.tasks.model import Model

KINDS = {"tensor(uint8)": np.uint8, "tensor(float)": np.float32}
COLOURS = (1, 3, 4)  # channels of an image


@dataclass(frozen=True)
class Contender:
    """One model in one runtime."""

    name: str
    job: Callable[[int], Job]  # of a batch
    footprint: Callable[[int], Footprint | None] | None = None  # of a batch: what a process of its own holds
    facts: tuple[str, ...] = field(default=())  # parameters, work, size of the file: in words
    compiled: Mapping[int, float] = field(default_factory=dict)  # of a batch: seconds until its graph was made


@dataclass(frozen=True)
class Size:
    """The side of images in pixels. asked: by --size, and so every image's; usual: where a graph leaves it free."""

    asked: int | None = None
    usual: int | None = None

    @property
    def side(self) -> int | None:
        return self.usual if self.asked is None else self.asked

    def or_of(self, model: Model) -> "Size":
        """Of a model, whose card has a size of its own."""
        return Size(self.asked, model.card.size) if isinstance(model.card, ImageCard) else self


def of_graph(
    name: str,
    content: bytes,
    threads: int,
    facts: tuple[str, ...] = (),
    *,
    model: Model | None = None,
    size: Size | None = None,
) -> Contender:
    """model: whose graph it is; it knows how it answers, where that takes more than one call."""
    session, size = _session(name, content, threads), size or Size()
    facts = (*facts, f"{len(content):,} bytes", *_pixels(session, size))
    searched = None if model is None else model.timed(session)
    if searched is not None:
        return Contender(name, searched, None, facts)

    def shapes(batch: int) -> dict[str, list[int]]:
        return {one.name: _shape(one, batch, size) for one in session.get_inputs()}

    def job(batch: int) -> Job:
        feed = {one.name: _noise(one.type, shapes(batch)[one.name]) for one in session.get_inputs()}

        def once() -> Any:
            try:
                return session.run(None, feed)
            except Exception as error:  # noqa: BLE001 — a graph from anybody may fail in any operator
                words = " ".join(str(error).split())[:160]
                raise FovealError(f"{name}: expected an answer to {batch} samples, got {words}") from None

        return once

    return Contender(name, job, lambda batch: footprint(content, shapes(batch), threads), facts)


def takes_any_size(name: str, content: bytes) -> bool:
    """Whether a graph leaves the sides of its images free."""
    shapes = [one.shape for one in _session(name, content, 1).get_inputs()]
    return any(not isinstance(shape[axis], int) for shape in shapes for axis in image_axes(shape))


def is_peer(name: str) -> bool:
    """Whether it is an ONNX graph of somebody else's, without foveal's card."""
    if not name.endswith(EXPORTED):
        return False
    file = find_model(name)
    return file is not None and CARD not in metadata(file)


def image_preset(name: str, side: int) -> Model:
    """A preset, built for images of this side."""
    expect_images(load(name, device="cpu"), name)
    return load(name, device="cpu", config={"image": side})


def expect_images(model: Model, name: str) -> None:
    """Raise a FovealError unless it is a model of images."""
    expect(isinstance(model.card, ImageCard), name, "a model of images", f"one for the task {model.task}")


def asked_sides(text: str) -> tuple[int, ...]:
    """The sides that --size names."""
    parts = text.split(",")
    sides = tuple(int(part) if part.isascii() and part.isdigit() and len(part) < 6 else 0 for part in parts)
    fits = all(0 < side <= LARGEST_IMAGE for side in sides) and len(set(sides)) == len(sides)
    expect(fits, "--size", f"different integers from 1 to {LARGEST_IMAGE:,}, such as 256,512", text)
    return sides


def read_graph(file: Path) -> bytes:
    expect_plain_file(file)
    with reading(file):
        return file.read_bytes()


def _session(name: str, content: bytes, threads: int) -> Any:
    try:
        return opened(content, threads)
    except ModuleNotFoundError:
        raise
    except Exception as error:  # noqa: BLE001 — onnxruntime has an exception for each kind of damage
        words = " ".join(str(error).split())[:160]
        raise FovealError(f"{name}: expected an ONNX graph, got a file that onnxruntime cannot open: {words}") from None


def image_axes(shape: list[Any]) -> tuple[int, ...]:
    """Which axes are an image's height and width: (B, H, W, 3) or (B, 3, H, W); none where it is no image."""
    if len(shape) != 4:
        return ()
    return (2, 3) if shape[1] in COLOURS else (1, 2) if shape[3] in COLOURS else ()


def _pixels(session: Any, size: Size) -> tuple[str, ...]:
    """How large the images of a graph are, in words."""
    for shape in (one.shape for one in session.get_inputs()):
        if axes := image_axes(shape):
            height, width = (shape[axis] if isinstance(shape[axis], int) else size.side for axis in axes)
            return () if None in (height, width) else (f"images of {width} × {height}",)
    return ()


def _shape(one: Any, batch: int, size: Size) -> list[int]:
    """What an input of a graph takes; a first side without a number is the batch."""
    where, shape, sides = f"the input {one.name}", list(one.shape), image_axes(one.shape)
    expect(one.type in KINDS, where, f"one of {', '.join(KINDS)}", one.type)
    for axis in sides:
        fixed, wanted = isinstance(shape[axis], int), size.asked
        fits = not fixed or wanted in (None, shape[axis])
        expect(fits, where, f"sides of {wanted} pixels, or free ones", one.shape, f"give --size {shape[axis]}")
        shape[axis] = shape[axis] if fixed else size.side
    free = [side for side in shape[1:] if not isinstance(side, int)]
    do = "give --size" if sides else ""
    expect(not free, where, "sides with numbers, but for the batch", one.shape, do)
    first = shape[0]
    shape[0] = first if isinstance(first, int) else batch
    expect(shape[0] == batch, where, f"any batch, or {batch}", one.shape, f"give --batch {first}")
    return shape


def _noise(kind: str, shape: list[int]) -> NDArray[Any]:
    """An image as bytes, or as numbers."""
    draw = np.random.default_rng(0)
    if kind == "tensor(uint8)":
        return draw.integers(0, 256, shape, np.uint8)
    return draw.standard_normal(shape, np.float32)
