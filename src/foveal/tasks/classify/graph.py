"""A trained model as one .onnx file that describes itself and answers by itself.

    in    frames       (B, S, S, 3) bytes, as a camera gives them; B any number
    out   probability  (B, C)  softmax or sigmoid of logits / temperature
          found        (B, C)  what the model's own thresholds, or the largest probability, call found
          logits       (B, C)
          attention    (B, M, N, P), where an Icam's N queries looked: M maps over its P cells, row by row. First that
                       of the queries which adapt to the image, if they do, then every layer's heads, one after the
                       other

The card is in the file's metadata under `foveal`, the proof under `foveal.proof`: JSON both.
"""

import copy

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from foveal.deploy.onnx.chunks import FEATURES, PATCHES, chunk_of, in_chunks, unmark
from foveal.deploy.onnx.equalise import equalise
from foveal.deploy.onnx.file import OPSET, needed_onnx
from foveal.deploy.onnx.program import described, followed
from foveal.deploy.onnx.quantise import ReadyForInt8
from foveal.deploy.onnx.rounding import round_weights
from foveal.deploy.onnx.silence import quiet
from foveal.deploy.twins.fused_icam import Frames
from foveal.errors import FovealError
from foveal.models.icam import Icam
from foveal.runtime.onnx_names import INPUT, LOOKED, OUTPUTS
from foveal.tasks.classify.card import ClassifyCard


class Answers(nn.Module):
    """Frames → what the card's temperature and thresholds make of the logits, and where the queries looked."""

    cuts: Tensor | None

    def __init__(self, model: nn.Module, card: ClassifyCard, runs: bool = False) -> None:
        super().__init__()
        self.frames, self.card = Frames(model, card, runs), card
        self.marked = False  # whether patches and what Φ saw in them are answers, too: deploy/onnx/chunks.py
        self.looks = isinstance(model, Icam) and (len(model.layers) > 0 or "static" not in model.config.first)
        cuts = None if card.threshold is None else torch.tensor(card.threshold, dtype=torch.float32)
        self.register_buffer("cuts", cuts)

    def forward(self, frames: Tensor) -> tuple[Tensor, ...]:
        patches = self.frames.cut(frames)
        seen = self.frames.see(patches)
        logits, looked = (seen, None) if self.frames.decoder is None else self.frames.decoder(seen)
        answers = self.answer(logits) if looked is None else (*self.answer(logits), looked)
        return (*answers, patches, seen) if self.marked else answers

    def answer(self, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        card = self.card
        scaled = logits if card.temperature == 1 else logits / card.temperature
        if card.multi_label:
            probability = scaled.sigmoid()
            return probability, probability >= (0.5 if self.cuts is None else self.cuts), logits
        probability = scaled.softmax(1)
        if self.cuts is None:
            return probability, torch.arange(len(card.classes)) == probability.argmax(1, keepdim=True), logits
        second = probability[:, 1:] >= self.cuts
        return probability, torch.cat([~second, second], 1), logits


def export_onnx(model: nn.Module, card: ClassifyCard) -> bytes:
    """The file's content, in float32. Φ takes a few patches after the other, at most those of one image."""
    return graph_of(Answers(model, card), card, in_turns=True)


def ready_for_int8(model: nn.Module, card: ClassifyCard, float32: bytes, frames: NDArray[np.uint8]) -> ReadyForInt8:
    """float32: the model's own file; frames: of the calibration, (N, S, S, 3).

    Pixels are read in runs, channels have one range, weights lie on int8's grid, and Φ takes all patches at once.
    """
    answers = Answers(model, card, runs=True)
    equalise(answers.frames, frames)
    but_stem = copy.deepcopy(answers)
    own = round_weights(answers.frames, frames)
    rounded = graph_of(answers, card)
    if not own:
        return ReadyForInt8(float32, rounded, rounded)
    round_weights(but_stem.frames, frames, stem=False)
    return ReadyForInt8(float32, rounded, graph_of(but_stem, card))


def graph_of(answers: Answers, card: ClassifyCard, *, in_turns: bool = False) -> bytes:
    """in_turns: Φ takes a few patches after the other, in a loop, into which no quantiser sees."""
    needed_onnx()
    _try(answers, card)
    patches = (card.size // answers.frames.patch) ** 2 if answers.frames.patch else 1
    answers.marked = bool(answers.frames.patch) and in_turns
    chunk = chunk_of(patches, answers.frames.widest()) if answers.marked else patches
    frames = torch.randint(0, 256, (2, card.size, card.size, 3), dtype=torch.uint8)
    outputs = [*OUTPUTS, *([LOOKED] if answers.looks else []), *([PATCHES, FEATURES] if answers.marked else [])]
    with quiet(), followed(card.model):
        program = torch.onnx.export(
            answers,
            (frames,),
            input_names=[INPUT],
            output_names=outputs,
            dynamic_shapes=({0: torch.export.Dim("batch")},),
            opset_version=OPSET,
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    proto = program.model_proto
    if answers.marked:
        in_chunks(proto, chunk)
        unmark(proto)
    return described(proto, card)


def _try(answers: Answers, card: ClassifyCard) -> None:
    """A card may promise a size that its model does not take: torch's exporter would say so in a page."""
    try:
        with torch.no_grad():
            answers(torch.zeros(1, card.size, card.size, 3, dtype=torch.uint8))
    except (FovealError, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise FovealError(
            f"to export: expected a {card.model} that takes images of {card.size} × {card.size}, got {reason}"
        ) from None
