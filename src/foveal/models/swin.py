"""Swin Transformer: a pyramid of maps, in which tokens look inside windows that are shifted from block to block.

    ẑ_l = z_{l−1} + W-MSA(LN(z_{l−1}));   z_l = ẑ_l + FFN(LN(ẑ_l));   every second block with windows shifted by ⌊M/2⌋
    z₀ = LN(x E);   between stages: z ← W LN([z_{2r,2c}; z_{2r+1,2c}; z_{2r,2c+1}; z_{2r+1,2c+1}])
    logits = W mean(LN(z_L))

Symbols: x the patches of the image, 4 × 4 pixels each; E one linear map of a patch; M the side of a window; four
    stages, each half as high and as wide as the one before, with twice its channels. Attention has a table of biases
    for the offsets in a window.
Paper: Ze Liu, Yutong Lin, Yue Cao, Han Hu, Yixuan Wei, Zheng Zhang, Stephen Lin, Baining Guo (2021). Swin transformer:
    hierarchical vision transformer using shifted windows. ICCV. arXiv:2103.14030.
Departs from the paper: images of any size are taken as transformers takes them: with zeros at the end where patches,
    windows or pairs of cells do not divide a map, which the windows' tokens may look at. A map narrower than a window
    has windows that end where it does; the paper's code builds smaller windows for a fixed image, transformers fails.
Cost: O(h·w·(M²·C + C²)) for a map of h × w: linear in the pixels.
Example: Swin(SwinConfig(classes=3, image=64, width=8, depths=(2, 1, 1, 1), heads=(1, 2, 2, 4), window=4))(
    torch.rand(2, 3, 64, 64))
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from foveal.errors import expect
from foveal.layers.attention import filled_up
from foveal.layers.windowed import Windowed
from foveal.models.image_model import as_tuples, begin, block, check_fields, check_images, check_stages, depth_rates
from foveal.position.bias_table import BiasTable


@dataclass(frozen=True)
class SwinConfig:
    classes: int = 2
    image: int = 224  # side in pixels; any other may be given to the model, too
    patch: int = 4  # side of a patch in pixels
    width: int = 96  # channels of the first stage
    depths: tuple[int, ...] = (2, 2, 6, 2)  # blocks of each stage
    heads: tuple[int, ...] = (3, 6, 12, 24)
    window: int = 7  # M
    expand: int = 4  # how much wider the feed-forward networks are
    dropout: float = 0.0  # after the patches, and after every linear map but those of q, k and v
    attention_dropout: float = 0.0
    drop_path: float = 0.0  # stochastic depth of the last block; that of the others grows towards it from 0
    family: str = field(default="swin", init=False)

    def __post_init__(self) -> None:
        as_tuples(self, ("depths", "heads"))

    def depth(self) -> int:
        """Blocks that are built one after the other."""
        return sum(self.depths)


KIND = "images to logits"
PRESETS = {
    "swin-tiny": SwinConfig(),  # 28 million parameters
    "swin-base": SwinConfig(width=128, depths=(2, 2, 18, 2), heads=(4, 8, 16, 32)),  # 88 million
    "swin-micro": SwinConfig(width=16, depths=(2, 2, 2, 1), heads=(1, 2, 4, 8), expand=2),  # for small sets
}


class Swin(nn.Module):
    """Images (B, 3, h, w), normalised → logits (B, classes)."""

    def __init__(self, config: SwinConfig) -> None:
        super().__init__()
        _check(config)
        self.config = config
        self.strides = tuple(config.patch * 2**stage for stage in range(4))  # of the maps that `features` gives
        self.widths = tuple(config.width * 2**stage for stage in range(4))
        self.patches = nn.Conv2d(3, config.width, config.patch, stride=config.patch)
        self.patch_norm = nn.LayerNorm(config.width)
        self.dropout = nn.Dropout(config.dropout)
        rates = iter(depth_rates(config.drop_path, sum(config.depths)))
        self.stages = nn.ModuleList(
            Stage(config, stage, [next(rates) for _ in range(config.depths[stage])]) for stage in range(4)
        )
        self.norm = nn.LayerNorm(self.widths[-1])
        self.head = nn.Linear(self.widths[-1], config.classes)
        begin(self, 1e-5)

    def example(self, batch: int = 1) -> tuple[Tensor, ...]:
        """Inputs that it takes."""
        return (torch.zeros(batch, 3, self.config.image, self.config.image),)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.head(self.norm(self.grids(images)[-1]).mean((1, 2)))
        return logits

    def features(self, images: Tensor) -> list[Tensor]:
        """What each stage makes of the image, (B, C, h, w), before its cells are merged: strides 4, 8, 16 and 32."""
        return [grid.permute(0, 3, 1, 2) for grid in self.grids(images)]

    def grids(self, images: Tensor) -> list[Tensor]:
        """The same as grids (B, h, w, C)."""
        check_images(self, images, 1, self.head.weight)
        height, width = images.shape[2:]
        patch, found = self.config.patch, []
        patches = self.patches(F.pad(images, (0, -width % patch, 0, -height % patch)))
        grid = self.dropout(self.patch_norm(patches.permute(0, 2, 3, 1)))
        for stage in self.stages:
            grid = stage(grid)
            found.append(grid)
        return found


class Stage(nn.Module):
    """Cells are merged, but in the first stage; then blocks with windows at rest and shifted, in turns."""

    def __init__(self, config: SwinConfig, stage: int, rates: list[float]) -> None:
        super().__init__()
        width, heads, size = config.width * 2**stage, config.heads[stage], config.window
        self.merge = Merge(width // 2) if stage else nn.Identity()
        self.layers = nn.ModuleList(
            block(
                FilledWindows(
                    width,
                    heads,
                    size,
                    shift=number % 2 * (size // 2),
                    position=BiasTable(heads, size, size),
                    dropout=config.attention_dropout,
                ),
                config.expand * width,
                config,
                rate,
            )
            for number, rate in enumerate(rates)
        )

    def forward(self, grid: Tensor) -> Tensor:
        """(B, h, w, C) → (B, ⌈h/2⌉, ⌈w/2⌉, 2C), or of the first stage the same shape."""
        grid = self.merge(grid)
        for layer in self.layers:
            grid = layer(grid)
        return grid


class Merge(nn.Module):
    """Each square of 2 × 2 cells becomes one, (B, h, w, C) → (B, ⌈h/2⌉, ⌈w/2⌉, 2C)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4 * width)
        self.reduce = nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, grid: Tensor) -> Tensor:
        x = filled_up(grid, 2)
        corners = [x[:, row::2, column::2] for column in range(2) for row in range(2)]  # in the order of the weights
        merged: Tensor = self.reduce(self.norm(torch.cat(corners, -1)))
        return merged


class FilledWindows(Windowed):
    """Windowed attention as Swin's code has it: tokens may look at the zeros that fill the last windows,
    and a grid one window high or wide is not shifted.

    A grid narrower than a window is Windowed's own: there, filler is hidden, and so the window ends with the grid.
    """

    def forward(self, grid: Tensor, *, shift: int | None = None, kernel: str = "auto") -> Tensor:
        h, w = grid.shape[1], grid.shape[2]
        shift = 0 if min(h, w) <= self.window else shift
        x = grid if min(h, w) < self.window else filled_up(grid, self.window)
        return super().forward(x, shift=shift, kernel=kernel)[:, :h, :w]


def _check(config: SwinConfig) -> None:
    check_stages(config, ("depths", "heads"))
    check_fields(config, ("classes", "image", "patch", "width", "depths", "heads", "window", "expand"))
    for stage, heads in enumerate(config.heads):
        width = config.width * 2**stage
        expect(width % heads == 0, f"Swin's heads of stage {stage + 1}", f"a divisor of the width {width}", heads)
