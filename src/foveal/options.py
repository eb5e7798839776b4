"""Options: fields of a frozen dataclass, each with its default, its meaning and its bounds.

From flags, from a YAML file, or from Python.

One style for everything that is configured: a task's recipe is one of these, and so is what each of its stages takes.
"""

import dataclasses
import functools
import math
import os
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from foveal.errors import FovealError, expect, expect_plain_file, is_integer, is_number, short_repr, unknown

if TYPE_CHECKING:
    import argparse

Kind = TypeVar("Kind", bound="Options")
LARGEST = 1e15  # of a number: float32 ends near 3e38, and the product of two of them must not


def option(
    default: Any,
    means: str,
    among: tuple[str, ...] = (),
    least: float | None = None,
    below: float = math.inf,
    metavar: str = "",
) -> Any:
    """A field: its default, what it means in a sentence, and what is allowed. metavar:
    what its value is called in --help.
    """
    metadata = {"means": means, "among": among, "least": least, "below": below, "metavar": metavar}
    if isinstance(default, (dict, list)):
        return field(default_factory=lambda: type(default)(default), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Options:
    """The base of every recipe and of every stage's options."""

    renamed: ClassVar[dict[str, str]] = {}  # what an option was called in files of before → what it is called now
    before: ClassVar[dict[str, Any]] = {}  # what runs did that are older than an option, where that is not its default

    def __post_init__(self) -> None:
        for one in dataclasses.fields(self):
            _check(one, getattr(self, one.name), kinds_of(type(self), one.name))

    def text(self) -> str:
        """As YAML."""
        import yaml

        return str(yaml.safe_dump(dataclasses.asdict(self), sort_keys=False, allow_unicode=True))

    def from_anywhere(self) -> Self:
        """With absolute paths: what a run keeps of its recipe holds in another folder, too."""
        return self

    def changed(self, **changes: Any) -> Self:
        return dataclasses.replace(self, **changes)


def make(kind: type[Kind], what: str, /, **values: Any) -> Kind:
    """Options of this kind with these values; a name that is none is an error with the nearest one."""
    names = [one.name for one in dataclasses.fields(kind)]
    for name in values:
        if name not in names:
            raise unknown(f"option of {what}", name, names)
    # What is text may be a path in Python.
    return kind(**{name: os.fspath(value) if isinstance(value, Path) else value for name, value in values.items()})


def read_options(name_or_file: str, kind: type[Options], shipped: Path | None) -> dict[str, Any]:
    """The options in a YAML file, or in a recipe that is shipped in this folder, by its name."""
    recipes = {} if shipped is None else {file.stem: file for file in sorted(shipped.glob("*.yaml"))}
    file = recipes.get(name_or_file, Path(name_or_file))
    if not file.exists() and file.suffix not in (".yaml", ".yml"):
        raise unknown("recipe", name_or_file, recipes)
    expect_plain_file(file)
    try:
        content = load_yaml(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise FovealError(f"the recipe {name_or_file}: expected a file that can be read, got {error}") from None
    except FovealError as error:
        raise FovealError(f"the recipe {name_or_file}: {error}") from None
    content = {} if content is None else content
    expect(isinstance(content, dict), f"the recipe {name_or_file}", "options and their values", short_repr(content))
    names = {one.name for one in dataclasses.fields(kind)}
    for key in content:
        if key not in names:
            raise unknown(f"option in the recipe {name_or_file}", str(key), names)
    return typing.cast("dict[str, Any]", content)


def load_yaml(text: str) -> Any:
    """What a YAML text holds: plain values only, every key once, and 3:44 is text and no number of seconds."""
    import yaml

    try:
        return yaml.load(text, _loader())
    except yaml.YAMLError as error:
        raise FovealError(f"expected YAML, got {' '.join(str(error).split())}") from None
    except RecursionError:
        raise FovealError("expected YAML, got lists within lists without end") from None


@functools.cache
def _loader() -> Any:
    import yaml

    class Strict(yaml.SafeLoader):  # type: ignore[misc]  # yaml has no types
        """YAML 1.2's plain numbers, and no key twice."""

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            keys = [key.value for key, _ in node.value]
            twice = sorted({str(key) for key in keys if keys.count(key) > 1})
            expect(not twice, "YAML", "every key once", f"{', '.join(twice)} twice")
            return super().construct_mapping(node, deep)

    numbers = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
    resolvers = {
        sign: [(tag, rule) for tag, rule in rules if tag not in numbers]
        for sign, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    Strict.yaml_implicit_resolvers = resolvers
    import re

    Strict.add_implicit_resolver(
        numbers[0], re.compile(r"^[-+]?(0x[0-9a-fA-F_]+|0o[0-7_]+|[0-9][0-9_]*)$"), list("-+0123456789")
    )
    floats = re.compile(
        r"^([-+]?([0-9][0-9_]*\.?[0-9_]*|\.[0-9]+)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$"
    )
    Strict.add_implicit_resolver(numbers[1], floats, list("-+0123456789."))
    return Strict


def parsed(kind: type[Options], name: str, text: str) -> Any:
    """The value of a flag: as YAML reads it, except where an option is text."""
    kinds = kinds_of(kind, name)
    if str in kinds:
        return text
    if kinds == (bool,) or (bool in kinds and text.lower() in ("true", "false")):
        return {"true": True, "false": False}.get(text.lower(), text)
    for number in (int, float):
        if number in kinds:
            try:
                return number(text)
            except ValueError:
                continue
    if dict not in kinds and list not in kinds:
        return None if text.lower() in ("none", "null") and type(None) in kinds else text
    try:
        return load_yaml(text)
    except FovealError:
        return text


def kinds_of(kind: type[Options], name: str) -> tuple[Any, ...]:
    """What an option may be: int, float, str, dict, list, bool, None."""
    hint = typing.get_type_hints(kind)[name]
    return typing.get_args(hint) if isinstance(hint, types.UnionType) else (typing.get_origin(hint) or hint,)


def type_word(one: "dataclasses.Field[Any]", kinds: tuple[Any, ...]) -> str:
    """What --help calls an option's value."""
    if one.metadata.get("metavar"):
        return str(one.metadata["metavar"])
    if one.metadata["among"]:
        return "|".join(one.metadata["among"])
    for kind, word in ((bool, "true|false"), (int, "N"), (float, "X"), (dict, "YAML"), (list, "YAML")):
        if kind in kinds:
            return word
    return "TEXT"


def flag(name: str) -> str:
    """What an option is called on the command line."""
    return f"--{name.replace('_', '-')}"


def add_flags(parser: "argparse.ArgumentParser | argparse._ArgumentGroup", kind: type[Options]) -> None:
    """One flag per option, with its type, its meaning and its default in --help.

    The value stays text until `from_flags`.
    """
    for one in dataclasses.fields(kind):
        add_flag(parser, kind, one.name, help_of(kind, one.name))


def add_flag(
    parser: "argparse.ArgumentParser | argparse._ArgumentGroup", kind: type[Options], name: str, text: str
) -> None:
    one = next(field for field in dataclasses.fields(kind) if field.name == name)
    switch = kinds_of(kind, name) == (bool,) and one.default is False  # --sample alone means true
    more: dict[str, Any] = {"nargs": "?", "const": "true"} if switch else {}
    metavar = type_word(one, kinds_of(kind, name))
    parser.add_argument(flag(name), dest=name, metavar=metavar, help=text.replace("%", "%%"), **more)


def help_of(kind: type[Options], name: str) -> str:
    """What an option means, and its default."""
    one = next(field for field in dataclasses.fields(kind) if field.name == name)
    default = one.default if one.default is not dataclasses.MISSING else None
    word = str(default).lower() if isinstance(default, bool) else str(default)
    return f"{one.metadata['means']}" + ("" if default in (None, "") else f" (default: {word})")


def from_flags(args: "argparse.Namespace", kind: type[Options]) -> dict[str, Any]:
    """The options that were given on the command line, as values."""
    found = {}
    for one in dataclasses.fields(kind):
        if (text := getattr(args, one.name, None)) is not None:
            found[one.name] = parsed(kind, one.name, text)
    return found


def _check(one: "dataclasses.Field[Any]", value: Any, kinds: tuple[Any, ...]) -> None:
    what, among, least, below = flag(one.name), one.metadata["among"], one.metadata["least"], one.metadata["below"]
    if value is None and type(None) in kinds:
        return
    if among:
        expect(value in among, what, f"one of {', '.join(among)}", short_repr(value))
    elif bool in kinds:
        expect(isinstance(value, bool), what, "true or false", short_repr(value))
    elif int in kinds:
        expect(
            is_integer(value) and (least is None or value >= least),
            what,
            f"an integer, at least {least}",
            short_repr(value),
        )
        expect(
            value < min(below, 2**31),
            what,
            "a number below 2³¹" if below > 2**31 else f"a number below {below:g}",
            short_repr(value),
        )
    elif float in kinds:
        limit = f" and below {below:g}" if below < math.inf else ""
        low = -LARGEST if least is None else least
        expect(is_number(value) and low <= value < below, what, f"a number, at least {low:g}{limit}", short_repr(value))
        expect(value <= LARGEST, what, f"a number below {LARGEST:g}", short_repr(value))
    else:
        fits = isinstance(value, tuple(kind for kind in kinds if kind is not type(None)))
        expect(fits, what, f"a {kinds[0].__name__}", short_repr(value))
