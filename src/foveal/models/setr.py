"""SETR: a Vision Transformer reads the image, and no map gets coarser on the way; a decoder of convolutions says what
each of its patches is.

    z_0 = patches E + E_pos;   z_l = layer of a Vision Transformer (z_{l−1});   m_l = LN(z_l), as a map
    naive:  logits = W_2 δ(BN(W_1 m_L))
    pup:    y ← δ(BN(W y))↑2, three times from m_L on;   logits = W_2 δ(BN(W y))
    mla:    a_i = δ(BN(W_i m_i)) + a_{i+1};   p_i = δ(BN(W a_i));   logits = W [B(p_1)↑4; …; B(p_4)↑4]

Symbols: L layers; i counts four of them, the last of which is L; W_1, W_2 and W_i of 1 × 1, the others of 3 × 3;
    B two of them with BatchNorm and ReLU; ↑ bilinear; δ ReLU.
Paper: Sixiao Zheng, Jiachen Lu, Hengshuang Zhao, Xiatian Zhu, Zekun Luo, Yabiao Wang, Yanwei Fu, Jianfeng Feng, Tao
    Xiang, Philip H. S. Torr, Li Zhang (2021). Rethinking semantic segmentation from a sequence-to-sequence perspective
    with transformers. CVPR. arXiv:2012.15840.
Paper, if self.config.stem: Tete Xiao, Mannat Singh, Eric Mintun, Trevor Darrell, Piotr Dollár, Ross Girshick (2021).
    Early convolutions help transformers see better. NeurIPS. arXiv:2106.14881.
Departs from the paper: logits stay at the stride of the decoder's last convolution, and whoever asks stretches them to
    the image, bilinearly, as its own last step does. No class token, as in the paper; its code has one, but in mla. A
    map has one LN, where the code has one for each head on it; mla's ↑ does not align corners. New weights, where the
    paper begins with ImageNet's.
Cost: O(L·(N²·C + N·C²)), N patches, and the decoder's convolutions: most of them at the finest stride.
Example: Setr(SetrConfig(classes=3, image=32, width=12, heads=3, layers=2, hidden=14, levels=(1, 2), decoder_width=7))(
    torch.rand(2, 3, 32, 48))
"""

from dataclasses import dataclass, field, fields, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from foveal.errors import expect, expect_integer, is_integer, short_repr, unknown
from foveal.models.image_model import as_tuples, begin, check_images
from foveal.models.mbconv import convolution
from foveal.models.segmenting import Learned
from foveal.models.vit import Vit, VitConfig


@dataclass(frozen=True)
class SetrConfig:
    classes: int = 2  # with the background, which is the first
    image: int = 512  # side in pixels that positions are learned for; it takes any other that `multiple` divides, too
    decoder: str = "naive"  # or "pup", progressive upsampling, or "mla", multi-level aggregation
    levels: tuple[int, ...] = (3, 6, 9, 12)  # layers whose maps are read: those before the last by mla or in training
    decoder_width: int = 256
    patch: int = 16  # this field and the rest: as ViT has them
    stem: tuple[int, ...] = ()
    width: int = 768  # C
    heads: int = 12
    layers: int = 12  # L
    hidden: int = 3072
    dropout: float = 0.0
    attention_dropout: float = 0.0
    drop_path: float = 0.0
    epsilon: float = 1e-6
    family: str = field(default="setr", init=False)

    def __post_init__(self) -> None:
        as_tuples(self, ("levels", "stem"))

    def depth(self) -> int:
        """Blocks that are built one after the other."""
        return self.layers + len(self.stem)


KIND = "images to maps"
LARGE = SetrConfig(levels=(10, 15, 20, 24), width=1024, heads=16, layers=24, hidden=4096)
PRESETS = {
    "setr-naive-base": SetrConfig(),  # 87.6 million parameters without those of training
    "setr-pup-base": SetrConfig(decoder="pup", levels=(5, 8, 10, 12)),
    "setr-mla-base": SetrConfig(decoder="mla"),
    "setr-naive-large": LARGE,
    "setr-pup-large": replace(LARGE, decoder="pup"),
    "setr-mla-large": replace(LARGE, decoder="mla", levels=(6, 12, 18, 24)),
    "setr-micro": SetrConfig(  # for small sets
        2, 256, "pup", (3, 5), decoder_width=32, stem=(16, 24, 32, 48), width=64, heads=4, layers=5, hidden=256
    ),
}


