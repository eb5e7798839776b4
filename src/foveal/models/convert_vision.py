"""Weights carried over between our image models and those of transformers, both ways: ViTForImageClassification,
SwinForImageClassification and PvtForImageClassification.

    E_pos = [class_position; position, row by row]

The same numbers under other names, so that the logits are the same to rounding: on images of any size that theirs
takes, with interpolate_pos_encoding=True for ViT. The names are those of model.safetensors, which all versions of
transformers read and write; those that a model has in memory since version 5 are understood, too. What only training
needs (dropout, stochastic depth) goes with the config as far as theirs has a field for it.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from foveal.errors import FovealError, expect, is_integer, short_repr, unknown
from foveal.models.convert import Weights, apart, filled, found
from foveal.models.swin import Swin, SwinConfig
from foveal.models.vit import Vit, VitConfig

Settings = dict[str, Any]


class Kind(NamedTuple):
    """What there is to know of one family."""

    model: type[nn.Module]
    architecture: str
    settings: Callable[[Any], Settings]  # our config → theirs
    config: Callable[[Settings], Any]  # and back
    names: Callable[[Any], dict[str, str]]  # config → our layers and tensors, and theirs
    shapes: Callable[[Weights], Weights]  # our tensors as theirs are shaped
    back: Callable[[Weights, Any], Weights]  # theirs, with our config, as ours are shaped


def to_transformers(model: nn.Module) -> tuple[Settings, Weights]:
    """The config (config.json) and the weights of transformers' model."""
    name = next((name for name, kind in KINDS.items() if isinstance(model, kind.model)), None)
    known = " or ".join(kind.model.__name__ for kind in KINDS.values())
    expect(name is not None, "the model", f"a {known}", f"a {type(model).__name__}")
    kind, config = KINDS[str(name)], model.config
    special = kind.settings(config)
    own = kind.shapes(apart(model.state_dict()))
    theirs = {}
    for ours, other in kind.names(config).items():
        for part in ("", ".weight", ".bias"):
            if ours + part in own:
                theirs[other + part] = own.pop(ours + part).contiguous()
    assert not own, f"without a name: {sorted(own)}"
    shared = {"architectures": [kind.architecture], "model_type": name, "image_size": config.image, "num_channels": 3}
    labels = {number: f"LABEL_{number}" for number in range(config.classes)}  # JSON has no other way to say how many
    shared |= {"id2label": labels, "label2id": {label: number for number, label in labels.items()}}
    shared |= {"hidden_act": "gelu", "hidden_dropout_prob": config.dropout, "qkv_bias": True}
    return shared | {"attention_probs_dropout_prob": config.attention_dropout} | special, theirs


def from_transformers(settings: Mapping[str, Any], weights: Mapping[str, Tensor]) -> nn.Module:
    """Our model, in evaluation mode, from the config (config.json) and the weights of one of transformers'."""
    facts, name = dict(settings), settings.get("model_type")
    if name not in KINDS:
        raise unknown("kind of model (model_type)", str(name), KINDS)
    kind = KINDS[name]
    for key, wanted in (("num_channels", 3), ("qkv_bias", True), ("hidden_act", "gelu")):
        expect(facts.get(key, wanted) == wanted, f"the config's {key}", repr(wanted), short_repr(facts.get(key)))
    side = facts.get("image_size")
    expect(is_integer(side), "the config's image_size", "one number, of a square image", short_repr(side))
    theirs = {_hub_name(key): tensor for key, tensor in weights.items()}
    theirs = {key: tensor for key, tensor in theirs.items() if not key.endswith("relative_position_index")}
    facts["classes"] = len(found(theirs, "classifier.bias"))
    config = kind.config(facts)
    with torch.device("meta"):
        model = kind.model(config)
    own: Weights = {}
    for ours, other in kind.names(config).items():
        for part in ("", ".weight", ".bias"):
            if other + part in theirs:
                own[ours + part] = theirs.pop(other + part)
    return filled(model, kind.back(own, config), theirs)


def _hub_name(name: str) -> str:
    """The name that a weight of a model in memory has in a file."""
    inside = "self" if name.startswith("swin.") else "attention"
    changes = (
        (r"^vit\.layers\.", "vit.encoder.layer."),
        (r"\.attention\.([qkv])_proj\.", lambda hit: f".attention.{inside}.{LETTERS[hit[1]]}."),
        (r"\.attention\.o_proj\.", ".attention.output.dense."),
        (r"\.attention\.relative_position_bias\.", ".attention.self."),
        (r"\.mlp\.fc1\.", ".intermediate.dense."),
        (r"\.mlp\.fc2\.", ".output.dense."),
    )
    for pattern, other in changes:
        name = re.sub(pattern, other, name)  # type: ignore[arg-type]
    return name


LETTERS = {"q": "query", "k": "key", "v": "value"}


def _block(ours: str, theirs: str, layer: str = "attention.layer", inside: str = "attention") -> dict[str, str]:
    """The layers of one block. layer: where it has our multi-head attention; inside: what theirs calls q, k and v."""
    return {
        **{f"{ours}.{layer}.{letter}": f"{theirs}.attention.{inside}.{word}" for letter, word in LETTERS.items()},
        f"{ours}.{layer}.out": f"{theirs}.attention.output.dense",
        f"{ours}.attention.norm": f"{theirs}.layernorm_before",
        f"{ours}.feed_forward.layer.inner": f"{theirs}.intermediate.dense",
        f"{ours}.feed_forward.layer.outer": f"{theirs}.output.dense",
        f"{ours}.feed_forward.norm": f"{theirs}.layernorm_after",
    }


