"""Settings of a run: fields of a dataclass, each with its default, what it means and what is allowed; from flags, or from a YAML file.

One style for every task: a recipe of training on pictures is one of these, and a recipe of translation another.
"""

import dataclasses
import types
import typing
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import yaml

from foveal.errors import FovealError, expect, is_integer, is_number, short_repr, unknown

Kind = TypeVar("Kind", bound="Options")
PRECISIONS = (
    "32",
    "tf32",
    "16",
    "bf16",
)  # tf32: float32 whose products of matrices a GPU makes of 19 bits, as it does those of convolutions anyway
WHOLE = ("32", "tf32")  # the others are mixed: weights in 32 bits, most products in 16


def option(default: Any, means: str, among: tuple[str, ...] = (), least: float | None = None, below: float = float("inf")) -> Any:
    """A field of a recipe: its default, what it means, and what is allowed."""
    metadata = {"means": means, "among": among, "least": least, "below": below}
    if isinstance(default, (dict, list)):
        return field(default_factory=lambda: type(default)(default), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Options:
    """The base of every recipe."""

    task: ClassVar[str] = ""  # what `foveal train TASK` is called with
    before: ClassVar[dict[str, Any]] = {}  # what runs older than a setting did, where that is not its default

    def __post_init__(self) -> None:
        for one in dataclasses.fields(self):
            _check(one, getattr(self, one.name), kinds_of(type(self), one.name))

    def text(self) -> str:
        return str(yaml.safe_dump(dataclasses.asdict(self), sort_keys=False, allow_unicode=True))

    def from_anywhere(self) -> Self:
        """With whole paths: what a run keeps of its recipe holds in another folder, too."""
        return self

    def changed(self, **changes: Any) -> Self:
        return dataclasses.replace(self, **changes)


def read_options(name_or_file: str, kind: type[Options]) -> dict[str, Any]:
    """The settings in a YAML file, or in a recipe that is shipped, by its name."""
    folder = resources.files(f"foveal.tasks.{kind.task}") / "recipes"
    shipped = {Path(entry.name).stem: entry for entry in folder.iterdir() if entry.name.endswith(".yaml")}
    if name_or_file in shipped:
        text = shipped[name_or_file].read_text(encoding="utf-8")
    else:
        file = Path(name_or_file)
        if not file.is_file() and file.suffix not in (".yaml", ".yml"):
            raise unknown("recipe", name_or_file, shipped)
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise FovealError(f"the recipe {name_or_file}: expected a file that can be read, got {error}") from None
    try:
        content = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise FovealError(f"the recipe {name_or_file}: expected YAML, got {' '.join(str(error).split())}") from None
    expect(isinstance(content, dict), f"the recipe {name_or_file}", "settings and their values", short_repr(content))
    names = {one.name for one in dataclasses.fields(kind)}
    for key in content:
        if key not in names:
            raise unknown(f"setting in the recipe {name_or_file}", str(key), names)
    return typing.cast("dict[str, Any]", content)


def parsed(kind: type[Options], name: str, text: str) -> Any:
    """The value of a flag: as YAML reads it, except where a setting is text."""
    kinds = kinds_of(kind, name)
    if str in kinds:
        return text
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        value = text
    if isinstance(value, str) and float in kinds:  # YAML reads 1e-3 as text
        try:
            return float(value)
        except ValueError:
            return value
    return value


def kinds_of(kind: type[Options], name: str) -> tuple[Any, ...]:
    """What a setting may be: int, float, str, dict, list, bool, None."""
    hint = typing.get_type_hints(kind)[name]
    return typing.get_args(hint) if isinstance(hint, types.UnionType) else (typing.get_origin(hint) or hint,)


def _check(one: "dataclasses.Field[Any]", value: Any, kinds: tuple[Any, ...]) -> None:
    what, among, least, below = f"the setting {one.name}", one.metadata["among"], one.metadata["least"], one.metadata["below"]
    if value is None and type(None) in kinds:
        return
    if among:
        expect(value in among, what, f"one of {', '.join(among)}", short_repr(value))
    elif bool in kinds:
        expect(isinstance(value, bool), what, "true or false", short_repr(value))
    elif int in kinds:
        expect(is_integer(value) and value >= least, what, f"a whole number, at least {least}", short_repr(value))
        expect(value < 2**31, what, "a number below 2³¹", short_repr(value))
    elif float in kinds:
        limit = f" and below {below:g}" if below < float("inf") else ""
        expect(is_number(value) and least <= value < below, what, f"a number, at least {least:g}{limit}", short_repr(value))
    else:
        expect(
            isinstance(value, tuple(kind for kind in kinds if kind is not type(None))), what, f"a {kinds[0].__name__}", short_repr(value)
        )