class Setr(nn.Module):
    """Images (B, 3, h, w), normalised → logits (B, classes, h/s, w/s); s is 16 of naive, 2 of pup and 4 of mla."""

    def __init__(self, config: SetrConfig) -> None:
        super().__init__()
        _check(config)
        self.config, kind = config, DECODERS[config.decoder]
        self.multiple, self.stride = config.patch, config.patch // kind.finer
        self.backbone = Encoder(config)
        self.decoder = kind(config)
        begin(self.decoder, config.epsilon)

    def example(self, batch: int = 1) -> tuple[Tensor, ...]:
        """Inputs that it takes."""
        return (torch.zeros(batch, 3, self.config.image, self.config.image),)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.decoder(self.maps(images))
        return logits

    def learn(self, images: Tensor) -> Learned:
        """The logits, and those of the auxiliary heads on earlier maps."""
        learned: Learned = self.decoder.learn(self.maps(images))
        return learned

    def maps(self, images: Tensor) -> list[Tensor]:
        """m of the layers that are read, (B, C, h, w)."""
        check_images(self, images, self.multiple, self.backbone.position.table)
        height, width = images.shape[2:]
        fits = height % self.multiple == 0 and width % self.multiple == 0
        expect(fits, "Setr's images", f"sides that {self.multiple} divides", (height, width), "pad them")
        maps: list[Tensor] = self.backbone(images)
        return maps


class Encoder(nn.Module):
    """A ViT without class token and head: images → m of some of its layers."""

    def __init__(self, config: SetrConfig) -> None:
        super().__init__()
        shared = [one.name for one in fields(VitConfig) if one.init and one.name != "classes"]
        vit = Vit(VitConfig(**{name: getattr(config, name) for name in shared}))
        self.patches, self.position, self.dropout, self.layers = vit.patches, vit.position, vit.dropout, vit.layers
        self.levels = config.levels
        self.norms = nn.ModuleList(nn.LayerNorm(config.width, config.epsilon) for _ in self.levels)

    def forward(self, images: Tensor) -> list[Tensor]:
        grid = self.patches(images).permute(0, 2, 3, 1)  # (B, h, w, C)
        x = self.dropout(self.position.embed(grid).flatten(1, 2))
        maps: list[Tensor] = []
        for number, layer in enumerate(self.layers, 1):
            x = layer(x)
            if number in self.levels:
                one: Tensor = self.norms[len(maps)](x)
                maps.append(one.transpose(1, 2).unflatten(2, grid.shape[1:3]))
        return maps


class Naive(nn.Module):
    """Two layers on the last map; in training, on the others, too."""

    finer = 1  # how much finer than its maps the logits are

    def __init__(self, config: SetrConfig) -> None:
        super().__init__()
        self.head = two_layers(config, 1)
        self.auxiliary = nn.ModuleList(two_layers(config, 1) for _ in config.levels[:-1])

    def forward(self, maps: list[Tensor]) -> Tensor:
        logits: Tensor = self.head(maps[-1])
        return logits

    def learn(self, maps: list[Tensor]) -> Learned:
        deep = [head(one) for head, one in zip(self.auxiliary, maps[:-1], strict=True)]
        return Learned(self(maps), deep=tuple(deep))


class Pup(nn.Module):
    """Progressive upsampling: by no more than 2 at once, and a convolution in between."""

    finer = 8

    def __init__(self, config: SetrConfig) -> None:
        super().__init__()
        inner = config.decoder_width
        self.steps = nn.ModuleList(convolution(before, inner, 3, nn.ReLU()) for before in (config.width, inner, inner))
        self.head = two_layers(config, 3, inner)
        self.auxiliary = nn.ModuleList(two_layers(config, 3) for _ in config.levels)

    def forward(self, maps: list[Tensor]) -> Tensor:
        y = maps[-1]
        for step in self.steps:
            y = upsampled(step(y), 2)
        logits: Tensor = self.head(y)
        return logits

    def learn(self, maps: list[Tensor]) -> Learned:
        deep = [upsampled(head(one), 4) for head, one in zip(self.auxiliary, maps, strict=True)]
        return Learned(self(maps), deep=tuple(deep))


