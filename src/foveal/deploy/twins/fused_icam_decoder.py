"""ICAM after Φ with fewer operations: the projections of the memory move to the few queries,
and products of weights are made once.

    K = X E + (b_E + position)            the memory, made once; X = LN(mixed features)
    first  w = softmax((Q_latent W_q W_kᵀ/√C) Kᵀ);  Q = (w X) E W_v + b
                                          no bias of keys: a softmax takes out what all keys share
    layer  w_h = softmax((Q A_h + a_h) Kᵀ);  Q ← LN(Q + Σ_h (w_h K) B_h + b)
                                          as in layers/absorbed.py, 1/√D inside A
    where values know no position, (w K) becomes (w X) E + b_E, which is joined with what is made of it
    head   W₁(W_out Q + b_out) + b₁ = (W₁ W_out) Q + (W₁ b_out + b₁)

Symbols: E the embedding of features; w, w_h the maps, outputs as well. Queries are rows of one matrix, so that each
product and its bias is one operation of a runtime. Departs from the trained model by rounding only; products of
weights are made in double precision. Holds in evaluation mode only.
"""

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from foveal.layers.absorbed import Absorbed
from foveal.layers.gated import Gated
from foveal.layers.multihead import MultiHead
from foveal.models.cells import Pooled, pools
from foveal.models.first_queries import Adaptive, Projected
from foveal.models.icam import CrossBlock, Icam
from foveal.models.image_model import fold_batch_norms


class LeanDecoder(nn.Module):
    """What Φ saw in each patch (B·P, C′, s, s) → logits (B, C), and where it looked, (B, M, N, P), or None."""

    def __init__(self, model: Icam, rows: int, columns: int) -> None:
        """rows, columns: of the grid of patches."""
        super().__init__()
        self.rows, self.columns, self.queries = rows, columns, model.config.queries
        self.mixer, self.norm = fold_batch_norms(model.mixer), model.norm
        self.memory = Memory(model, rows * model.config.pool, columns * model.config.pool)
        self.first = First(model)
        self.positioned = model.config.value_position
        embed = None if self.positioned else model.embed
        self.layers = nn.ModuleList(
            LeanCrossBlock(cast("CrossBlock", layer), self.queries, embed) for layer in model.layers
        )
        self.inner, self.outer = head(model), cast("nn.Linear", model.head[3])
        self.pooled = None if model.pooled is None else folded_pools(model.pooled)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor | None]:
        grid = self.grid(features)
        content: Tensor = self.norm(self.mixer(grid)).flatten(1, 2)
        memory = self.memory(content)
        keys = memory.transpose(1, 2)
        queries, looked = self.first(content, memory, keys)
        maps = [] if looked is None else [looked]
        values = memory if self.positioned else content
        for layer in self.layers:
            queries, looked = layer(queries, values, keys)
            maps.append(looked)
        logits: Tensor = self.outer(self.inner(queries.reshape(-1, self.inner.in_features)).relu())
        if self.pooled is not None:
            logits = logits + self.pooled(self.pools(features, grid))
        return logits, torch.cat(maps, 1) if maps else None

    def pools(self, features: Tensor, grid: Tensor) -> Tensor:
        """As `pools` of the grid; of a single patch, along numbers that lie side by side, in a third of the time."""
        if self.rows * self.columns > 1:
            return pools(grid)
        cells = features.flatten(2)
        return torch.cat([cells.mean(2), cells.amax(2)], 1)

    def grid(self, features: Tensor) -> Tensor:
        """(B, h, w, C′), as grid_of makes it, but moving rows of cells, not numbers:
        channels stand last in most runtimes anyway.
        """
        channels, side = features.shape[1], features.shape[2]
        if side == 1 or self.rows == self.columns == 1:
            return features.permute(0, 2, 3, 1).reshape(-1, self.rows * side, self.columns * side, channels)
        rows = features.permute(0, 2, 3, 1).reshape(-1, self.rows, self.columns, side, side * channels).transpose(2, 3)
        return rows.reshape(-1, self.rows * side, self.columns * side, channels)


