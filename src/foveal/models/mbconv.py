"""Inverted residual with squeeze-and-excitation, EfficientNet's block,
and the first stages of that network as a small Φ.

    h = δ(BN(W_1 x));   h = δ(BN(depthwise_k(h)));   h = h ⊙ σ(W_b δ(W_a mean(h)))
    y = BN(W_2 h)  (+ x where the shapes agree)

Symbols: δ an activation, SiLU by default; W_1 widens the channels by `expand` and is left out where expand = 1; the
    squeeze is a quarter of the block's input.
Paper: Mingxing Tan, Quoc V. Le (2019). EfficientNet: rethinking model scaling for convolutional neural networks. ICML.
    arXiv:1905.11946.
Departs from the paper: no stochastic depth.
Cost: O(h·w·C·expand·(C + k²)).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.grad import conv2d_input

from foveal.errors import expect, expect_integer, short_repr, unknown
from foveal.vision.squeeze_excitation import SqueezeExcitation

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "silu": nn.SiLU,
    "relu": nn.ReLU,
    "relu6": nn.ReLU6,
    "hardswish": nn.Hardswish,
}


@dataclass(frozen=True)
class Stage:
    """Some blocks of one width; the first of them has the stride."""

    width: int
    blocks: int = 1
    expand: int = 6
    stride: int = 1
    kernel: int = 3
    squeeze: bool = True


# Stem 3→32 stride 2; MBConv1 32→16; 2 × MBConv6 16→24 stride 2.
EFFICIENTNET_B0_START = (Stage(16, expand=1), Stage(24, blocks=2, stride=2))

# The same of EfficientNet-Lite0, which has no squeeze, and one block more: MBConv6 24→40 stride 2.
LITE0_START = (
    Stage(16, expand=1, squeeze=False),
    Stage(24, blocks=2, stride=2, squeeze=False),
    Stage(40, stride=2, kernel=5, squeeze=False),
)


class Stages(nn.Sequential):
    """A stem, then stages: an image (B, 3, h, w) → a feature map (B, width, h′, w′)."""

    def __init__(
        self,
        stem: int = 32,
        stages: tuple[Stage, ...] = EFFICIENTNET_B0_START,
        *,
        kernel: int = 3,
        stride: int = 2,
        activation: str = "silu",
        convolution: str = "torch",
    ) -> None:
        """stem: its channels; kernel and stride: the stem's own; convolution: one of CONVOLUTIONS."""
        for name, value in (("stem", stem), ("kernel", kernel), ("stride", stride)):
            expect_integer(value, f"Stages' {name}")
        expect(kernel >= stride, "Stages' kernel", f"at least the stride, {stride}, or pixels are skipped", kernel)
        expect(stride > 1 or kernel % 2 == 1, "Stages' kernel", "an odd number where the stride is 1", kernel)
        if not isinstance(activation, str) or activation not in ACTIVATIONS:
            raise unknown("activation", str(activation), ACTIVATIONS)
        if not isinstance(convolution, str) or convolution not in CONVOLUTIONS:
            raise unknown("convolution", str(convolution), CONVOLUTIONS)
        expect(isinstance(stages, (tuple, list)), "Stages' stages", "a tuple of Stage", short_repr(stages))
        delta, make = ACTIVATIONS[activation], CONVOLUTIONS[convolution]
        parts: list[nn.Module] = [make(3, stem, kernel, delta(), stride=stride, kind=FewChannels)]
        width = stem
        levels = {stride: 0}  # each stride → the place of the last part that has it
        for stage in stages:
            _check(stage)
            stride *= stage.stride
            levels[stride] = len(parts) + stage.blocks - 1
            for block in range(stage.blocks):
                parts.append(MBConv(width, stage, stage.stride if block == 0 else 1, delta, make))
                width = stage.width
        super().__init__(*parts)
        self.width, self.levels = width, levels

    def side(self, pixels: int) -> int:
        """Of the last map of a square of so many pixels."""
        strided: list[Any] = [part.depthwise if isinstance(part, MBConv) else part for part in self]
        for layer in (one[0] for one in strided):
            stride = layer.stride[0]
            if isinstance(layer, Same):
                pixels = -(-pixels // stride)
            else:
                pixels = (pixels + 2 * layer.padding[0] - layer.kernel_size[0]) // stride + 1
        return pixels

    @property
    def strides(self) -> tuple[int, ...]:
        """Of the maps of `features`, the finest first."""
        return tuple(self.levels)

    @property
    def widths(self) -> tuple[int, ...]:
        """Of the same: read off the layers, which pruning makes narrower."""
        last = [self[place] for place in self.levels.values()]
        ends: list[Any] = [part.project if isinstance(part, MBConv) else part for part in last]
        return tuple(end[0].out_channels for end in ends)

    def features(self, images: Tensor) -> list[Tensor]:
        """The last map (B, C, h, w) of each stride."""
        maps, ends = [], set(self.levels.values())
        for place, part in enumerate(self):
            images = part(images)
            if place in ends:
                maps.append(images)
        return maps


class Phi(Protocol):
    """What a config says of its own Φ."""

    @property
    def stem(self) -> int: ...
    @property
    def stem_kernel(self) -> int: ...
    @property
    def stem_stride(self) -> int: ...
    @property
    def stages(self) -> tuple[Stage, ...]: ...
    @property
    def activation(self) -> str: ...
    @property
    def convolution(self) -> str: ...


def own_phi(config: Phi) -> Stages:
    return Stages(
        config.stem,
        config.stages,
        kernel=config.stem_kernel,
        stride=config.stem_stride,
        activation=config.activation,
        convolution=config.convolution,
    )


def _check(stage: Stage) -> None:
    expect(isinstance(stage, Stage), "Stages' stages", "a tuple of Stage", short_repr(stage))
    for name in ("width", "blocks", "expand", "stride", "kernel"):
        expect_integer(getattr(stage, name), f"a stage's {name}")
    # An even kernel has no middle, and would shift the map.
    expect(stage.kernel % 2 == 1, "a stage's kernel", "an odd number", stage.kernel)
    expect(
        stage.kernel >= stage.stride,
        "a stage's kernel",
        f"at least its stride, {stage.stride}, or pixels are skipped",
        stage.kernel,
    )
    expect(isinstance(stage.squeeze, bool), "a stage's squeeze", "True or False", short_repr(stage.squeeze))


class MBConv(nn.Module):
    def __init__(
        self,
        width: int,
        stage: Stage,
        stride: int,
        activation: Callable[[], nn.Module] = nn.SiLU,
        make: Callable[..., nn.Sequential] | None = None,
    ) -> None:
        """make: what makes a convolution with its BatchNorm and activation, `convolution` unless given."""
        super().__init__()
        make = make or convolution
        hidden = width * stage.expand
        self.expand = make(width, hidden, 1, activation()) if stage.expand != 1 else nn.Identity()
        self.depthwise = make(hidden, hidden, stage.kernel, activation(), stride=stride, groups=hidden)
        self.squeeze: nn.Module = nn.Identity()
        if stage.squeeze:
            self.squeeze = SqueezeExcitation(hidden, squeeze=max(1, width // 4), activation=activation())
        self.project = make(hidden, stage.width, 1, nn.Identity())
        self.residual = stride == 1 and width == stage.width

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.project(self.squeeze(self.depthwise(self.expand(x))))
        return x + y if self.residual else y


class FewChannels(nn.Conv2d):
    """A convolution of three channels, whose weights' gradient is a product of matrices where a GPU must be
    deterministic.

    cuDNN's deterministic kernel for it takes 25 of the 55 ms of a training step of icam-31k with 256 images (H200);
    with this one the step takes 32.
    """

    def forward(self, x: Tensor) -> Tensor:
        exact = x.is_cuda and torch.are_deterministic_algorithms_enabled() and not torch.is_autocast_enabled("cuda")
        if exact and self.training and self.bias is None and self.groups == 1:
            stride, padding = self.stride[0], self.padding[0]
            y: Tensor = _FewChannels.apply(x, self.weight, stride, padding)  # type: ignore[no-untyped-call]
            return y
        return super().forward(x)


class Same(FewChannels):
    """A strided convolution that pads as TensorFlow's "SAME" does: what is missing to ⌈side / stride⌉ windows,
    half of it before and the rest after the map. Windows on an even side lie a pixel further than torch's.
    """

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(self.padded(x))

    def padded(self, x: Tensor) -> Tensor:
        return F.pad(x, (*self._missing(x, 1), *self._missing(x, 0)))

    def _missing(self, x: Tensor, axis: int) -> tuple[int, int]:
        side, kernel, stride = x.shape[2 + axis], self.kernel_size[axis], self.stride[axis]
        missing = max(((side + stride - 1) // stride - 1) * stride + kernel - side, 0)
        return missing // 2, missing - missing // 2


class _FewChannels(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor, weight: Tensor, stride: int, padding: int) -> Tensor:
        context.save_for_backward(x, weight)
        context.stride, context.padding = stride, padding
        return F.conv2d(x, weight, None, stride, padding)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor, None, None]:
        """dW = Σ_image G · columnsᵀ, the columns being what each weight saw."""
        x, weight = context.saved_tensors
        stride, padding, (height, width) = context.stride, context.padding, gradient.shape[2:]
        padded = F.pad(x, (padding,) * 4)
        seen = [
            padded[:, :, down : down + stride * height : stride, right : right + stride * width : stride]
            for down in range(weight.shape[2])
            for right in range(weight.shape[3])
        ]
        columns = torch.stack(seen, 2).flatten(1, 2).flatten(2)  # (B, 3 · k², h · w)
        of_weight = torch.bmm(gradient.flatten(2), columns.mT).sum(0).view_as(weight)
        of_x = conv2d_input(x.shape, weight, gradient, stride, padding) if context.needs_input_grad[0] else None
        return of_x, of_weight, None, None


def convolution(
    width: int,
    out: int,
    kernel: int,
    activation: nn.Module,
    *,
    stride: int = 1,
    groups: int = 1,
    kind: type[nn.Conv2d] = nn.Conv2d,
) -> nn.Sequential:
    """Convolution, BatchNorm, activation; padded so that a map is divided by the stride and nothing else."""
    return nn.Sequential(
        kind(width, out, kernel, stride, (kernel - stride + 1) // 2, groups=groups, bias=False),
        nn.BatchNorm2d(out),
        activation,
    )


def same_convolution(
    width: int,
    out: int,
    kernel: int,
    activation: nn.Module,
    *,
    stride: int = 1,
    groups: int = 1,
    kind: type[nn.Conv2d] = nn.Conv2d,
) -> nn.Sequential:
    """The same as TensorFlow's EfficientNets have it: other padding where the stride is not 1, ε and momentum of
    BatchNorm. Weights that were learned with one of the two are wrong in the other.
    """
    if stride == 1:
        layer = kind(width, out, kernel, padding=kernel // 2, groups=groups, bias=False)
    else:
        layer = Same(width, out, kernel, stride, groups=groups, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(out, eps=1e-3, momentum=0.01), activation)


def he_normal(layer: nn.Conv2d) -> None:
    """Begin as the papers of small CNNs do (He et al., 2015), by how many cells a weight reaches."""
    fan_out = layer.kernel_size[0] * layer.kernel_size[1] * layer.out_channels // layer.groups
    nn.init.normal_(layer.weight, std=(2 / fan_out) ** 0.5)


CONVOLUTIONS: dict[str, Callable[..., nn.Sequential]] = {"torch": convolution, "tensorflow": same_convolution}
