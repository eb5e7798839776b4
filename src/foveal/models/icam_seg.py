"""icam-seg: a very small segmenter, whose queries, one for each class, adapt to the image and then answer every pixel.

    m_4, m_8, … = Φ(image);   x ← δ(BN(W m_s) + 2 × 2 times x), refined, from the coarsest map down to stride 4
    P = W_p x_4;   X = LN(mean_2×2 of the coarsest x);   K = V = W_emb X + PE
    Q⁰ = softmax(W_q(Q_latent) (W_k K)ᵀ/√C) W_v X;   Q̂ = LN(Q + MHCA(Q, K, V));   Q ← LN(Q̂ + FFN(Q̂)),  L times
    z_k(i) = (e_k + W_c Q_k) · P_i/√C_p + b_k + log σ(g_k),   g_k = w_g · Q_k + b_g for k > 0

Symbols: Φ a CNN, m_s its last map of stride s; i a cell of 4 × 4 pixels; k a class, 0 the background; e_k what all
    images have in common of a class, and W_c Q_k what this one adds; g the presence
    gate: whether the image shows class k at all, which holds for all of its pixels alike; δ ReLU.
    No token and no pixel looks at its like: attention costs O(K·tokens), and there are 64 tokens for 256 × 256 pixels.
Paper: Hannibal730 (2025). Instance-adaptive Cross-Attention Model.
    github.com/Hannibal730/On-device-Sewer-Defect-Inspection.
Paper: Robin Strudel, Ricardo Garcia, Ivan Laptev, Cordelia Schmid (2021). Segmenter: Transformer for semantic
    segmentation. ICCV. arXiv:2105.05633.
Departs from the paper: ours. The first paper's queries classify an image; the second's class embeddings, which its
    transformer turns into masks of patches, are these queries here, and its patches are the cells of a convolutional
    path of stride 4. Boundaries, presence and maps of coarser strides are learned beside it, and cost nothing later.
Cost: Φ's, O(h·w·C_p) for the path and O(K·h·w·C_p/16) for the products.
Example: IcamSeg(IcamSegConfig(classes=3, image=64))(torch.rand(2, 3, 64, 64))
"""

from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from foveal.errors import expect, expect_integer, is_number, short_repr
from foveal.models.efficientnet_lite import B0
from foveal.models.first_queries import Projected
from foveal.models.icam import CrossBlock
from foveal.models.image_model import check_images
from foveal.models.map_backbone import backbone_config, map_backbone
from foveal.models.mbconv import MBConv, Stage, convolution, own_phi
from foveal.models.segmenting import Learned
from foveal.position.sinusoidal_2d import Sinusoidal2d
from foveal.runtime.card import LITE_MEAN, LITE_STD, SEWER_MEAN, SEWER_STD


@dataclass(frozen=True)
class IcamSegConfig:
    classes: int = 2  # with the background, which is the first
    image: int = 256  # side in pixels that it is made for; it takes any other that `multiple` divides, too
    stem: int = 32  # channels of Φ's stem
    stem_kernel: int = 3
    stem_stride: int = 2  # or 4
    stages: tuple[Stage, ...] = (  # of Φ: strides 4, 8 and 16
        Stage(32, stride=2, expand=1, squeeze=False),
        Stage(48, blocks=2, stride=2, expand=2, squeeze=False),
        Stage(64, blocks=2, stride=2, expand=3, squeeze=False),
    )
    activation: str = "relu"
    convolution: str = "torch"  # of Φ; or "tensorflow": padding, BatchNorm and images as EfficientNet-Lite has them
    backbone: str = ""  # an image model that gives maps as Φ, by its name; empty: our own, out of the six fields above
    path: int = 16  # C_p, the width of the path from the coarsest map to stride 4
    refine: int = 1  # blocks of the path at each stride
    width: int = 32  # C, of tokens and queries
    heads: int = 2
    layers: int = 1  # L; 0: the first look alone
    hidden: int = 32  # of the gated feed-forward network
    common: bool = True  # e; without: a class is only what this image has of it
    gate: bool = True  # g
    dropout: float = 0.0
    family: str = field(default="icam_seg", init=False)

    def __post_init__(self) -> None:
        listed = isinstance(self.stages, (tuple, list))
        if listed and any(isinstance(stage, dict) for stage in self.stages):  # as a recipe or a card writes them
            object.__setattr__(
                self, "stages", tuple(Stage(**stage) if isinstance(stage, dict) else stage for stage in self.stages)
            )

    def depth(self) -> int:
        """Blocks that are built one after the other."""
        own = self.layers + self.refine
        if self.backbone:
            inner = backbone_config(self.backbone, self.image, {})
            return own + (inner.depth() if hasattr(inner, "depth") else 0)
        return own + sum(stage.blocks for stage in self.stages if isinstance(stage, Stage))


