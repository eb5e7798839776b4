"""Hints: a small model's map learns to say, by one linear map each, what a larger one's maps say of the same image.

    L = mean_s mean_(b, c, cell) (W_s pool(g) + b_s − m̂_s)²,   m̂_s = (pool(m_s) − μ_c)/σ_c

Symbols: g (B, C, h, w) the small model's map; m_s (B, C_s, h_s, w_s) the larger one's of stride s; pool the mean of
    neighbouring cells, of the finer of the two, until both have as many; μ_c, σ_c mean and deviation of channel c in
    the batch, so that every channel counts the same, and a guess without looking costs 1.
Paper, if recipe.hints != "none": Adriana Romero, Nicolas Ballas, Samira Ebrahimi Kahou, Antoine Chassang, Carlo Gatta,
    Yoshua Bengio (2015). FitNets: hints for thin deep nets. ICLR. arXiv:1412.6550.
Departs from the paper: hints are learned beside the labels, not before them; of several maps instead of one; the maps
    are standardised, and the regressor is 1 × 1.
Cost: O(B·h_s·w_s·C·C_s) for each map, and the larger model's pass.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Hints(nn.Module):
    """(g (B, C, h, w), maps (B, C_s, h_s, w_s) each) → the loss (B,) of each image."""

    def __init__(self, width: int, widths: Sequence[int]) -> None:
        """width: C; widths: C_s of each map that is learned."""
        super().__init__()
        self.linear = nn.ModuleList(nn.Conv2d(width, wide, 1) for wide in widths)

    def forward(self, grid: Tensor, maps: Sequence[Tensor]) -> Tensor:
        losses = []
        for linear, one in zip(self.linear, maps, strict=True):
            cells = (min(grid.shape[2], one.shape[2]), min(grid.shape[3], one.shape[3]))
            said = linear(F.adaptive_avg_pool2d(grid, cells)).float()
            wanted = standardised(F.adaptive_avg_pool2d(one, cells).float())
            losses.append((said - wanted).square().mean((1, 2, 3)))
        return torch.stack(losses).mean(0)


def standardised(maps: Tensor) -> Tensor:
    """Every channel of (B, C, h, w) with mean 0 and deviation 1; one that is the same everywhere is 0."""
    centred = maps - maps.mean((0, 2, 3), keepdim=True)
    return centred / centred.square().mean((0, 2, 3), keepdim=True).sqrt().clamp(min=1e-6)
