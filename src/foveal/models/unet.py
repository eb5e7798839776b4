"""U-Net: down to coarse maps that know what, up again to fine maps that know where, with a bridge at every scale.

    e_0 = B(image);   e_l = B(max_2×2 e_{l−1});   d_L = e_L;   d_l = B([U d_{l+1}; e_l]);   logits = W d_0 + b
    B(x) = δ(BN(W_2 δ(BN(W_1 x)))),  W_1 and W_2 of 3 × 3

Symbols: l = 0 … L the scales, of stride 2^l, each with twice the channels of the one before; U a transposed convolution
    of 2 × 2 and stride 2 that halves the channels; [;] channels one behind the other; δ ReLU.
Paper: Olaf Ronneberger, Philipp Fischer, Thomas Brox (2015). U-Net: convolutional networks for biomedical image
    segmentation. MICCAI. arXiv:1505.04597.
Departs from the paper: as it is built today, convolutions fill the border with zeros, so that no map has to be cropped,
    and have BatchNorm. The paper gives no rate for its dropout behind e_L: `dropout`, 0 unless given. Its loss, which
    weighs pixels by how near to a border they lie, is the recipe's.
Cost: O(h·w·C²), C the channels at stride 1: 0.77 billion multiplications for 256 × 256 pixels and 8 channels.
Example: Unet(UnetConfig(classes=3, image=32, widths=(4, 8, 16)))(torch.rand(2, 3, 32, 32))
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from foveal.errors import expect, expect_integer, is_number, short_repr
from foveal.models.image_model import as_tuples, check_images
from foveal.models.mbconv import FewChannels, convolution


@dataclass(frozen=True)
class UnetConfig:
    classes: int = 2  # with the background, which is the first
    image: int = 256  # side in pixels that it is made for; it takes any other that `multiple` divides, too
    widths: tuple[int, ...] = (64, 128, 256, 512, 1024)  # channels of each scale, the finest first
    dropout: float = 0.0  # on the coarsest map
    family: str = field(default="unet", init=False)

    def __post_init__(self) -> None:
        as_tuples(self, ("widths",))

    def depth(self) -> int:
        """Blocks that are built one after the other."""
        return 2 * len(self.widths) - 1


KIND = "images to maps"
PRESETS = {
    "unet-8": UnetConfig(widths=(8, 16, 32, 64, 128)),  # 486,562 parameters
    "unet-16": UnetConfig(widths=(16, 32, 64, 128, 256)),  # 1.9 million
    "unet-64": UnetConfig(),  # 31 million: the paper's
}


class Unet(nn.Module):
    """Images (B, 3, h, w), normalised → logits (B, classes, h, w)."""

    stride = 1

    def __init__(self, config: UnetConfig) -> None:
        super().__init__()
        _check(config)
        self.config, widths = config, config.widths
        self.backbone = Contracting(widths)
        self.multiple = self.backbone.strides[-1]
        self.dropout = nn.Dropout(config.dropout)
        pairs = list(zip(widths[-2::-1], widths[:0:-1], strict=True))  # (C_l, C_{l+1}), the coarsest first
        self.up = nn.ModuleList(nn.ConvTranspose2d(below, width, 2, stride=2) for width, below in pairs)
        self.blocks = nn.ModuleList(twice(2 * width, width) for width, _ in pairs)
        self.head = nn.Conv2d(widths[0], config.classes, 1)
        for part in (self.blocks, self.head):
            draw(part)

    def example(self, batch: int = 1) -> tuple[Tensor, ...]:
        """Inputs that it takes."""
        return (torch.zeros(batch, 3, self.config.image, self.config.image),)

    @property
    def strides(self) -> tuple[int, ...]:
        """Of the maps of `features`: 1, 2, 4, …"""
        return self.backbone.strides

    @property
    def widths(self) -> tuple[int, ...]:
        return self.backbone.widths

    def features(self, images: Tensor) -> list[Tensor]:
        """e_0 … e_L: see models/features.py."""
        check_sides(self, images, self.multiple, self.head.weight)
        return self.backbone.features(images)

    def forward(self, images: Tensor) -> Tensor:
        *skips, x = self.features(images)
        x = self.dropout(x)
        for up, block, skip in zip(self.up, self.blocks, reversed(skips), strict=True):
            x = block(torch.cat([up(x), skip], 1))
        logits: Tensor = self.head(x)
        return logits


class Contracting(nn.Module):
    """The way down: images (B, 3, h, w) → e_0 … e_L, (B, C_l, h/2^l, w/2^l)."""

    def __init__(self, widths: tuple[int, ...]) -> None:
        super().__init__()
        self.strides = tuple(2**scale for scale in range(len(widths)))
        self.blocks = nn.ModuleList(twice(*pair) for pair in zip((3, *widths[:-1]), widths, strict=True))
        draw(self)

    @property
    def widths(self) -> tuple[int, ...]:
        """Read off the layers, which pruning makes narrower."""
        return tuple(block[1][0].out_channels for block in self.blocks)  # type: ignore[index]

    def features(self, images: Tensor) -> list[Tensor]:
        maps: list[Tensor] = []
        for block in self.blocks:
            maps.append(block(F.max_pool2d(maps[-1], 2) if maps else images))
        return maps


def twice(width: int, out: int) -> nn.Sequential:
    """B: two convolutions, each with BatchNorm and ReLU."""
    kind = FewChannels if width == 3 else nn.Conv2d
    return nn.Sequential(convolution(width, out, 3, nn.ReLU(), kind=kind), convolution(out, out, 3, nn.ReLU()))


def draw(part: nn.Module) -> None:
    """New weights of its convolutions, of deviation √(2/N), N the inputs of a neuron."""
    for one in part.modules():
        if isinstance(one, nn.Conv2d):
            nn.init.kaiming_normal_(one.weight, nonlinearity="relu")


def check_sides(model: nn.Module, images: Tensor, multiple: int, weight: Tensor) -> None:
    """Raise a FovealError that names the model unless images are (B, 3, h, w) and `multiple` divides their sides."""
    check_images(model, images, multiple, weight)
    height, width = images.shape[2:]
    fits = height % multiple == 0 and width % multiple == 0
    expect(fits, f"{type(model).__name__}'s images", f"sides that {multiple} divides", (height, width), "pad them")


def check_widths(config: Any) -> None:
    """Raise a FovealError unless a config's `widths` are channels of two scales or more."""
    name = f"{type(config).__name__.removesuffix('Config')}'s widths"
    several = isinstance(config.widths, tuple) and len(config.widths) > 1
    expect(several, name, "channels of two scales or more", short_repr(config.widths))
    for width in config.widths:
        expect_integer(width, name)


def _check(config: UnetConfig) -> None:
    for name in ("classes", "image"):
        expect_integer(getattr(config, name), f"Unet's {name}")
    fits = is_number(config.dropout) and 0 <= config.dropout < 1
    expect(fits, "Unet's dropout", "at least 0 and below 1", short_repr(config.dropout))
    check_widths(config)
