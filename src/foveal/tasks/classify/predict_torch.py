"""What a model finds in pictures, computed by torch.

A picture goes in as its training pictures did: resized to the card's side, divided by 255, minus mean, by deviation.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from foveal.data.pack import paint, painted
from foveal.device import choose
from foveal.errors import expect
from foveal.models.store import load_model
from foveal.runtime.card import Card
from foveal.runtime.image import Pixels
from foveal.tasks.classify.predict import Array, Classifier


class TorchClassifier(Classifier):
    def __init__(self, model: nn.Module, card: Card, device: str = "auto", batch: int = 16, threshold: float | None = None) -> None:
        super().__init__(card, batch, threshold)
        self.device = choose(device)
        self.model = model.to(self.device).eval()
        expect(card.temperature > 0, "the card's temperature", "a number above 0", card.temperature)
        expect(len(card.mean) == len(card.std) == 3, "the card's mean and std", "three numbers each", (card.mean, card.std))
        self.mean, self.std = (torch.tensor(values, device=self.device)[:, None, None] for values in (card.mean, card.std))

    @classmethod
    def load(cls, path: str | Path, device: str = "auto", batch: int = 16, threshold: float | None = None) -> "TorchClassifier":
        """With the model of a file or of a run's folder."""
        return cls(*load_model(path), device, batch, threshold)

    @property
    def blank(self) -> Tensor:
        """(S, S): the pixels that the model is never shown."""
        return torch.from_numpy(painted(self.card.size, self.card.recipe.get("blank", ()))).to(self.device)

    def logits(self, pictures: Sequence[Pixels]) -> Array:
        return self.answers(self.prepare(pictures))

    def prepare(self, pictures: Sequence[Pixels]) -> Tensor:
        """Pictures of the card's side, (S, S, 3) uint8 each → (B, 3, S, S), normalised, on the device."""
        pixels = np.stack(pictures)
        paint(pixels, self.card.recipe.get("blank", ()))  # what the model was never shown
        return self.normalise(torch.from_numpy(pixels).to(self.device).permute(0, 3, 1, 2).float() / 255.0)

    def normalise(self, images: Tensor) -> Tensor:
        return (images - self.mean) / self.std

    def probabilities_of(self, images: Tensor) -> Array:
        """Prepared images (B, 3, S, S) → (B, C); a row is nan where the model gave no number."""
        return self.probabilities(self.answers(images))

    @torch.inference_mode()
    def answers(self, images: Tensor) -> Array:
        """Prepared images (B, 3, S, S) → logits (B, C)."""
        classes = len(self.card.classes)
        parts = []
        for some in images.split(self.batch):
            logits = self.model(some)
            fits = isinstance(logits, Tensor) and logits.shape == (len(some), classes)
            expect(fits, f"{self.card.model}'s answer", f"logits ({len(some)}, {classes})", getattr(logits, "shape", type(logits).__name__))
            parts.append(logits.double().cpu().numpy())
        return np.concatenate(parts)
