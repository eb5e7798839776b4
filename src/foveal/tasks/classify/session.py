"""An exported file, opened: frames in, arrays out. Opening it runs no code but onnxruntime's own operators.

model = Session("inspector.onnx", threads=1)
answer = model(frames)          # (B, S, S, 3) uint8 → probability, found, logits, and attention where the model has it
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foveal.errors import FovealError, expect, expect_integer, short_repr
from foveal.runtime.card import Card, read_card
from foveal.runtime.onnx_names import CARD, INPUT, OUTPUTS, PROOF
from foveal.runtime.onnx_session import opened


class Session:
    def __init__(self, file: str | Path, threads: int = 1) -> None:
        """threads: that compute one batch; one is what a small processor can spare, and what timings are told for."""
        self.file = str(file)
        self.session, self.card, self.proof = exported(file, threads)
        self.outputs = tuple(one.name for one in self.session.get_outputs())
        self._check(file)

    def __call__(self, frames: NDArray[np.uint8], outputs: Sequence[str] | None = None) -> dict[str, NDArray[Any]]:
        """frames (B, S, S, 3) of the card's side."""
        side = self.card.size
        fits = isinstance(frames, np.ndarray) and frames.dtype == np.uint8 and frames.ndim == 4 and frames.shape[1:] == (side, side, 3)
        got = f"{frames.dtype} {frames.shape}" if isinstance(frames, np.ndarray) else short_repr(frames)
        expect(fits and len(frames) > 0, "frames", f"uint8 (B, {side}, {side}, 3), B at least 1", got)
        names = list(self.outputs if outputs is None else outputs)
        known = bool(names) and not isinstance(outputs, str) and set(names) <= set(self.outputs)
        expect(known, "outputs", f"some of {', '.join(self.outputs)}", short_repr(outputs))
        try:
            said = self.session.run(names, {INPUT: frames})
        except Exception as error:  # noqa: BLE001 — a file from anybody may fail in any operator
            told = " ".join(str(error).split())[:160]
            raise FovealError(f"{self.file}: expected an answer to {len(frames)} frames, got {told}") from None
        for name, value in zip(names, said, strict=True):
            expect(len(value) == len(frames), f"{self.file}, {name}", f"{len(frames)} rows, one a frame", len(value))
        return dict(zip(names, said, strict=True))

    def _check(self, file: str | Path) -> None:
        """A file may come from anybody: what the card promises must be in the graph."""
        inputs = [(one.name, one.type) for one in self.session.get_inputs()]
        expect(inputs == [(INPUT, "tensor(uint8)")], str(file), f"one input, {INPUT} of bytes", short_repr(inputs))
        missing = [name for name in OUTPUTS if name not in self.outputs]
        expect(not missing, str(file), f"outputs {', '.join(OUTPUTS)}", f"none called {', '.join(missing)}")
        shape = next(one.shape for one in self.session.get_outputs() if one.name == "logits")
        count = len(self.card.classes)
        expect(
            len(shape) == 2 and shape[1] == count and not isinstance(shape[0], int),
            str(file),
            f"logits for the card's {count} classes and any number of frames",
            f"the shape {shape}",
        )
        batch, *side = self.session.get_inputs()[0].shape
        fits = side == [self.card.size, self.card.size, 3] and not isinstance(batch, int)
        expect(fits, str(file), f"any number of frames of the card's side, {self.card.size}", f"the shape {[batch, *side]}")


def exported(file: str | Path, threads: int = 1, task: str = "classify") -> tuple[Any, Card, dict[str, Any]]:
    """onnxruntime's session of an exported file, its card and its proof; an error unless its model is for this task."""
    expect_integer(threads, "threads")
    session = _opened(Path(file), threads)
    facts = session.get_modelmeta().custom_metadata_map
    expect(CARD in facts, str(file), "a model that foveal exported", "an ONNX file without foveal's card")
    return session, read_card(facts[CARD], str(file), task), _proof(facts.get(PROOF), file)


def metadata(file: str | Path) -> dict[str, str]:
    """What is written in an ONNX file beside its graph."""
    return dict(_opened(Path(file), 1).get_modelmeta().custom_metadata_map)


def task_of(file: str | Path) -> str:
    """What the model of an exported file is for; "classify" of a file that says nothing."""
    try:
        said = json.loads(metadata(file).get(CARD, "{}")).get("task")
    except (ValueError, RecursionError, AttributeError):
        said = None  # whoever reads the card says what is wrong with it
    return said if isinstance(said, str) else "classify"


def _opened(file: Path, threads: int) -> Any:
    content = _content(file)
    try:
        return opened(content, threads)
    except ModuleNotFoundError:
        raise
    except Exception as error:  # noqa: BLE001 — onnxruntime has an exception for each kind of damage
        told = " ".join(str(error).split())[:160]
        raise FovealError(f"{file}: expected an exported model, got a file that onnxruntime cannot open: {told}") from None


def _content(file: Path) -> bytes:
    try:
        content = file.read_bytes()
    except OSError as error:
        raise FovealError(f"cannot read {file}: {error.strerror or error}") from None
    expect(bool(content), str(file), "an exported model", "an empty file")
    return content


def _proof(text: str | None, file: str | Path) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        proof = json.loads(text)
    except (ValueError, RecursionError):
        proof = None
    expect(isinstance(proof, dict), str(file), "a proof in JSON", "something else; the file is damaged")
    return dict(proof)
