"""The same answers for those who stay with torch: a TorchScript archive (.pt) or a torch.export program (.pt2),
with card and proof beside the graph.

    torch.jit.load("inspector.pt")(frames);   torch.export.load("inspector.pt2").module()(frames)

Frames and answers are those of the .onnx file (graph.py). The card is an extra file of the archive, called
foveal, and the proof is another one, called foveal.proof (deploy/onnx/archive.py).
"""

import io
import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn

from foveal.runtime.onnx_names import CARD
from foveal.tasks.classify.card import ClassifyCard
from foveal.tasks.classify.graph import Answers

Answering = Callable[[Tensor], tuple[Tensor, ...]]


def export_script(model: nn.Module, card: ClassifyCard) -> bytes:
    """A frozen trace; any batch."""
    answers, frames, archive = Answers(model, card).eval(), _frames(card), io.BytesIO()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # a trace does not follow checks of shapes, which have been made
        made = torch.jit.freeze(torch.jit.trace(answers, (frames,), check_trace=False))
        torch.jit.save(made, archive, _extra_files={CARD: card.without_paths().text().encode()})
    return archive.getvalue()


def export_program(model: nn.Module, card: ClassifyCard) -> bytes:
    answers, frames, archive = Answers(model, card).eval(), _frames(card), io.BytesIO()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        made = torch.export.export(answers, (frames,), dynamic_shapes=({0: torch.export.Dim("batch")},))
        torch.export.save(made, archive, extra_files={CARD: card.without_paths().text()})
    return archive.getvalue()


def load_script(content: bytes) -> Answering:
    loaded: Answering = torch.jit.load(io.BytesIO(content))
    return loaded


def load_program(content: bytes) -> Answering:
    loaded: Answering = torch.export.load(io.BytesIO(content)).module()
    return loaded


def _frames(card: ClassifyCard) -> Tensor:
    return torch.randint(0, 256, (2, card.size, card.size, 3), dtype=torch.uint8)
