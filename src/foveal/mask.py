"""The masks: `from foveal.mask import causal, local`.

They live in core/pattern/, one file each, and are found by their file.
"""

from typing import Any

from foveal.core import mask as _home
from foveal.core.mask import Mask

__all__ = ["Mask", *_home.patterns()]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    return getattr(_home, name)


def __dir__() -> list[str]:
    return ["Mask", *_home.patterns()]
