"""From bytes to what a model takes, in torch: the one place where training, validation and prediction do it.

The exported graph holds the same once more.

    x = (u/255 − μ)/σ

Symbols: u the bytes of an image of the model's side, blank boxes painted; μ, σ mean and deviation of each colour.
Augmentation works between the two steps, on 0…1.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from foveal.runtime.blank import paint
from foveal.runtime.image import Pixels


class ImageInput(nn.Module):
    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean)[:, None, None], persistent=False)
        self.register_buffer("std", torch.tensor(std)[:, None, None], persistent=False)

    def scaled(self, frames: Tensor) -> Tensor:
        """Bytes (B, 3, S, S) → 0…1."""
        return frames.float() / 255.0

    def forward(self, images: Tensor) -> Tensor:
        """Images (B, 3, S, S) in 0…1 → normalised."""
        return (images - self.mean) / self.std

    def frames(self, frames: Sequence[Pixels], blank: Sequence[Sequence[float]] = ()) -> Tensor:
        """Images of the model's side, (S, S, 3) uint8 each → (B, 3, S, S), blank boxes painted, normalised,
        on the device of this module.
        """
        pixels = np.stack(frames)
        paint(pixels, blank)
        normalised: Tensor = self(self.scaled(torch.from_numpy(pixels).to(self.mean.device).permute(0, 3, 1, 2)))
        return normalised
