"""Masked attention: a query looks only where the mask that it predicted one layer before says that its thing is.

    x ← q;   x ← LN(x + MultiHead(x + p, m_s + e_s, m_s; A));   x ← LN(x + MultiHead(x + p, x + p, x))
    x ← LN(x + FFN(x));   A_i(j) = [σ(E(LN(x_i)) · P_s(j)) > ½], and everywhere where that is nowhere
    states: LN(q), and LN(x) after each layer

Symbols: MultiHead(queries, keys, values; where they may look); q and p learned, one for each of N queries; m_s the maps
    of a pixel decoder, of strides 32, 16 and 8 in turns, each with a learned vector added; e_s where their cells stand
    (models/query_decoder.py); P_s the pixel embeddings on the grid of m_s; E the network that makes masks of queries.
Paper: Bowen Cheng, Ishan Misra, Alexander G. Schwing, Alexander Kirillov, Rohit Girdhar (2022). Masked-attention mask
    transformer for universal image segmentation. CVPR. arXiv:2112.01527.
Departs from the paper: the pixel embeddings are resampled, and not the masks: a product with them is linear, so the
    masks are the same to rounding. The pixel decoder is MaskFormer's; the paper's has deformable attention.
Cost: as models/query_decoder.py, and N·M·C for the masks of each layer.
Example: MaskedDecoder(7, 14, 2, queries=5, heads=2, layers=3, hidden=28)(
    [], [torch.rand(2, 7, 3, 5), torch.rand(2, 7, 6, 10)], torch.rand(2, 11, 12, 20), nn.Linear(14, 11))
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from foveal.models.query_decoder import QueryLayer, narrowed, read


class MaskedDecoder(nn.Module):
    """Maps of a pixel decoder, the coarsest first, and pixel embeddings → the states (B, N, C) before the first layer
    and after each. Of the backbone's maps it reads none.
    """

    def __init__(
        self,
        seen: int,
        width: int,
        levels: int,
        *,
        queries: int,
        heads: int,
        layers: int,
        hidden: int,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
    ) -> None:
        """seen: channels of the maps, of which it reads the first `levels`."""
        super().__init__()
        self.project = nn.ModuleList(narrowed(seen, width) for _ in range(levels))
        self.level = nn.Parameter(torch.randn(levels, width))
        self.queries, self.places = (nn.Parameter(torch.randn(queries, width)) for _ in "qp")
        self.layers = nn.ModuleList(
            MaskedLayer(width, heads, hidden, dropout, attention_dropout) for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, maps: object, pyramid: Sequence[Tensor], pixels: Tensor, embed: nn.Module) -> list[Tensor]:
        """pyramid: maps (B, seen, h, w); pixels (B, E, H, W); embed: (B, N, C) → (B, N, E)."""
        levels = []
        for one, project, level in zip(pyramid[: len(self.level)], self.project, self.level, strict=True):
            memory, cells = read(project(one))
            sides = (one.shape[2], one.shape[3])
            small = F.interpolate(pixels, sides, mode="bilinear", align_corners=False)
            levels.append((memory + level, cells, small))
        x = self.queries.expand(pixels.shape[0], -1, -1)
        states: list[Tensor] = [self.norm(x)]
        for number, layer in enumerate(self.layers):
            memory, cells, small = levels[number % len(levels)]
            masks = torch.einsum("bne,behw->bnhw", embed(states[-1]), small)
            x = layer(x, self.places, memory, cells, where(masks))
            states.append(self.norm(x))
        return states


class MaskedLayer(QueryLayer):
    """Queries look at the cells that they may see, and then at each other."""

    def forward(self, x: Tensor, places: Tensor, memory: Tensor, cells: Tensor, mask: Tensor | None = None) -> Tensor:
        """mask: (B, 1, N, M), True = may look."""
        x = self.cross_attention(x, places, memory, cells, mask=mask)
        x = self.self_attention(x, places)
        y: Tensor = self.feed_forward(x)
        return y


def where(masks: Tensor) -> Tensor:
    """Where each query may look, (B, 1, N, h·w), by its mask (B, N, h, w), logits; a row that would see nothing sees
    everything. No gradient passes.
    """
    kept = (masks > 0).flatten(2)  # σ(z) > ½
    kept = kept | ~kept.any(-1, keepdim=True)
    return kept[:, None]
