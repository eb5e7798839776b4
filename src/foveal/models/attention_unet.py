"""Attention U-Net: a U-Net in which what is seen at a coarse scale decides what the finer map may pass on.

    e_0 … e_L = Φ(image);   d_L = e_L;   g_{L−1} = δ(BN(W_g e_L));   g_l = d_{l+1}
    d_l = B([gate(e_l, g_l); d_{l+1}↑]);   s_l = W_l d_l + b_l;   logits = W [s_{L−1}↑; …; s_0] + b

Symbols: Φ the way down of U-Net (models/unet.py), or any model that gives maps, the finest first; B two 3 × 3
    convolutions with BatchNorm and ReLU; gate that of vision/attention_gate.py; ↑ bilinear, to the grid of the finer
    map; δ ReLU; s_l what scale l says by itself.
Paper: Ozan Oktay, Jo Schlemper, Loic Le Folgoc, Matthew Lee, Mattias Heinrich, Kazunari Misawa, Kensaku Mori, Steven
    McDonagh, Nils Y. Hammerla, Bernhard Kainz, Ben Glocker, Daniel Rueckert (2018). Attention U-Net: Learning where to
    look for the pancreas. MIDL. arXiv:1804.03999.
Departs from the paper: images instead of volumes; the gate as its file says. As in the paper and its code, whose joint
    logits these are, the `ungated` finest map passes as it is, being too early to be judged; `learn` gives every
    coarser s_l as well. MONAI's AttentionUnet gates every map on the finer grid, halves by strides, doubles by
    transposed convolutions, merges by one convolution with InstanceNorm and PReLU, and has no deep supervision.
Cost: O(h·w·C²), as U-Net; the gates are 1 % of the multiplications of attention-unet-micro.
Example: AttentionUnet(AttentionUnetConfig(classes=3, image=32, widths=(4, 8, 16)))(torch.rand(2, 3, 32, 32))
"""

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from foveal.errors import expect, expect_integer, short_repr
from foveal.models.image_model import as_tuples
from foveal.models.map_backbone import backbone_config, map_backbone
from foveal.models.mbconv import convolution
from foveal.models.segmenting import Learned
from foveal.models.unet import Contracting, check_sides, check_widths, draw, twice
from foveal.runtime.card import SEWER_MEAN, SEWER_STD
from foveal.vision.attention_gate import AttentionGate, resampled


@dataclass(frozen=True)
class AttentionUnetConfig:
    classes: int = 2  # with the background, which is the first
    image: int = 256  # side in pixels that it is made for; it takes any other that `multiple` divides, too
    widths: tuple[int, ...] = (64, 128, 256, 512, 1024)  # channels of each scale of Φ, the finest first
    backbone: str = ""  # a model that gives maps as Φ, such as "efficientnet-lite0", in place of `widths`
    ungated: int = 1  # how many of the finest maps pass without a gate
    family: str = field(default="attention_unet", init=False)

    def __post_init__(self) -> None:
        as_tuples(self, ("widths",))

    def depth(self) -> int:
        """Blocks that are built one after the other."""
        if not self.backbone:
            return 2 * len(self.widths) - 1
        inner = backbone_config(self.backbone, self.image, {})
        return inner.depth() if hasattr(inner, "depth") else 1


KIND = "images to maps"
PRESETS = {
    "attention-unet": AttentionUnetConfig(),  # 33 million parameters: the widths of the paper
    "attention-unet-micro": AttentionUnetConfig(widths=(8, 16, 32, 64, 112)),  # 467,173 parameters, for small sets
}


class AttentionUnet(nn.Module):
    """Images (B, 3, h, w), normalised → logits (B, classes, h/s, w/s), s the finest stride of Φ."""

    def __init__(self, config: AttentionUnetConfig) -> None:
        super().__init__()
        _check(config)
        self.config = config
        self.backbone: Any = Contracting(config.widths)
        if config.backbone:
            self.backbone = map_backbone(config.backbone, config.image, {})
        widths, strides = self.backbone.widths, self.backbone.strides
        patch = getattr(getattr(self.backbone, "config", None), "patch", 1)  # what is cut into patches, they must fill
        self.stride, self.multiple = strides[0], math.lcm(strides[-1], patch)
        gated = len(widths) - 1 - config.ungated
        expect(gated > 0, "AttentionUnet's ungated", f"less than {len(widths) - 1}, or no gate is left", config.ungated)
        self.signal = convolution(widths[-1], widths[-1], 1, nn.ReLU())  # δ(BN(W_g x))
        self.steps, self.says = nn.ModuleList(), nn.ModuleList()
        for width, below in zip(widths[-2::-1], widths[:0:-1], strict=True):  # (C_l, C_{l+1}), the coarsest first
            gate = AttentionGate(width, below, hidden=width) if len(self.steps) < gated else None
            self.steps.append(Step(width, below, gate))
            self.says.append(nn.Conv2d(width, config.classes, 1))
        self.join = nn.Conv2d(config.classes * len(self.says), config.classes, 1)
        for part in (self.signal, self.steps, self.says, self.join):
            draw(part)

    @property
    def normalisation(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """(mean, std) of the images that it takes: those of Φ."""
        return getattr(self.backbone, "normalisation", (SEWER_MEAN, SEWER_STD))

    def example(self, batch: int = 1) -> tuple[Tensor, ...]:
        """Inputs that it takes."""
        return (torch.zeros(batch, 3, self.config.image, self.config.image),)

    def forward(self, images: Tensor) -> Tensor:
        return self.learn(images).logits

    def learn(self, images: Tensor) -> Learned:
        """The logits, and s_1 … s_{L−1}, the finest first."""
        check_sides(self, images, self.multiple, self.join.weight)
        *skips, x = self.backbone.features(images)
        signal, said = self.signal(x), []
        for step, say, skip in zip(self.steps, self.says, reversed(skips), strict=True):
            x = signal = step(skip, x, signal)
            said.append(say(x))
        logits = self.join(torch.cat([resampled(one, said[-1]) for one in said], 1))
        return Learned(logits, deep=tuple(said[-2::-1]))


class Step(nn.Module):
    """d_l = B([gate(e_l, g_l); d_{l+1}↑])."""

    def __init__(self, width: int, below: int, gate: AttentionGate | None) -> None:
        """width, below: channels of e_l and of d_{l+1}. gate: none lets e_l pass."""
        super().__init__()
        self.gate = gate
        self.block = twice(width + below, width)

    def forward(self, skip: Tensor, x: Tensor, signal: Tensor) -> Tensor:
        passed = skip if self.gate is None else self.gate(skip, signal)
        y: Tensor = self.block(torch.cat([passed, resampled(x, skip)], 1))
        return y


def _check(config: AttentionUnetConfig) -> None:
    for name in ("classes", "image"):
        expect_integer(getattr(config, name), f"AttentionUnet's {name}")
    expect_integer(config.ungated, "AttentionUnet's ungated", 0)
    expect(isinstance(config.backbone, str), "AttentionUnet's backbone", "a name", short_repr(config.backbone))
    check_widths(config)
