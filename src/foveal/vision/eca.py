"""Efficient channel attention: the gate of a channel depends on the means of its neighbours alone.

    z_c = mean_ij x_c(i, j);   s_c = σ(Σ_m w_m z_{c+m}), |m| ≤ (k−1)/2;   y_c(i, j) = s_c · x_c(i, j)
    k = |log₂(C)/γ + b/γ|_odd

Symbols: σ the gate's non-linearity, a sigmoid unless given; w the k weights that all channels share, z = 0 outside of
    them; |t|_odd the odd number nearest to t; γ = 2, b = 1.
Paper: Qilong Wang, Banggu Wu, Pengfei Zhu, Peihua Li, Wangmeng Zuo, Qinghua Hu (2020). ECA-Net: Efficient channel
    attention for deep convolutional neural networks. CVPR. arXiv:1910.03151.
Departs from the paper: nothing. Where t is even, two odd numbers are as near: the larger is taken, as in the authors'
    code.
Cost: O(h·w·C) time to read and to scale the map, k·C operations for the gates, k parameters.
Example: EfficientChannelAttention(6, kernel=3)(maps)
"""

import math

from torch import Tensor, nn

from foveal.layers.attention import check_sizes
from foveal.vision.maps import check_kernel, check_maps, check_parts

GAMMA, B = 2, 1


class EfficientChannelAttention(nn.Module):
    """Maps (B, width, h, w) → the same shape, each channel scaled by its gate."""

    def __init__(self, width: int, *, kernel: int | None = None, gate: nn.Module | None = None) -> None:
        """kernel: channels that one gate depends on, by the paper's formula unless given."""
        super().__init__()
        check_sizes(self, width=width)
        kernel = kernel_of(width) if kernel is None else kernel
        check_kernel(self, kernel)
        check_parts(self, gate=gate)
        self.width = width
        self.mix = nn.Conv1d(1, 1, kernel, padding=kernel // 2, bias=False)  # w
        self.gate = nn.Sigmoid() if gate is None else gate

    def forward(self, maps: Tensor) -> Tensor:
        check_maps(self, maps, self.width, self.mix.weight)
        means = maps.mean((2, 3))[:, None]  # z, (B, 1, C)
        return maps * self.gate(self.mix(means)).transpose(1, 2)[..., None]  # type: ignore[no-any-return]


def kernel_of(width: int) -> int:
    """k for that many channels."""
    t = abs(math.log2(width) / GAMMA + B / GAMMA)
    return 2 * math.floor(t / 2) + 1
