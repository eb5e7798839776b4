"""The catalogue: every mechanism there is, read from the docstring of its file without importing it.

A file is in the catalogue if its docstring has an `Example:` line. Its name is the entry's name; where two rooms have
a file of one name, the layer keeps it and the other goes by its kind: `additive` is the layer, `score.additive` the
score.
"""

import ast
import builtins
import functools
import importlib
import textwrap
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foveal.errors import FovealError, expect, unknown
from foveal.report.paper import Paper, labelled

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["KINDS", "Entry", "Paper", "Ran", "entries", "find", "of_training", "read", "run_example", "samples"]

HOME = Path(__file__).parents[1]
ROOMS = {  # where a kind lives; the deepest folder counts
    "core/pattern": "mask",
    "core/score": "score",
    "core": "attention",
    "position": "position",
    "layers": "layer",
    "vision": "map",
    "models": "model",
}
KINDS = tuple(ROOMS.values())
TRAINING = ("data", "losses", "training", "tasks")  # rooms whose files may say which options of a recipe use them
KEEPS_NAME = ("layer", "map", "model", "position", "attention", "mask", "score")  # who keeps a name that several have

FIELDS = {  # how a line of the docstring begins → the field of Entry
    "Symbols": "symbols",
    "Paper": "papers",
    "Departs from the paper": "departs",
    "Cost": "cost",
    "Example": "example",
}


@dataclass(frozen=True)
class Entry:
    name: str
    kind: str
    title: str
    equation: str
    symbols: str
    papers: tuple[Paper, ...]
    departs: str
    cost: str
    example: str
    module: str
    presets: tuple[str, ...] = ()  # of a model: the names that foveal.create and foveal.load know


def entries() -> tuple[Entry, ...]:
    """Everything there is, by kind and then by name."""
    return _collected(HOME)


def find(name: str) -> Entry:
    """The entry of that name; `-` and `_` are the same, and `layer.additive` says which of two."""
    wanted = name.strip().replace("-", "_").lower()
    known = entries()
    for entry in known:
        if wanted in (entry.name, f"{entry.kind}.{entry.name.split('.')[-1]}"):
            return entry
    raise unknown("mechanism", name, [one for entry in known for one in (entry.name, *entry.presets)])


@functools.cache
def of_training(home: Path = HOME) -> tuple[Paper, ...]:
    """The papers whose condition asks a recipe: what trains, beside what is built."""
    found = []
    for room in TRAINING:
        for path in sorted((home / room).rglob("*.py")):
            source = path.read_text(encoding="utf-8")
            if "\nPaper, if recipe." in source:
                found += _conditional(ast.get_docstring(ast.parse(source)) or "", path)
    return tuple(found)


def _conditional(docstring: str, path: Path) -> list[Paper]:
    """The papers with a condition in a docstring that need not have an entry's fields."""
    found: list[list[str]] = []
    last: list[str] | None = None
    for line in docstring.split("\n"):
        if (paper := labelled(line)) is not None:
            last = list(paper)
            found.append(last)
        elif not line.startswith(" "):
            last = None
        elif last is not None:
            last[1] += f" {line.strip()}"
    try:
        return [Paper.read(reference, condition) for condition, reference in found if condition]
    except FovealError as error:
        raise FovealError(f"{path}: {error}") from None


@functools.cache
def _collected(home: Path) -> tuple[Entry, ...]:
    found = [entry for path, kind in _files(home) if (entry := read(path, kind, home))]
    owners: dict[str, str] = {}
    for entry in sorted(found, key=lambda entry: KEEPS_NAME.index(entry.kind)):
        owners.setdefault(entry.name, entry.kind)
    named = [
        entry if owners[entry.name] == entry.kind else replace(entry, name=f"{entry.kind}.{entry.name}")
        for entry in found
    ]
    return tuple(sorted(named, key=lambda entry: (KINDS.index(entry.kind), entry.name)))


def _files(home: Path) -> list[tuple[Path, str]]:
    seen: dict[Path, str] = {}
    for room, kind in ROOMS.items():
        for path in sorted((home / room).rglob("*.py")):
            seen.setdefault(path, kind)
    return list(seen.items())


def read(path: Path, kind: str, home: Path = HOME) -> Entry | None:
    """The entry that a file's docstring describes; None if it has no `Example:` line."""
    source = path.read_text(encoding="utf-8")
    if "\nExample:" not in source:  # most of the time of a start goes into parsing: skip what is no entry
        return None
    try:
        tree = ast.parse(source)
        docstring = ast.get_docstring(tree) or ""
        if "\nExample:" not in docstring:
            return None
        parts = _parted(docstring)
        papers = tuple(Paper.read(line, when) for line, when in zip(parts["papers"], parts["when"], strict=True))
    except (SyntaxError, FovealError) as error:
        raise FovealError(f"{path}: {error}") from None
    module = ".".join(("foveal", *path.relative_to(home).with_suffix("").parts))
    lines = {name: values[0] for name, values in parts.items() if name not in ("papers", "when")}
    return Entry(name=path.stem, kind=kind, papers=papers, module=module, presets=_presets(tree), **lines)


