"""Lazy doors: what a package offers is found by its files, and a file is loaded when it is touched.

    of classes    name ∈ folder  ⇔  a file of the folder defines the class `name`, without a leading _,
                                     and has it in its `__all__` if it has one
    of modules    name ∈ folder  ⇔  a file or a package of the folder is called `name`, without a leading _
    by file       name ∈ folder  ⇔  a file of the folder is called `name`, and defines it: masks and scores

A file is read, not imported, to see what it defines, so that `dir(foveal.layers)` needs no torch; what needs it says
so when it is touched. A new file is a new name with no other edit. Type checkers read `__init__.pyi` beside the door,
which `make stubs` writes from the same names.
"""

import functools
import importlib
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foveal.errors import naming_extras, unknown

if TYPE_CHECKING:
    import ast

ROOMS = ("layers", "position", "vision")  # doors of classes
FLOORS: dict[str, dict[str, str]] = {  # doors of modules → what else is offered there, and the file that it is in
    "core": {},
    "data": {},
    "deploy": {},
    "explain": {},
    "losses": {},
    "metrics": {},
    "models": {},
    "report": {},
    "runtime": {"Session": "exported"},
    "tasks": {},
    "training": {},
}
Door = tuple[Callable[[str], Any], Callable[[], list[str]]]  # `__getattr__` and `__dir__` of a module


def door(package: str, kind: str) -> Door:
    """Of classes; `kind` is what an error calls them."""
    folder = sys.modules[package].__path__[0]
    _describe(package, {name: says for name, (_, says) in _classes(folder).items()})
    found = {name: f"{package}.{file}" for name, file in places(folder).items()}
    return _door(package, kind, found, modules(folder))


def door_of_modules(package: str) -> Door:
    """Of modules, and of the few names that FLOORS adds."""
    more = {name: f"{package}.{file}" for name, file in FLOORS[package.partition(".")[2]].items()}
    names = modules(sys.modules[package].__path__[0])
    return _door(package, f"module of {package}", more, names, names)


def door_by_file(module: str, package: str, kind: str, **more: str) -> Door:
    """By file, of a module for a package that need not be imported. more: further names, and the module of each."""
    home, _, folder = package.rpartition(".")
    files = Path(importlib.import_module(home).__path__[0]) / folder
    _describe(module, {name: f"{name}\n    {_title(_read(files / f'{name}.py'))}" for name in modules(files)})
    return _door("", kind, more | {name: f"{package}.{name}" for name in modules(files)})


def _door(
    package: str, kind: str, found: Mapping[str, str], files: Collection[str] = (), listed: Iterable[str] = ()
) -> Door:
    """found: name → the module that has it. files: modules of the package itself. listed: those that `dir` lists."""
    offered = sorted({*found, *listed})

    def get(name: str) -> Any:
        if name == "__all__":
            if sys._getframe(1).f_globals.get("__name__") == "pydoc":
                raise AttributeError(name)  # `help` would print all that each class inherits of torch: 27,000 lines
            return list(offered)
        with naming_extras():
            if name in found:
                return getattr(importlib.import_module(found[name]), name)
            if name in files:
                return importlib.import_module(f"{package}.{name}")
        raise AttributeError(name if name.startswith("_") else str(unknown(kind, name, offered)))

    return get, lambda: list(offered)


def _describe(module: str, lines: Mapping[str, str]) -> None:
    """Let a module's docstring list what it offers: `help` prints it."""
    sys.modules[module].__doc__ = "\n\n".join([(sys.modules[module].__doc__ or "").rstrip(), *lines.values()])


def modules(folder: str | Path) -> list[str]:
    """The files and packages of a folder."""
    inside = [*Path(folder).glob("*.py"), *(path.parent for path in Path(folder).glob("*/__init__.py"))]
    return sorted(path.stem for path in inside if not path.stem.startswith("_"))


def places(folder: str | Path) -> dict[str, str]:
    """The public classes of a folder's files → the file that each is in, by name."""
    return {name: file for name, (file, _) in _classes(folder).items()}


def public(source: str) -> list[str]:
    """The classes that a file offers: those of its `__all__`,
    or else all that it defines at its top without a leading _.
    """
    import ast

    return _public(ast.parse(source))


@functools.cache
def _classes(folder: str | Path) -> dict[str, tuple[str, str]]:
    """Name → file, and how the class is called and what it is."""
    found: dict[str, tuple[str, str]] = {}
    for path in sorted(Path(folder).glob("*.py")):
        if not path.stem.startswith("_"):
            tree = _read(path)
            found |= {name: (path.stem, _called(name, tree)) for name in _public(tree)}
    return dict(sorted(found.items()))


def _read(path: Path) -> "ast.Module":
    import ast  # 2 ms of a start that touches no door of classes

    return ast.parse(path.read_text(encoding="utf-8"))


def _public(tree: "ast.Module") -> list[str]:
    import ast

    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            names: list[str] = ast.literal_eval(node.value)  # type: ignore[attr-defined]
            return names
    return [node.name for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]


def _called(name: str, tree: "ast.Module") -> str:
    """`class MultiHead(width: int, …)`, and the beginning of its docstring, or of its file's."""
    import ast

    made = next((node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name), None)
    inside = [] if made is None else made.body
    starts = (one for one in inside if isinstance(one, ast.FunctionDef) and one.name == "__init__")
    arguments = next((ast.unparse(one.args).removeprefix("self").removeprefix(", ") for one in starts), "")
    documented = tree if made is None or ast.get_docstring(made) is None else made
    return f"class {name}({arguments})\n    {_title(documented)}"


def _title(documented: "ast.Module | ast.ClassDef") -> str:
    """The first paragraph of a docstring, on one line."""
    import ast

    return " ".join((ast.get_docstring(documented) or "").partition("\n\n")[0].split())


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


def stub_of_modules(package: str, folder: str | Path, more: Mapping[str, str]) -> str:
    """The same of a door of modules."""
    lines = [f"from {package} import {name} as {name}" for name in modules(folder)]
    lines += [f"from {package}.{file} import {name} as {name}" for name, file in more.items()]
    names = "".join(f'    "{name}",\n' for name in sorted({*modules(folder), *more}))
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
    for room, more in FLOORS.items():
        found[home / room / "__init__.pyi"] = stub_of_modules(f"foveal.{room}", home / room, more)
    mask = "from foveal.core.mask import Mask as Mask"
    found[home / "mask.pyi"] = stub_by_file("foveal.core.pattern", home / "core/pattern", mask)
    found[home / "score.pyi"] = stub_by_file("foveal.core.score", home / "core/score")
    return found
