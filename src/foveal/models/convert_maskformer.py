"""Our MaskFormer with a Swin and transformers' MaskFormerForInstanceSegmentation.

Theirs counts the background among its labels where the data have one, as ours does, and "nothing" last. In its config
the backbone and the decoder have configs of their own; here, the backbone's fields stand beside MaskFormer's. Of
dropout inside of the feed-forward networks theirs has a field, ours has the decoder's `dropout` there as DETR does.
"""

import math
from typing import Any, cast

import torch

from foveal.errors import FovealError, expect, short_repr
from foveal.models import convert_swin
from foveal.models.convert import Weights, found
from foveal.models.convert_layout import HfConfig, Kind, fields_of
from foveal.models.map_backbone import backbone_config, changes_of
from foveal.models.maskformer import MaskFormer, MaskFormerConfig
from foveal.models.zoo import presets

GROUPS = 32  # of GroupNorm, written into transformers' code
TABLE = "position.table"
NOTHING = 0.1  # what "nothing" counts for in theirs' loss, unless its config says so
ENCODER, DECODER, FPN = (
    "model.pixel_level_module.encoder",
    "model.transformer_module.decoder",
    "model.pixel_level_module.decoder.fpn",
)
# Fields of the backbone's config, in theirs a level below.
BELOW = (
    "patch_size",
    "embed_dim",
    "depths",
    "num_heads",
    "window_size",
    "mlp_ratio",
    "drop_path_rate",
    "layer_norm_eps",
    "use_absolute_embeddings",
    "image_size",
    "num_channels",
    "hidden_act",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "qkv_bias",
)
# Fields of MaskFormer's and of the decoder's config.
ABOVE = {"pixel_width": "fpn_feature_size", "mask_width": "mask_feature_size"}
WITHIN = {
    "queries": "num_queries",
    "width": "d_model",
    "heads": "decoder_attention_heads",
    "layers": "decoder_layers",
    "hidden": "decoder_ffn_dim",
    "dropout": "dropout",
    "attention_dropout": "attention_dropout",
}
FIXED = {"model_type": "detr", "activation_function": "relu", "auxiliary_loss": False}


def _flat(facts: HfConfig) -> HfConfig:
    """Theirs with the backbone's fields beside its own."""
    below = facts.get("backbone_config")
    kind = below.get("model_type") if isinstance(below, dict) else None
    expect(kind in ("swin", "maskformer-swin"), "the config's backbone_config", "that of a 'swin'", short_repr(kind))
    assert isinstance(below, dict)
    return {name: below[name] for name in BELOW if name in below} | facts


def _nested(facts: HfConfig) -> HfConfig:
    """`_flat` undone."""
    below = {"model_type": "swin"} | {name: facts[name] for name in BELOW}
    return {name: value for name, value in facts.items() if name not in BELOW} | {"backbone_config": below}


def _hf_config(config: MaskFormerConfig) -> HfConfig:
    swin = _swin_of(config)
    expect(config.attention == "full", "the model's attention", "'full', as MaskFormer has it", repr(config.attention))
    expect(config.groups == GROUPS, "the model's groups", f"{GROUPS}, as transformers has them", config.groups)
    decoder = FIXED | {theirs: getattr(config, ours) for ours, theirs in WITHIN.items()}
    return {
        **convert_swin.KIND.hf_config(swin),
        "hidden_dropout_prob": swin.dropout,
        "attention_probs_dropout_prob": swin.attention_dropout,
        **{theirs: getattr(config, ours) for ours, theirs in ABOVE.items()},
        "decoder_config": decoder | {"activation_dropout": config.dropout},
    }


def _config(facts: HfConfig) -> MaskFormerConfig:
    within = facts.get("decoder_config")
    if not isinstance(within, dict):
        raise FovealError(f"the config's decoder_config: expected that of a 'detr', got {short_repr(within)}")
    for key, wanted in FIXED.items():
        value = within.get(key, wanted)
        expect(value == wanted, f"the config's {key} of its decoder", repr(wanted), short_repr(value))
    labels = facts["classes"] - 1
    swin = convert_swin.KIND.config(facts | {"classes": labels})
    shape = ("width", "depths", "heads")
    alike = [name for name, one in presets("swin").items() if all(getattr(one, f) == getattr(swin, f) for f in shape)]
    name = [*alike, "swin-tiny"][0]
    fields = fields_of(facts, **ABOVE) | fields_of(within, **WITHIN)
    return MaskFormerConfig(labels, swin.image, name, changes_of(swin, name), groups=GROUPS, **fields)


