"""What an ICAM does with the grid of cells that Φ saw, beside looking at them.

    mixed = ReLU(BN(depthwise_3×3(f)));   logits + W BN[mean_i f_i; max_i f_i] + b

Symbols: f (B, h, w, C) what Φ saw, one vector for each cell; i runs over all of them.
The mixer is the published ICAM's (models/icam.py), the pools are ours.
"""

import torch
from torch import Tensor, nn

from foveal.errors import expect


class Mixer(nn.Sequential):
    """Neighbouring patches exchange what they saw: depthwise 3×3 convolution, BatchNorm, ReLU on the grid (B, h,
    w, C).
    """

    def __init__(self, width: int) -> None:
        super().__init__(
            nn.Conv2d(width, width, 3, padding=1, groups=width, bias=False), nn.BatchNorm2d(width), nn.ReLU()
        )

    def forward(self, grid: Tensor) -> Tensor:
        mixed: Tensor = super().forward(grid.permute(0, 3, 1, 2))  # type: ignore[no-untyped-call]
        return mixed.permute(0, 2, 3, 1)


class Pooled(nn.Module):
    """W BN[mean of the cells; maximum of the cells] + b: (B, h, w, C) → (B, classes).

    Without BN, maps of ImageNet's weights, which reach 49, make logits beside which the queries' count for nothing.
    """

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.norm, self.linear = nn.BatchNorm1d(2 * features), nn.Linear(2 * features, classes)

    def forward(self, grid: Tensor) -> Tensor:
        alone = self.training and len(grid) == 1
        expect(not alone, "Icam's images", "2 or more at once to train `pooled`", 1, "raise the batch")
        logits: Tensor = self.linear(self.norm(pools(grid)))
        return logits


def pools(grid: Tensor) -> Tensor:
    """The mean and the maximum of a grid (B, h, w, C): (B, 2C)."""
    cells = grid.flatten(1, 2)
    return torch.cat([cells.mean(1), cells.amax(1)], 1)
