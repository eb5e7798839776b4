"""How an image model of ours corresponds to transformers' model: what each family's file says, and what they share."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn

from foveal.errors import FovealError, expect
from foveal.models.convert import Weights, found

HfConfig = dict[str, Any]  # transformers' config.json
LETTERS = {"q": "query", "k": "key", "v": "value"}


class Kind(NamedTuple):
    """What there is to know of one family."""

    model: type[nn.Module]
    architecture: str
    hf_config: Callable[[Any], HfConfig]  # our config → theirs
    config: Callable[[HfConfig], Any]  # and back
    names: Callable[[Any], dict[str, str]]  # config → our layers and tensors, and theirs
    shapes: Callable[[Weights], Weights]  # our tensors as theirs are shaped
    back: Callable[[Weights, Any], Weights]  # theirs, with our config, as ours are shaped
    flat: Callable[[HfConfig], HfConfig] = dict  # their config with the fields of an image model on its first level
    nested: Callable[[HfConfig], HfConfig] = dict  # and back
    head: str = "classifier"  # their layer that has one output for each class


def rates_of(facts: HfConfig) -> HfConfig:
    """What all configs say of dropout."""
    return {
        "dropout": facts.get("hidden_dropout_prob", 0.0),
        "attention_dropout": facts.get("attention_probs_dropout_prob", 0.0),
    }


def path_rate(facts: HfConfig) -> Any:
    """Stochastic depth of the last block, 0 unless given."""
    return facts.get("drop_path_rate", 0.0)


def fields_of(facts: HfConfig, **named: str) -> HfConfig:
    """Fields of our config from theirs; lists become tuples there."""
    for theirs in named.values():
        if theirs not in facts:
            raise FovealError(f"the config: expected {theirs}, got none of that name")
    return {ours: facts[theirs] for ours, theirs in named.items()}


def block_names(ours: str, theirs: str, layer: str = "attention.layer", inside: str = "attention") -> dict[str, str]:
    """The layers of one block. layer: where it has our multi-head attention; inside: what theirs calls q, k and v."""
    return {
        **{f"{ours}.{layer}.{letter}": f"{theirs}.attention.{inside}.{word}" for letter, word in LETTERS.items()},
        f"{ours}.{layer}.out": f"{theirs}.attention.output.dense",
        f"{ours}.attention.norm": f"{theirs}.layernorm_before",
        f"{ours}.feed_forward.layer.inner": f"{theirs}.intermediate.dense",
        f"{ours}.feed_forward.layer.outer": f"{theirs}.output.dense",
        f"{ours}.feed_forward.norm": f"{theirs}.layernorm_after",
    }


def joined_positions(own: Weights, prefix: str = "") -> Weights:
    """The position of the class token and those of the cells in one table, (1, 1 + N, C)."""
    table = own.pop(f"{prefix}position.table").flatten(0, 1)[None]
    return own | {f"{prefix}positions": torch.cat([own.pop(f"{prefix}class_position"), table], 1)}


def parted_positions(own: Weights, side: int, prefix: str = "") -> Weights:
    positions = found(own, f"{prefix}positions")
    cells = positions.dim() == 3 and positions.shape[1] == 1 + side * side
    expect(cells, "the weights' positions", f"1 + {side} × {side} of them", tuple(positions.shape))
    table = positions[0, 1:].unflatten(0, (side, side))
    rest = {name: tensor for name, tensor in own.items() if name != f"{prefix}positions"}
    return rest | {f"{prefix}class_position": positions[:, :1], f"{prefix}position.table": table}
