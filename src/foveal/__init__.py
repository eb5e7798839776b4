"""foveal: attention models that are right, fast and small enough to ship.

Nothing is loaded before it is touched, so that `import foveal` takes milliseconds and needs no torch.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

_PLACES = {  # public name → where it lives
    "attend": "foveal.core.attend:attend",
    "which": "foveal.core.attend:which",
    "weigh": "foveal.core.attend:weigh",
    "mask": "foveal.mask",
    "score": "foveal.score",
    "position": "foveal.position",
    "layers": "foveal.layers",
    "watch": "foveal.core.watch:watch",
    "check": "foveal.explain.check:check",
    "create": "foveal.models.zoo:create",
    "load": "foveal.models.store:load_model",
    "FovealError": "foveal.errors:FovealError",
}

__all__ = [
    "FovealError",
    "__version__",
    "attend",
    "check",
    "create",
    "layers",
    "load",
    "mask",
    "position",
    "score",
    "watch",
    "weigh",
    "which",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'foveal' has no attribute {name!r}")
    place, _, attribute = _PLACES[name].partition(":")
    module = importlib.import_module(place)
    value = getattr(module, attribute) if attribute else module
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
