"""Pyramid Vision Transformer: four stages of encoders, whose tokens look at a coarser copy of their map.

    z ← LN(Conv_{P×P, stride P}(z)) + E_pos  in front of each stage
    ẑ = z + SRA(LN(z));   z ← ẑ + FFN(LN(ẑ));   SRA(x) = MultiHead(x, SR_R(x))
    the last stage:  z ← [x_class; z] + E_pos,  with R = 1;   logits = W LN(z)_class

Symbols: P the side of a patch, 4 in front of the first stage and 2 after it; R how much coarser the copy is, 8, 4, 2
    and 1; x_class and E_pos learned, E_pos for each stage; FFN with GELU.
Paper: Wenhai Wang, Enze Xie, Xiang Li, Deng-Ping Fan, Kaitao Song, Ding Liang, Tong Lu, Ping Luo, Ling Shao (2021).
    Pyramid vision transformer: a versatile backbone for dense prediction without convolutions. ICCV. arXiv:2102.12122.
Departs from the paper: as in transformers, every LayerNorm has one epsilon, 1e-6, where the paper's code has 1e-5 for
    those of the patches and of the copies, and convolutions begin as linear maps do. Positions are stretched to
    another map bilinearly, as in the paper's code; transformers fails there. Where patches or R do not divide a map,
    its last rows and columns are not seen, as in both.
Cost: O(h·w·(h·w·C/R² + C²)) for a map of h × w.
Example: Pvt(PvtConfig(classes=3, image=64, widths=(8, 8, 16, 16), depths=(1, 1, 1, 1), heads=(1, 1, 2, 2)))(
    torch.rand(2, 3, 64, 64))
"""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from foveal.errors import expect
from foveal.layers.attention import cut_off
from foveal.layers.multihead import MultiHead
from foveal.layers.reduced import Reduced
from foveal.models.image_model import (
    as_tuples,
    begin,
    block,
    check_fields,
    check_images,
    check_stages,
    depth_rates,
    token,
)
from foveal.position.learned_2d import Learned2d

FOUR = ("patches", "widths", "depths", "heads", "expands", "reductions")  # fields with one number for each stage


@dataclass(frozen=True)
class PvtConfig:
    classes: int = 2
    image: int = 224  # side in pixels that positions are learned for; another image may be given to the model, too
    patches: tuple[int, ...] = (4, 2, 2, 2)  # P: how many cells of the map before become one
    widths: tuple[int, ...] = (64, 128, 320, 512)
    depths: tuple[int, ...] = (2, 2, 2, 2)  # blocks of each stage
    heads: tuple[int, ...] = (1, 2, 5, 8)
    expands: tuple[int, ...] = (8, 8, 4, 4)  # how much wider the feed-forward networks are
    reductions: tuple[int, ...] = (8, 4, 2, 1)  # R; 1 in the last stage, whose class token has no place on a map
    dropout: float = 0.0  # after the positions, and after every linear map but those of q, k and v
    attention_dropout: float = 0.0
    drop_path: float = 0.0  # stochastic depth of the last block; that of the others grows towards it from 0
    epsilon: float = 1e-6  # of LayerNorm
    family: str = field(default="pvt", init=False)

    def __post_init__(self) -> None:
        as_tuples(self, FOUR)

    def depth(self) -> int:
        """Blocks that are built one after the other."""
        return sum(self.depths)


KIND = "images to logits"
PRESETS = {
    "pvt-tiny": PvtConfig(),  # 13 million parameters
    "pvt-small": PvtConfig(depths=(3, 4, 6, 3)),  # 24 million
    "pvt-micro": PvtConfig(  # for small sets; half the side, as the tables of positions are most of a small model
        image=112, widths=(16, 32, 48, 96), depths=(2, 2, 2, 1), heads=(1, 2, 3, 6), expands=(4, 4, 4, 2)
    ),
}


