"""What a classifier finds in images: one row per image as soon as it is known, whatever computes it.

Nothing here needs torch.

    probability, found = the card's temperature and thresholds on the logits (runtime/answers.py);
                         of an exported file, the graph's own

A threshold of the caller's own, one for every class or for the second of two, takes the place of the card's.
"""

import csv
import io
import json
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from foveal.errors import expect, is_number, printable, short_repr, unknown
from foveal.runtime.answers import Array, found, probabilities_or_nan
from foveal.runtime.image import Frame, Pixels
from foveal.runtime.image_predictor import ImagePredictor, Problem
from foveal.tasks.classify.card import ClassifyCard
from foveal.tasks.classify.session import ClassifySession
from foveal.tasks.task import Predictor

WIDEST = 60  # columns of a table for the name of a file
Marks = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Prediction:
    """One image: the classes found, most probable first, and the probability of every class (C,)."""

    file: str
    found: tuple[str, ...]
    probability: Array
    error: ClassVar[str] = ""


class Classifier(ImagePredictor, Predictor):
    """A classifier at work."""

    def __init__(self, card: ClassifyCard, batch: int = 16, threshold: float | None = None) -> None:
        super().__init__(card.size, batch)
        self.card, self.own_threshold = card, threshold
        self.threshold = threshold_of(card, threshold)

    @abstractmethod
    def logits(self, frames: Sequence[Pixels]) -> Array:
        """Images of the card's side, (S, S, 3) uint8 each → (B, C)."""

    def decided(self, frames: Sequence[Pixels]) -> tuple[Array, Marks]:
        """The probabilities (B, C) of images of the card's side, and what counts as found (B, C).

        A row is nan where the model gave no number.
        """
        probability = self.probabilities(self.logits(frames))
        return probability, self.found(probability)

    def probabilities(self, logits: Array) -> Array:
        """(B, C) → probabilities (B, C); a row is nan where the model gave no number."""
        return probabilities_or_nan(logits, self.card.multi_label, self.card.temperature)

    def found(self, probability: Array) -> Marks:
        """(B, C) → (B, C): what counts as found."""
        return found(probability, self.card.multi_label, self.threshold)

    def answers(self, names: Sequence[str], frames: Sequence[Frame]) -> Iterator[Prediction | Problem]:
        for name, probability, marks in zip(names, *self.decided([one.pixels for one in frames]), strict=True):
            if np.isnan(probability).any():
                yield Problem(name, "the model's answer is no number")
                continue
            present = np.flatnonzero(marks)
            order = present[np.argsort(-probability[present], kind="stable")]
            yield Prediction(name, tuple(self.card.classes[index] for index in order), probability)

    def rows(self, form: str, widest: int) -> tuple[str, Callable[[Any], str]]:
        classes = self.card.classes
        if form == "jsonl":
            return "", lambda result: _json(result, classes)
        if form == "csv":
            return _comma(["file", "found", *classes, "error"]), lambda result: _csv(result, len(classes))
        if form != "table":
            raise unknown("format", form, self.formats)
        wide = min(max(widest, len(self.noun)), WIDEST)
        return f"{self.noun:{wide}}  found\n", lambda result: _line(result, classes, wide)


class OnnxClassifier(Classifier):
    """An exported file at work: the graph itself makes probabilities and decides,
    unless the caller has a threshold of their own.
    """

    def __init__(self, session: ClassifySession, batch: int = 16, threshold: float | None = None) -> None:
        super().__init__(session.card, batch, threshold)
        self.session = session

    def logits(self, frames: Sequence[Pixels]) -> Array:
        return np.asarray(self.session(np.stack(frames), ["logits"])["logits"], np.float64)

    def decided(self, frames: Sequence[Pixels]) -> tuple[Array, Marks]:
        answers = self.session(np.stack(frames), ["probability", "found"])
        probability = np.asarray(answers["probability"], np.float64)
        return probability, np.asarray(answers["found"], bool) if self.own_threshold is None else self.found(
            probability
        )


def threshold_of(card: ClassifyCard, own: float | None) -> Array | float | None:
    """The threshold as runtime/answers.py takes it. own: the caller's, in place of the card's."""
    classes = len(card.classes)
    if own is not None:
        expect(is_number(own) and 0 <= own <= 1, "--threshold", "a probability from 0 to 1", short_repr(own))
        fits = card.multi_label or classes == 2
        expect(fits, "--threshold", "a model of several labels or of two classes", f"one of {classes} classes")
        return float(own)
    if card.threshold is None:
        return None
    return np.array(card.threshold, np.float64) if card.multi_label else float(card.threshold[0])


def _line(result: Any, classes: Sequence[str], wide: int) -> str:
    if result.error:
        text = f"error: {printable(result.error)}"
    else:
        probability = dict(zip(classes, result.probability.tolist(), strict=True))
        text = ", ".join(f"{name} {probability[name]:.2f}" for name in result.found) or "nothing"
    return f"{printable(result.file):{wide}}  {text}\n"


def _csv(result: Any, classes: int) -> str:
    if result.error:
        return _comma([result.file, "", *[""] * classes, result.error])
    return _comma([result.file, ";".join(result.found), *(f"{value:.6f}" for value in result.probability), ""])


def _comma(cells: Sequence[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()


def _json(result: Any, classes: Sequence[str]) -> str:
    facts: dict[str, object] = {"file": result.file}
    if result.error:
        facts["error"] = result.error
    else:
        rounded = (round(value, 6) for value in result.probability.tolist())
        facts |= {"found": list(result.found), "probability": dict(zip(classes, rounded, strict=True))}
    # A name that is no Unicode stays a name that can be read back: escaped.
    strange = any(0xD800 <= ord(letter) < 0xE000 for letter in result.file)
    return json.dumps(facts, ensure_ascii=strange) + "\n"