FINEST = 4  # stride of the path: what is predicted at every pixel takes most of the time of a U-Net
KIND = "images to maps"
PRESETS = {
    "icam-seg": IcamSegConfig(),
    "icam-seg-small": IcamSegConfig(  # its Φ can begin with ImageNet's weights
        stages=B0[:4],
        activation="relu6",
        convolution="tensorflow",
        path=48,
        width=64,
        heads=4,
        layers=2,
        hidden=64,
    ),
}


class IcamSeg(nn.Module):
    """Images (B, 3, h, w), normalised → logits (B, classes, h/4, w/4)."""

    def __init__(self, config: IcamSegConfig) -> None:
        super().__init__()
        _check(config)
        self.config, width, path = config, config.width, config.path
        self.phi: Any = map_backbone(config.backbone, config.image, {}) if config.backbone else own_phi(config)
        strides = self.strides
        wanted = tuple(4 * 2**place for place in range(len(strides)))
        expect(len(strides) > 1 and strides == wanted, "IcamSeg's stages", "strides 4, 8, …", short_repr(strides))
        self.stride, self.multiple = strides[0], 2 * strides[-1]
        self.path = nn.ModuleList(Step(own, path, config.refine) for own in reversed(self.widths))
        self.pixels = nn.Conv2d(path, path, 1)
        self.norm, self.embed = nn.LayerNorm(path), nn.Linear(path, width)
        self.position = Sinusoidal2d(width)
        self.first = Projected(width, width, config.classes)
        self.layers = nn.ModuleList(CrossBlock(config) for _ in range(config.layers))
        self.answer, self.bias = nn.Linear(width, path), nn.Parameter(torch.zeros(config.classes, 1, 1))
        drawn = nn.init.normal_(torch.empty(config.classes, path))
        self.common = nn.Parameter(drawn) if config.common else None  # e
        self.gate = nn.Linear(width, 1) if config.gate else None
        if self.gate is not None:
            nn.init.constant_(self.gate.bias, 2.0)  # open, until it is learned what an image does not show
        # while it learns
        self.deep = nn.ModuleList(nn.Conv2d(path, config.classes, 1) for _ in strides[1:])
        self.boundary = nn.Conv2d(path, 1, 1)

    def example(self, batch: int = 1) -> tuple[Tensor, ...]:
        """Inputs that it takes."""
        return (torch.zeros(batch, 3, self.config.image, self.config.image),)

    @property
    def normalisation(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """(mean, std) of the images that it takes: what Φ's weights to begin with were learned with."""
        lite = self.config.convolution == "tensorflow" and not self.config.backbone
        own = (LITE_MEAN, LITE_STD) if lite else (SEWER_MEAN, SEWER_STD)
        return cast("tuple[tuple[float, ...], tuple[float, ...]]", getattr(self.phi, "normalisation", own))

    @property
    def strides(self) -> tuple[int, ...]:
        """Of the maps of `features`: 4, 8 and 16, and 32 where Φ has it."""
        return tuple(stride for stride in self.phi.strides if stride >= FINEST)

    @property
    def widths(self) -> tuple[int, ...]:
        widths: tuple[int, ...] = self.phi.widths[-len(self.strides) :]
        return widths

    def features(self, images: Tensor) -> list[Tensor]:
        """The last map (B, C, h, w) of each stride: see models/features.py."""
        maps: list[Tensor] = self.phi.features(images)[-len(self.strides) :]
        return maps

    def forward(self, images: Tensor) -> Tensor:
        return self.decide(self.see(images)).logits

    def learn(self, images: Tensor) -> Learned:
        maps = self.see(images)
        found = self.decide(maps)
        deep = [head(one) for head, one in zip(self.deep, reversed(maps[:-1]), strict=True)]
        return found._replace(deep=tuple(deep), boundary=self.boundary(maps[-1]))

    def see(self, images: Tensor) -> list[Tensor]:
        """x of every stride (B, C_p, h, w), the coarsest first."""
        check_images(self, images, self.multiple, self.pixels.weight)
        fits = images.shape[2] % self.multiple == 0 and images.shape[3] % self.multiple == 0
        sides = tuple(images.shape[2:])
        expect(fits, "IcamSeg's images", f"sides that {self.multiple} divides", sides, "pad them")
        maps: list[Tensor] = []
        for step, one in zip(self.path, reversed(self.features(images)), strict=True):
            maps.append(step(one, maps[-1] if maps else None))
        return maps

    def decide(self, maps: list[Tensor]) -> Learned:
        queries = self.gather(maps[0])
        pixels, classes = self.pixels(maps[-1]), self.answer(queries)
        if self.common is not None:
            classes = self.common + classes
        classes = classes * self.config.path**-0.5
        logits = torch.einsum("bkc,bchw->bkhw", classes, pixels) + self.bias
        if self.gate is None:
            return Learned(logits)
        presence = self.gate(queries[:, 1:])[..., 0]  # (B, K)
        opened = F.pad(F.logsigmoid(presence), (1, 0))  # the background is always there
        return Learned(logits + opened[..., None, None], presence=presence)

    def gather(self, coarse: Tensor) -> Tensor:
        """One query for each class, (B, classes, C): what it has found in the image."""
        grid = F.avg_pool2d(coarse, 2).permute(0, 2, 3, 1)
        content: Tensor = self.embed(self.norm(grid))
        memory = self.position.embed(content).flatten(1, 2)
        queries: Tensor = self.first(nn.Identity(), memory, content.flatten(1, 2))
        for layer in self.layers:
            queries = layer(queries, memory)
        return queries


class Step(nn.Module):
    """x ← δ(BN(W m) + 2 × 2 times x), refined."""

    def __init__(self, seen: int, width: int, blocks: int) -> None:
        super().__init__()
        self.lateral = convolution(seen, width, 1, nn.Identity())
        refine = Stage(width, expand=2, squeeze=False)
        self.refine = nn.Sequential(*(MBConv(width, refine, 1, nn.ReLU) for _ in range(blocks)))

    def forward(self, seen: Tensor, coarser: Tensor | None) -> Tensor:
        x: Tensor = self.lateral(seen)
        if coarser is not None:
            x = x + F.interpolate(coarser, size=seen.shape[2:], mode="nearest")  # by the size: any can be exported
        y: Tensor = self.refine(F.relu(x))
        return y


def _check(config: IcamSegConfig) -> None:
    for name in (
        "classes",
        "image",
        "stem",
        "stem_kernel",
        "stem_stride",
        "path",
        "width",
        "heads",
        "hidden",
    ):
        expect_integer(getattr(config, name), f"IcamSeg's {name}")
    for name in ("layers", "refine"):
        expect_integer(getattr(config, name), f"IcamSeg's {name}", 0)
    for name in ("common", "gate"):
        value = getattr(config, name)
        expect(isinstance(value, bool), f"IcamSeg's {name}", "True or False", short_repr(value))
    expect(config.classes > 1, "IcamSeg's classes", "at least 2, of which the first is the background", config.classes)
    fits = config.width % config.heads == 0
    expect(fits, "IcamSeg's heads", f"a divisor of the width {config.width}", config.heads)
    rate = is_number(config.dropout) and 0 <= config.dropout < 1
    expect(rate, "IcamSeg's dropout", "at least 0 and below 1", short_repr(config.dropout))
