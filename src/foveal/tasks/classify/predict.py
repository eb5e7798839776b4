"""What is said of pictures, one after the other, for as many as come; whatever computes it.

    probability = sigmoid or softmax of logits / temperature;   found = what reaches the card's thresholds, or the most probable class

A picture goes in as its training pictures did, resized to the card's side. One that cannot be used becomes a Problem at its place; the
stream goes on. Nothing here needs torch.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from foveal.errors import expect, expect_integer, is_number, short_repr
from foveal.metrics.calibration import apply
from foveal.metrics.classification import decide
from foveal.runtime.card import Card
from foveal.runtime.image import BadImage, Pixels

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Prediction:
    """One picture: the classes found, most probable first, and the probability of every class (C,)."""

    file: str
    found: tuple[str, ...]
    probability: Array


@dataclass(frozen=True)
class Problem:
    """A picture that could not be inspected."""

    file: str
    reason: str


class Classifier(ABC):
    """A model at work. Which pictures share a batch changes its answers by rounding only."""

    def __init__(self, card: Card, batch: int = 16, threshold: float | None = None) -> None:
        """threshold: one for every class, or for the second of two, instead of the card's."""
        expect_integer(batch, "batch")
        self.card, self.batch = card, batch
        self.threshold = _cut(card, threshold)

    @abstractmethod
    def logits(self, pictures: Sequence[Pixels]) -> Array:
        """Pictures of the card's side, (S, S, 3) uint8 each → (B, C)."""

    def inspect(self, images: Iterable[tuple[str, Pixels | BadImage]]) -> Iterator[Prediction | Problem]:
        """(name, pixels (H, W, 3) uint8, or why there are none) → an answer each, in their order."""
        waiting: list[tuple[str, Pixels | str]] = []
        good = 0
        for name, image in images:
            pixels = self._resized(image)
            waiting.append((name, pixels))
            good += not isinstance(pixels, str)
            if good == self.batch or not good:  # a problem that waits for nobody is said at once
                yield from self._answers(waiting)
                waiting, good = [], 0
        yield from self._answers(waiting)

    def resize(self, pixels: Pixels) -> Pixels:
        """To the card's side, as data/image.py does."""
        size = self.card.size
        if pixels.shape[:2] == (size, size):
            return pixels
        return np.array(Image.fromarray(pixels).resize((size, size), Image.Resampling.BILINEAR))

    def probabilities(self, logits: Array) -> Array:
        """(B, C) → probabilities (B, C); a row is nan where the model gave no number."""
        sound: NDArray[np.bool_] = np.asarray(np.isfinite(logits).all(1))
        probabilities = apply(np.where(sound[:, None], logits, 0.0), self.card.multi_label, self.card.temperature)
        return np.where(sound[:, None], probabilities, np.nan)

    def chosen(self, probability: Array) -> NDArray[np.bool_]:
        """(B, C) → (B, C): what counts as found."""
        answer = decide(probability, self.card.multi_label, self.threshold)
        return answer.astype(bool) if self.card.multi_label else answer[:, None] == np.arange(probability.shape[1])

    def _resized(self, image: Pixels | BadImage) -> Pixels | str:
        if isinstance(image, BadImage):
            return image.reason
        fits = isinstance(image, np.ndarray) and image.dtype == np.uint8 and image.ndim == 3 and image.shape[2] == 3 and image.size > 0
        if not fits:
            got = f"{image.dtype} {image.shape}" if isinstance(image, np.ndarray) else short_repr(image)
            return f"expected pixels (H, W, 3) of uint8, got {got}"
        return self.resize(image)

    def _answers(self, waiting: list[tuple[str, Pixels | str]]) -> Iterator[Prediction | Problem]:
        pictures = [pixels for _, pixels in waiting if not isinstance(pixels, str)]
        rows = iter(self.probabilities(self.logits(pictures))) if pictures else iter(())
        for name, pixels in waiting:
            yield Problem(name, pixels) if isinstance(pixels, str) else self._answer(name, next(rows))

    def _answer(self, name: str, probability: Array) -> Prediction | Problem:
        if np.isnan(probability).any():
            return Problem(name, "the model's answer is no number")
        found = np.flatnonzero(self.chosen(probability[None])[0])
        order = found[np.argsort(-probability[found], kind="stable")]
        return Prediction(name, tuple(self.card.classes[index] for index in order), probability)


def _cut(card: Card, asked: float | None) -> Array | float | None:
    """The threshold in the form that `decide` takes."""
    classes = len(card.classes)
    if asked is not None:
        expect(is_number(asked) and 0 <= asked <= 1, "threshold", "a probability from 0 to 1", short_repr(asked))
        expect(card.multi_label or classes == 2, "threshold", "a model of several labels or of two classes", f"one of {classes} classes")
        return float(asked)
    if card.threshold is None:
        return None
    wanted = classes if card.multi_label else 1
    expect(card.multi_label or classes == 2, "the card's threshold", "none with more than two classes", f"{classes} classes")
    expect(len(card.threshold) == wanted, "the card's threshold", f"{wanted} of them", len(card.threshold))
    return np.array(card.threshold, np.float64) if card.multi_label else float(card.threshold[0])
