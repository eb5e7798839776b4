"""Weights carried over between our image models and those of transformers, both ways: ViTForImageClassification,
SwinForImageClassification, PvtForImageClassification and MaskFormerForInstanceSegmentation.

The same numbers under other names, so that the logits are the same to rounding: on images of any size that theirs
takes, with interpolate_pos_encoding=True for ViT. The names are those of model.safetensors, which all versions of
transformers read and write; those that a model has in memory since version 5 are understood, too. What only training
needs (dropout, stochastic depth) goes with the config as far as theirs has a field for it.
"""

import re
from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn

from foveal.errors import FovealError, expect, is_integer, short_repr, unknown
from foveal.models import convert_maskformer, convert_pvt, convert_swin, convert_vit
from foveal.models.convert import Weights, apart, filled, found
from foveal.models.convert_layout import LETTERS, HfConfig, Kind
from foveal.models.store import shapes_of

KINDS: dict[str, Kind] = {
    "vit": convert_vit.KIND,
    "swin": convert_swin.KIND,
    "pvt": convert_pvt.KIND,
    "maskformer": convert_maskformer.KIND,
}


def to_transformers(model: nn.Module) -> tuple[HfConfig, Weights]:
    """The config (config.json) and the weights of transformers' model."""
    name = next((name for name, kind in KINDS.items() if isinstance(model, kind.model)), None)
    known = " or ".join(kind.model.__name__ for kind in KINDS.values())
    expect(name is not None, "the model", f"a {known}", f"a {type(model).__name__}")
    smaller = sorted(shapes_of(model))
    expect(not smaller, "the model", "one as its config says", f"a smaller {', '.join(smaller[:2])}, pruned")
    kind, config = KINDS[str(name)], cast("Any", model.config)
    special = kind.hf_config(config)
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
    return kind.nested(shared | {"attention_probs_dropout_prob": config.attention_dropout} | special), theirs


def from_transformers(hf_config: Mapping[str, Any], weights: Mapping[str, Tensor]) -> nn.Module:
    """Our model, in evaluation mode, from the config (config.json) and the weights of one of transformers'."""
    facts, name = dict(hf_config), hf_config.get("model_type")
    if not isinstance(name, str) or name not in KINDS:
        raise unknown("kind of model (model_type)", str(name), KINDS)
    kind = KINDS[name]
    facts = kind.flat(facts)
    for key, wanted in (("num_channels", 3), ("qkv_bias", True), ("hidden_act", "gelu")):
        expect(facts.get(key, wanted) == wanted, f"the config's {key}", repr(wanted), short_repr(facts.get(key)))
    side = facts.get("image_size")
    expect(is_integer(side), "the config's image_size", "one number, of a square image", short_repr(side))
    theirs = {_hub_name(key): tensor for key, tensor in weights.items()}
    theirs = {key: tensor for key, tensor in theirs.items() if not key.endswith("relative_position_index")}
    facts["classes"] = len(found(theirs, f"{kind.head}.bias"))
    config = kind.config(facts)
    model = _blank(kind, config, len(theirs))
    own: Weights = {}
    for ours, other in kind.names(config).items():
        for part in ("", ".weight", ".bias"):
            if other + part in theirs:
                own[ours + part] = theirs.pop(other + part)
    return filled(model, kind.back(own, config), theirs)


def _blank(kind: Kind, config: Any, tensors: int) -> nn.Module:
    """A model without memory; an error for a config that the file cannot be of."""
    try:
        fits = config.depth() <= tensors
        expect(fits, "the config", f"at most {tensors} blocks, as the file has tensors", "more")
        with torch.device("meta"):
            return kind.model(config)
    except (RuntimeError, TypeError, OverflowError) as error:  # sizes that cannot be
        reason = " ".join(str(error).split())[:200]
        raise FovealError(f"the config: expected the sizes of a {kind.architecture}, got others: {reason}") from None


def _hub_name(name: str) -> str:
    """The name that a weight of a model in memory has in a file."""
    inside = "self" if name.startswith("swin.") else "attention"
    changes = (
        (r"(\.transformer_module\..*)\.mlp\.(fc\d)\.", r"\1.\2."),
        (r"(\.transformer_module\..*_attn)\.o_proj\.", r"\1.out_proj."),
        (r"^vit\.layers\.", "vit.encoder.layer."),
        (r"\.attention\.([qkv])_proj\.", lambda hit: f".attention.{inside}.{LETTERS[hit[1]]}."),
        (r"\.attention\.o_proj\.", ".attention.output.dense."),
        (r"\.attention\.relative_position_bias\.", ".attention.self."),
        (r"\.mlp\.fc1\.", ".intermediate.dense."),
        (r"\.mlp\.fc2\.", ".output.dense."),
    )
    for pattern, other in changes:
        name = re.sub(pattern, other, name)
    return name
