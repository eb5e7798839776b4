"""The scores: `from foveal.score import additive, dot`.

They live in core/score/, one file each, and are found by their file.
"""

from typing import Any

from foveal.core import score as _home

__all__ = _home.names()  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    return getattr(_home, name)


def __dir__() -> list[str]:
    return _home.names()
