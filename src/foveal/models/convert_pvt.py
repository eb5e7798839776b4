"""Our Pvt and transformers' PvtForImageClassification.

E_pos of a stage = position, row by row;   of the last: [class_position; position, row by row]
"""

from foveal.errors import expect, short_repr
from foveal.models.convert import Weights, found
from foveal.models.convert_layout import (
    LETTERS,
    HfConfig,
    Kind,
    fields_of,
    joined_positions,
    parted_positions,
    path_rate,
    rates_of,
)
from foveal.models.pvt import Pvt, PvtConfig

_PVT_FIELDS = {
    "patches": "patch_sizes",
    "widths": "hidden_sizes",
    "depths": "depths",
    "heads": "num_attention_heads",
    "expands": "mlp_ratios",
    "reductions": "sequence_reduction_ratios",
}


def _pvt_hf_config(config: PvtConfig) -> HfConfig:
    listed = {theirs: list(getattr(config, ours)) for ours, theirs in _PVT_FIELDS.items()}
    # Theirs calls the side of a kernel its stride, and has a field for the number of classes, beside their names.
    sizes = {"strides": list(config.patches), "num_encoder_blocks": 4, "num_labels": config.classes}
    return listed | sizes | {"layer_norm_eps": config.epsilon, "drop_path_rate": config.drop_path}


def _pvt_config(facts: HfConfig) -> PvtConfig:
    strides, patches = facts.get("strides"), facts.get("patch_sizes")
    expect(strides == patches, "the config's strides", f"its patch_sizes, {patches}", short_repr(strides))
    fields = fields_of(facts, classes="classes", image="image_size", epsilon="layer_norm_eps", **_PVT_FIELDS)
    return PvtConfig(**fields, **rates_of(facts), drop_path=path_rate(facts))


def _pvt_names(config: PvtConfig) -> dict[str, str]:
    names = {"norm": "pvt.encoder.layer_norm", "head": "classifier"}
    for stage, blocks in enumerate(config.depths):
        ours, theirs = f"stages.{stage}", f"pvt.encoder.patch_embeddings.{stage}"
        names |= {f"{ours}.patches": f"{theirs}.projection", f"{ours}.patch_norm": f"{theirs}.layer_norm"}
        names |= {f"{ours}.positions": f"{theirs}.position_embeddings", f"{ours}.class_token": f"{theirs}.cls_token"}
        for number in range(blocks):
            names |= _pvt_block(f"{ours}.layers.{number}", f"pvt.encoder.block.{stage}.{number}", stage == 3)
    return names


def _pvt_block(ours: str, theirs: str, last: bool) -> dict[str, str]:
    layer = f"{ours}.attention.layer"
    heads = layer if last else f"{layer}.attention"
    return {
        **{f"{heads}.{letter}": f"{theirs}.attention.self.{word}" for letter, word in LETTERS.items()},
        f"{heads}.out": f"{theirs}.attention.output.dense",
        f"{layer}.reduce": f"{theirs}.attention.self.sequence_reduction",
        f"{layer}.norm": f"{theirs}.attention.self.layer_norm",
        f"{ours}.attention.norm": f"{theirs}.layer_norm_1",
        f"{ours}.feed_forward.layer.inner": f"{theirs}.mlp.dense1",
        f"{ours}.feed_forward.layer.outer": f"{theirs}.mlp.dense2",
        f"{ours}.feed_forward.norm": f"{theirs}.layer_norm_2",
    }


def _pvt_shapes(own: Weights) -> Weights:
    for stage in range(3):
        own[f"stages.{stage}.positions"] = own.pop(f"stages.{stage}.position.table").flatten(0, 1)[None]
    return joined_positions(own, "stages.3.")


def _pvt_back(own: Weights, config: PvtConfig) -> Weights:
    side, own = config.image, dict(own)
    for stage, patch in enumerate(config.patches):
        side //= patch
        if stage < 3:
            name = f"stages.{stage}.positions"
            positions = found(own, name)
            fits = tuple(positions.shape[:2]) == (1, side * side)
            expect(fits, "the weights' positions", f"{side} × {side} of them", tuple(positions.shape))
            own[f"stages.{stage}.position.table"] = own.pop(name)[0].unflatten(0, (side, side))
    return parted_positions(own, side, "stages.3.")


KIND = Kind(Pvt, "PvtForImageClassification", _pvt_hf_config, _pvt_config, _pvt_names, _pvt_shapes, _pvt_back)
