"""Vision Transformer: an image is a sentence of patches, read by a Transformer's encoder.

    z₀ = [x_class; x¹E; …; xᴺE] + E_pos;   ẑ_l = z_{l−1} + MultiHead(LN(z_{l−1}))
    z_l = ẑ_l + FFN(LN(ẑ_l));   logits = W LN(z_L)_class

Symbols: xⁱ the patches of the image, N of them; E one linear map of a patch; x_class and E_pos learned, with one row
    for the class token and one for each patch; L layers; FFN with GELU.
Paper: Alexey Dosovitskiy, Lucas Beyer, Alexander Kolesnikov, Dirk Weissenborn, Xiaohua Zhai, Thomas Unterthiner,
    Mostafa Dehghani, Matthias Minderer, Georg Heigold, Sylvain Gelly, Jakob Uszkoreit, Neil Houlsby (2021). An image
    is worth 16x16 words: transformers for image recognition at scale. ICLR. arXiv:2010.11929.
Paper, if self.config.stem: Tete Xiao, Mannat Singh, Eric Mintun, Trevor Darrell, Piotr Dollár, Ross Girshick (2021).
    Early convolutions help transformers see better. NeurIPS. arXiv:2106.14881.
Paper: Yanghao Li, Hanzi Mao, Ross Girshick, Kaiming He (2022). Exploring plain vision transformer backbones for object
    detection. ECCV. arXiv:2203.16527.
Departs from the paper: weights begin as in DeiT and most ports, a truncated normal of 0.02. Positions are stretched to
    another grid bicubically, as transformers does. Where patches do not divide the image, its last rows and columns
    are not seen, as there. vit-micro reads patches by 3 × 3 convolutions of stride 2 (Xiao et al.). `features` makes
    Li et al.'s pyramid of the last map, after LN, without weights: bilinear and average resampling in place of
    transposed convolutions and max-pooling.
Cost: O(L·(N²·C + N·C²)), N patches: quadratic in the pixels.
Example: Vit(VitConfig(classes=3, image=32, patch=8, width=14, heads=2, layers=2, hidden=28))(torch.rand(2, 3, 32, 32))
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from foveal.errors import expect, short_repr
from foveal.layers.multihead import MultiHead
from foveal.models.image_model import as_tuples, begin, block, check_fields, check_images, depth_rates, token
from foveal.models.mbconv import FewChannels, convolution
from foveal.position.learned_2d import Learned2d


@dataclass(frozen=True)
class VitConfig:
    classes: int = 2
    image: int = 224  # side in pixels that positions are learned for; another image may be given to the model, too
    patch: int = 16  # side of a patch in pixels
    stem: tuple[int, ...] = ()  # channels of 3 × 3 convolutions of stride 2 that read the patches; none: one linear map
    width: int = 192  # C
    heads: int = 3
    layers: int = 12  # L
    hidden: int = 768  # of the feed-forward networks
    dropout: float = 0.0  # after the positions, and after every linear map but those of q, k and v
    attention_dropout: float = 0.0
    drop_path: float = 0.0  # stochastic depth of the last block; that of the others grows towards it from 0
    epsilon: float = 1e-6  # of LayerNorm
    family: str = field(default="vit", init=False)

    def __post_init__(self) -> None:
        as_tuples(self, ("stem",))

    def depth(self) -> int:
        """Blocks that are built one after the other."""
        return self.layers + len(self.stem)


KIND = "images to logits"
PRESETS = {
    "vit-tiny": VitConfig(),  # 5.5 million parameters: DeiT-Tiny
    "vit-base": VitConfig(width=768, heads=12, hidden=3072),  # 86 million: the paper's
    "vit-micro": VitConfig(stem=(16, 24, 32, 48), width=64, heads=4, layers=5, hidden=256),  # for small sets
}


class Vit(nn.Module):
    """Images (B, 3, h, w), normalised → logits (B, classes)."""

    strides = (4, 8, 16, 32)  # of the maps that `features` gives

    def __init__(self, config: VitConfig) -> None:
        super().__init__()
        _check(config)
        self.config, width = config, config.width
        self.widths = (width,) * len(self.strides)
        side = config.image // config.patch
        self.patches: nn.Module = (
            Stem(config.stem, width) if config.stem else nn.Conv2d(3, width, config.patch, stride=config.patch)
        )
        self.class_token, self.class_position = token(width), token(width)
        self.position = Learned2d(width, side, side)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(
            block(MultiHead(width, config.heads, dropout=config.attention_dropout), config.hidden, config, rate)
            for rate in depth_rates(config.drop_path, config.layers)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, config.classes)
        begin(self, config.epsilon)

    def example(self, batch: int = 1) -> tuple[Tensor, ...]:
        """Inputs that it takes."""
        return (torch.zeros(batch, 3, self.config.image, self.config.image),)

    def forward(self, images: Tensor) -> Tensor:
        x, _ = self._encoded(images)
        logits: Tensor = self.head(self.norm(x[:, 0]))  # LN of no other token
        return logits

    def tokens(self, images: Tensor) -> tuple[Tensor, tuple[int, int]]:
        """LN(z_L), (B, 1 + N, C), the class token first; and the sides of the grid of patches."""
        x, sides = self._encoded(images)
        return self.norm(x), sides

    def features(self, images: Tensor) -> list[Tensor]:
        """Maps (B, C, h, w) of strides 4, 8, 16 and 32: the last map, resampled."""
        patch = self.config.patch
        expect(patch in self.strides, "Vit's patch", f"one of {self.strides}, for maps of these strides", patch)
        tokens, sides = self.tokens(images)
        grid = tokens[:, 1:].transpose(1, 2).unflatten(2, sides)  # (B, C, h, w)
        return [_resampled(grid, patch, stride) for stride in self.strides]

    def _encoded(self, images: Tensor) -> tuple[Tensor, tuple[int, int]]:
        """z_L and the sides of the grid."""
        check_images(self, images, self.config.patch, self.head.weight)
        grid = self.patches(images).permute(0, 2, 3, 1)  # (B, h, w, C)
        first = (self.class_token + self.class_position).expand(grid.shape[0], -1, -1)
        x = self.dropout(torch.cat([first, self.position.embed(grid).flatten(1, 2)], 1))
        for layer in self.layers:
            x = layer(x)
        return x, (grid.shape[1], grid.shape[2])


class Stem(nn.Sequential):
    """3 × 3 convolutions of stride 2 with BatchNorm and ReLU, then 1 × 1 to the width: images → (B, C, h, w).

    Each halves the sides, rounded down, so that the grid is that of whole patches.
    """

    def __init__(self, channels: tuple[int, ...], width: int) -> None:
        parts: list[nn.Module] = []
        before = 3
        for number in channels:
            kind = nn.Conv2d if parts else FewChannels
            parts.append(convolution(before, number, 3, nn.ReLU(), stride=2, kind=kind))
            before = number
        super().__init__(*parts, nn.Conv2d(before, width, 1))
        self.patch = 2 ** len(channels)

    def forward(self, images: Tensor) -> Tensor:
        height, width = (side - side % self.patch for side in images.shape[2:])
        grid: Tensor = super().forward(images[:, :, :height, :width])  # type: ignore[no-untyped-call]
        return grid


def _resampled(grid: Tensor, patch: int, stride: int) -> Tensor:
    """A map of stride `patch` as one of another stride."""
    if stride < patch:
        return F.interpolate(grid, scale_factor=patch // stride, mode="bilinear", align_corners=False)
    return grid if stride == patch else F.avg_pool2d(grid, stride // patch, ceil_mode=True)


def _check(config: VitConfig) -> None:
    expect(isinstance(config.stem, tuple), "Vit's stem", "a tuple of channels", short_repr(config.stem))
    check_fields(config, ("classes", "image", "patch", "stem", "width", "heads", "layers", "hidden"))
    expect(config.image >= config.patch, "Vit's image", f"at least one patch of {config.patch}", config.image)
    halved = 2 ** len(config.stem)
    fits = not config.stem or config.patch == halved
    expect(fits, "Vit's patch", f"{halved}, as a stem of {len(config.stem)} convolutions halves it", config.patch)
