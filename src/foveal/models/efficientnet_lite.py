"""EfficientNet-Lite: EfficientNet for small machines, without squeeze-and-excitation, with ReLU6, and with ImageNet
weights to begin with.

    x = stem_32(image);   x = MBConv_(k, expand)(x), 16 to 21 times;   z = mean(δ(BN(W_top x)));   logits = W z + b
    z = BN[z; mean m_4; max m_4; …; mean m_32; max m_32]  where it is `pooled`
    width of a stage = 8 ⌊w·C/8 + 1/2⌋, 8 more where that is below 0.9 w·C
    blocks of a stage = ⌈d·n⌉, of the first and the last n;   the stem and the top do not grow

Symbols: δ ReLU6; m_s the last map of stride s; C and n the widths and blocks of EfficientNet-B0; w and d the
    multipliers, 1 and 1 (Lite0), 1 and 1.1 (Lite1), 1.1 and 1.2 (Lite2).
Paper: Mingxing Tan, Quoc V. Le (2019). EfficientNet: rethinking model scaling for convolutional neural networks. ICML.
    arXiv:1905.11946.
Paper: Renjie Liu (2020). Higher accuracy on vision models with EfficientNet-Lite. TensorFlow blog.
Departs from the paper: no stochastic depth. `pooled` is ours: a fault of a few pixels is told from what lies around
    it, which early maps show and the last mean has lost. Padding and BatchNorm are TensorFlow's, and images are
    normalised to (u − 127)/128, so that its weights can be used: `--init-from imagenet`.
Cost: 0.4 (Lite0), 0.6 (Lite1) and 0.9 (Lite2) billion multiplications for an image of its own side.
Example: EfficientNetLite(EfficientNetLiteConfig(classes=3, image=64))(torch.rand(2, 3, 64, 64))
"""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from foveal.errors import expect, expect_integer, is_number, short_repr
from foveal.models.mbconv import Stage, Stages, he_normal, same_convolution
from foveal.runtime.card import LITE_MEAN, LITE_STD
from foveal.vision.maps import check_maps

LARGEST = 8  # multiplier: EfficientNet-L2 has 5.3


@dataclass(frozen=True)
class EfficientNetLiteConfig:
    classes: int = 2
    image: int = 224  # side in pixels that it is made for; it takes any other, too
    width_multiplier: float = 1.0  # w
    depth_multiplier: float = 1.0  # d
    dropout: float = 0.2  # before the head
    pooled: bool = False  # the head sees the mean and the maximum of the map of every stride, too
    family: str = field(default="efficientnet_lite", init=False)

    def depth(self) -> int:
        """Blocks that are built one after the other."""
        return sum(stage.blocks for stage in lite_stages(self.width_multiplier, self.depth_multiplier))


KIND = "images to logits"
PRESETS = {
    "efficientnet-lite0": EfficientNetLiteConfig(),  # 3,373,570 parameters
    "efficientnet-lite1": EfficientNetLiteConfig(image=240, depth_multiplier=1.1),
    "efficientnet-lite2": EfficientNetLiteConfig(image=260, width_multiplier=1.1, depth_multiplier=1.2, dropout=0.3),
}
STEM, TOP = 32, 1280
B0 = (
    Stage(16, blocks=1, expand=1, stride=1, kernel=3, squeeze=False),
    Stage(24, blocks=2, expand=6, stride=2, kernel=3, squeeze=False),
    Stage(40, blocks=2, expand=6, stride=2, kernel=5, squeeze=False),
    Stage(80, blocks=3, expand=6, stride=2, kernel=3, squeeze=False),
    Stage(112, blocks=3, expand=6, stride=1, kernel=5, squeeze=False),
    Stage(192, blocks=4, expand=6, stride=2, kernel=5, squeeze=False),
    Stage(320, blocks=1, expand=6, stride=1, kernel=3, squeeze=False),
)


