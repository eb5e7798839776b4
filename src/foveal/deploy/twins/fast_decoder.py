"""A trained Transformer as a search asks it (decode/engine.py), for one thread of a CPU:
what TorchEngine computes, with less work per token.

    slot(t, b) = t·beams + b;      a ← a[parents]
    row b attends to slot(t, a_t),  a_t the beam that its sentence had t tokens ago

Symbols: t a step, b a beam, a the ancestors. Keys and values are written once into the slot of their beam and step,
and never move: the beams of a source are queries of one attention over all its slots, with a mask of ancestors that
all layers share. A new order of the beams moves that mask alone, a few numbers where a cache would be megabytes. In
memory slots come first, so that those that are filled have no gaps between them: the queries of 32 sources meet the
keys of 10 tokens in 33 µs, and in 136 where each head has all its slots together. The source's keys and values are
made once, and shared by the beams in the same way. Linear maps are in the form that suits the number of rows:
fast_linear.py; the tokens are chosen by top_k.py.

Departs from the trained model by rounding; with precision="int8" by that of eight bits, in every linear map but the
embedding tables.
"""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from foveal.core.attend import attend
from foveal.core.mask import Mask
from foveal.deploy.twins.fast_linear import Linear, can_quantise, linear
from foveal.deploy.twins.top_k import likeliest
from foveal.errors import expect, unknown
from foveal.layers.decoder import Decoder
from foveal.layers.encoder import Encoder
from foveal.layers.feed_forward import FeedForward
from foveal.layers.multihead import MultiHead
from foveal.layers.residual import Plain, PostNorm, PreNorm, Residual
from foveal.models.sequence import padding_of
from foveal.models.torch_engine import TorchEngine
from foveal.models.transformer import Transformer
from foveal.position.relative import Relative
from foveal.position.rotary import turned
from foveal.runtime.decode.engine import Bans, Engine, Next, Rows, never_generated, padded

PRECISIONS = ("fp32", "int8")
MANY, MOST = 16, 128  # rows: more than one, and those of a feed-forward network at a time
LANES = 16  # numbers of a vector
FEW = (
    7  # tokens: fewer torch's bmm weighs in a plain loop, which takes 143 µs for six where a product and a sum take 49
)
SEVERAL = 8  # sources, from which on attention is faster as three products


def engine_of(model: nn.Module, precision: str = "fp32") -> Engine:
    """The fastest engine for this model where it lies: a FastDecoder on a CPU,
    TorchEngine for what that does not know.
    """
    if precision not in PRECISIONS:
        raise unknown("precision", precision, PRECISIONS)
    against = unsupported(model)
    if against is None:
        return FastDecoder(cast("Transformer", model), precision)
    expect(precision == "fp32", "int8", "a Transformer on a CPU", against, "use fp32")
    return TorchEngine(model)


def unsupported(model: nn.Module) -> str | None:
    """Why a FastDecoder cannot be made of this model; None: it can."""
    if not isinstance(model, Transformer):
        return f"a {type(model).__name__}"
    weights = list(model.parameters())
    if any(weight.device.type != "cpu" for weight in weights):
        return f"one on {weights[0].device.type}"
    if any(weight.dtype != torch.float32 for weight in weights):
        return f"one of {next(weight.dtype for weight in weights if weight.dtype != torch.float32)}"
    heads = [part for part in model.modules() if isinstance(part, MultiHead)]
    if any(part.groups != part.heads for part in heads):
        return "one whose heads share keys"
    return None


