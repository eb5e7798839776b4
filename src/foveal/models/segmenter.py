"""Segmenter: a Vision Transformer reads the image, and what a patch shows is a linear map of its token, or how much the
token is like that of a class.

    x = LN(z_L), the tokens of the N patches of a Vision Transformer
    linear:  logits = W x + b
    mask:    [x; c] = LN(layer_M(… layer_1([W x + b; c_emb])));   logits = LN_K(|x P| |c Q|ᵀ)

Symbols: c_emb one learned vector for each of the K classes, which join the patches as tokens of their own; layers as
    those of the encoder; P and Q maps without bias; |·| each token divided by its length; LN_K over the classes.
Paper: Robin Strudel, Ricardo Garcia, Ivan Laptev, Cordelia Schmid (2021). Segmenter: Transformer for semantic
    segmentation. ICCV. arXiv:2105.05633.
Paper, if self.config.stem: Tete Xiao, Mannat Singh, Eric Mintun, Trevor Darrell, Piotr Dollár, Ross Girshick (2021).
    Early convolutions help transformers see better. NeurIPS. arXiv:2106.14881.
Departs from the paper: logits stay at the stride of the patches, and whoever asks stretches them to the image,
    bilinearly, as its own last step does. P, Q and LN_K are its code's; the paper has the product alone. Of two
    classes LN_K would make 1 and −1, whatever the product: a factor for each, √C at first, stands there. Positions are
    stretched as ViT's file says. New weights, where the paper begins with ImageNet's.
Cost: O((L + M)·(N²·C + N·C²)), N patches.
Example: Segmenter(SegmenterConfig(classes=3, image=32, width=12, heads=3, layers=2, hidden=14))(
    torch.rand(2, 3, 32, 48))
"""

from dataclasses import dataclass, field, fields, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from foveal.errors import expect, expect_integer, is_number, short_repr, unknown
from foveal.layers.multihead import MultiHead
from foveal.models.image_model import DEVIATION, as_tuples, begin, block, check_images
from foveal.models.vit import Vit, VitConfig


@dataclass(frozen=True)
class SegmenterConfig:
    classes: int = 2  # K, with the background, which is the first
    image: int = 512  # side in pixels that positions are learned for; it takes any other that `multiple` divides, too
    decoder: str = "mask"  # or "linear"
    decoder_layers: int = 2  # M, of "mask"
    decoder_dropout: float = 0.1
    patch: int = 16  # this field and the rest: as ViT has them
    stem: tuple[int, ...] = ()
    width: int = 192  # C
    heads: int = 3
    layers: int = 12  # L
    hidden: int = 768
    dropout: float = 0.0
    attention_dropout: float = 0.0
    drop_path: float = 0.1
    epsilon: float = 1e-6
    family: str = field(default="segmenter", init=False)

    def __post_init__(self) -> None:
        as_tuples(self, ("stem",))

    def depth(self) -> int:
        """Blocks that are built one after the other."""
        return self.layers + len(self.stem) + (self.decoder_layers if self.decoder == "mask" else 0)


KIND = "images to maps"
DECODERS = ("linear", "mask")
PRESETS = {
    "segmenter-tiny-linear": SegmenterConfig(decoder="linear"),  # 5.7 million parameters
    "segmenter-tiny-mask": SegmenterConfig(),  # 6.7 million
    "segmenter-base-mask": SegmenterConfig(width=768, heads=12, hidden=3072),  # 102 million
    "segmenter-micro": SegmenterConfig(  # for small sets
        image=256, stem=(16, 24, 32, 48), width=64, heads=4, layers=5, hidden=256, drop_path=0.0
    ),
}


class Segmenter(nn.Module):
    """Images (B, 3, h, w), normalised → logits (B, K, h/s, w/s), s the side of a patch."""

    def __init__(self, config: SegmenterConfig) -> None:
        super().__init__()
        _check(config)
        self.config, masks = config, config.decoder == "mask"
        self.multiple = self.stride = config.patch
        shared = [one.name for one in fields(VitConfig) if one.init and one.name != "classes"]
        of_vit = {name: getattr(config, name) for name in shared}
        # Its head is W, which maps every patch here, and not the class token.
        self.backbone = Vit(VitConfig(classes=config.width if masks else config.classes, **of_vit))
        self.decoder = MaskTransformer(config) if masks else nn.Identity()

    def example(self, batch: int = 1) -> tuple[Tensor, ...]:
        """Inputs that it takes."""
        return (torch.zeros(batch, 3, self.config.image, self.config.image),)

    def forward(self, images: Tensor) -> Tensor:
        check_images(self, images, self.multiple, self.backbone.head.weight)
        height, width = images.shape[2:]
        fits = height % self.multiple == 0 and width % self.multiple == 0
        expect(fits, "Segmenter's images", f"sides that {self.multiple} divides", (height, width), "pad them")
        tokens, sides = self.backbone.tokens(images)
        patches: Tensor = self.decoder(self.backbone.head(tokens[:, 1:]))  # (B, N, K); the class token is done
        logits: Tensor = patches.transpose(1, 2).unflatten(2, sides)
        return logits


class MaskTransformer(nn.Module):
    """Tokens of patches (B, N, C) → logits (B, N, K)."""

    def __init__(self, config: SegmenterConfig) -> None:
        super().__init__()
        width, rate = config.width, config.decoder_dropout
        sizes = replace(config, dropout=rate)
        self.classes = nn.Parameter(torch.empty(config.classes, width))  # c_emb
        self.layers = nn.ModuleList(
            block(MultiHead(width, config.heads, dropout=rate), config.hidden, sizes, 0.0)
            for _ in range(config.decoder_layers)
        )
        self.norm = nn.LayerNorm(width)
        self.of_patches = nn.Linear(width, width, bias=False)  # P
        self.of_classes = nn.Linear(width, width, bias=False)  # Q
        self.mask_norm = nn.LayerNorm(config.classes) if config.classes > 2 else Scaled(config.classes, width**0.5)
        begin(self, config.epsilon)
        nn.init.trunc_normal_(self.classes, std=DEVIATION)
        for part in (self.of_patches, self.of_classes):
            nn.init.normal_(part.weight, std=width**-0.5)

    def forward(self, patches: Tensor) -> Tensor:
        count = patches.shape[1]
        both = torch.cat([patches, self.classes.expand(patches.shape[0], -1, -1)], 1)
        for layer in self.layers:
            both = layer(both)
        both = self.norm(both)
        patches = F.normalize(self.of_patches(both[:, :count]), dim=-1)
        classes = F.normalize(self.of_classes(both[:, count:]), dim=-1)
        logits: Tensor = self.mask_norm(patches @ classes.transpose(1, 2))
        return logits


class Scaled(nn.Module):
    """γ x + β, one of each for every class."""

    def __init__(self, classes: int, factor: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((classes,), factor))
        self.bias = nn.Parameter(torch.zeros(classes))

    def forward(self, masks: Tensor) -> Tensor:
        return masks * self.weight + self.bias


def _check(config: SegmenterConfig) -> None:
    if config.decoder not in DECODERS:
        raise unknown("decoder", str(config.decoder), DECODERS)
    for name in ("classes", "decoder_layers", "width", "heads", "hidden"):  # the rest of ViT's is checked by ViT
        expect_integer(getattr(config, name), f"Segmenter's {name}")
    rate = config.decoder_dropout
    fits = is_number(rate) and 0 <= rate < 1
    expect(fits, "Segmenter's decoder_dropout", "at least 0 and below 1", short_repr(rate))
