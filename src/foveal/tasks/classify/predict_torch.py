"""What a classifier finds in images, computed by torch."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from foveal.data.image_input import ImageInput
from foveal.device import choose
from foveal.errors import expect
from foveal.runtime.answers import Array
from foveal.runtime.blank import blank_mask
from foveal.runtime.image import Pixels
from foveal.tasks.classify.card import ClassifyCard
from foveal.tasks.classify.predict import Classifier


class TorchClassifier(Classifier):
    def __init__(
        self,
        model: nn.Module,
        card: ClassifyCard,
        device: str = "auto",
        batch: int = 16,
        threshold: float | None = None,
    ) -> None:
        super().__init__(card, batch, threshold)
        self.device = choose(device)
        self.model = model.to(self.device).eval()
        self.input = ImageInput(card.mean, card.std).to(self.device)

    @property
    def blank(self) -> Tensor:
        """(S, S): the pixels that the model is never given."""
        return torch.from_numpy(blank_mask(self.card.size, self.card.blank)).to(self.device)

    def logits(self, frames: Sequence[Pixels]) -> Array:
        return self.logits_of(self.prepare(frames))

    def prepare(self, frames: Sequence[Pixels]) -> Tensor:
        """Images of the card's side, (S, S, 3) uint8 each → (B, 3, S, S), normalised, on the device."""
        return self.input.frames(frames, self.card.blank)

    def probabilities_of(self, images: Tensor) -> Array:
        """Prepared images (B, 3, S, S) → (B, C); a row is nan where the model gave no number."""
        return self.probabilities(self.logits_of(images))

    @torch.inference_mode()
    def logits_of(self, images: Tensor) -> Array:
        """Prepared images (B, 3, S, S) → logits (B, C)."""
        classes = len(self.card.classes)
        parts = []
        for some in images.split(self.batch):
            logits = self.model(some)
            fits = isinstance(logits, Tensor) and logits.shape == (len(some), classes)
            got = getattr(logits, "shape", type(logits).__name__)
            expect(fits, f"{self.card.model}'s answer", f"logits ({len(some)}, {classes})", got)
            parts.append(logits.double().cpu().numpy())
        return np.concatenate(parts)
