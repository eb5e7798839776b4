"""Heads of a model's multi-head layers: counted, silenced, or removed for good.

    silenced   y = Σ_(h not in S) head_h W_O^h + b        removed: the same sum, with the matrices of S gone

Symbols: S the heads that are meant; layers are numbered from 0 in the order in which the model holds them, heads from
    0 in each.
Paper: Paul Michel, Omer Levy, Graham Neubig (2019). Are sixteen heads really better than one? NeurIPS.
    arXiv:1905.10650.
Departs from the paper: nothing. A layer keeps at least one head, and the width of a head stays.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from foveal.errors import FovealError, expect, is_integer, short_repr
from foveal.layers.multihead import MultiHead

Heads = Mapping[int, Iterable[int]]  # layer → its heads


def head_layers(model: nn.Module) -> list[MultiHead]:
    """The multi-head layers of a model; an error where it has none."""
    layers = [module for module in model.modules() if isinstance(module, MultiHead)]
    expect(
        bool(layers), "heads", "a model with multi-head layers of foveal's", f"{type(model).__name__}, which has none"
    )
    return layers


def remove_heads(model: nn.Module, heads: Heads) -> None:
    """Cut these heads out of their layers, in place: smaller matrices, and what `without_heads` gives."""
    layers = head_layers(model)
    for layer, some in checked_heads([layer.heads for layer in layers], heads).items():
        layers[layer].drop_heads(some)


@contextlib.contextmanager
def without_heads(model: nn.Module, heads: Heads) -> Iterator[None]:
    """Within, these heads give 0."""
    layers = head_layers(model)
    hooks = [
        layers[layer].out.register_forward_pre_hook(_silence(layers[layer], some))
        for layer, some in checked_heads([layer.heads for layer in layers], heads).items()
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def weights_of(layer: MultiHead, head: int) -> list[tuple[Tensor, tuple[slice, ...]]]:
    """The weights of one head: each with the part that is its own."""
    width, heads, groups = layer.head_width, layer.heads, layer.groups
    group = head // (heads // groups)

    def rows(block: int) -> tuple[slice, ...]:
        return (slice(block * width, (block + 1) * width),)

    inner: list[tuple[Tensor, tuple[slice, ...]]]
    if layer.qkv is not None:
        inner = [(layer.qkv.weight, rows(block)) for block in (head, heads + group, heads + groups + group)]
    else:
        inner = [(layer.q.weight, rows(head)), (layer.kv.weight, rows(group)), (layer.kv.weight, rows(groups + group))]
    return [*inner, (layer.out.weight, (slice(None), *rows(head)))]


def head_weights(layer: MultiHead) -> Tensor:
    """(G, n): all weights of each head of keys and values, and of the heads of queries that read it."""
    share = layer.heads // layer.groups
    rows = []
    for group in range(layer.groups):
        parts = [pair for head in range(group * share, (group + 1) * share) for pair in weights_of(layer, head)]
        rows.append(torch.cat([weight.detach()[place].flatten() for weight, place in parts]))
    return torch.stack(rows)


def _silence(layer: MultiHead, heads: list[int]) -> Any:
    def hook(_: nn.Module, inputs: tuple[Tensor]) -> Tensor:
        each: Tensor = inputs[0].unflatten(-1, (layer.heads, layer.head_width))  # (B, N, H, D)
        kept = torch.ones(layer.heads, 1, dtype=each.dtype, device=each.device)
        kept[heads] = 0
        return (each * kept).flatten(-2)

    return hook


def checked_heads(counts: list[int], heads: Heads) -> dict[int, list[int]]:
    """The heads of each layer that is named. counts: how many each layer has.

    An error, before anything is done, unless some are named, all of them are there and one is left.
    """
    if not isinstance(heads, Mapping):
        raise FovealError(f"heads: expected {{layer: its heads}}, such as {{0: [1]}}, got {short_repr(heads)}")
    chosen = {}
    for layer, some in heads.items():
        there = is_integer(layer) and layer in range(len(counts))
        expect(there, "a layer with heads", f"0 to {len(counts) - 1}", short_repr(layer))
        count, listed = counts[layer], isinstance(some, Iterable) and not isinstance(some, str)
        expect(listed, f"the heads of layer {layer}", "a list of them, such as [1]", short_repr(some))
        some = list(some)
        for head in some:
            there = is_integer(head) and head in range(count)
            expect(there, f"a head of layer {layer}", f"0 to {count - 1}", short_repr(head))
        chosen[layer] = sorted(set(some))
        expect(len(chosen[layer]) < count, f"the heads of layer {layer}", f"at least one of {count} left", "none left")
    expect(any(chosen.values()), "heads", "at least one, such as {0: [1]}", "none")
    return chosen