class Pvt(nn.Module):
    """Images (B, 3, h, w), normalised → logits (B, classes)."""

    def __init__(self, config: PvtConfig) -> None:
        super().__init__()
        _check(config)
        self.config = config
        self.strides = tuple(math.prod(config.patches[: stage + 1]) for stage in range(4))  # of `features`
        self.widths = config.widths
        rates = iter(depth_rates(config.drop_path, sum(config.depths)))
        drawn = [[next(rates) for _ in range(blocks)] for blocks in config.depths]
        self.stages = nn.ModuleList(
            (Stage if stage < 3 else LastStage)(config, stage, config.image // self.strides[stage], drawn[stage])
            for stage in range(4)
        )
        self.norm = nn.LayerNorm(config.widths[-1])
        self.head = nn.Linear(config.widths[-1], config.classes)
        begin(self, config.epsilon)

    def example(self, batch: int = 1) -> tuple[Tensor, ...]:
        """Inputs that it takes."""
        return (torch.zeros(batch, 3, self.config.image, self.config.image),)

    def forward(self, images: Tensor) -> Tensor:
        tokens, _ = self.stages[-1].tokens(self.maps(images)[-1])  # type: ignore[operator]
        logits: Tensor = self.head(self.norm(tokens[:, 0]))
        return logits

    def features(self, images: Tensor) -> list[Tensor]:
        """What each stage makes of the image, (B, C, h, w): strides 4, 8, 16 and 32.

        Of the last, without its class token.
        """
        maps = self.maps(images)
        return [*maps, self.stages[-1](maps[-1])]

    def maps(self, images: Tensor) -> list[Tensor]:
        """The maps of the first three stages."""
        least = max(stride * reduction for stride, reduction in zip(self.strides, self.config.reductions, strict=True))
        check_images(self, images, least, self.head.weight)
        found, x = [], images
        for stage in list(self.stages)[:-1]:
            x = stage(x)
            found.append(x)
        return found


class Stage(nn.Module):
    """A map (B, C′, h, w) → a coarser map (B, C, ⌊h/P⌋, ⌊w/P⌋)."""

    def __init__(self, config: PvtConfig, stage: int, side: int, rates: list[float]) -> None:
        super().__init__()
        before, width, patch = (3, *config.widths)[stage], config.widths[stage], config.patches[stage]
        self.patches = nn.Conv2d(before, width, patch, stride=patch)
        self.patch_norm = nn.LayerNorm(width)
        self.position = Learned2d(width, side, side, interpolation="bilinear")
        self.dropout = nn.Dropout(config.dropout)
        hidden = config.expands[stage] * width
        self.layers = nn.ModuleList(block(self.attention(config, stage), hidden, config, rate) for rate in rates)

    def attention(self, config: PvtConfig, stage: int) -> nn.Module:
        sizes = config.widths[stage], config.heads[stage], config.reductions[stage]
        return Reduced(*sizes, dropout=config.attention_dropout, border=cut_off)

    def cells(self, maps: Tensor) -> Tensor:
        """The cells with their positions, (B, h, w, C)."""
        grid: Tensor = self.patch_norm(self.patches(maps).permute(0, 2, 3, 1))
        return self.position.embed(grid)

    def forward(self, maps: Tensor) -> Tensor:
        grid: Tensor = self.dropout(self.cells(maps))
        for layer in self.layers:
            grid = layer(grid)
        return grid.permute(0, 3, 1, 2)


class LastStage(Stage):
    """The same with a class token, which looks at all cells, and is looked at by them."""

    def __init__(self, config: PvtConfig, stage: int, side: int, rates: list[float]) -> None:
        super().__init__(config, stage, side, rates)
        self.class_token, self.class_position = token(config.widths[stage]), token(config.widths[stage])

    def attention(self, config: PvtConfig, stage: int) -> nn.Module:
        return MultiHead(config.widths[stage], config.heads[stage], dropout=config.attention_dropout)

    def tokens(self, maps: Tensor) -> tuple[Tensor, tuple[int, int]]:
        """(B, 1 + N, C), the class token first; and the sides of the map."""
        grid = self.cells(maps)
        first = (self.class_token + self.class_position).expand(grid.shape[0], -1, -1)
        x = self.dropout(torch.cat([first, grid.flatten(1, 2)], 1))
        for layer in self.layers:
            x = layer(x)
        return x, (grid.shape[1], grid.shape[2])

    def forward(self, maps: Tensor) -> Tensor:
        tokens, sides = self.tokens(maps)
        coarse: Tensor = tokens[:, 1:].transpose(1, 2).unflatten(2, sides)
        return coarse


def _check(config: PvtConfig) -> None:
    check_stages(config, FOUR)
    check_fields(config, ("classes", "image", *FOUR))
    for stage, (width, heads) in enumerate(zip(config.widths, config.heads, strict=True)):
        expect(width % heads == 0, f"Pvt's heads of stage {stage + 1}", f"a divisor of the width {width}", heads)
    stride, last = math.prod(config.patches), config.reductions[-1]
    expect(last == 1, "Pvt's reductions", "1 in the last stage, whose class token has no place on a map", last)
    expect(config.image >= stride, "Pvt's image", f"at least {stride}, one cell of the last stage", config.image)
