"""The two branches of graph.py in nodes: encoding a source, and taking a step.

The order is that of models/transformer.py.

    read   x⁰ = √C·E_source + PE;   x ← block(x), `layers` times;   keys.l, values.l = W_l x
    step   y⁰ = √C·E_target + PE;   y ← block(y, keys, values), `decoder_layers` times;
           log softmax(y E_outᵀ), the likeliest of it

Departs from the model: nothing but 1/√D, which is in the weights of the queries.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from foveal.deploy.onnx.builder import Array, Nodes
from foveal.layers.multihead import MultiHead
from foveal.layers.residual import Plain, PostNorm, PreNorm, Residual
from foveal.models.transformer import FARTHEST, Transformer
from foveal.tasks.translate import graph_names as names

TABLES = ("tables.source", "tables.target", "tables.out")


class Part:
    """What both branches have in common: blocks of the model, written as nodes."""

    def __init__(self, name: str, model: Transformer, int8: bool) -> None:
        self.model, self.config, self.nodes = model, model.config, Nodes(name, int8)

    def normed(self, x: str, name: str, norm: nn.Module) -> str:
        if not isinstance(norm, nn.LayerNorm):
            return x
        scale, shift = (self.nodes.weight(f"{name}.{part}", _array(getattr(norm, part))) for part in ("weight", "bias"))
        return self.nodes("LayerNormalization", x, scale, shift, axis=-1, epsilon=norm.eps)

    def around(self, x: str, name: str, block: Residual, change: Callable[[str, str, Any], str]) -> str:
        """The residual connection of layers/residual.py around what `change` makes of an input,
        its name and the layer.
        """
        changed = change(
            self.normed(x, f"{name}.norm", block.norm) if isinstance(block, PreNorm) else x, name, block.layer
        )
        y = changed if isinstance(block, Plain) else self.nodes("Add", x, changed)
        return self.normed(y, f"{name}.norm", block.norm) if isinstance(block, PostNorm) else y

    def linear(
        self, x: str, name: str, layer: nn.Linear, rows: slice = slice(None), scaled: int = 0, by: float = 1.0
    ) -> str:
        """scaled: this many of its first outputs are multiplied `by`."""
        weight, bias = (
            _array(layer.weight)[rows].copy(),
            None if layer.bias is None else _array(layer.bias)[rows].copy(),
        )
        weight[:scaled] *= np.float32(by)
        if bias is not None:
            bias[:scaled] *= np.float32(by)
        return self.nodes.linear(x, name, weight, bias)

    def feed_forward(self, x: str, name: str, layer: Any) -> str:
        nodes = self.nodes
        y = self.linear(x, f"{name}.inner", layer.inner)
        match self.config.activation:
            case "relu":
                y = nodes("Relu", y)
            case "silu" | "swish":
                y = nodes("Mul", y, nodes("Sigmoid", y))
            case _:  # gelu, exactly: onnxruntime knows this form again
                bell = nodes(
                    "Add", nodes("Erf", nodes("Div", y, nodes.one(2**0.5, np.float32))), nodes.one(1.0, np.float32)
                )
                y = nodes("Mul", nodes("Mul", y, bell), nodes.one(0.5, np.float32))
        return self.linear(y, f"{name}.outer", layer.outer)

    def placed(self, x: str, places: str, which: nn.Module) -> str:
        """x (…, N, C) with the positions of places (N,) added."""
        nodes, width = self.nodes, self.config.width
        if self.config.position == "learned":
            table = nodes.weight(f"{nodes.name}.positions", _array(which.table))  # type: ignore[arg-type]
            return nodes("Add", x, nodes("Gather", table, places))
        if self.config.position != "sinusoidal":
            return x
        angles = self._angles(places, np.repeat(_turns(width), 2)[:width])
        even = nodes.weight(f"{nodes.name}/even", np.arange(width) % 2 == 0)
        return nodes("Add", x, nodes("Where", even, nodes("Sin", angles), nodes("Cos", angles)))

    def turned(self, x: str, places: str, width: int) -> str:
        """Heads (…, N, D) turned by their places (N,), if positions are rotary."""
        if self.config.position != "rotary":
            return x
        nodes = self.nodes
        angles = self._angles(places, _turns(width))  # (N, D/2)
        cos, sin = nodes("Cos", angles), nodes("Sin", angles)
        first, second = nodes.several("Split", 2, x, axis=-1, num_outputs=2)
        left = nodes("Sub", nodes("Mul", first, cos), nodes("Mul", second, sin))
        right = nodes("Add", nodes("Mul", second, cos), nodes("Mul", first, sin))
        return nodes("Concat", left, right, axis=-1)

    def _angles(self, places: str, turns: Array) -> str:
        nodes = self.nodes
        column = nodes("Unsqueeze", nodes("Cast", places, to=1), nodes.number(-1))
        return nodes("Mul", column, nodes.weight(f"{nodes.name}/turns", turns))

    def relative(self, q: str, layer: MultiHead, name: str, apart: str) -> str:
        """Scores of distances (N, M), or (M,) of one query: (B, H, N, 2K + 1), of which each pair picks one."""
        nodes = self.nodes
        table = _array(layer.position.table)[0]  # type: ignore[union-attr, arg-type]  # one for all heads
        scores = nodes("MatMul", q, nodes.weight(f"{name}.distances", table.T))
        reach = nodes("Clip", apart, nodes.one(-FARTHEST), nodes.one(FARTHEST))
        return self._picked(scores, nodes("Add", reach, nodes.one(FARTHEST)))

    def _picked(self, scores: str, which: str) -> str:
        raise NotImplementedError

    def mixed(self, q: str, k: str, v: str, *terms: str) -> str:
        """softmax(q kᵀ + terms) v: the scale is in q already."""
        nodes = self.nodes
        scores = nodes("MatMul", q, nodes("Transpose", k, perm=[0, 1, 3, 2]))
        for term in terms:
            scores = nodes("Add", scores, term)
        return nodes("MatMul", nodes("Softmax", scores, axis=-1), v)

    def hidden(self, lengths: str, size: str) -> str:
        """(S, 1, 1, M): −∞ behind the tokens of each source."""
        nodes = self.nodes
        places = nodes("Range", nodes.one(0), size, nodes.one(1))
        within = nodes("Less", places, nodes("Unsqueeze", lengths, nodes.number(1)))
        mask = nodes("Where", within, nodes.one(0.0, np.float32), nodes.one(float("-inf"), np.float32))
        return nodes("Unsqueeze", mask, nodes.number(1, 2))


class Reads(Part):
    """A source → the keys and values that its translation attends to."""

    def __init__(self, model: Transformer, int8: bool) -> None:
        super().__init__("read", model, int8)

    def written(self) -> tuple[Nodes, list[str]]:
        """The nodes, and what the outputs are called in them."""
        nodes, config, model = self.nodes, self.config, self.model
        real = nodes("Cast", nodes("Not", nodes("Equal", names.SOURCE, nodes.one(config.pad))), to=7)
        lengths = nodes("ReduceSum", real, nodes.number(1), keepdims=0)
        size = nodes("Gather", nodes("Shape", names.SOURCE), nodes.one(1))
        self.mask = self.hidden(lengths, size)
        self.places = nodes("Range", nodes.one(0), size, nodes.one(1))  # (M,)
        x = nodes.read(names.SOURCE, TABLES[0], _array(model.tables.source.weight), model.tables.scale)
        x = self.placed(x, self.places, model.source_position)
        for number, block in enumerate(_blocks(model.encoder)):
            x = self.around(x, f"encoder.{number}.attention", block.attention, self.attention)
            x = self.around(x, f"encoder.{number}.feed_forward", block.feed_forward, self.feed_forward)
        memory = self.normed(x, "encoder_norm", model.encoder_norm)
        keys: list[str] = []
        for number, block in enumerate(_blocks(model.decoder)):
            layer = block.cross_attention.layer
            both = self.linear(memory, f"decoder.{number}.cross_attention.kv", *_pairs(layer))
            both = nodes("Transpose", nodes.shaped(both, 0, 0, 2 * layer.groups, layer.head_width), perm=[0, 2, 1, 3])
            keys += nodes.several("Split", 2, both, axis=1, num_outputs=2)
        nothing = (
            nodes.weight("read/nothing", np.zeros((0, 0), np.float32)),
            nodes.weight("read/no token", np.zeros((0, 0), np.int64)),
        )
        nowhere = nodes.weight("read/nowhere", np.zeros(0, np.float32))
        return nodes, [*(nodes("Identity", one) for one in (*nothing, nowhere)), *keys]

    def attention(self, x: str, name: str, layer: MultiHead) -> str:
        nodes, heads, width = self.nodes, layer.heads, layer.head_width
        each = self.linear(x, f"{name}.qkv", _joint(layer), scaled=heads * width, by=width**-0.5)
        each = nodes("Transpose", nodes.shaped(each, 0, 0, 3 * heads, width), perm=[0, 2, 1, 3])  # (S, 3H, M, D)
        q, k, v = nodes.several("Split", 3, each, axis=1, num_outputs=3)
        q, k = self.turned(q, self.places, width), self.turned(k, self.places, width)
        terms = [self.mask]
        if self.config.position == "relative":
            apart = nodes("Sub", nodes("Unsqueeze", self.places, nodes.number(1)), self.places)  # i − j
            terms.append(self.relative(q, layer, name, apart))
        y = nodes("Transpose", self.mixed(q, k, v, *terms), perm=[0, 2, 1, 3])
        return self.linear(nodes.shaped(y, 0, 0, heads * width), f"{name}.out", layer.out)

    def _picked(self, scores: str, which: str) -> str:
        nodes = self.nodes
        shape = nodes("Concat", nodes("Shape", scores, start=0, end=2), nodes("Shape", which), axis=0)
        return nodes("GatherElements", scores, nodes("Expand", which, shape), axis=3)


class Steps(Part):
    """The last token of each row → what comes next."""

    def __init__(self, model: Transformer, int8: bool) -> None:
        super().__init__("step", model, int8)
        self.kept: list[str] = []  # keys and values of all tokens so far, of each layer
        self.number = 0  # of the layer that is being written

    def written(self) -> tuple[Nodes, list[str]]:
        """The nodes, and what the outputs are called in them."""
        nodes, config, model = self.nodes, self.config, self.model
        self.place = nodes("Shape", names.PAST_KEYS.format(0), start=2, end=3)  # (1,): t
        self.sources = nodes("Shape", names.LENGTHS)  # (1,): S
        self.mask = self.hidden(
            names.LENGTHS, nodes("Squeeze", nodes("Shape", names.SOURCE_KEYS.format(0), start=2, end=3))
        )
        tables = model.tables
        reads = TABLES[0] if tables.target is None else TABLES[1]
        x = nodes.read(names.TOKENS, reads, _array(tables.of_target), tables.scale)  # (R, C)
        x = self.placed(x, self.place, model.target_position)
        for number, block in enumerate(_blocks(model.decoder)):
            self.number = number
            x = self.around(x, f"decoder.{number}.self_attention", block.self_attention, self.attention)
            x = self.around(x, f"decoder.{number}.cross_attention", block.cross_attention, self.cross_attention)
            x = self.around(x, f"decoder.{number}.feed_forward", block.feed_forward, self.feed_forward)
        x = self.normed(x, "decoder_norm", model.decoder_norm)
        out = TABLES[2] if tables.out is not None else reads
        bias = None if tables.bias is None else _array(tables.bias)
        probabilities = nodes("LogSoftmax", nodes.logits(x, out, _array(tables.of_output), bias), axis=1)  # (R, V)
        ends = nodes("Gather", probabilities, nodes.one(config.end), axis=1)
        never = nodes(
            "Expand", nodes.number(float("-inf"), kind=np.float32), nodes("Shape", names.BANNED, start=0, end=1)
        )
        log_p, tokens = nodes.several(
            "TopK", 2, nodes("ScatterND", probabilities, names.BANNED, never), names.TOP_K, axis=1
        )
        return nodes, [log_p, tokens, ends, *self.kept]

    def attention(self, x: str, name: str, layer: MultiHead) -> str:
        nodes, heads, width = self.nodes, layer.heads, layer.head_width
        each = self.linear(x, f"{name}.qkv", _joint(layer), scaled=heads * width, by=width**-0.5)
        # of shape (R, H, 1, D)
        q, k, v = nodes.several("Split", 3, nodes.shaped(each, 0, 3 * heads, 1, width), axis=1, num_outputs=3)
        q, k = self.turned(q, self.place, width), self.turned(k, self.place, width)
        k = nodes("Concat", names.PAST_KEYS.format(self.number), k, axis=2)
        v = nodes("Concat", names.PAST_VALUES.format(self.number), v, axis=2)
        self.kept += [k, v]
        terms = []
        if self.config.position == "relative":
            here = nodes("Squeeze", self.place)
            before = nodes("Range", nodes.one(0), nodes("Add", here, nodes.one(1)), nodes.one(1))
            terms.append(self.relative(q, layer, name, nodes("Sub", here, before)))
        return self.linear(nodes.shaped(self.mixed(q, k, v, *terms), 0, heads * width), f"{name}.out", layer.out)

    def cross_attention(self, x: str, name: str, layer: MultiHead) -> str:
        """The beams of a source attend to its keys as queries of one sample: nothing is copied for each of them."""
        nodes, heads, width = self.nodes, layer.heads, layer.head_width
        q = self.linear(x, f"{name}.q", *_queries(layer), scaled=heads * width, by=width**-0.5)
        q = nodes("Reshape", q, nodes("Concat", self.sources, nodes.number(-1, heads, width), axis=0))
        q = nodes("Transpose", q, perm=[0, 2, 1, 3])  # (S, H, beams, D)
        y = self.mixed(q, names.SOURCE_KEYS.format(self.number), names.SOURCE_VALUES.format(self.number), self.mask)
        y = nodes.shaped(nodes("Transpose", y, perm=[0, 2, 1, 3]), -1, heads * width)
        return self.linear(y, f"{name}.out", layer.out)

    def _picked(self, scores: str, which: str) -> str:
        return self.nodes("Gather", scores, which, axis=3)


def _blocks(stack: nn.ModuleList) -> list[Any]:
    return list(stack)


def _joint(layer: MultiHead) -> nn.Linear:
    assert layer.qkv is not None
    return layer.qkv


def _queries(layer: MultiHead) -> tuple[nn.Linear, slice]:
    if layer.qkv is None:
        return layer.q, slice(None)
    return layer.qkv, slice(None, layer.heads * layer.head_width)


def _pairs(layer: MultiHead) -> tuple[nn.Linear, slice]:
    if layer.qkv is None:
        return layer.kv, slice(None)
    return layer.qkv, slice(layer.heads * layer.head_width, None)


def _turns(width: int) -> Array:
    """How fast each pair of channels turns, to the last bit as the positions of the model compute it."""
    doubled = torch.arange(0, width, 2).to(torch.float32)
    return _array(10000.0 ** (-doubled / width))


def _array(weight: Tensor) -> Array:
    values: Array = weight.detach().cpu().float().numpy()
    return values
