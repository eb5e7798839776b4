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
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.grad import conv2d_input

from foveal.errors import expect, expect_integer, short_repr, unknown
from foveal.vision.squeeze_excitation import SqueezeExcitation

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {"silu": nn.SiLU, "relu": nn.ReLU, "hardswish": nn.Hardswish}


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
    ) -> None:
        """stem: its channels; kernel and stride: the stem's own."""
        for name, value in (("stem", stem), ("kernel", kernel), ("stride", stride)):
            expect_integer(value, f"Stages' {name}")
        expect(kernel >= stride, "Stages' kernel", f"at least the stride, {stride}, or pixels are skipped", kernel)
        expect(stride > 1 or kernel % 2 == 1, "Stages' kernel", "an odd number where the stride is 1", kernel)
        if not isinstance(activation, str) or activation not in ACTIVATIONS:
            raise unknown("activation", str(activation), ACTIVATIONS)
        expect(isinstance(stages, (tuple, list)), "Stages' stages", "a tuple of Stage", short_repr(stages))
        delta = ACTIVATIONS[activation]
        parts: list[nn.Module] = [convolution(3, stem, kernel, delta(), stride=stride, kind=FewChannels)]
        width = stem
        for stage in stages:
            _check(stage)
            for block in range(stage.blocks):
                parts.append(MBConv(width, stage, stage.stride if block == 0 else 1, delta))
                width = stage.width
        super().__init__(*parts)
        self.width = width


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
    def __init__(self, width: int, stage: Stage, stride: int, activation: Callable[[], nn.Module] = nn.SiLU) -> None:
        super().__init__()
        hidden = width * stage.expand
        self.expand = convolution(width, hidden, 1, activation()) if stage.expand != 1 else nn.Identity()
        self.depthwise = convolution(hidden, hidden, stage.kernel, activation(), stride=stride, groups=hidden)
        self.squeeze: nn.Module = nn.Identity()
        if stage.squeeze:
            self.squeeze = SqueezeExcitation(hidden, squeeze=max(1, width // 4), activation=activation())
        self.project = convolution(hidden, stage.width, 1, nn.Identity())
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
        if exact and self.training and self.bias is None:
            stride, padding = self.stride[0], self.padding[0]
            y: Tensor = _FewChannels.apply(x, self.weight, stride, padding)  # type: ignore[no-untyped-call]
            return y
        return super().forward(x)


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