def _names(config: MaskFormerConfig) -> dict[str, str]:
    swin = convert_swin.KIND.names(_swin_of(config))
    inner = {ours: theirs for ours, theirs in swin.items() if ours not in ("norm", "head")}
    names = {f"backbone.{ours}": f"{ENCODER}.model{theirs.removeprefix('swin')}" for ours, theirs in inner.items()}
    for ours, theirs in list(names.items()):
        if ours.endswith(TABLE):
            names[ours.replace(TABLE, "unused")] = theirs.replace("bias_table", "index")
    names |= {f"norms.{stage}": f"{ENCODER}.hidden_states_norms.{stage}" for stage in range(4)}
    names |= {"unused": f"{ENCODER}.model.layernorm", "loss.unused": "criterion.empty_weight"}  # ours has neither
    names |= {f"pixels.start.{part}": f"{FPN}.stem.{part}" for part in range(2)}
    for step in range(3):
        for part in range(2):
            names[f"pixels.lateral.{step}.{part}"] = f"{FPN}.layers.{step}.proj.{part}"
            names[f"pixels.blocks.{step}.{part}"] = f"{FPN}.layers.{step}.block.{part}"
    names |= {"pixels.out": "model.pixel_level_module.decoder.mask_projection", "classify": "class_predictor"}
    names |= {f"embed.{2 * layer}": f"mask_embedder.{layer}.0" for layer in range(3)}
    names |= {
        "decoder.project": "model.transformer_module.input_projection",
        "decoder.places": "model.transformer_module.queries_embedder.weight",
        "decoder.norm": f"{DECODER}.layernorm",
    }
    for number in range(config.layers):
        names |= _layer_names(f"decoder.layers.{number}", f"{DECODER}.layers.{number}")
    return names


def _layer_names(ours: str, theirs: str) -> dict[str, str]:
    names = {
        f"{ours}.feed_forward.layer.inner": f"{theirs}.fc1",
        f"{ours}.feed_forward.layer.outer": f"{theirs}.fc2",
        f"{ours}.feed_forward.norm": f"{theirs}.final_layer_norm",
    }
    for own, other in (("self_attention", "self_attn"), ("cross_attention", "encoder_attn")):
        layer = f"{ours}.{own}.layer.attention"
        names |= {f"{layer}.{letter}": f"{theirs}.{other}.{letter}_proj" for letter in "qkv"}
        names |= {f"{layer}.out": f"{theirs}.{other}.out_proj", f"{ours}.{own}.norm": f"{theirs}.{other}_layer_norm"}
    return names


def _shapes(own: Weights) -> Weights:
    """With what theirs keeps beside: a LayerNorm that nothing passes, what "nothing" counts for in its loss, and which
    row of the table of biases belongs to two tokens of a window.
    """
    width, loss = len(own["norms.3.bias"]), torch.ones(len(own["classify.bias"]))
    loss[-1] = NOTHING
    kept = {"unused.weight": torch.ones(width), "unused.bias": torch.zeros(width), "loss.unused": loss}
    for name, table in own.items():
        if name.endswith(TABLE):
            offsets = math.isqrt(len(table))  # 2 M − 1 of M × M tokens
            side = torch.arange((offsets + 1) // 2)
            apart = side[:, None] - side + len(side) - 1
            rows = apart[:, None, :, None] * offsets + apart[None, :, None]
            kept[name.replace(TABLE, "unused")] = rows.flatten(2).flatten(0, 1)
    return own | kept


def _back(own: Weights, config: MaskFormerConfig) -> Weights:
    found(own, "classify.bias")
    return {name: tensor for name, tensor in own.items() if "unused" not in name.split(".")}


def _swin_of(config: MaskFormerConfig) -> Any:
    inner = backbone_config(config.backbone, config.image, config.backbone_config)
    expect(inner.family == "swin", "the model's backbone", "a Swin, as transformers has it", config.backbone)
    return cast("Any", inner)


KIND = Kind(
    MaskFormer,
    "MaskFormerForInstanceSegmentation",
    _hf_config,
    _config,
    _names,
    _shapes,
    _back,
    flat=_flat,
    nested=_nested,
    head="class_predictor",
)
