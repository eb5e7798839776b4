"""Where a token is: added to the input, rotated into q and k, or a term on the scores. One file a way."""

import importlib
from typing import Any

from foveal.errors import unknown

_PLACES = {
    "Position": "position",
    "Sinusoidal": "sinusoidal",
    "Sinusoidal2d": "sinusoidal_2d",
    "Polar": "polar",
    "Learned": "learned",
    "Learned2d": "learned_2d",
    "Relative": "relative",
    "Rotary": "rotary",
    "BiasTable": "bias_table",
    "Buckets": "buckets",
    "CausalBuckets": "buckets",
}


def __getattr__(name: str) -> Any:
    if name.startswith("_") or name.islower():
        raise AttributeError(name)
    if name not in _PLACES:
        error = unknown("position", name, _PLACES)
        raise AttributeError(str(error))
    return getattr(importlib.import_module(f"foveal.position.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_PLACES)
