"""An exported classifier: frames in, arrays out.

answers = ClassifySession(session, card)
answers(frames)          # (B, S, S, 3) uint8 → probability, found, logits, and attention where the model has it
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foveal.errors import expect, short_repr
from foveal.runtime.exported import Session
from foveal.runtime.onnx_names import INPUT, OUTPUTS
from foveal.tasks.classify.card import ClassifyCard


class ClassifySession:
    def __init__(self, answers: Session, card: ClassifyCard) -> None:
        self.answers, self.card = answers, card
        self.file, self.session, self.proof = answers.file, answers.session, answers.proof
        self.outputs = answers.outputs
        self._check()

    def __call__(self, frames: NDArray[np.uint8], outputs: Sequence[str] | None = None) -> dict[str, NDArray[Any]]:
        """frames (B, S, S, 3) of the card's side."""
        side = self.card.size
        fits = (
            isinstance(frames, np.ndarray)
            and frames.dtype == np.uint8
            and frames.ndim == 4
            and frames.shape[1:] == (side, side, 3)
        )
        got = f"{frames.dtype} {frames.shape}" if isinstance(frames, np.ndarray) else short_repr(frames)
        expect(fits and len(frames) > 0, "frames", f"uint8 (B, {side}, {side}, 3), B at least 1", got)
        answers = self.answers({INPUT: frames}, outputs)
        for name, value in answers.items():
            expect(len(value) == len(frames), f"{self.file}, {name}", f"{len(frames)} rows, one per frame", len(value))
        return answers

    def _check(self) -> None:
        """A file may come from anybody: what the card promises must be in the graph."""
        inputs = [(one.name, one.type) for one in self.session.get_inputs()]
        expect(inputs == [(INPUT, "tensor(uint8)")], self.file, f"one input, {INPUT} of bytes", short_repr(inputs))
        missing = [name for name in OUTPUTS if name not in self.outputs]
        expect(not missing, self.file, f"outputs {', '.join(OUTPUTS)}", f"none called {', '.join(missing)}")
        shape = next(one.shape for one in self.session.get_outputs() if one.name == "logits")
        count = len(self.card.classes)
        fits = len(shape) == 2 and shape[1] == count and not isinstance(shape[0], int)
        expect(fits, self.file, f"logits for the card's {count} classes and any number of frames", f"the shape {shape}")
        batch, *side = self.session.get_inputs()[0].shape
        fits = side == [self.card.size, self.card.size, 3] and not isinstance(batch, int)
        expect(
            fits, self.file, f"any number of frames of the card's side, {self.card.size}", f"the shape {[batch, *side]}"
        )
