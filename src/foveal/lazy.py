"""A lazy door: a folder's public names, found by its files; a file is loaded when one of its names is touched.

    name ∈ folder  ⇔  a file of the folder defines the class `name`, without a leading _,
                      and has it in its `__all__` if it has one

A file is read, not imported, to see what it defines, so that `dir(foveal.layers)` needs no torch. A new file is a new
name with no other edit. Type checkers read `__init__.pyi` beside the door, which `make stubs` writes from the same
names.
"""

import ast
import functools
import importlib
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from foveal.errors import unknown

ROOMS = ("layers", "position", "vision")  # the folders whose names are found by their files


def door(package: str, kind: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package; `kind` is what an error calls its names."""
    found = places(sys.modules[package].__path__[0])

    def get(name: str) -> Any:
        if name in found:
            return getattr(importlib.import_module(f"{package}.{found[name]}"), name)
        if name.startswith("_") or find_spec(f"{package}.{name}") is not None:
            raise AttributeError(name)  # a file of the folder: Python imports it by itself
        raise AttributeError(str(unknown(kind, name, found)))

    return get, lambda: list(found), list(found)


@functools.cache
def places(folder: str | Path) -> dict[str, str]:
    """The public classes of a folder's files → the file that each is in, by name."""
    files = [path for path in sorted(Path(folder).glob("*.py")) if not path.stem.startswith("_")]
    found = {name: path.stem for path in files for name in public(path.read_text(encoding="utf-8"))}
    return dict(sorted(found.items()))


def public(source: str) -> list[str]:
    """The classes that a file offers: those of its `__all__`,
    or else all that it defines at its top without a leading _.
    """
    body = ast.parse(source).body
    for node in body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            names: list[str] = ast.literal_eval(node.value)  # type: ignore[attr-defined]
            return names
    return [node.name for node in body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]


def stub(package: str, folder: str | Path) -> str:
    """The text of a package's `__init__.pyi`: its names with their types, for mypy and editors."""
    found = places(folder)
    lines = [
        f"from {package}.{place} import {name} as {name}"
        for name, place in sorted(found.items(), key=lambda item: item[::-1])
    ]
    capitals_first = sorted(found, key=lambda name: (not name.isupper(), name))  # as ruff sorts `__all__`
    names = "".join(f'    "{name}",\n' for name in capitals_first)
    return "\n".join(["# Written by `make stubs`.", *lines, "", f"__all__ = [\n{names}]\n"])


def stub_by_file(package: str, folder: str | Path, *more: str) -> str:
    """The same for a folder where each file has one public name, its own: masks and scores. more:
    further lines of imports.
    """
    names = [path.stem for path in sorted(Path(folder).glob("*.py")) if not path.stem.startswith("_")]
    lines = [*more, *(f"from {package}.{name} import {name} as {name}" for name in names)]
    return "\n".join(["# Written by `make stubs`.", *lines, ""])


def stubs(home: Path) -> dict[Path, str]:
    """All stub files of the package → their text."""
    found = {home / room / "__init__.pyi": stub(f"foveal.{room}", home / room) for room in ROOMS}
    mask = "from foveal.core.mask import Mask as Mask"
    found[home / "mask.pyi"] = stub_by_file("foveal.core.pattern", home / "core/pattern", mask)
    found[home / "score.pyi"] = stub_by_file("foveal.core.score", home / "core/score")
    return found
