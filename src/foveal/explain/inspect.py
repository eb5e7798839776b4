"""What a model finds in pictures, one after the other, for as many as come.

    probability = sigmoid or softmax of logits / temperature;   found = what reaches the card's thresholds, or the most probable class

A picture goes in as its training pictures did: resized to the card's side, divided by 255, minus mean, by deviation. One that cannot be
used becomes a Problem at its place; the stream goes on.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from foveal.data.image import BadImage, Pixels
from foveal.data.pack import paint
from foveal.device import choose
from foveal.errors import expect, is_number, shown, whole
from foveal.models.card import Card
from foveal.models.store import load_model
from foveal.objective.calibrate import apply
from foveal.objective.metric import decide

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Inspection:
    """One picture: the classes found, most probable first, and the probability of every class (C,)."""

    file: str
    found: tuple[str, ...]
    probability: Array


@dataclass(frozen=True)
class Problem:
    """A picture that could not be inspected."""

    file: str
    reason: str


class Inspector:
    """A model at work. Which pictures share a batch changes its answers by rounding only."""

    def __init__(self, model: nn.Module, card: Card, device: str = "auto", batch: int = 16, threshold: float | None = None) -> None:
        """threshold: one for every class, or for the second of two, instead of the card's."""
        whole(batch, "batch")
        self.device = choose(device)
        self.model, self.card, self.batch = model.to(self.device).eval(), card, batch
        self.threshold = _cut(card, threshold)
        expect(card.temperature > 0, "the card's temperature", "a number above 0", card.temperature)
        expect(len(card.mean) == len(card.std) == 3, "the card's mean and std", "three numbers each", (card.mean, card.std))
        self.mean, self.std = (torch.tensor(values, device=self.device)[:, None, None] for values in (card.mean, card.std))

    @classmethod
    def load(cls, path: str | Path, device: str = "auto", batch: int = 16, threshold: float | None = None) -> "Inspector":
        """With the model of a file or of a run's folder."""
        return cls(*load_model(path), device, batch, threshold)

    def inspect(self, images: Iterable[tuple[str, Pixels | BadImage]]) -> Iterator[Inspection | Problem]:
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

    def prepare(self, pictures: Sequence[Pixels]) -> Tensor:
        """Pictures of the card's side, (S, S, 3) uint8 each → (B, 3, S, S), normalised, on the device."""
        pixels = np.stack(pictures)
        paint(pixels, self.card.recipe.get("blank", ()))  # what the model was never shown
        return self.normalise(torch.from_numpy(pixels).to(self.device).permute(0, 3, 1, 2).float() / 255.0)

    def normalise(self, images: Tensor) -> Tensor:
        return (images - self.mean) / self.std

    def resize(self, pixels: Pixels) -> Pixels:
        """To the card's side, as data/image.py does."""
        size = self.card.size
        if pixels.shape[:2] == (size, size):
            return pixels
        return np.array(Image.fromarray(pixels).resize((size, size), Image.Resampling.BILINEAR))

    @torch.inference_mode()
    def probabilities(self, images: Tensor) -> Array:
        """Prepared images (B, 3, S, S) → (B, C); a row is nan where the model gave no number."""
        classes = len(self.card.classes)
        parts = []
        for some in images.split(self.batch):
            logits = self.model(some)
            fits = isinstance(logits, Tensor) and logits.shape == (len(some), classes)
            expect(fits, f"{self.card.model}'s answer", f"logits ({len(some)}, {classes})", getattr(logits, "shape", type(logits).__name__))
            parts.append(logits.double().cpu().numpy())
        values = np.concatenate(parts)
        sound = np.isfinite(values).all(1)
        chances = apply(np.where(sound[:, None], values, 0.0), self.card.many, self.card.temperature)
        return np.where(sound[:, None], chances, np.nan)

    def chosen(self, probability: Array) -> NDArray[np.bool_]:
        """(B, C) → (B, C): what counts as found."""
        answer = decide(probability, self.card.many, self.threshold)
        return answer.astype(bool) if self.card.many else answer[:, None] == np.arange(probability.shape[1])

    def _resized(self, image: Pixels | BadImage) -> Pixels | str:
        if isinstance(image, BadImage):
            return image.reason
        fits = isinstance(image, np.ndarray) and image.dtype == np.uint8 and image.ndim == 3 and image.shape[2] == 3 and image.size > 0
        if not fits:
            got = f"{image.dtype} {image.shape}" if isinstance(image, np.ndarray) else shown(image)
            return f"expected pixels (H, W, 3) of uint8, got {got}"
        return self.resize(image)

    def _answers(self, waiting: list[tuple[str, Pixels | str]]) -> Iterator[Inspection | Problem]:
        pictures = [pixels for _, pixels in waiting if not isinstance(pixels, str)]
        rows = iter(self.probabilities(self.prepare(pictures))) if pictures else iter(())
        for name, pixels in waiting:
            yield Problem(name, pixels) if isinstance(pixels, str) else self._answer(name, next(rows))

    def _answer(self, name: str, probability: Array) -> Inspection | Problem:
        if np.isnan(probability).any():
            return Problem(name, "the model's answer is no number")
        found = np.flatnonzero(self.chosen(probability[None])[0])
        order = found[np.argsort(-probability[found], kind="stable")]
        return Inspection(name, tuple(self.card.classes[index] for index in order), probability)


def _cut(card: Card, asked: float | None) -> Array | float | None:
    """The threshold in the form that `decide` takes."""
    classes = len(card.classes)
    if asked is not None:
        expect(is_number(asked) and 0 <= asked <= 1, "threshold", "a probability from 0 to 1", shown(asked))
        expect(card.many or classes == 2, "threshold", "a model of several labels or of two classes", f"one of {classes} classes")
        return float(asked)
    if card.threshold is None:
        return None
    wanted = classes if card.many else 1
    expect(card.many or classes == 2, "the card's threshold", "none with more than two classes", f"{classes} classes")
    expect(len(card.threshold) == wanted, "the card's threshold", f"{wanted} of them", len(card.threshold))
    return np.array(card.threshold, np.float64) if card.many else float(card.threshold[0])
