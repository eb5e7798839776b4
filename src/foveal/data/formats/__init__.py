"""Formats of image data that other people give out, one file each, found by their file.

Data/read.py asks them before it tries csv and folders.

matches(path) → bool: whether a folder or a file is of this format;   read(path, name) → Source
"""

import functools
import importlib
from pathlib import Path
from typing import Any


@functools.cache
def readers() -> tuple[Any, ...]:
    """The modules of this folder, by name."""
    names = sorted(file.stem for file in Path(__file__).parent.glob("*.py") if not file.stem.startswith("_"))
    return tuple(importlib.import_module(f"{__name__}.{name}") for name in names)


def reader_of(path: Path) -> Any | None:
    """The reader of this folder or file; None where no format claims it."""
    return next((reader for reader in readers() if reader.matches(path)), None)
