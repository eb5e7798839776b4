"""ICAM, the instance-adaptive cross-attention model: a very small image classifier whose queries are made from the
image itself.

    f_i = mean(Φ(p_i));   X = [LN(f_1); …; LN(f_P)];   K = V = W_emb X + PE
    Q⁰ = softmax(W_emb(Q_latent) Kᵀ/√C) V;   Q̂ = LN(Q + MHCA(Q, K, V));   Q ← LN(Q̂ + FFN(Q̂)),  L times
    logits = MLP(W_out Q)  (+ W_pool BN[mean_i f_i; max_i f_i] where it is `pooled`)

Symbols: p_i the patches of the image, P of them; Φ one CNN shared by all; C the width; Q_latent a few learned vectors.
    No token looks at its like, so attention costs O(P) where a ViT's costs O(P²). Without `value_position` only the
    keys know where they stand: K = W_emb X + PE, V = W_emb X.
Paper: Hannibal730 (2025). Instance-adaptive Cross-Attention Model.
    github.com/Hannibal730/On-device-Sewer-Defect-Inspection.
Departs from the paper: the plain build is the equations above. The published build (`Projected`, a mixer over the grid
    of patches, first queries whose values know no position) scales the first softmax by 1/√C, as the equation does and
    its code does not. `attention` puts a module of vision/ between Φ and the mean, and `pooled` answers from
    what Φ saw without asking where, which the paper has not.
Cost: Φ's on every pixel, and O(P·C) for each query and layer.
Example: Icam(IcamConfig(image=64, patch=16, width=14, classes=3))(torch.rand(2, 3, 64, 64))
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, cast

import torch
from torch import Tensor, nn

from foveal.errors import FovealError, expect, expect_integer, is_number, short_repr, unknown
from foveal.layers.attention import check_dtype
from foveal.layers.gated import Gated
from foveal.layers.multihead import MultiHead
from foveal.layers.residual import PostNorm
from foveal.models.backbone import backbone
from foveal.models.cells import Mixer, Pooled, pools
from foveal.models.features import gives_maps, probe
from foveal.models.first_queries import FIRST
from foveal.models.mbconv import EFFICIENTNET_B0_START, LITE0_START, Stage, own_phi
from foveal.models.patches import cut, grid_of
from foveal.position.learned_2d import Learned2d
from foveal.position.polar import Polar
from foveal.position.position import Position
from foveal.position.sinusoidal_2d import Sinusoidal2d
from foveal.runtime.card import LITE_MEAN, LITE_STD, SEWER_MEAN, SEWER_STD
from foveal.vision.same_shape import same_shape


@dataclass(frozen=True)
class IcamConfig:
    classes: int = 2
    image: int = 224  # side in pixels; any other side that the patches divide may be given to the model, too
    patch: int = 56  # side of a patch in pixels
    phi: str = ""  # somebody else's network as Φ: see models/backbone.py; empty: our own, out of the six fields below
    stem: int = 32  # channels of Φ's stem
    stem_kernel: int = 3
    stem_stride: int = 2
    activation: str = "silu"  # of Φ: "silu", "relu", "relu6" or "hardswish"
    convolution: str = "torch"  # of Φ; or "tensorflow": padding, BatchNorm and images as EfficientNet-Lite has them
    stages: tuple[Stage, ...] = EFFICIENTNET_B0_START  # of Φ
    attention: str = ""  # on Φ's last map, before the pooling: a name of vision/same_shape.py, such as "CBAM"
    pool: int = 1  # Φ's map is pooled to pool × pool cells, each a token of its own
    width: int = 24  # C
    heads: int = 2
    layers: int = 2  # L
    queries: int = 1  # how many latent queries
    hidden: int = 24  # of the gated feed-forward network
    dropout: float = 0.1
    position: str = "learned"  # or "sinusoidal" or "polar"
    value_position: bool = True  # whether V has positions as K has; those of "projected" first queries never have
    # where the first queries come from: "adaptive", "projected" (adaptive, with its own projections), "static" or
    # "projected-static"
    first: str = "adaptive"
    mixer: bool = False  # a depthwise 3×3 convolution over the grid of patches
    pooled: bool = False  # the mean and the maximum of what Φ saw, normalised, are answered, too, by one linear map
    family: str = field(default="icam", init=False)

    def __post_init__(self) -> None:
        listed = isinstance(self.stages, (tuple, list))
        if listed and any(isinstance(stage, dict) for stage in self.stages):  # as a recipe or a card writes them
            object.__setattr__(
                self, "stages", tuple(Stage(**stage) if isinstance(stage, dict) else stage for stage in self.stages)
            )

    def depth(self) -> int:
        """Blocks that are built one after the other."""
        return self.layers + sum(stage.blocks for stage in self.stages if isinstance(stage, Stage))


# Squares of 4 × 4 pixels are read at once, and a token is 16 × 16 pixels, not a patch: four queries look at 196 of
# them.
FAST = IcamConfig(
    patch=112,
    pool=7,
    stem=64,
    stem_kernel=4,
    stem_stride=4,
    activation="relu",
    stages=(Stage(32, stride=2, expand=1, squeeze=False), Stage(32, blocks=2, expand=4, squeeze=False)),
    layers=1,
    queries=4,
    position="sinusoidal",
    first="projected",
    mixer=True,
)
KIND = "images to logits"
PRESETS = {
    "icam-30k": IcamConfig(),  # 29,691 parameters: exactly the equations
    # 31,371 parameters: the published build
    "icam-31k": IcamConfig(position="sinusoidal", first="projected", mixer=True),
    # 42,055 parameters: its Φ, which sees the image as a whole, can begin with ImageNet's weights
    "icam-lite": IcamConfig(
        patch=224,
        pool=28,
        activation="relu6",
        convolution="tensorflow",
        stages=LITE0_START,
        layers=1,
        queries=2,
        position="sinusoidal",
        first="projected",
        mixer=True,
        pooled=True,
    ),
    "icam-fast": FAST,  # 42,797 parameters: chosen by the clock, scripts/search_fast.py
}


class Icam(nn.Module):
    """Images (B, 3, h, w), normalised → logits (B, classes)."""

    def __init__(self, config: IcamConfig, phi: nn.Module | None = None) -> None:
        """phi: any module (B, 3, patch, patch) → (B, C′, h, w), with its C′ as attribute `width`.

        The config's own unless given.
        """
        super().__init__()
        _check(config)
        self.config, width = config, config.width
        self.phi = phi if phi is not None else backbone(config.phi) if config.phi else own_phi(config)
        features = getattr(self.phi, "width", None)
        expect_integer(features, "Icam's phi, its attribute `width`")
        assert isinstance(features, int)
        self.pool = nn.AdaptiveAvgPool2d(config.pool)
        self.mixer = Mixer(features) if config.mixer else nn.Identity()
        self.norm = nn.LayerNorm(features)
        self.embed = nn.Linear(features, width)
        side = config.image // config.patch * config.pool
        self.position: Position = POSITIONS[config.position](width, side)
        self.first = FIRST[config.first](features, width, config.queries)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(CrossBlock(config) for _ in range(config.layers))
        self.out = nn.Linear(width, features)
        wide = config.queries * features
        middle = (wide + config.classes) // 2
        self.head = nn.Sequential(
            nn.Linear(wide, middle), nn.ReLU(), nn.Dropout(config.dropout), nn.Linear(middle, config.classes)
        )
        self.pooled = None
        if config.pooled:  # which answers alone to begin with: what queries say at random only gets in its way
            self.pooled = Pooled(features, config.classes)
            for tensor in self.head[3].parameters():
                nn.init.zeros_(tensor)
        # Made last: of one seed, all other weights begin as they do without it.
        self.attention = nn.Identity() if config.attention == "" else same_shape(config.attention, features)

    @property
    def normalisation(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """(mean, std) of the images that it takes: what Φ's weights to begin with were learned with."""
        lite = self.config.convolution == "tensorflow"
        return (LITE_MEAN, LITE_STD) if lite else (SEWER_MEAN, SEWER_STD)

    def example(self, batch: int = 1) -> tuple[Tensor, ...]:
        """Inputs that it takes."""
        return (torch.zeros(batch, 3, self.config.image, self.config.image),)

    @property
    def strides(self) -> tuple[int, ...]:
        """Of the maps of `features`: Φ's, inside of a patch."""
        return self.phi.strides if gives_maps(self.phi) else (self._probed()[0],)  # type: ignore[return-value]

    @property
    def widths(self) -> tuple[int, ...]:
        return self.phi.widths if gives_maps(self.phi) else (self._probed()[1],)  # type: ignore[return-value]

    def features(self, images: Tensor) -> list[Tensor]:
        """What Φ saw, its patches put together: maps (B, C′, h, w), see models/features.py.

        `attention` has worked on the last.
        """
        patches, rows, columns = cut(images, self.config.patch)
        check_dtype(self, "images", images, self.embed.weight)
        maps = self.phi.features(patches) if gives_maps(self.phi) else [self.phi(patches)]  # type: ignore[operator]
        maps = [*maps[:-1], self.attention(maps[-1])]
        return [grid_of(one, rows, columns).permute(0, 3, 1, 2) for one in maps]

    def read_sizes(self) -> None:
        """After its tensors became shorter (models/shrink.py): Φ's width is that of the norm behind it."""
        self.phi.width = self.norm.normalized_shape[0]  # type: ignore[assignment]

    def _probed(self) -> tuple[int, int]:
        return probe(self.phi, lambda patches: [self.phi(patches)], self.config.patch)[0]

    def forward(self, images: Tensor) -> Tensor:
        return self.answer_and_grid(images)[0]

    def answer_and_grid(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (B, classes), and what Φ saw, as `see` gives it."""
        grid = self.see(images)
        return self.answer(self.gather(*self.tokens(grid)), grid), grid

    def answer_and_summary(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (B, classes), and all that it has gathered: its last queries, and the pools of what Φ saw, (B, W)."""
        grid = self.see(images)
        queries = self.gather(*self.tokens(grid))
        return self.answer(queries, grid), torch.cat([queries.flatten(1), pools(grid)], 1)

    @property
    def summary_width(self) -> int:
        """W of `answer_and_summary`."""
        return self.config.queries * self.config.width + 2 * self.norm.normalized_shape[0]

    def queries(self, images: Tensor) -> Tensor:
        """The last queries (B, N, C): what the model has gathered from the image."""
        return self.gather(*self.remember(images))

    def remember(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """One token for each patch, without and with its position: (B, P, C) each."""
        return self.tokens(self.see(images))

    def see(self, images: Tensor) -> Tensor:
        """f: what Φ saw in each patch, or in each cell of it, as a grid (B, h, w, C′)."""
        patches, rows, columns = cut(images, self.config.patch)
        check_dtype(self, "images", images, self.embed.weight)
        seen, wide = self.phi(patches), self.norm.normalized_shape[0]
        if seen.dim() != 4 or seen.shape[1] != wide:
            raise FovealError(
                f"Icam's phi: expected a map (B, {wide}, h, w), as its attribute `width` says, got {tuple(seen.shape)}"
            )
        return grid_of(self.pool(self.attention(seen)), rows, columns)

    def tokens(self, grid: Tensor) -> tuple[Tensor, Tensor]:
        """What Φ saw (B, h, w, C′) → its tokens without and with their position: (B, P, C) each."""
        content: Tensor = self.embed(self.norm(self.mixer(grid)))
        memory = self.position.embed(content)
        return self.dropout(content).flatten(1, 2), self.dropout(memory).flatten(1, 2)

    def gather(self, content: Tensor, memory: Tensor) -> Tensor:
        values = None if self.config.value_position else content
        queries: Tensor = self.first(self.embed, memory, content, values)
        for layer in self.layers:
            queries = layer(queries, memory, values)
        return queries

    def answer(self, queries: Tensor, grid: Tensor) -> Tensor:
        logits: Tensor = self.head(self.out(queries).flatten(1))
        return logits if self.pooled is None else logits + self.pooled(grid)


class Sizes(Protocol):
    """What a block asks of its model's config."""

    @property
    def width(self) -> int: ...
    @property
    def heads(self) -> int: ...
    @property
    def hidden(self) -> int: ...
    @property
    def dropout(self) -> float: ...


class CrossBlock(nn.Module):
    """Q̂ = LN(Q + MHCA(Q, K, V));  LN(Q̂ + FFN(Q̂)): a decoder's block without self-attention."""

    def __init__(self, config: "Sizes") -> None:
        super().__init__()
        width, dropout = config.width, config.dropout
        self.attention = PostNorm(MultiHead(width, config.heads, key_width=width, dropout=dropout), width, dropout)
        self.feed_forward = PostNorm(Gated(width, config.hidden, dropout=dropout), width, dropout)

    def forward(self, queries: Tensor, memory: Tensor, values: Tensor | None = None) -> Tensor:
        """values: what V is made of, the memory unless given."""
        attention = cast("MultiHead", self.attention.layer)
        seen = memory if values is None else attention.remember(memory, values)
        y: Tensor = self.feed_forward(self.attention(queries, seen))
        return y


POSITIONS: dict[str, Callable[[int, int], Position]] = {
    "learned": lambda width, side: Learned2d(width, side, side),
    "sinusoidal": lambda width, _: Sinusoidal2d(width),
    "polar": lambda width, _: Polar(width),
}


def _check(config: IcamConfig) -> None:
    for name in ("classes", "image", "patch", "pool", "width", "heads", "queries", "hidden", "stem"):
        expect_integer(getattr(config, name), f"Icam's {name}")
    expect_integer(config.layers, "Icam's layers", 0)
    expect(
        config.image % config.patch == 0, "Icam's patch", f"a divisor of the image's side {config.image}", config.patch
    )
    expect(config.width % config.heads == 0, "Icam's heads", f"a divisor of the width {config.width}", config.heads)
    expect(
        is_number(config.dropout) and 0 <= config.dropout < 1,
        "Icam's dropout",
        "at least 0 and below 1",
        short_repr(config.dropout),
    )
    for name in ("mixer", "pooled", "value_position"):
        value = getattr(config, name)
        expect(isinstance(value, bool), f"Icam's {name}", "True or False", short_repr(value))
    for kind, name, known in (("position", config.position, POSITIONS), ("first query", config.first, FIRST)):
        if not isinstance(name, str) or name not in known:
            raise unknown(kind, str(name), known)