class FastDecoder:
    """An Engine, for a model that is trained no further: some of its weights are copied into another form here,
    others are read where they are.
    """

    def __init__(self, model: Transformer, precision: str = "fp32") -> None:
        if precision not in PRECISIONS:
            raise unknown("precision", precision, PRECISIONS)
        against = unsupported(model)
        expect(against is None, "FastDecoder", "a Transformer of float32 on a CPU", against)
        expect(precision == "fp32" or can_quantise(), "int8", "a torch for x86 with fbgemm", "one without", "use fp32")
        self.model, self.precision, self.config = model.eval(), precision, model.config
        self.first, self.end = int(self.config.begin), int(self.config.end)
        self.never = torch.from_numpy(never_generated(self.config.pad, self.config.begin, self.config.end))
        self.encoder = [_Encoder(layer, precision) for layer in model.encoder if isinstance(layer, Encoder)]
        self.made: dict[bool, tuple[list[_Decoder], Linear]] = {}  # by whether there is one row

    @torch.inference_mode()
    def begin(self, sources: Sequence[Sequence[int]], beams: int, limit: int) -> None:
        model, config = self.model, self.config
        self.sources, self.beams, self.limit, self.length = len(sources), beams, limit, 0
        self.decoder, self.project = self._decoder(len(sources) * beams == 1)
        tokens, counts = padded(sources, config.pad, self.end)
        lengths = torch.from_numpy(counts)
        wide = tokens.shape[1]
        mask = padding_of(lengths, wide)
        x = model.source_position(model.tables.read_source(torch.from_numpy(tokens))).flatten(0, 1)  # (S·M, C)
        for layer in self.encoder:
            x = layer(x, len(sources), mask)
        memory = model.encoder_norm(x)
        self.hidden = None  # of the sources' padding, (S, 1, 1, M)
        if mask is not None:
            self.hidden = torch.zeros(len(sources), 1, 1, wide).masked_fill_(
                torch.arange(wide) >= lengths[:, None, None, None], -torch.inf
            )
        for block in self.decoder:
            block.begin(memory, len(sources), beams, limit)
        # At the beginning each beam attends to its own slots; a new order changes those that are filled.
        # of shape (S·B, T·B)
        self.ancestors = torch.full((beams, beams), -torch.inf).fill_diagonal_(0.0).repeat(len(sources), limit)
        self.places = model.target_position(torch.zeros(1, self._reach(), config.width))[0]  # (T, C)

    @torch.inference_mode()
    def step(self, tokens: Rows, top_k: int, bans: Bans | None) -> Next:
        expect(self.length < self.limit, "the tokens of a sentence", f"at most {self.limit}", self.length + 1)
        expect(self.length < len(self.places), "Learned's positions", f"at most {len(self.places)}", self.length + 1)
        tables = self.model.tables
        embedded = functional.embedding(torch.from_numpy(np.ascontiguousarray(tokens)), tables.of_target)
        x = torch.add(self.places[self.length], embedded, alpha=tables.scale)  # (R, C)
        ancestors = None
        if self.beams > 1:
            filled = (self.length + 1) * self.beams
            ancestors = self.ancestors[:, :filled].view(self.sources, 1, self.beams, filled)
        for layer in self.decoder:
            x = layer(x, self.length, ancestors, self.hidden)
        self.length += 1
        return likeliest(self.model.decoder_norm(x), self.project, top_k, self.end, self.never, bans)

    @torch.inference_mode()
    def reorder(self, parents: Rows) -> None:
        if self.beams > 1 and (parents != np.arange(len(parents))).any():
            filled = self.ancestors[:, : self.length * self.beams]
            filled.copy_(filled.index_select(0, torch.from_numpy(np.ascontiguousarray(parents))))

    @torch.inference_mode()
    def keep(self, sources: Rows) -> None:
        kept = torch.from_numpy(np.ascontiguousarray(sources))
        for layer in self.decoder:
            layer.keep(kept, self.length * self.beams)
        self.hidden = None if self.hidden is None else self.hidden.index_select(0, kept)
        self.ancestors = self.ancestors.unflatten(0, (self.sources, self.beams)).index_select(0, kept).flatten(0, 1)
        self.sources = len(kept)

    def _decoder(self, alone: bool) -> tuple[list["_Decoder"], Linear]:
        """The layers and the logits for one row, or for several: made when first asked for."""
        if alone not in self.made:
            rows, tables = 1 if alone else MANY, self.model.tables
            layers = [
                _Decoder(layer, rows, self.precision) for layer in self.model.decoder if isinstance(layer, Decoder)
            ]
            self.made[alone] = layers, linear(tables.of_output, tables.bias, rows, self.precision)
        return self.made[alone]

    def _reach(self) -> int:
        """Positions there are: a learned table ends, and is not stretched while a sentence grows."""
        return min(self.limit, self.config.max_length) if self.config.position == "learned" else self.limit


