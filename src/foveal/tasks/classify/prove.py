"""The proof that a file says what its model says: held beside it on the same frames.

    error = |logits of the file − logits of the model|,   of the maps alike;   agree = share of equal answers;   Δ = the figure that decides, after − before

Time is the file's at batch 1 on one thread, in turns with the float32 file of the same model.
"""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from foveal.core.watch import watch
from foveal.deploy.measure.clock import interleaved
from foveal.runtime.card import Card
from foveal.runtime.onnx_names import INPUT, LOOKED, OUTPUTS
from foveal.runtime.onnx_session import opened
from foveal.tasks.classify.compare import headline
from foveal.tasks.classify.predict_torch import TorchClassifier
from foveal.tasks.classify.predictions import Predicted

PART = 16
NEARLY = 0.999  # of the answers: a probability within rounding of its threshold may fall on either side
ROUNDS, WARM_UP = 31, 5


@dataclass(frozen=True, eq=False)
class ProofImages:
    """Frames to prove a file on, what they are, and what is true of them where that is known."""

    frames: NDArray[np.uint8]  # (N, S, S, 3)
    words: str
    truth: NDArray[np.integer] | None = None  # (N,), or (N, C)


@dataclass(frozen=True)
class Parity:
    """How far a file is from the model it was made of."""

    frames: int
    largest: float  # of |difference| of the logits
    mean: float
    probability: float  # largest |difference| of the probabilities
    agree: float  # share of the answers (found or not, each class) that are the same
    sound: bool  # whether its answers are those that its own probabilities give, by the card's thresholds
    maps: float | None  # largest |difference| of the attention maps, where it has them
    figure: str = ""  # the figure that decides
    before: float | None = None  # of the model, on these frames
    after: float | None = None  # of the file

    def facts(self) -> dict[str, Any]:
        return asdict(self)


Answering = Callable[[NDArray[np.uint8]], Sequence[NDArray[Any]]]  # frames → probability, found, logits and, of an Icam that looks, maps


def by_onnxruntime(content: bytes) -> Answering:
    session = opened(content)
    names = [name for name in (*OUTPUTS, LOOKED) if name in {one.name for one in session.get_outputs()}]
    return lambda frames: session.run(names, {INPUT: frames})


def by_torch(loaded: Callable[[Tensor], tuple[Tensor, ...]]) -> Answering:
    @torch.no_grad()
    def answer(frames: NDArray[np.uint8]) -> Sequence[NDArray[Any]]:
        return [part.numpy() for part in loaded(torch.from_numpy(frames))]

    return answer


def prove(answer: Answering, model: nn.Module, card: Card, held: ProofImages) -> Parity:
    inspector, looks = TorchClassifier(model, card, "cpu"), False
    told, said, same, off, apart, sound = [], [], [], [0.0], [0.0], True
    for part in np.array_split(held.frames, -(-len(held.frames) // PART)):
        probabilities, found, logits, *maps = answer(part)
        looks = bool(maps)
        sound &= bool((found == inspector.chosen(probabilities.astype(np.float64))).mean() > NEARLY)
        told.append(logits)
        with contextlib.ExitStack() as stack:
            seen = stack.enter_context(watch(inspector.model)) if looks else {}
            said.append(inspector.logits(list(part)))
        expected_chances = inspector.probabilities(said[-1])
        apart.append(float(np.abs(probabilities - expected_chances).max()))
        same.append(found == inspector.chosen(expected_chances))
        if looks:
            expected = torch.cat([record.weights for record in seen.values()], 1).cpu().numpy()
            off.append(float(np.abs(maps[0] - expected).max()))
    after, before = np.concatenate(told).astype(np.float64), np.concatenate(said)
    error = np.abs(after - before)
    facts = (
        len(held.frames),
        float(error.max()),
        float(error.mean()),
        max(apart),
        float(np.concatenate(same).mean()),
        sound,
        max(off) if looks else None,
    )
    if held.truth is None:
        return Parity(*facts)
    name = "mean average precision" if card.multi_label else "balanced accuracy"
    return Parity(*facts, name, *(_score(logits, held.truth, card) for logits in (before, after)))


def _score(logits: NDArray[np.float64], truth: NDArray[np.integer], card: Card) -> float | None:
    files = tuple(str(number) for number in range(len(truth)))
    value = float(headline(Predicted(files, card.classes, truth, logits), card.multi_label)(None))
    return value if np.isfinite(value) else None


def timed(answers: dict[str, Answering], frame: NDArray[np.uint8]) -> dict[str, dict[str, float]]:
    """Milliseconds a frame (S, S, 3) of every file, in turns, on one thread."""
    jobs = {name: partial(answer, frame[None]) for name, answer in answers.items()}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        taken = interleaved(jobs, rounds=ROUNDS, warm_up=WARM_UP)
    finally:
        torch.set_num_threads(threads)
    return {name: {"median": 1e3 * one.median, "p10": 1e3 * one.p10, "p90": 1e3 * one.p90} for name, one in taken.items()}
