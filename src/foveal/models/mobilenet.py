"""MobileNetV3-Small and MobileNetV4-Conv-Small: the small CNNs that others put on a robot's processor.

    h = BN(depthwise_a(x));   h = δ(BN(W_1 h));   h = δ(BN(depthwise_k(h)));   h = h ⊙ σ(W_b relu(W_a mean(h)))
    y = BN(W_2 h)  (+ x where the shapes agree)
    logits = W δ(W_head mean(δ(BN(W_top y)))) + b

Each of the first depthwise convolution, W_1, the second one and the gate is there in some blocks only. V4 has no gates,
V3 no first depthwise convolution; where a block of V4 has both, the second has the stride.

Symbols: δ ReLU in V4, hard swish or ReLU in V3; σ a hard sigmoid; W_head in V4 is followed by BatchNorm, in V3 it has a
    bias.
Paper: Andrew Howard, Mark Sandler, Grace Chu, Liang-Chieh Chen, Bo Chen, Mingxing Tan, Weijun Wang, Yukun Zhu, Ruoming
    Pang, Vijay Vasudevan, Quoc V. Le, Hartwig Adam (2019). Searching for MobileNetV3. ICCV. arXiv:1905.02244.
Paper: Danfeng Qin, Chas Leichner, Manolis Delakis, Marco Fornoni, Shixin Luo, Fan Yang, Weijun Wang, Colby Banbury,
    Chengxi Ye, Berkin Akin, Vaibhav Aggarwal, Tenghui Zhu, Daniele Moro, Andrew Howard (2024). MobileNetV4: universal
    models for the mobile ecosystem. ECCV. arXiv:2404.10518.
Departs from the paper: dropout before the last layer is 0.2 in both. Widths, padding and order are those of timm's
    networks, whose graphs the tests hold them against; transformers has neither.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from foveal.models.mbconv import FewChannels, convolution
from foveal.vision.squeeze_excitation import SqueezeExcitation

DROPOUT = 0.2


@dataclass(frozen=True)
class Block:
    """One inverted residual, or with hidden = 0 one plain convolution."""

    width: int  # channels of its output
    hidden: int = 0  # channels of its middle
    kernel: int = 3  # of the depthwise convolution in the middle, 0: none; of a plain one, its own
    stride: int = 1
    start: int = 0  # kernel of the depthwise convolution before W_1, 0: none
    squeeze: int = 0  # channels inside of the gate, 0: none
    hard: bool = False  # hard swish instead of ReLU


V3_SMALL = (
    Block(16, 16, 3, 2, squeeze=8),
    Block(24, 72, 3, 2),
    Block(24, 88),
    Block(40, 96, 5, 2, squeeze=24, hard=True),
    Block(40, 240, 5, squeeze=64, hard=True),
    Block(40, 240, 5, squeeze=64, hard=True),
    Block(48, 120, 5, squeeze=32, hard=True),
    Block(48, 144, 5, squeeze=40, hard=True),
    Block(96, 288, 5, 2, squeeze=72, hard=True),
    Block(96, 576, 5, squeeze=144, hard=True),
    Block(96, 576, 5, squeeze=144, hard=True),
)
V4_CONV_SMALL = (
    Block(32, stride=2),
    Block(32, kernel=1),
    Block(96, stride=2),
    Block(64, kernel=1),
    Block(96, 192, 5, 2, start=5),
    Block(96, 192),
    Block(96, 192),
    Block(96, 192),
    Block(96, 192),
    Block(96, 384, 0, start=3),
    Block(128, 576, 3, 2, start=3),
    Block(128, 512, 5, start=5),
    Block(128, 512, 5),
    Block(128, 384, 5),
    Block(128, 512),
    Block(128, 512),
)


class MobileNet(nn.Module):
    """Images (B, 3, h, w), normalised → logits (B, classes)."""

    strides = (4, 8, 16, 32)  # of the maps of `features`

    def __init__(
        self, classes: int, stem: int, blocks: tuple[Block, ...], top: int, head: int, *, hard: bool, norm: bool
    ) -> None:
        """top, head: channels of the last two layers before the classifier; hard: hard swish in these and in the stem;
        norm: BatchNorm after the second of them.
        """
        super().__init__()
        delta: Callable[[], nn.Module] = nn.Hardswish if hard else nn.ReLU
        self.stem = convolution(3, stem, 3, delta(), stride=2, kind=FewChannels)
        parts: list[nn.Module] = []
        width, stride, levels = stem, 2, {}
        for block in blocks:
            parts.append(Inverted(width, block) if block.hidden else _plain(width, block))
            width, stride = block.width, stride * block.stride
            levels[stride] = len(parts) - 1  # the last block of this stride
        self.blocks = nn.ModuleList(parts)
        self.ends = tuple(levels[stride] for stride in self.strides)
        self.top = convolution(width, top, 1, delta())
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = convolution(top, head, 1, delta()) if norm else nn.Sequential(nn.Conv2d(top, head, 1), delta())
        self.dropout = nn.Dropout(DROPOUT)
        self.classifier = nn.Linear(head, classes)

    def features(self, images: Tensor) -> list[Tensor]:
        """The last map (B, C, h, w) of each stride."""
        x, maps = self.stem(images), []
        for place, block in enumerate(self.blocks):
            x = block(x)
            if place in self.ends:
                maps.append(x)
        return maps

    def forward(self, images: Tensor) -> Tensor:
        seen = self.head(self.pool(self.top(self.features(images)[-1]))).flatten(1)
        logits: Tensor = self.classifier(self.dropout(seen))
        return logits


class Inverted(nn.Module):
    """Maps (B, width, h, w) → (B, block.width, h′, w′)."""

    def __init__(self, width: int, block: Block) -> None:
        super().__init__()
        delta: Callable[[], nn.Module] = nn.Hardswish if block.hard else nn.ReLU
        middle, hidden = bool(block.kernel), block.hidden
        self.start: nn.Module = nn.Identity()
        self.expand: nn.Module = nn.Identity()
        self.depthwise: nn.Module = nn.Identity()
        self.squeeze: nn.Module = nn.Identity()
        if block.start:
            stride = 1 if middle else block.stride
            self.start = convolution(width, width, block.start, nn.Identity(), stride=stride, groups=width)
        if hidden != width:
            self.expand = convolution(width, hidden, 1, delta())
        if middle:
            self.depthwise = convolution(hidden, hidden, block.kernel, delta(), stride=block.stride, groups=hidden)
        if block.squeeze:
            self.squeeze = SqueezeExcitation(hidden, squeeze=block.squeeze, gate=nn.Hardsigmoid())
        self.project = convolution(hidden, block.width, 1, nn.Identity())
        self.residual = block.stride == 1 and width == block.width

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.project(self.squeeze(self.depthwise(self.expand(self.start(x)))))
        return x + y if self.residual else y


def mobilenet_v3_small(classes: int) -> MobileNet:
    return MobileNet(classes, 16, V3_SMALL, 576, 1024, hard=True, norm=False)


def mobilenet_v4_small(classes: int) -> MobileNet:
    return MobileNet(classes, 32, V4_CONV_SMALL, 960, 1280, hard=False, norm=True)


def _plain(width: int, block: Block) -> nn.Module:
    return convolution(width, block.width, block.kernel, nn.ReLU(), stride=block.stride)
