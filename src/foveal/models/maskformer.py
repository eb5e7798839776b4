"""MaskFormer: a set of queries, each of which answers with a class and a mask; a pixel's label is what the masks that
lie on it are said to be.

    m_4, m_8, m_16, m_32 = LN(backbone(image))
    y_32 = δ(GN(W m_32));   y_s = δ(GN(W (GN(W_s m_s) + y_2s↑)));   P = W_P y_4
    p_i, M_i = softmax(W_c x_i), σ(MLP(x_i) · P),   x_i the states of a decoder that looks at m_32
    p(k at j) = Σ_i p_i(k) M_i(j);   logits = log p

Symbols: x_i one of N queries; k a label: background, or a class, and in p_i also "nothing", which no pixel is; j a cell
    of 4 × 4 pixels; y the pixel decoder, a feature pyramid; W 3 × 3 convolutions, W_s 1 × 1; GN GroupNorm; δ ReLU;
    ↑ to the next grid by nearest neighbours. The decoder is that of models/query_decoder.py, or with
    attention="masked" Mask2Former's (models/masked_attention.py), which looks at y_32, y_16 and y_8 in turns.
Paper: Bowen Cheng, Alexander G. Schwing, Alexander Kirillov (2021). Per-pixel classification is not all you need for
    semantic segmentation. NeurIPS. arXiv:2107.06278.
Departs from the paper: the background is a label like others, and N of small builds is small. Every backbone's maps
    pass a LayerNorm, where the paper has them for Swin alone. logits are log p at stride 4, so that their softmax is p
    made to sum to 1.
Cost: the backbone's, O(h·w·C²) for the pixel decoder at stride 4 and O(N·h·w·C) for the masks there.
Example: MaskFormer(MaskFormerConfig(3, 64, "swin-micro", pixel_width=8, mask_width=6, groups=4, queries=5, width=12,
    heads=3, layers=2, hidden=10))(torch.rand(2, 3, 64, 64))
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from foveal.errors import expect, expect_integer, is_number, short_repr, unknown
from foveal.models.image_model import check_images
from foveal.models.map_backbone import backbone_config, map_backbone
from foveal.models.masked_attention import MaskedDecoder
from foveal.models.query_decoder import QueryDecoder
from foveal.models.segmenting import Learned
from foveal.runtime.card import SEWER_MEAN, SEWER_STD


@dataclass(frozen=True)
class MaskFormerConfig:
    classes: int = 2  # with the background, which is the first
    image: int = 512  # side in pixels that it is made for; it takes any other, too
    backbone: str = "swin-tiny"  # an image model that gives maps, by its name
    backbone_config: dict[str, Any] = field(default_factory=dict)  # what is different in its config
    pixel_width: int = 256  # channels of the pixel decoder
    mask_width: int = 256  # of the pixel embeddings P
    groups: int = 32  # of GN
    queries: int = 100  # N
    width: int = 256  # C, of the queries
    heads: int = 8
    layers: int = 6
    hidden: int = 2048  # of the decoder's feed-forward networks
    attention: str = "full"  # or "masked": where the decoder's queries may look
    dropout: float = 0.1  # of the decoder, after every linear map but those of q, k and v
    attention_dropout: float = 0.0  # of the decoder
    family: str = field(default="maskformer", init=False)

    def __post_init__(self) -> None:
        if isinstance(self.backbone_config, dict):  # a recipe or a card writes a tuple as a list
            changes = {k: tuple(v) if isinstance(v, list) else v for k, v in self.backbone_config.items()}
            object.__setattr__(self, "backbone_config", changes)

    def depth(self) -> int:
        """Blocks that are built one after the other."""
        inner = backbone_config(self.backbone, self.image, self.backbone_config)
        return self.layers + (inner.depth() if hasattr(inner, "depth") else 0)


KIND = "images to maps"
SMALL = MaskFormerConfig(
    image=256,
    backbone="swin-micro",
    pixel_width=32,
    mask_width=32,
    groups=8,
    queries=20,
    width=64,
    heads=4,
    layers=2,
    hidden=128,
)
PRESETS = {
    "maskformer-swin-tiny": MaskFormerConfig(backbone_config={"drop_path": 0.3}),  # 42 million parameters
    "maskformer-swin-base": MaskFormerConfig(  # 102 million
        image=640, backbone="swin-base", backbone_config={"window": 12, "drop_path": 0.3}
    ),
    "maskformer-micro": SMALL,  # for small sets
    "mask2former-micro": replace(SMALL, layers=3, hidden=64, attention="masked", dropout=0.0),
}


class MaskFormer(nn.Module):
    """Images (B, 3, h, w), normalised → logits (B, classes, h/4, w/4)."""

    def __init__(self, config: MaskFormerConfig) -> None:
        super().__init__()
        _check(config)
        self.config = config
        backbone: Any = map_backbone(config.backbone, config.image, config.backbone_config)
        self.strides: tuple[int, ...] = backbone.strides  # of `features`
        self.widths: tuple[int, ...] = backbone.widths
        self.stride, self.multiple = self.strides[0], self.strides[-1]
        self.backbone = backbone
        self.norms = nn.ModuleList(nn.LayerNorm(width) for width in self.widths)
        self.pixels = PixelDecoder(self.widths, config.pixel_width, config.mask_width, config.groups)
        self.decoder = DECODERS[config.attention](config, self.widths)
        self.classify = nn.Linear(config.width, config.classes + 1)  # the last is "nothing"
        self.embed = Perceptron(config.width, config.mask_width)

    @property
    def normalisation(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Of the images: as the backbone has learned to see them."""
        own: tuple[tuple[float, ...], tuple[float, ...]]
        own = getattr(self.backbone, "normalisation", (SEWER_MEAN, SEWER_STD))
        return own

    def example(self, batch: int = 1) -> tuple[Tensor, ...]:
        """Inputs that it takes."""
        return (torch.zeros(batch, 3, self.config.image, self.config.image),)

    def forward(self, images: Tensor) -> Tensor:
        states, pixels = self.see(images)
        return mixed(*self.answer(states[-1], pixels))

    def learn(self, images: Tensor) -> Learned:
        states, pixels = self.see(images)
        queries = tuple(self.answer(one, pixels) for one in reversed(states))
        return Learned(mixed(*queries[0]), queries=queries)

    def features(self, images: Tensor) -> list[Tensor]:
        """The backbone's maps, normalised (B, C, h, w): see models/features.py."""
        check_images(self, images, 1, self.classify.weight)
        maps = zip(self.norms, self.backbone.features(images), strict=True)
        return [norm(one.permute(0, 2, 3, 1)).permute(0, 3, 1, 2) for norm, one in maps]

    def see(self, images: Tensor) -> tuple[list[Tensor], Tensor]:
        """The states of the queries (B, N, C), of the last layer last; and the pixel embeddings (B, E, h/4, w/4)."""
        maps = self.features(images)
        pyramid, pixels = self.pixels(maps)
        return self.decoder(maps, pyramid, pixels, self.embed), pixels

    def answer(self, state: Tensor, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Classes (B, N, classes + 1) and masks (B, N, h/4, w/4) of these queries, logits both."""
        return self.classify(state), torch.einsum("bne,behw->bnhw", self.embed(state), pixels)


class PixelDecoder(nn.Module):
    """A feature pyramid: maps, the finest first → y, the coarsest first, and the pixel embeddings P."""

    def __init__(self, seen: tuple[int, ...], width: int, embedding: int, groups: int) -> None:
        """seen: channels of the maps."""
        super().__init__()
        self.start = nn.Sequential(*_convolution(seen[-1], width, 3, groups), nn.ReLU())
        self.lateral = nn.ModuleList(nn.Sequential(*_convolution(one, width, 1, groups)) for one in seen[-2::-1])
        self.blocks = nn.ModuleList(
            nn.Sequential(*_convolution(width, width, 3, groups), nn.ReLU()) for _ in self.lateral
        )
        self.out = nn.Conv2d(width, embedding, 3, padding=1)
        nn.init.kaiming_uniform_(self.out.weight, a=1)
        nn.init.zeros_(self.out.bias)  # type: ignore[arg-type]

    def forward(self, maps: list[Tensor]) -> tuple[list[Tensor], Tensor]:
        pyramid = [self.start(maps[-1])]
        for one, lateral, block in zip(maps[-2::-1], self.lateral, self.blocks, strict=True):
            upper = F.interpolate(pyramid[-1], (one.shape[2], one.shape[3]), mode="nearest")
            pyramid.append(block(lateral(one) + upper))
        return pyramid, self.out(pyramid[-1])


class Perceptron(nn.Sequential):
    """(…, width) → (…, out), through two hidden layers."""

    def __init__(self, width: int, out: int) -> None:
        hidden = [part for _ in range(2) for part in (nn.Linear(width, width), nn.ReLU())]
        super().__init__(*hidden, nn.Linear(width, out))


def mixed(classes: Tensor, masks: Tensor) -> Tensor:
    """log Σ_i p_i(k) M_i(j), (B, classes, h, w): what no query answers is "nothing", and has no share.

    M is taken relative to the surest mask on each cell: where all are far from it, 16 bits have no σ, and runtimes
    round it.
    """
    on = F.logsigmoid(masks)
    most = on.detach().amax(1, keepdim=True)
    found = torch.einsum("bnk,bnhw->bkhw", classes.softmax(-1)[..., :-1], (on - most).exp())
    found = found.to(torch.promote_types(found.dtype, torch.float32))
    return found.clamp(min=torch.finfo(torch.float32).tiny).log() + most


def _convolution(seen: int, width: int, kernel: int, groups: int) -> tuple[nn.Module, ...]:
    made = nn.Conv2d(seen, width, kernel, padding=kernel // 2, bias=False)
    nn.init.kaiming_uniform_(made.weight, a=1)
    return made, nn.GroupNorm(groups, width)


def _full(config: MaskFormerConfig, seen: tuple[int, ...]) -> nn.Module:
    return QueryDecoder(seen[-1], config.width, **_sizes(config))


def _masked(config: MaskFormerConfig, seen: tuple[int, ...]) -> nn.Module:
    return MaskedDecoder(config.pixel_width, config.width, min(LEVELS, len(seen) - 1), **_sizes(config))


def _sizes(config: MaskFormerConfig) -> dict[str, Any]:
    names = ("queries", "heads", "layers", "hidden", "dropout", "attention_dropout")
    return {name: getattr(config, name) for name in names}


# Mask2Former reads the pixel decoder's maps but the finest, three of them.
LEVELS = 3
DECODERS: dict[str, Callable[[MaskFormerConfig, tuple[int, ...]], nn.Module]] = {"full": _full, "masked": _masked}


def _check(config: MaskFormerConfig) -> None:
    sizes = ("classes", "image", "pixel_width", "mask_width", "groups", "queries", "width", "heads", "layers", "hidden")
    for name in sizes:
        expect_integer(getattr(config, name), f"MaskFormer's {name}")
    if config.attention not in DECODERS:
        raise unknown("attention of a MaskFormer", str(config.attention), DECODERS)
    expect(
        config.classes > 1, "MaskFormer's classes", "at least 2, of which the first is the background", config.classes
    )
    for name, width, parts in (("heads", "width", config.heads), ("groups", "pixel_width", config.groups)):
        whole = getattr(config, width)
        expect(whole % parts == 0, f"MaskFormer's {name}", f"a divisor of the {width} {whole}", parts)
    expect(
        config.width % 4 == 0, "MaskFormer's width", "a multiple of 4, for sines and cosines of two axes", config.width
    )
    for name in ("dropout", "attention_dropout"):
        rate = getattr(config, name)
        expect(is_number(rate) and 0 <= rate < 1, f"MaskFormer's {name}", "at least 0 and below 1", short_repr(rate))