class Mla(nn.Module):
    """Multi-level aggregation: maps of several layers, each with what was seen in the later ones."""

    finer = 4

    def __init__(self, config: SetrConfig) -> None:
        super().__init__()
        inner, streams = config.decoder_width, len(config.levels)
        half = inner // 2
        self.lateral = nn.ModuleList(convolution(config.width, inner, 1, nn.ReLU()) for _ in range(streams))
        self.smooth = nn.ModuleList(convolution(inner, inner, 3, nn.ReLU()) for _ in range(streams))
        self.twice = nn.ModuleList(
            nn.Sequential(convolution(inner, half, 3, nn.ReLU()), convolution(half, half, 3, nn.ReLU()))
            for _ in range(streams)
        )
        self.head = nn.Conv2d(streams * half, config.classes, 3, padding=1)
        self.auxiliary = nn.ModuleList(nn.Conv2d(inner, config.classes, 1) for _ in range(streams))

    def forward(self, maps: list[Tensor]) -> Tensor:
        return self.joined(self.aggregated(maps))

    def learn(self, maps: list[Tensor]) -> Learned:
        each = self.aggregated(maps)
        deep = [head(one) for head, one in zip(self.auxiliary, each, strict=True)]
        return Learned(self.joined(each), deep=tuple(deep))

    def aggregated(self, maps: list[Tensor]) -> list[Tensor]:
        """p, of the same levels."""
        sums: list[Tensor] = []  # a, the last level first
        for lateral, one in zip(reversed(self.lateral), reversed(maps), strict=True):
            sums.append(lateral(one) + sums[-1] if sums else lateral(one))
        return [smooth(one) for smooth, one in zip(self.smooth, reversed(sums), strict=True)]

    def joined(self, each: list[Tensor]) -> Tensor:
        wide = [upsampled(twice(one), 4) for twice, one in zip(self.twice, each, strict=True)]
        logits: Tensor = self.head(torch.cat(wide, 1))
        return logits


DECODERS: dict[str, type[Naive | Pup | Mla]] = {"naive": Naive, "pup": Pup, "mla": Mla}


def two_layers(config: SetrConfig, kernel: int, width: int | None = None) -> nn.Sequential:
    """W_2 δ(BN(W_1 m)), W_1 of kernel × kernel, from the encoder's width unless another is given."""
    first = convolution(width or config.width, config.decoder_width, kernel, nn.ReLU())
    return nn.Sequential(*first, nn.Conv2d(config.decoder_width, config.classes, 1))


def upsampled(maps: Tensor, times: int) -> Tensor:
    return F.interpolate(maps, scale_factor=times, mode="bilinear", align_corners=False)


def _check(config: SetrConfig) -> None:
    for name in ("classes", "decoder_width", "layers"):  # the rest of ViT's is checked by ViT
        expect_integer(getattr(config, name), f"Setr's {name}")
    if not isinstance(config.decoder, str) or config.decoder not in DECODERS:
        raise unknown("decoder", str(config.decoder), DECODERS)
    levels, wanted = config.levels, f"layers in their order, the last of which is {config.layers}"
    listed = isinstance(levels, tuple) and all(is_integer(one) for one in levels)
    fits = listed and levels[-1:] == (config.layers,) and levels[0] > 0 and list(levels) == sorted(set(levels))
    expect(fits, "Setr's levels", wanted, short_repr(levels))
    finer = DECODERS[config.decoder].finer
    expect_integer(config.patch, "Setr's patch")
    expect(config.patch % finer == 0, "Setr's patch", f"a multiple of {finer}, for {config.decoder}", config.patch)
    even = config.decoder != "mla" or config.decoder_width % 2 == 0
    expect(even, "Setr's decoder_width", "an even number, for mla", config.decoder_width)
