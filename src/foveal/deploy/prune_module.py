"""A smaller copy of any torch module: fewer channels, down to a number of parameters or flops, or fewer heads.

    prune(module, example=images, parameters=31_371)     channels, of foveal's own attention heads
    prune(module, example=images, heads={0: [1, 3]})     heads 1 and 3 of the first attention
    prune(module, example=images, heads=2)               the two heads of the smallest weights

    importance of a head = mean of |w| over W_Q, W_K, W_V and W_O of that head

Layers with heads are counted from 0 in the order in which the module holds them: foveal's multi-head layers, and
transformers' attention as far as it names its projections and its num_attention_heads. What is left says what the
module says when these heads give 0. torch.nn.MultiheadAttention is as wide as its heads together, so that it cannot
lose one alone; to a target, each of its heads loses the same channels.
"""

import copy
import warnings
from typing import Any

import torch
from torch import Tensor, nn

from foveal.deploy.prune import expect_same_shapes, traced
from foveal.deploy.prune import prune as prune_to
from foveal.deploy.prune_way import Inputs, inputs_of, torch_pruning, way_of
from foveal.errors import FovealError, expect, short_repr
from foveal.explain.heads import least
from foveal.layers.multihead import MultiHead
from foveal.models.heads import Heads, checked_heads, weights_of
from foveal.models.shrink import fit, query_of


def prune(
    module: nn.Module,
    *,
    parameters: int | None = None,
    flops: int | None = None,
    heads: Heads | int | None = None,
    by: str = "l1",
    example: Any = None,
) -> nn.Module:
    """A smaller copy, in evaluation mode, whose outputs have the shapes that the module's have.

    One of: parameters or flops, at most so many; heads, which go, layer → heads, or how many. by: which channels go
    first, "l1" or "fpgm". example: what the module is called with, a tensor, a tuple of arguments or a dict of named
    ones; a model of foveal's has one of its own.
    """
    given = {"parameters": parameters, "flops": flops, "heads": heads}
    asked = [name for name, value in given.items() if value is not None]
    got = " and ".join(f"{name}=" for name in asked) or "none"
    expect(len(asked) == 1, "to prune", "one of parameters=, flops= and heads=", got)
    if heads is None:
        return prune_to(module, given[asked[0]], asked[0], by, example=example)  # type: ignore[arg-type]
    expect(by == "l1", "by, beside heads=", "l1", short_repr(by), "or name the heads, layer → heads")
    return _without_heads(module, heads, example)


def _without_heads(module: nn.Module, heads: Heads | int, example: Any) -> nn.Module:
    expect(isinstance(module, nn.Module), "to prune", "a torch.nn.Module", short_repr(module))
    layers = _layers(module)
    foreign = any(not isinstance(layer, MultiHead) for layer in layers)
    # foveal's own layers know their heads: no example is needed for them.
    inputs = inputs_of(module, example) if foreign or example is not None else None
    fewer = copy.deepcopy(module).eval()
    graph = None if inputs is None or not foreign else _graph(fewer, inputs)
    layers = _layers(fewer)
    if isinstance(heads, int):
        heads = least([_importance(layer, graph) for layer in layers], heads)
    chosen = checked_heads([_count(layer) for layer in layers], heads)
    for place, some in chosen.items():
        layer = layers[place]
        if isinstance(layer, MultiHead):
            layer.drop_heads(some)
        else:
            _drop_foreign(layer, some, graph)
    fit(fewer)
    for mine, theirs in zip(fewer.parameters(), module.parameters(), strict=True):
        mine.grad = None
        mine.requires_grad_(theirs.requires_grad)
    if inputs is not None:
        expect_same_shapes(module, fewer, inputs)
    return fewer


def _layers(module: nn.Module) -> list[nn.Module]:
    found = [part for part in module.modules() if isinstance(part, MultiHead) or query_of(part) is not None]
    torchs = any(isinstance(part, nn.MultiheadAttention) for part in module.modules())
    got = "torch.nn.MultiheadAttention only, whose heads are as wide together as its tokens" if torchs else "none"
    expect(bool(found), "heads", "multi-head layers of foveal's or of transformers'", got)
    return found


def _count(layer: nn.Module) -> int:
    return layer.heads if isinstance(layer, MultiHead) else int(layer.num_attention_heads)  # type: ignore[arg-type]


def _graph(module: nn.Module, inputs: Inputs) -> Any:
    """Who reads whose channels, as torch-pruning found out."""
    with traced(module), torch.enable_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # it warns of every parameter outside of layers
        return (
            torch_pruning()
            .DependencyGraph()
            .build_dependency(module.requires_grad_(True), example_inputs=inputs, forward_fn=way_of(module).forward)
        )


def _group(layer: nn.Module, graph: Any, heads: list[int]) -> Any:
    """The channels of these heads, in all that makes or reads them."""
    query, count = query_of(layer), _count(layer)
    shared = getattr(layer, "num_key_value_heads", count)
    if shared != count:
        raise FovealError(
            f"heads of {type(layer).__name__}: expected as many of keys as of queries, got {shared} and {count}; give "
            "parameters= or flops="
        )
    width = query.out_features // count
    rows = [head * width + row for head in heads for row in range(width)]
    return graph.get_pruning_group(query, torch_pruning().prune_linear_out_channels, rows)


def _importance(layer: nn.Module, graph: Any) -> Tensor:
    """(H,): the mean of |w| over all weights of each head, so that layers of any width compare."""
    parts = [_parts(layer, graph, head) for head in range(_count(layer))]
    return torch.stack([torch.cat([one.detach().abs().flatten() for one in some]).mean() for some in parts])


def _parts(layer: nn.Module, graph: Any, head: int) -> list[Tensor]:
    """W_Q, W_K, W_V and W_O of one head."""
    if isinstance(layer, MultiHead):
        return [weight[place] for weight, place in weights_of(layer, head)]
    linear = [(link, rows) for link, rows in _group(layer, graph, [head]) if isinstance(link.layer, nn.Linear)]
    return [
        link.layer.weight[rows] if graph.is_out_channel_pruning_fn(link.pruning_fn) else link.layer.weight[:, rows]
        for link, rows in linear
    ]


def _drop_foreign(layer: Any, heads: list[int], graph: Any) -> None:
    _group(layer, graph, heads).prune()
    layer.num_attention_heads -= len(heads)