def _presets(tree: ast.Module) -> tuple[str, ...]:
    """The keys of PRESETS, which a model's file writes down name by name."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="PRESETS")], value=ast.Dict(keys=keys)):
                return tuple(str(key.value) for key in keys if isinstance(key, ast.Constant))
    return ()


def _parted(docstring: str) -> dict[str, list[str]]:
    """The docstring's fields: a title, an indented equation, then the fields, whose further lines are indented.

    A field that may not repeat is a list of one.
    """
    title, _, rest = docstring.partition("\n\n")
    parts: dict[str, list[str]] = {"title": [" ".join(title.split())]}
    last = parts["title"]
    for line in rest.split("\n"):
        label, _, value = line.partition(":")
        paper = labelled(line)
        if line.startswith(" ") and parts.keys() <= {"title", "equation"}:
            parts.setdefault("equation", []).append(line)
        elif line.startswith(" "):
            last[-1] += f" {line.strip()}"
        elif paper is not None and paper[1]:
            parts.setdefault("when", []).append(paper[0])
            last = parts.setdefault("papers", [])
            last.append(paper[1])
        elif label in FIELDS and value.strip():
            last = parts.setdefault(FIELDS[label], [])
            last.append(value.strip())
        elif line.strip():
            raise FovealError(
                f"docstring: expected fields ({', '.join(FIELDS)}), their further lines indented, got {line!r}"
            )
    parts.setdefault("symbols", [""])
    for name, label in {"equation": "equation", **{name: label for label, name in FIELDS.items()}}.items():
        if name not in parts:
            what = "an indented equation under the title" if name == "equation" else f"a line '{label}: …'"
            raise FovealError(f"docstring: expected {what}, got none")
        if len(parts[name]) > 1 and name not in ("equation", "papers"):
            raise FovealError(f"docstring: expected one line '{label}: …', got {len(parts[name])}")
    return parts | {"equation": [textwrap.dedent("\n".join(parts["equation"]))]}


@dataclass(frozen=True)
class Ran:
    """An example that was run.

    `Class(arguments)(inputs)` and `Class(arguments).method(inputs)` have a module and inputs; else None and ().
    """

    output: Any
    module: Any = None
    inputs: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)  # inputs given by name


def run_example(entry: Entry) -> Ran:
    """The entry's example, run on the sample tensors: always with the same numbers,
    and without touching torch's random state.
    """
    import torch

    names = {**vars(importlib.import_module(entry.module)), **samples()}
    expression = _expression(entry, names)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        match expression:
            case ast.Call(func=ast.Call() as made, args=given, keywords=words):
                method = "__call__"
            case ast.Call(func=ast.Attribute(value=ast.Call() as made, attr=method), args=given, keywords=words):
                pass
            case _:
                return Ran(_value(expression, names))
        module = _value(made, names)
        if isinstance(module, torch.nn.Module):
            module.eval()
        inputs = tuple(_value(argument, names) for argument in given)
        options = {word.arg: _value(word.value, names) for word in words if word.arg}
        return Ran(getattr(module, method)(*inputs, **options), module, inputs, options)


def _expression(entry: Entry, names: dict[str, Any]) -> ast.expr:
    what, may = f"the Example of {entry.name}", f"its file's names and {', '.join(samples())}"
    try:
        expression = ast.parse(entry.example, mode="eval").body
    except SyntaxError:
        raise FovealError(f"{what}: expected one Python expression of {may}, got {entry.example}") from None
    nodes = list(ast.walk(expression))
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    strange = sorted(used - bound - names.keys() - vars(builtins).keys())
    expect(not strange, what, f"names out of {may}", ", ".join(strange))
    return expression


def samples() -> dict[str, "Tensor"]:
    """The tensors that an example may name, always the same numbers."""
    import torch

    shapes = {
        "x": (2, 11, 14),  # tokens
        "memory": (2, 7, 14),  # other tokens
        "wide": (2, 7, 10),  # other tokens, of another width
        "image": (2, 5, 6, 14),  # a grid of tokens, (B, h, w, C)
        "maps": (2, 6, 5, 7),  # feature maps, (B, C, h, w)
        "video": (2, 3, 6, 4, 5),  # feature maps of frames, (B, T, C, h, w)
        "q": (2, 6, 11, 8),  # heads
        "k": (2, 2, 7, 8),
        "v": (2, 2, 7, 8),
    }
    generator = torch.Generator().manual_seed(0)
    return {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def _value(expression: ast.expr, names: dict[str, Any]) -> Any:
    # The text comes from foveal's own files, as their code does.
    return eval(compile(ast.Expression(expression), "<example>", "eval"), names)
