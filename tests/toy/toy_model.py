"""Gauge: one learned query reads a value off the one patch that shows it.

x_p = mean of patch p;   a = softmax(q·(W_k x_p)/√C);   y = w·Σ_p a_p (W_v x_p) + b

With several glances, each has a query of its own, and what they see is added.
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
    glances: int = 1
    family: str = field(default="gauge", init=False)


KIND = "images to values"
PRESETS = {"gauge-tiny": GaugeConfig()}


class Gauge(nn.Module):
    """Images (B, 3, S, S) in 0…1 → one value each (B,)."""

    def __init__(self, config: GaugeConfig) -> None:
        super().__init__()
        self.config = config
        self.glances = nn.ModuleList(Glance(config.width) for _ in range(config.glances))
        self.out = nn.Linear(config.width, 1)

    def example(self, batch: int = 1) -> tuple[Tensor, ...]:
        """Inputs that it takes."""
        return (torch.zeros(batch, 3, self.config.image, self.config.image),)

    def forward(self, images: Tensor) -> Tensor:
        tokens = F.avg_pool2d(images, self.config.patch).flatten(2).mT[:, None]  # (B, 1, P, 3)
        seen = torch.stack([glance(tokens) for glance in self.glances]).sum(0)  # (B, 1, 1, C)
        return self.out(seen).flatten()


class Glance(nn.Module):
    """Tokens (B, 1, P, 3) → what one query sees of them (B, 1, 1, C)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.randn(1, 1, 1, width))
        self.key = nn.Linear(3, width)
        self.value = nn.Linear(3, width)

    def forward(self, tokens: Tensor) -> Tensor:
        query = self.query.expand(tokens.shape[0], -1, -1, -1)  # not len(): an exported graph takes any batch
        return foveal.attend(query, self.key(tokens), self.value(tokens))
