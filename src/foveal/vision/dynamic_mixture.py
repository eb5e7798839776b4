"""Dynamic convolution of maps: each image mixes its own kernel out of K, and is convolved with that one.

    π(x) = softmax_k(W_b δ(W_a mean_ij x) / τ);   W(x) = Σ_k π_k(x) W_k,   b(x) = Σ_k π_k(x) b_k;   y = W(x) ∗ x + b(x)

Symbols: K kernels, 4 unless given; δ ReLU unless given; W_a takes C channels to C/4 unless given; τ the temperature:
    at 30 all kernels learn in the first epochs, as π is nearly uniform.
Paper: Yinpeng Chen, Xiyang Dai, Mengchen Liu, Dongdong Chen, Lu Yuan, Zicheng Liu (2020). Dynamic convolution:
    attention over convolution kernels. CVPR. arXiv:1912.03458.
Departs from the paper: nothing in the layer; BatchNorm and activation behind it are the model's. τ stays as it is set,
    where the paper lowers it from 30 to 1 in the first ten epochs: `layer.temperature.fill_(…)`.
Cost: that of one convolution, O(h·w·C) to read the map and O(K·O·C·k²) to mix, for each image; K·O·C·k² parameters.
    In an exported graph for a batch of any size, that of K convolutions.
Example: DynamicMixture(6, 10, 3, kernels=5, padding=1, squeeze=4, temperature=1.0)(maps)
"""

from functools import reduce

import torch
from torch import Tensor, nn
from torch.nn import functional

from foveal.core.attend import normalise
from foveal.core.observe import Look, observers, report
from foveal.core.trace import is_exporting, is_tracing
from foveal.errors import FovealError, expect, expect_integer, is_number, short_repr
from foveal.layers.attention import check_activation, check_sizes
from foveal.vision.maps import check_maps


class DynamicMixture(nn.Module):
    """Maps (B, width, h, w) → (B, out_width, h′, w′), as torch.nn.Conv2d's. `watch` sees π as (B, 1, 1, K)."""

    temperature: Tensor

    def __init__(
        self,
        width: int,
        out_width: int,
        kernel_size: int,
        *,
        kernels: int = 4,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = True,
        squeeze: int | None = None,
        temperature: float = 30.0,
        activation: nn.Module | None = None,
    ) -> None:
        """squeeze: channels between W_a and W_b, width/4 and at least 1 unless given; activation: δ."""
        super().__init__()
        squeeze = max(1, width // 4) if squeeze is None else squeeze
        sizes = {"kernel_size": kernel_size, "kernels": kernels, "stride": stride, "dilation": dilation}
        check_sizes(self, width=width, out_width=out_width, **sizes, groups=groups, squeeze=squeeze)
        expect_integer(padding, "DynamicMixture's padding", 0)
        divides = width % groups == 0 and out_width % groups == 0
        expect(divides, "DynamicMixture's groups", f"a divisor of the widths {width} and {out_width}", groups)
        warm = is_number(temperature) and 0 < temperature < float("inf")
        expect(warm, "DynamicMixture's temperature", "a number above 0", short_repr(temperature))
        check_activation(self, activation)
        self.width, self.out_width, self.kernel_size, self.kernels = width, out_width, kernel_size, kernels
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups
        self.reduce, self.widen = nn.Conv2d(width, squeeze, 1), nn.Conv2d(squeeze, kernels, 1)
        self.activation = nn.ReLU() if activation is None else activation
        bound = (width // groups * kernel_size**2) ** -0.5  # as nn.Conv2d begins
        shape = (kernels, out_width, width // groups, kernel_size, kernel_size)
        self.weight = nn.Parameter(torch.empty(shape).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(kernels, out_width).uniform_(-bound, bound)) if bias else None
        # A buffer, so that a model is loaded with the τ at which its training ended.
        self.register_buffer("temperature", torch.tensor(float(temperature)))

    def forward(self, maps: Tensor) -> Tensor:
        check_maps(self, maps, self.width, self.weight)
        self._check_reach(maps)
        mixture = self.mixture(maps)
        if observers:
            report(Look(len(maps), 1, 1, self.kernels, "mixture", lambda rows: mixture[:, None, None][:, :, rows]))
        # A group for each image makes one convolution of all, but a graph has a fixed number of groups, at least one.
        # On one thread 32 channels of 14 × 14 take onnxruntime 73 µs so, 153 as a sum, and 567 as a product of unfolded
        # windows.
        batch = maps.shape[0]
        if is_tracing() or (is_exporting() and not isinstance(batch, int)) or batch == 0:
            return self._summed(maps, mixture)
        return self._grouped(maps, mixture)

    def mixture(self, maps: Tensor) -> Tensor:
        """π: (B, K)."""
        squeezed = maps.mean((2, 3), keepdim=True)  # (B, C, 1, 1)
        scores = self.widen(self.activation(self.reduce(squeezed))).flatten(1)
        return normalise(scores / self.temperature).to(scores.dtype)

    def _grouped(self, maps: Tensor, mixture: Tensor) -> Tensor:
        """The images side by side as channels of one, a group of which each kernel reads."""
        batch, _, h, w = maps.shape
        weight = (mixture @ self.weight.flatten(1)).view(batch * self.out_width, *self.weight.shape[2:])
        bias = None if self.bias is None else (mixture @ self.bias).flatten()
        y = self._convolved(maps.reshape(1, batch * self.width, h, w), weight, bias, batch * self.groups)
        return y.view(batch, self.out_width, *y.shape[2:])

    def _summed(self, maps: Tensor, mixture: Tensor) -> Tensor:
        """Σ_k π_k (W_k ∗ x + b_k), which is the same, as a convolution is linear in its kernel."""
        biases = [None] * self.kernels if self.bias is None else self.bias
        terms = [
            share[:, None, None, None] * self._convolved(maps, weight, bias, self.groups)
            for share, weight, bias in zip(mixture.unbind(1), self.weight, biases, strict=True)
        ]
        return reduce(torch.add, terms)

    def _convolved(self, maps: Tensor, weight: Tensor, bias: Tensor | None, groups: int) -> Tensor:
        return functional.conv2d(maps, weight, bias, self.stride, self.padding, self.dilation, groups)

    def _check_reach(self, maps: Tensor) -> None:
        if is_exporting() or is_tracing():  # a graph is for maps of any size
            return
        reach = self.dilation * (self.kernel_size - 1) + 1
        if min(maps.shape[2:]) + 2 * self.padding < reach:
            found = f"{tuple(maps.shape)} with a padding of {self.padding}"
            raise FovealError(f"DynamicMixture's maps: expected sides of at least {reach} with padding, got {found}")