class _Around:
    """The residual connection and the norm around a layer: before(x) goes into it, after(x, y) comes out."""

    def __init__(self, block: Residual) -> None:
        self.added = not isinstance(block, Plain)
        self.early, self.late = isinstance(block, PreNorm), isinstance(block, PostNorm)
        if isinstance(block, PreNorm | PostNorm):
            self.norm = ([block.width], block.norm.weight.detach(), block.norm.bias.detach(), block.norm.eps)

    def before(self, x: Tensor) -> Tensor:
        return torch.layer_norm(x, *self.norm) if self.early else x

    def after(self, x: Tensor, y: Tensor) -> Tensor:
        y = y.add_(x) if self.added else y
        return torch.layer_norm(y, *self.norm) if self.late else y


class _FeedForward:
    def __init__(self, block: Residual, rows: int, precision: str) -> None:
        layer = cast("FeedForward", block.layer)
        self.around, self.activation = _Around(block), _in_place(layer.activation)
        self.inner = linear(layer.inner.weight, layer.inner.bias, rows, precision)
        self.outer = linear(
            layer.outer.weight, layer.outer.bias, rows, precision, positive=isinstance(layer.activation, nn.ReLU)
        )

    def __call__(self, x: Tensor) -> Tensor:
        if x.shape[0] > MOST:  # some rows at a time: what is hidden stays in the cache
            return torch.cat([self(part) for part in x.split(MOST)])
        return self.around.after(x, self.outer(self.activation(self.inner(self.around.before(x)))))


class _Encoder:
    def __init__(self, layer: Encoder, precision: str) -> None:
        attention = cast("MultiHead", layer.attention.layer)
        assert attention.qkv is not None
        self.around, self.heads, self.position = _Around(layer.attention), attention.heads, attention.position
        self.qkv = linear(attention.qkv.weight, attention.qkv.bias, MANY, precision)
        self.out = linear(attention.out.weight, attention.out.bias, MANY, precision)
        self.feed_forward = _FeedForward(layer.feed_forward, MANY, precision)

    def __call__(self, x: Tensor, sources: int, mask: Mask | None) -> Tensor:
        """(S·M, C) → (S·M, C)."""
        q, k, v = _heads(self.qkv(self.around.before(x)), sources, 3, self.heads)
        term = None
        if self.position is not None:
            (q, k), term = self.position.rotate(q, k), self.position.term()
        y = self.out(attend(q, k, v, mask=mask, bias=term).transpose(1, 2).reshape(x.shape[0], -1))
        return self.feed_forward(self.around.after(x, y))