class Memory(nn.Module):
    offset: Tensor  # (P, C)

    def __init__(self, model: Icam, rows: int, columns: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(model.embed.weight.detach(), requires_grad=False)
        with torch.no_grad():
            empty = torch.zeros(1, rows, columns, model.config.width, dtype=self.weight.dtype)
            self.register_buffer("offset", (model.position.embed(empty) + model.embed.bias).flatten(1, 2)[0])

    def forward(self, content: Tensor) -> Tensor:
        return F.linear(content, self.weight) + self.offset


class First(nn.Module):
    """The first queries, as rows (B·N, C), and where they looked (B, 1, N, P), if they did."""

    asked: Tensor | None  # (N, C): what is held beside the keys
    fixed: Tensor | None  # (N, C): queries that do not look
    output: nn.Linear | None  # of what was seen of X; None: what was seen of K is the query

    def __init__(self, model: Icam) -> None:
        super().__init__()
        first, self.output, asked, fixed = model.first, None, None, None
        width, embed = model.config.width, model.embed
        with torch.no_grad():
            if isinstance(first, Projected):
                asked = wide(first.q)(first.latent.double()) @ first.k.weight.double() / width**0.5
                value = wide(first.v)
                self.output = joined(value, embed)
            elif isinstance(first, Adaptive):
                asked = wide(embed)(first.latent.double()) / width**0.5
                self.output = None if model.config.value_position else embed
            else:
                fixed = wide(getattr(first, "q", embed))(first.latent.double())
        for name, value_ in (("asked", asked), ("fixed", fixed)):
            self.register_buffer(name, None if value_ is None else value_.to(embed.weight.dtype))

    def forward(self, content: Tensor, memory: Tensor, keys: Tensor) -> tuple[Tensor, Tensor | None]:
        if self.asked is None:
            assert self.fixed is not None
            return self.fixed.expand(content.shape[0], -1, -1).flatten(0, 1), None
        looked = (self.asked @ keys).softmax(-1)
        if self.output is None:
            return (looked @ memory).flatten(0, 1), looked[:, None]
        queries: Tensor = self.output((looked @ content).flatten(0, 1))
        return queries, looked[:, None]


class LeanCrossBlock(nn.Module):
    def __init__(self, block: CrossBlock, queries: int, embed: nn.Linear | None) -> None:
        """embed: E, where the values are X and not K."""
        super().__init__()
        around, after = block.attention, block.feed_forward
        attention, network = cast("MultiHead", around.layer), cast("Gated", after.layer)
        self.queries, self.heads, self.width, dtype = (
            queries,
            attention.heads,
            attention.width,
            attention.out.weight.dtype,
        )
        twin = Absorbed(self.width, self.heads, key_width=self.width, head_width=attention.head_width).double()
        twin.load_state_dict(attention.state_dict())
        with torch.no_grad():
            asked, offset = twin._asked()
            assert offset is not None
            scale = twin.head_width**-0.5
            self.asked = linear(asked * scale, offset * scale, dtype)
            weight, bias = twin._output(), twin._offset(None, asked, asked)
            if embed is not None:
                each = weight.unflatten(1, (self.heads, self.width))  # (C, H, C)
                bias = bias + each.sum(1) @ embed.bias.double()  # weights of a head add up to 1
                weight = (each @ embed.weight.double()).flatten(1)
            self.output = linear(weight, bias, dtype)
            of_gate, of_passed = zip(network.inner.weight.chunk(2), network.inner.bias.chunk(2), strict=True)
            self.gate, self.passed = linear(*of_gate, dtype), linear(*of_passed, dtype)
        self.seen_norm, self.norm, self.outer, self.activation = (
            around.norm,
            after.norm,
            network.outer,
            network.activation,
        )

    def forward(self, queries: Tensor, values: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Queries (B·N, C), values K or X (B, P, C or C′), keys Kᵀ (B, C, P) → queries, and where they looked (B, H,
        N, P).
        """
        asked = self.asked(queries).view(-1, self.queries * self.heads, self.width)
        looked = (asked @ keys).softmax(-1)  # (B, N·H, P)
        seen = (looked @ values).view(-1, self.output.in_features)
        queries = self.seen_norm(queries + self.output(seen))
        queries = self.norm(queries + self.outer(self.activation(self.gate(queries)) * self.passed(queries)))
        return queries, looked.unflatten(1, (self.queries, self.heads)).transpose(1, 2) if self.queries > 1 else looked[
            :, :, None
        ]


def head(model: Icam) -> nn.Linear:
    """out and the head's first map in one: (N·C) → middle."""
    inner, out, count = cast("nn.Linear", model.head[0]), model.out, model.config.queries
    with torch.no_grad():
        each = inner.weight.double().unflatten(1, (count, -1))  # (middle, N, C′)
        weight = (each @ out.weight.double()).flatten(1)
        bias = inner.bias.double() + (each @ out.bias.double()).sum(1)
    return linear(weight, bias, out.weight.dtype)


@torch.no_grad()
def folded_pools(pooled: Pooled) -> nn.Linear:
    """W BN x + b as one linear map: BN x = s(x − μ) + t, so its weight is W s, and its bias W(t − sμ) + b."""
    norm, after = pooled.norm, wide(pooled.linear)
    mean, variance = cast("Tensor", norm.running_mean).double(), cast("Tensor", norm.running_var).double()
    scale = norm.weight.double() / (variance + norm.eps).sqrt()
    shift = norm.bias.double() - scale * mean
    return linear(after.weight * scale, after.weight @ shift + after.bias, pooled.linear.weight.dtype)


def joined(after: nn.Linear, before: nn.Linear) -> nn.Linear:
    """One map that does what two do, one after the other."""
    weight, bias = after.weight.double(), after.bias.double()
    return linear(weight @ before.weight.double(), weight @ before.bias.double() + bias, before.weight.dtype)


def linear(weight: Tensor, bias: Tensor, dtype: torch.dtype) -> nn.Linear:
    made = nn.Linear(weight.shape[1], weight.shape[0], dtype=dtype).requires_grad_(False)
    made.weight.copy_(weight)
    made.bias.copy_(bias)
    return made


def wide(layer: nn.Linear) -> nn.Linear:
    """The same in double precision; the given one is left as it is."""
    return linear(layer.weight.detach(), layer.bias.detach(), torch.float64)
