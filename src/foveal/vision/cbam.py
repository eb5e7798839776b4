"""CBAM, the convolutional block attention module: first which channels, then which places.

    M_c = σ(MLP(mean_ij F) + MLP(max_ij F));   M_s = σ(Conv_{7×7}([mean_c F′ ; max_c F′]))
    F′ = M_c ⊗ F;   F″ = M_s ⊗ F′

Symbols: MLP(z) = W₁ δ(W₀ z), the same for both poolings, from C channels to C/16 and back; δ ReLU, σ a sigmoid, unless
    given; M_s is `SpatialAttention`.
Paper: Sanghyun Woo, Jongchan Park, Joon-Young Lee, In So Kweon (2018). CBAM: Convolutional block attention module.
    ECCV. arXiv:1807.06521.
Departs from the paper: W₀ and W₁ have biases, as in the authors' code. That code also norms the spatial convolution's
    output over the batch.
Cost: O(h·w·(C + k²)) time, of which 8·C²/16 operations in the MLP and 4·k²·h·w in the convolution; 2·C²/16 parameters
    for the channels and 2·k² + 1 for the places, k = 7.
Example: CBAM(6, channel=ChannelAttention(6, squeeze=4))(maps)
"""

from torch import Tensor, nn

from foveal.layers.attention import check_sizes
from foveal.vision.maps import check_maps, check_parts
from foveal.vision.spatial import SpatialAttention
from foveal.vision.squeeze_excitation import SqueezeExcitation


class ChannelAttention(SqueezeExcitation):
    """Maps (B, width, h, w) → the same shape, each channel scaled by its gate M_c: squeeze-and-excitation of the mean
    and of the largest value, W₀ its W_a and W₁ its W_b.
    """

    def forward(self, maps: Tensor) -> Tensor:
        check_maps(self, maps, self.reduce.in_channels, self.reduce.weight)
        pools = maps.mean((2, 3), keepdim=True), maps.amax((2, 3), keepdim=True)  # each (B, C, 1, 1)
        mean, largest = (self.widen(self.activation(self.reduce(pool))) for pool in pools)
        return maps * self.gate(mean + largest)  # type: ignore[no-any-return]


class CBAM(nn.Module):
    """Maps (B, width, h, w) → the same shape, scaled by channel and then by place."""

    def __init__(self, width: int, *, channel: nn.Module | None = None, spatial: nn.Module | None = None) -> None:
        """channel, spatial: the two parts, such as EfficientChannelAttention(width) and SpatialAttention(kernel=3)."""
        super().__init__()
        check_sizes(self, width=width)
        check_parts(self, channel=channel, spatial=spatial)
        self.width = width
        self.channel = ChannelAttention(width) if channel is None else channel
        self.spatial = SpatialAttention() if spatial is None else spatial

    def forward(self, maps: Tensor) -> Tensor:
        check_maps(self, maps, self.width)
        return self.spatial(self.channel(maps))  # type: ignore[no-any-return]
