"""A backbone of a segmenter: an image model by its name, of which only the maps are used.

    m_4, m_8, … = features(images);   what answers for the image as a whole is gone

Swin is as code for dense prediction has it (MaskFormer's, and transformers' MaskFormerSwin): the windows of any map are
filled up with zeros, which tokens may look at, and every second block shifts them, on a map of a single window, too.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from foveal.errors import expect, short_repr, unknown
from foveal.layers.windowed import Windowed
from foveal.models.features import gives_maps
from foveal.models.zoo import config_of, family, presets_of

KIND = "images to logits"  # of the models that can be one
# Layers that no map is made of. A peer of transformers' keeps its own, with one class.
LEFT_OUT = {"swin": ("norm", "head"), "pvt": ("norm", "head"), "vit": ("head",), "efficientnet_lite": ("top", "head")}


def map_backbone(name: str, image: int, changes: Mapping[str, Any]) -> nn.Module:
    """The backbone with new weights. changes: fields of its config, such as window=12."""
    config = backbone_config(name, image, changes)
    model = family(config.family).model(config)
    several = gives_maps(model) and len(cast("tuple[int, ...]", model.strides)) > 1
    expect(several, "the backbone", "an image model that gives maps of several strides", name)
    for part in LEFT_OUT.get(config.family, ()):
        setattr(model, part, LeftOut(model))
    if config.family == "swin":
        for layer in list(model.modules()):
            for part, inner in layer.named_children():
                if isinstance(inner, Windowed):
                    setattr(layer, part, Filled.of(inner))
    return model


def backbone_config(name: str, image: int, changes: Mapping[str, Any]) -> Any:
    """The config of such a backbone, for images of this side unless the changes have another."""
    known = presets_of(KIND)
    if name not in known:
        raise unknown("backbone", str(name), known)
    fits = isinstance(changes, Mapping) and "classes" not in changes
    expect(fits, "the backbone's config", "fields but its classes, such as {'window': 12}", short_repr(changes))
    return config_of(name, **{"image": image} | dict(changes) | {"classes": 1})


def changes_of(config: Any, name: str) -> dict[str, Any]:
    """In which fields a config differs from the preset of this name, beside classes and image."""
    fields = [one.name for one in dataclasses.fields(config) if one.init and one.name not in ("classes", "image")]
    preset = config_of(name)
    return {one: getattr(config, one) for one in fields if getattr(config, one) != getattr(preset, one)}


class LeftOut(nn.Module):
    """In the place of a layer that is not there: a model finds out by `head.weight` of which dtype its weights are."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        owner = next(one for one in model.modules() if isinstance(getattr(one, "weight", None), nn.Parameter))
        self.owners = (owner,)  # a tuple keeps it from being a part

    @property
    def weight(self) -> Tensor:
        return cast("Tensor", self.owners[0].weight)


class Filled(Windowed):
    """Windowed attention whose windows are always filled up, and always shifted."""

    @classmethod
    def of(cls, other: Windowed) -> "Filled":
        """The same layer with the same weights."""
        with torch.device("meta"):
            made = cls(other.width, other.attention.heads, other.window, other.shift)
        made.attention = other.attention
        return made

    def forward(self, grid: Tensor, *, shift: int | None = None, kernel: str = "auto") -> Tensor:
        """It asks nothing of the sides, so that a graph of any size can be made of it."""
        shift, size = self.shift if shift is None else shift, self.window
        batch, h, w, _ = grid.shape
        rows, columns = (h + size - 1) // size * size, (w + size - 1) // size * size
        windows = self._cut(functional.pad(grid, (0, 0, 0, columns - w, 0, rows - h)), shift)
        mask = self._mask(rows, columns, rows, columns, shift, grid.device).repeat(batch, 1, 1, 1) if shift else None
        y = self._joined(self.attention(windows, mask=mask, kernel=kernel), rows, columns, shift)
        return y[:, :h, :w]
