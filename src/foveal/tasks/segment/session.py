"""An exported segmenter: frames in, label maps out.

answers = SegmentSession(session, card)
answers(frames)      # (B, H, W, 3) uint8 of any size → label_map, scores, logits, and probability where the file has it
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foveal.errors import expect, short_repr
from foveal.runtime.exported import Session
from foveal.runtime.onnx_names import INPUT
from foveal.tasks.segment.card import SegmentCard

LABEL_MAP, SCORES, LOGITS, PROBABILITY = "label_map", "scores", "logits", "probability"
OUTPUTS = (LABEL_MAP, SCORES, LOGITS)  # of every file


class SegmentSession:
    def __init__(self, answers: Session, card: SegmentCard) -> None:
        self.answers, self.card = answers, card
        self.file, self.session, self.proof = answers.file, answers.session, answers.proof
        self.outputs = answers.outputs
        self._check()

    def __call__(self, frames: NDArray[np.uint8], outputs: Sequence[str] | None = None) -> dict[str, NDArray[Any]]:
        """label_map (B, H, W) uint8, scores (B, classes), logits (B, classes, h, w), probability (B, classes, H, W)."""
        array = isinstance(frames, np.ndarray)
        fits = array and frames.dtype == np.uint8 and frames.ndim == 4 and frames.shape[3] == 3 and frames.size > 0
        got = f"{frames.dtype} {frames.shape}" if array else short_repr(frames)
        expect(fits, "frames", "uint8 (B, H, W, 3), none of them 0", got)
        answers = self.answers({INPUT: frames}, outputs)
        classes, (batch, *size) = len(self.card.classes), frames.shape[:3]
        shapes = {LABEL_MAP: (batch, *size), SCORES: (batch, classes), PROBABILITY: (batch, classes, *size)}
        for name, value in answers.items():
            where = f"{self.file}, {name}"
            wanted = (batch, classes, *value.shape[2:]) if name == LOGITS else shapes.get(name, value.shape)
            expect(value.shape == wanted and value.size > 0, where, wanted, value.shape)
            if name == LABEL_MAP:
                fits, largest = value.dtype == np.uint8, value.max()
                expect(fits and largest < classes, where, f"bytes below {classes}", f"{value.dtype} up to {largest}")
        return answers

    def _check(self) -> None:
        """A file may come from anybody: what the card promises must be in the graph."""
        inputs = [(one.name, one.type) for one in self.session.get_inputs()]
        expect(inputs == [(INPUT, "tensor(uint8)")], self.file, f"one input, {INPUT} of bytes", short_repr(inputs))
        missing = [name for name in OUTPUTS if name not in self.outputs]
        expect(not missing, self.file, f"outputs {', '.join(OUTPUTS)}", f"none called {', '.join(missing)}")
        *free, colours = self.session.get_inputs()[0].shape
        fits = len(free) == 3 and colours == 3 and not any(isinstance(side, int) for side in free)
        expect(fits, self.file, "any number of frames of any size", f"the shape {[*free, colours]}")
        shape = next(one.shape for one in self.session.get_outputs() if one.name == SCORES)
        count = len(self.card.classes)
        fits = len(shape) == 2 and (shape[1] == count or not isinstance(shape[1], int))
        expect(fits, self.file, f"scores for the card's {count} classes", f"the shape {shape}")
