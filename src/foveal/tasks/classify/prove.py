"""The proof that a file answers as its model does: compared on the same frames.

    error = |logits of the file − logits of the model|,   of the maps alike
    agree = share of equal answers;   Δ = the figure that decides, after − before

Time is the file's at batch 1 on one thread, in turns with the float32 file of the same model.
"""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from foveal.core.watch import watch
from foveal.deploy.measure.clock import interleaved
from foveal.explain.saliency import of_queries
from foveal.runtime.onnx_names import INPUT, LOOKED, OUTPUTS
from foveal.runtime.onnx_session import opened
from foveal.tasks.classify.card import ClassifyCard
from foveal.tasks.classify.compare import headline, score_name
from foveal.tasks.classify.predict_torch import TorchClassifier
from foveal.tasks.classify.predictions import Predicted

PART = 16
NEARLY = 0.999  # of the answers: a probability within rounding of its threshold may fall on either side
ROUNDS, WARM_UP = 31, 5


@dataclass(frozen=True, eq=False)
class ProofImages:
    """Frames to prove a file on, what they are, and their labels where these are known."""

    frames: NDArray[np.uint8]  # (N, S, S, 3)
    words: str
    labels: NDArray[np.integer] | None = None  # (N,), or (N, C)


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


# frames → probability, found, logits and, of an Icam with attention, maps
Answering = Callable[[NDArray[np.uint8]], Sequence[NDArray[Any]]]


def by_onnxruntime(content: bytes) -> Answering:
    session = opened(content)
    names = [name for name in (*OUTPUTS, LOOKED) if name in {one.name for one in session.get_outputs()}]
    return lambda frames: session.run(names, {INPUT: frames})


def by_torch(loaded: Callable[[Tensor], tuple[Tensor, ...]]) -> Answering:
    @torch.no_grad()
    def answer(frames: NDArray[np.uint8]) -> Sequence[NDArray[Any]]:
        return [part.numpy() for part in loaded(torch.from_numpy(frames))]

    return answer


def prove(answer: Answering, model: nn.Module, card: ClassifyCard, images: ProofImages) -> Parity:
    classifier, has_maps = TorchClassifier(model, card, "cpu"), False
    theirs, ours, same, map_errors, errors, sound = [], [], [], [0.0], [0.0], True
    for part in np.array_split(images.frames, -(-len(images.frames) // PART)):
        probability, found, logits, *maps = answer(part)
        has_maps = bool(maps)
        sound &= bool((found == classifier.found(probability.astype(np.float64))).mean() > NEARLY)
        theirs.append(logits)
        with contextlib.ExitStack() as stack:
            seen = stack.enter_context(watch(classifier.model)) if has_maps else {}
            ours.append(classifier.logits(list(part)))
        expected = classifier.probabilities(ours[-1])
        errors.append(float(np.abs(probability - expected).max()))
        same.append(found == classifier.found(expected))
        if has_maps:
            weights = torch.cat([record.weights for record in of_queries(seen).values()], 1).cpu().numpy()
            map_errors.append(float(np.abs(maps[0] - weights).max()))
    after, before = np.concatenate(theirs).astype(np.float64), np.concatenate(ours)
    error = np.abs(after - before)
    parity = Parity(
        frames=len(images.frames),
        largest=float(error.max()),
        mean=float(error.mean()),
        probability=max(errors),
        agree=float(np.concatenate(same).mean()),
        sound=sound,
        maps=max(map_errors) if has_maps else None,
    )
    if images.labels is None:
        return parity
    before_, after_ = (_score(logits, images.labels, card) for logits in (before, after))
    return replace(parity, figure=score_name(card.multi_label), before=before_, after=after_)


def _score(logits: NDArray[np.float64], truth: NDArray[np.integer], card: ClassifyCard) -> float | None:
    files = tuple(str(number) for number in range(len(truth)))
    value = float(headline(Predicted(files, card.classes, truth, logits), card.multi_label)(None))
    return value if np.isfinite(value) else None


def timed(answers: dict[str, Answering], frame: NDArray[np.uint8], rounds: int = ROUNDS) -> dict[str, dict[str, float]]:
    """Milliseconds per frame (S, S, 3) of every file, in turns, on one thread."""
    jobs = {name: partial(answer, frame[None]) for name, answer in answers.items()}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        taken = interleaved(jobs, rounds=rounds, warm_up=WARM_UP)
    finally:
        torch.set_num_threads(threads)
    return {
        name: {"median": 1e3 * one.median, "p10": 1e3 * one.p10, "p90": 1e3 * one.p90} for name, one in taken.items()
    }
