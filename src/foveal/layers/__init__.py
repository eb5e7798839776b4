"""Parameters around core, for tokens. One file a mechanism; `foveal.layers.MultiHead` is found by its file."""

import importlib
from typing import Any

from foveal.errors import unknown

_PLACES = {
    "Attention": "attention",
    "Additive": "additive",
    "Location": "location",
    "LocationAware": "location_aware",
    "Content": "content",
    "Context": "context",
    "MultiHead": "multihead",
    "Absorbed": "absorbed",
    "TwoWay": "two_way",
    "Cache": "cache",
    "Memory": "cache",
    "Performer": "performer",
    "Linformer": "linformer",
    "AdaptiveSpan": "adaptive_span",
    "DynamicConvolution": "dynamic_convolution",
    "Windowed": "windowed",
    "Reduced": "reduced",
    "FeedForward": "feed_forward",
    "Gated": "gated",
    "Residual": "residual",
    "PreNorm": "residual",
    "PostNorm": "residual",
    "Plain": "residual",
    "PlainPreNorm": "residual",
    "PlainPostNorm": "residual",
    "Encoder": "encoder",
    "Decoder": "decoder",
}


def __getattr__(name: str) -> Any:
    if name.startswith("_") or name.islower():
        raise AttributeError(name)
    if name not in _PLACES:
        error = unknown("layer", name, _PLACES)
        raise AttributeError(str(error))
    return getattr(importlib.import_module(f"foveal.layers.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_PLACES)
