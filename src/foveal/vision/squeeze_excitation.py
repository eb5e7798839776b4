"""Squeeze-and-excitation: the mean of each channel decides how much of each channel passes.

    z_c = mean_ij x_c(i, j);   s = σ(W_b δ(W_a z));   y_c(i, j) = s_c · x_c(i, j)

Symbols: δ ReLU unless given; σ the gate's non-linearity, a sigmoid unless given; W_a takes C channels to C/reduction.
Paper: Jie Hu, Li Shen, Gang Sun (2018). Squeeze-and-excitation networks. CVPR. arXiv:1709.01507.
Departs from the paper: W_a and W_b have biases, as EfficientNet's do; the paper's equation has none, and it leaves them
    out of its ResNets. Its reduction is 16; EfficientNet squeezes a block's input by 4 with SiLU, which is
    `SqueezeExcitation(hidden, squeeze=width // 4, activation=nn.SiLU())`.
Cost: O(h·w·C) time to read and to scale the map, 2·C²/reduction parameters and the biases.
Example: SqueezeExcitation(6, squeeze=4)(maps)
"""

from torch import Tensor, nn

from foveal.layers.attention import check_sizes
from foveal.vision.maps import check_maps, check_parts


class SqueezeExcitation(nn.Module):
    """Maps (B, width, h, w) → the same shape, each channel scaled by its gate."""

    def __init__(
        self,
        width: int,
        *,
        squeeze: int | None = None,
        activation: nn.Module | None = None,
        gate: nn.Module | None = None,
    ) -> None:
        """squeeze: channels between W_a and W_b, width/16 unless given; gate: such as nn.Hardsigmoid()."""
        super().__init__()
        check_sizes(self, width=width)
        squeeze = max(1, width // 16) if squeeze is None else squeeze
        check_sizes(self, squeeze=squeeze)
        check_parts(self, activation=activation, gate=gate)
        self.reduce, self.widen = nn.Conv2d(width, squeeze, 1), nn.Conv2d(squeeze, width, 1)
        self.activation = nn.ReLU() if activation is None else activation
        self.gate = nn.Sigmoid() if gate is None else gate

    def forward(self, maps: Tensor) -> Tensor:
        check_maps(self, maps, self.reduce.in_channels, self.reduce.weight)  # pruning makes it narrower
        squeezed = maps.mean((2, 3), keepdim=True)  # z, (B, C, 1, 1)
        return maps * self.gate(self.widen(self.activation(self.reduce(squeezed))))  # type: ignore[no-any-return]
