"""Our Swin and transformers' SwinForImageClassification, which merges cells at the end of a stage,
not at the beginning.
"""

from typing import Any

from foveal.errors import expect, short_repr
from foveal.models.convert_layout import HfConfig, Kind, block_names, fields_of, path_rate, rates_of
from foveal.models.swin import Swin, SwinConfig


def _swin_hf_config(config: SwinConfig) -> HfConfig:
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


def _swin_config(facts: HfConfig) -> SwinConfig:
    for key, wanted in (("use_absolute_embeddings", False), ("layer_norm_eps", 1e-5)):
        expect(facts.get(key, wanted) == wanted, f"the config's {key}", repr(wanted), short_repr(facts.get(key)))
    fields = fields_of(
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
    return SwinConfig(**fields | {"expand": _integer(fields["expand"])}, **rates_of(facts), drop_path=path_rate(facts))


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
            names |= block_names(ours, theirs, "attention.layer.attention", "self")
            table = f"{theirs}.attention.self.relative_position_bias_table"
            names[f"{ours}.attention.layer.attention.position.table"] = table
    return names


def _integer(ratio: Any) -> Any:
    """4.0 as 4; what is no integer is left to the config to refuse."""
    return int(ratio) if isinstance(ratio, float) and ratio.is_integer() else ratio


KIND = Kind(
    Swin,
    "SwinForImageClassification",
    _swin_hf_config,
    _swin_config,
    _swin_names,
    lambda own: own,
    lambda own, _: own,
)