class _Decoder:
    """One layer, with the keys and values of its tokens and of its sources."""

    def __init__(self, layer: Decoder, rows: int, precision: str) -> None:
        own, other = cast("MultiHead", layer.self_attention.layer), cast("MultiHead", layer.cross_attention.layer)
        assert own.qkv is not None
        self.own_around, self.other_around = _Around(layer.self_attention), _Around(layer.cross_attention)
        self.own_heads, self.other_heads, self.width = own.heads, other.heads, own.head_width
        self.rotary = own.position is not None and not isinstance(own.position, Relative) and own.position
        self.relative = own.position if isinstance(own.position, Relative) else None
        self.qkv = linear(own.qkv.weight, own.qkv.bias, rows, precision)
        self.own_out = linear(own.out.weight, own.out.bias, rows, precision)
        self.q = linear(other.q.weight, other.q.bias, rows, precision)
        self.kv = linear(other.kv.weight, other.kv.bias, MANY, precision)
        self.other_out = linear(other.out.weight, other.out.bias, rows, precision)
        self.feed_forward = _FeedForward(layer.feed_forward, rows, precision)

    def begin(self, memory: Tensor, sources: int, beams: int, limit: int) -> None:
        self.sources, self.beams = sources, beams
        k, v = _heads(self.kv(memory), sources, 2, self.other_heads)
        self.memory = k.contiguous(), v.contiguous()  # (S, H, M, D) each
        # Keys and values of the slots, (2, S, H, T·B, D), which lie in memory with the slots before the sources.
        self.kept = torch.empty(2, limit * beams, sources, self.own_heads, self.width).permute(0, 2, 3, 1, 4)

    def keep(self, kept: Tensor, filled: int) -> None:
        self.memory = self.memory[0].index_select(0, kept), self.memory[1].index_select(0, kept)
        moved = (kept != torch.arange(len(kept))).nonzero()[:, 0]
        part = self.kept.narrow(3, 0, filled)
        part.index_copy_(1, moved, part.index_select(1, kept[moved]))
        self.kept = self.kept[:, : len(kept)]
        self.sources = len(kept)

    def __call__(self, x: Tensor, length: int, ancestors: Tensor | None, hidden: Tensor | None) -> Tensor:
        """The next token of each row (R, C), `length` tokens being there already → (R, C)."""
        sources, beams = self.sources, self.beams
        each = _heads(self.qkv(self.own_around.before(x)), sources, 3, self.own_heads)  # (3, S, H, B, D)
        if self.rotary:
            each[:2].copy_(_turned(each[:2], length, self.rotary))
        q = each[0]
        self.kept.narrow(3, length * beams, beams).copy_(each[1:])
        if self.relative is not None:
            term = _distances(q, self.relative, length).repeat_interleave(beams, 3)
            ancestors = term if ancestors is None else term + ancestors
        k, v = self.kept.narrow(3, 0, (length + 1) * beams).unbind(0)
        context = _attend(q, k, v, ancestors)
        x = self.own_around.after(x, self.own_out(context))
        q = _heads(self.q(self.other_around.before(x)), sources, 1, self.other_heads)[0]
        x = self.other_around.after(x, self.other_out(_attend(q, *self.memory, hidden)))
        return self.feed_forward(x)


def _heads(rows: Tensor, sources: int, parts: int, heads: int) -> Tensor:
    """(S·N, parts·H·D) → (parts, S, H, N, D)."""
    return rows.view(sources, rows.shape[0] // sources, parts, heads, -1).permute(2, 0, 3, 1, 4)


def _attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Attention of (S, H, B, D), with what is added to its scores → (S·B, H·D)."""
    sources, heads, beams, width = q.shape
    if sources < SEVERAL:
        context = functional.scaled_dot_product_attention(q, k, v, mask)
    else:  # many small products: as one batch they take half the time
        asked = (q * width**-0.5).reshape(sources * heads, beams, width)
        scores = torch.bmm(asked, k.flatten(0, 1).transpose(1, 2)).view(sources, heads, beams, -1)
        alpha = _shares(scores if mask is None else scores.add_(mask))
        if beams == 1 and alpha.shape[-1] < FEW:
            context = (alpha.mT * v).sum(2, keepdim=True)
        else:
            context = torch.bmm(alpha.flatten(0, 1), v.flatten(0, 1)).view(sources, heads, beams, width)
    return context.transpose(1, 2).reshape(sources * beams, -1)


def _shares(scores: Tensor) -> Tensor:
    """softmax.

    Rows shorter than a vector torch does number by number (256 of 15: 68 µs, of 16: 9), so they are filled up with
    what has no share.
    """
    short = LANES - scores.shape[-1]
    return (
        scores.softmax(-1)
        if short <= 0
        else functional.pad(scores, (0, short), value=-torch.inf).softmax(-1)[..., :-short]
    )


def _turned(heads: Tensor, length: int, position: Any) -> Tensor:
    """All beams of all sources stand at the same place: (2, S, H, B, D) are turned alike."""
    return turned(heads.flatten(0, -2)[:, None, None], length, position.base).view(heads.shape)


def _distances(q: Tensor, position: Relative, length: int) -> Tensor:
    """Shaw's q·R of the tokens 0 … length, (S, H, B, length + 1)."""
    reach = position.max_distance
    places = torch.arange(length, -1, -1).clamp_(max=reach) + reach
    return (q * position.scale) @ position.table[:, places].mT


def _in_place(activation: nn.Module) -> Any:
    """relu needs no further copy."""
    return torch.relu_ if isinstance(activation, nn.ReLU) else activation
