"""Query decoder: learned queries look at each other and then at the cells of a map, layer by layer, and after every
layer each of them says what it has found.

    x ← 0;   x ← LN(x + MultiHead(x + p, x + p, x));   x ← LN(x + MultiHead(x + p, m + e, m));   x ← LN(x + FFN(x))
    states: LN(x) after each layer

Symbols: MultiHead(queries, keys, values); p learned, one for each of N queries; m the cells of the map, by a linear map
    as wide as the queries; e sines and cosines of their rows and columns, counted from 1 and stretched to 2π.
Paper: Nicolas Carion, Francisco Massa, Gabriel Synnaeve, Nicolas Usunier, Alexander Kirillov, Sergey Zagoruyko (2020).
    End-to-end object detection with transformers. ECCV. arXiv:2005.12872.
Departs from the paper: no encoder; MaskFormer's has none either.
Cost: O(N·(N + M)·C + (N + M)·C²) for each layer, M cells.
Example: QueryDecoder(7, 14, queries=5, heads=2, layers=2, hidden=28)([torch.rand(2, 7, 3, 5)])
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from foveal.core.mask import Mask
from foveal.layers.feed_forward import FeedForward
from foveal.layers.multihead import MultiHead
from foveal.layers.residual import PostNorm
from foveal.position.sinusoidal_2d import sinusoid_2d


class QueryDecoder(nn.Module):
    """Maps of a backbone, the finest first, of which it reads the last → the states (B, N, C) after each layer."""

    def __init__(
        self,
        seen: int,
        width: int,
        *,
        queries: int,
        heads: int,
        layers: int,
        hidden: int,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
    ) -> None:
        """seen: channels of the map."""
        super().__init__()
        self.project = narrowed(seen, width)
        self.places = nn.Parameter(torch.randn(queries, width))  # p
        self.layers = nn.ModuleList(QueryLayer(width, heads, hidden, dropout, attention_dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, maps: Sequence[Tensor], *others: object) -> list[Tensor]:
        """others: what decoders that look elsewhere read."""
        memory, cells = read(self.project(maps[-1]))
        x = self.places.new_zeros(memory.shape[0], *self.places.shape)
        states = []
        for layer in self.layers:
            x = layer(x, self.places, memory, cells)
            states.append(self.norm(x))
        return states


class QueryLayer(nn.Module):
    """Queries (B, N, C) with their places p (N, C), and cells (B, M, C) with theirs (M, C) → queries."""

    def __init__(self, width: int, heads: int, hidden: int, dropout: float, attention_dropout: float) -> None:
        super().__init__()
        self.self_attention = PostNorm(Placed(MultiHead(width, heads, dropout=attention_dropout)), width, dropout)
        self.cross_attention = PostNorm(Placed(MultiHead(width, heads, dropout=attention_dropout)), width, dropout)
        self.feed_forward = PostNorm(FeedForward(width, hidden, dropout=dropout), width, dropout)
        for linear in (self.feed_forward.layer.inner, self.feed_forward.layer.outer):
            nn.init.xavier_uniform_(linear.weight)  # type: ignore[arg-type,union-attr]

    def forward(self, x: Tensor, places: Tensor, memory: Tensor, cells: Tensor) -> Tensor:
        x = self.self_attention(x, places)
        x = self.cross_attention(x, places, memory, cells)
        y: Tensor = self.feed_forward(x)
        return y


class Placed(nn.Module):
    """Attention whose queries and keys know where they stand, and whose values do not."""

    def __init__(self, attention: MultiHead) -> None:
        super().__init__()
        self.attention, self.width = attention, attention.width

    def forward(
        self,
        x: Tensor,
        places: Tensor,
        memory: Tensor | None = None,
        cells: Tensor | None = None,
        *,
        mask: Mask | Tensor | None = None,
    ) -> Tensor:
        """Queries look at each other unless there is a memory."""
        asked = x + places
        if memory is None or cells is None:
            return self.attention(asked, self.attention.remember(asked, x), mask=mask)  # type: ignore[no-any-return]
        return self.attention(asked, self.attention.remember(memory + cells, memory), mask=mask)  # type: ignore[no-any-return]


def narrowed(seen: int, width: int) -> nn.Module:
    """One linear map of each cell, where a map (B, seen, h, w) has not the width already."""
    if seen == width:
        return nn.Identity()
    made = nn.Conv2d(seen, width, 1)
    nn.init.kaiming_uniform_(made.weight, a=1)
    nn.init.zeros_(made.bias)  # type: ignore[arg-type]
    return made


def read(maps: Tensor) -> tuple[Tensor, Tensor]:
    """The cells of a map (B, C, h, w) row by row, (B, M, C), and where they stand, (M, C)."""
    rows, columns = (_stretched(side, maps) for side in maps.shape[2:])
    cells = sinusoid_2d(rows, columns, maps.shape[1])  # (h, w, C)
    return maps.flatten(2).transpose(1, 2), cells.flatten(0, 1).to(maps.dtype)


def _stretched(side: int, like: Tensor) -> Tensor:
    """1, 2, …, side as angles up to 2π."""
    wide = torch.promote_types(like.dtype, torch.float32)
    counted = torch.arange(1, side + 1, device=like.device).to(wide)
    return counted / (counted[-1:] + 1e-6) * 2 * math.pi
