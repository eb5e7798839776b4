"""Formats of annotations, one file each, found by their file: what has outlines, masks or boxes of single findings.

matches(path) → bool: whether a folder or a file is of this format
read(path, name) → AnnotatedSet
write(annotated, folder, progress) → notes: what the format could not hold, a sentence each

pairs(path, fold_column) → Pairs or None: the same of a format that has a label map for each image

A format without read, and then without matches, is written only. A file whose name begins with _ serves the others.
"""

import functools
import importlib
from pathlib import Path
from typing import Any

from foveal.errors import FovealError, unknown


@functools.cache
def formats() -> dict[str, Any]:
    """The modules of this folder, by the name that is typed: label_maps is label-maps."""
    names = sorted(file.stem for file in Path(__file__).parent.glob("*.py") if not file.stem.startswith("_"))
    return {name.replace("_", "-"): importlib.import_module(f"{__name__}.{name}") for name in names}


def readable() -> dict[str, Any]:
    """Those of them that are read, too."""
    return {name: module for name, module in formats().items() if hasattr(module, "read")}


def format_named(name: str, *, to_read: bool = False) -> Any:
    """The module of a format, which is to be written; or to be read."""
    if to_read and name in formats() and name not in readable():
        raise FovealError(f"expected a format that can be read, got {name}, which is written only")
    known = readable() if to_read else formats()
    if name not in known:
        raise unknown("format of annotations", name, known)
    return known[name]


def format_of(path: Path) -> Any:
    """The module of the format that a folder or a file has."""
    found = _claiming(path)
    if found is None:
        raise FovealError(
            f"{path}: expected a csv with the columns file and mask, folders of images and of label maps such as "
            f"images and masks, or one of {', '.join(readable())}, got none of them"
        )
    return found


def is_annotated(path: Path) -> bool:
    """Whether any format claims it."""
    return _claiming(path) is not None


def _claiming(path: Path) -> Any | None:
    """Those are asked first that have a label map for each image: it holds what every pixel shows."""
    asked = sorted(readable().values(), key=lambda module: not hasattr(module, "pairs"))
    return next((module for module in asked if module.matches(path)), None)
