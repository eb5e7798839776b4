"""Our Vit and transformers' ViTForImageClassification.

E_pos = [class_position; position, row by row]
"""

from foveal.errors import expect
from foveal.models.convert_layout import (
    HfConfig,
    Kind,
    block_names,
    fields_of,
    joined_positions,
    parted_positions,
    rates_of,
)
from foveal.models.vit import Vit, VitConfig


def _vit_hf_config(config: VitConfig) -> HfConfig:
    expect(not config.stem, "the model's stem", "none: transformers' ViT has a linear map there", config.stem)
    return {
        "patch_size": config.patch,
        "hidden_size": config.width,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "intermediate_size": config.hidden,
        "layer_norm_eps": config.epsilon,
    }


def _vit_config(facts: HfConfig) -> VitConfig:
    fields = fields_of(
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
    return VitConfig(**fields, **rates_of(facts))


def _vit_names(config: VitConfig) -> dict[str, str]:
    names = {
        "class_token": "vit.embeddings.cls_token",
        "positions": "vit.embeddings.position_embeddings",
        "patches": "vit.embeddings.patch_embeddings.projection",
        "norm": "vit.layernorm",
        "head": "classifier",
    }
    for number in range(config.layers):
        names |= block_names(f"layers.{number}", f"vit.encoder.layer.{number}")
    return names


KIND = Kind(
    Vit,
    "ViTForImageClassification",
    _vit_hf_config,
    _vit_config,
    _vit_names,
    joined_positions,
    lambda own, config: parted_positions(own, config.image // config.patch),
)