def _rates(facts: Settings) -> Settings:
    """What all configs say of dropout."""
    return {
        "dropout": facts.get("hidden_dropout_prob", 0.0),
        "attention_dropout": facts.get("attention_probs_dropout_prob", 0.0),
    }


def _fields(facts: Settings, **named: str) -> Settings:
    """Fields of our config from theirs; lists become tuples there."""
    for theirs in named.values():
        if theirs not in facts:
            raise FovealError(f"the config: expected {theirs}, got none of that name")
    return {ours: facts[theirs] for ours, theirs in named.items()}


# ViT


def _vit_settings(config: VitConfig) -> Settings:
    expect(not config.stem, "the model's stem", "none: transformers' ViT has a linear map there", config.stem)
    return {
        "patch_size": config.patch,
        "hidden_size": config.width,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "intermediate_size": config.hidden,
        "layer_norm_eps": config.epsilon,
    }


def _vit_config(facts: Settings) -> VitConfig:
    fields = _fields(
        facts,
        classes="classes",
        image="image_size",
        patch="patch_size",
        width="hidden_size",
        layers="num_hidden_layers",
        heads="num_attention_heads",
        hidden="intermediate_size",
        epsilon="layer_norm_eps",
    )
    return VitConfig(**fields, **_rates(facts))


def _vit_names(config: VitConfig) -> dict[str, str]:
    names = {
        "class_token": "vit.embeddings.cls_token",
        "positions": "vit.embeddings.position_embeddings",
        "patches": "vit.embeddings.patch_embeddings.projection",
        "norm": "vit.layernorm",
        "head": "classifier",
    }
    for number in range(config.layers):
        names |= _block(f"layers.{number}", f"vit.encoder.layer.{number}")
    return names


def _joined_positions(own: Weights, prefix: str = "") -> Weights:
    """The position of the class token and those of the cells in one table, (1, 1 + N, C)."""
    table = own.pop(f"{prefix}position.table").flatten(0, 1)[None]
    return own | {f"{prefix}positions": torch.cat([own.pop(f"{prefix}class_position"), table], 1)}


def _parted_positions(own: Weights, side: int, prefix: str = "") -> Weights:
    positions = found(own, f"{prefix}positions")
    cells = positions.dim() == 3 and positions.shape[1] == 1 + side * side
    expect(cells, "the weights' positions", f"1 + {side} × {side} of them", tuple(positions.shape))
    table = positions[0, 1:].unflatten(0, (side, side))
    rest = {name: tensor for name, tensor in own.items() if name != f"{prefix}positions"}
    return rest | {f"{prefix}class_position": positions[:, :1], f"{prefix}position.table": table}


# Swin


def _swin_settings(config: SwinConfig) -> Settings:
    return {
        "patch_size": config.patch,
        "embed_dim": config.width,
        "depths": list(config.depths),
        "num_heads": list(config.heads),
        "window_size": config.window,
        "mlp_ratio": float(config.expand),
        "drop_path_rate": config.drop_path,
        "layer_norm_eps": 1e-5,
        "use_absolute_embeddings": False,
    }


def _swin_config(facts: Settings) -> SwinConfig:
    for key, wanted in (("use_absolute_embeddings", False), ("layer_norm_eps", 1e-5)):
        expect(facts.get(key, wanted) == wanted, f"the config's {key}", repr(wanted), short_repr(facts.get(key)))
    fields = _fields(
        facts,
        classes="classes",
        image="image_size",
        patch="patch_size",
        width="embed_dim",
        depths="depths",
        heads="num_heads",
        window="window_size",
        expand="mlp_ratio",
    )
    return SwinConfig(**fields | {"expand": _integer(fields["expand"])}, **_rates(facts), drop_path=_path(facts))


def _swin_names(config: SwinConfig) -> dict[str, str]:
    names = {
        "patches": "swin.embeddings.patch_embeddings.projection",
        "patch_norm": "swin.embeddings.norm",
        "norm": "swin.layernorm",
        "head": "classifier",
    }
    for stage, blocks in enumerate(config.depths):
        if stage:  # theirs merges at the end of a stage, ours at the beginning of the next
            ours, theirs = f"stages.{stage}.merge", f"swin.encoder.layers.{stage - 1}.downsample"
            names |= {f"{ours}.norm": f"{theirs}.norm", f"{ours}.reduce": f"{theirs}.reduction"}
        for number in range(blocks):
            ours, theirs = f"stages.{stage}.layers.{number}", f"swin.encoder.layers.{stage}.blocks.{number}"
            names |= _block(ours, theirs, "attention.layer.attention", "self")
            table = f"{theirs}.attention.self.relative_position_bias_table"
            names[f"{ours}.attention.layer.attention.position.table"] = table
    return names


def _integer(ratio: Any) -> Any:
    """4.0 as 4; what is no integer is left to the config to refuse."""
    return int(ratio) if isinstance(ratio, float) and ratio.is_integer() else ratio


def _path(facts: Settings) -> Any:
    return facts.get("drop_path_rate", 0.0)


KINDS: dict[str, Kind] = {
    "vit": Kind(
        Vit,
        "ViTForImageClassification",
        _vit_settings,
        _vit_config,
        _vit_names,
        _joined_positions,
        lambda own, config: _parted_positions(own, config.image // config.patch),
    ),
    "swin": Kind(
        Swin,
        "SwinForImageClassification",
        _swin_settings,
        _swin_config,
        _swin_names,
        lambda own: own,
        lambda own, _: own,
    ),
}
