"""Gauge: one learned query reads a value off the one patch that shows it.

x_p = mean of patch p;   a = softmax(q·(W_k x_p)/√C);   y = w·Σ_p a_p (W_v x_p) + b
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import foveal


@dataclass(frozen=True)
class GaugeConfig:
    image: int = 32  # side in pixels
    patch: int = 4
    width: int = 8  # C
    family: str = field(default="gauge", init=False)


PRESETS = {"gauge-tiny": GaugeConfig()}


class Gauge(nn.Module):
    """Images (B, 3, S, S) in 0…1 → one value each (B,)."""

    def __init__(self, config: GaugeConfig) -> None:
        super().__init__()
        self.config = config
        self.query = nn.Parameter(torch.randn(1, 1, 1, config.width))
        self.key = nn.Linear(3, config.width)
        self.value = nn.Linear(3, config.width)
        self.out = nn.Linear(config.width, 1)

    def example(self, batch: int = 1) -> tuple[Tensor, ...]:
        """Inputs that it takes."""
        return (torch.zeros(batch, 3, self.config.image, self.config.image),)

    def forward(self, images: Tensor) -> Tensor:
        tokens = F.avg_pool2d(images, self.config.patch).flatten(2).mT[:, None]  # (B, 1, P, 3)
        query = self.query.expand(images.shape[0], -1, -1, -1)  # not len(): an exported graph takes any batch
        seen = foveal.attend(query, self.key(tokens), self.value(tokens))  # (B, 1, 1, C)
        return self.out(seen).flatten()
