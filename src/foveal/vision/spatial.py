"""Spatial attention: where on the map, decided by the mean and the largest of all channels around each place.

    M_s = σ(Conv_{k×k}([mean_c F ; max_c F]));   F′ = M_s ⊗ F

Symbols: σ the gate's non-linearity, a sigmoid unless given; k = 7 unless given; M_s (B, 1, h, w) scales all channels.
Paper: Sanghyun Woo, Jongchan Park, Joon-Young Lee, In So Kweon (2018). CBAM: Convolutional block attention module.
    ECCV. arXiv:1807.06521.
Departs from the paper: nothing. The authors' code norms the convolution's output over the batch, which the paper does
    not; in evaluation that is a convolution with another weight and bias.
Cost: O(h·w·(C + k²)) time, 4·k²·h·w operations of the convolution; 2·k² + 1 parameters, whatever C is.
Example: SpatialAttention()(maps)
"""

import torch
from torch import Tensor, nn

from foveal.vision.maps import check_kernel, check_maps, check_parts


class SpatialAttention(nn.Module):
    """Maps (B, C, h, w) of any C → the same shape, each place scaled by its gate."""

    def __init__(self, *, kernel: int = 7, gate: nn.Module | None = None) -> None:
        """kernel: the side of the square around a place that decides on it, odd."""
        super().__init__()
        check_kernel(self, kernel)
        check_parts(self, gate=gate)
        self.mix = nn.Conv2d(2, 1, kernel, padding=kernel // 2)
        self.gate = nn.Sigmoid() if gate is None else gate

    def forward(self, maps: Tensor) -> Tensor:
        check_maps(self, maps, weight=self.mix.weight)
        pooled = torch.cat([maps.mean(1, keepdim=True), maps.amax(1, keepdim=True)], 1)  # (B, 2, h, w)
        return maps * self.gate(self.mix(pooled))  # type: ignore[no-any-return]