class EfficientNetLite(nn.Module):
    """Images (B, 3, h, w), normalised → logits (B, classes)."""

    normalisation = (LITE_MEAN, LITE_STD)

    def __init__(self, config: EfficientNetLiteConfig) -> None:
        super().__init__()
        expect_integer(config.classes, "EfficientNetLite's classes")
        expect_integer(config.image, "EfficientNetLite's image")
        expect(
            is_number(config.dropout) and 0 <= config.dropout < 1,
            "EfficientNetLite's dropout",
            "at least 0 and below 1",
            short_repr(config.dropout),
        )
        expect(isinstance(config.pooled, bool), "EfficientNetLite's pooled", "True or False", short_repr(config.pooled))
        self.config = config
        scaled = lite_stages(config.width_multiplier, config.depth_multiplier)
        self.stages = Stages(STEM, scaled, activation="relu6", convolution="tensorflow")
        self.top = same_convolution(self.stages.width, TOP, 1, nn.ReLU6())
        seen = TOP + (2 * sum(self.widths) if config.pooled else 0)
        self.norm = nn.BatchNorm1d(seen) if config.pooled else nn.Identity()  # maps differ in scale
        self.dropout = nn.Dropout(config.dropout)
        self.head = nn.Linear(seen, config.classes)
        if config.pooled:  # of thousands of inputs, weights at random say more than a few hundred images can unsay
            nn.init.zeros_(self.head.weight)
        for part in self.modules():
            if isinstance(part, nn.Conv2d):
                he_normal(part)

    def example(self, batch: int = 1) -> tuple[Tensor, ...]:
        """Inputs that it takes."""
        return (torch.zeros(batch, 3, self.config.image, self.config.image),)

    @property
    def strides(self) -> tuple[int, ...]:
        """Of the maps of `features`: 4, 8, 16 and 32."""
        return self.stages.strides[1:]

    @property
    def widths(self) -> tuple[int, ...]:
        return self.stages.widths[1:]

    def features(self, images: Tensor) -> list[Tensor]:
        """The last map (B, C, h, w) of each stride: see models/features.py."""
        check_maps(self, images, 3, self.head.weight, "images")
        return self.stages.features(images)[1:]

    def forward(self, images: Tensor) -> Tensor:
        return self.answer(self.see(images))

    def see(self, images: Tensor) -> Tensor:
        """z: all that the head sees of the images, before it is normalised."""
        maps = self.features(images)
        seen = [self.top(maps[-1]).mean((2, 3))]
        if self.config.pooled:
            seen += [pool for one in maps for pool in (one.mean((2, 3)), one.amax((2, 3)))]
        return torch.cat(seen, 1)

    @property
    def seen_width(self) -> int:
        """Numbers per image of `see`."""
        return self.head.in_features

    def answer(self, seen: Tensor) -> Tensor:
        if self.config.pooled:
            alone = self.training and len(seen) == 1
            expect(not alone, "EfficientNetLite's images", "2 or more at once to train `pooled`", 1, "raise the batch")
        logits: Tensor = self.head(self.dropout(self.norm(seen)))
        return logits


def lite_stages(width: float, depth: float) -> tuple[Stage, ...]:
    """The stages of EfficientNet-B0, each so many times as wide and as deep; the first and the last stay as deep."""
    for name, value in (("width", width), ("depth", depth)):
        fits = is_number(value) and 0 < value <= LARGEST
        expect(fits, f"EfficientNetLite's {name} multiplier", f"above 0, at most {LARGEST}", short_repr(value))
    ends = (B0[0], B0[-1])
    return tuple(
        Stage(
            _rounded(width * stage.width),
            stage.blocks if stage in ends else math.ceil(depth * stage.blocks),
            stage.expand,
            stage.stride,
            stage.kernel,
            stage.squeeze,
        )
        for stage in B0
    )


def _rounded(width: float) -> int:
    """To the nearest multiple of 8, but by no more than a tenth down."""
    nearest = max(8, int(width + 4) // 8 * 8)
    return nearest if nearest >= 0.9 * width else nearest + 8
