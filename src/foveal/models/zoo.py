"""Models by name: `create("icam-31k", classes=2)`, `create("transformer-base", source_vocab=8000, target_vocab=8000)`.

A family of models is a file of this folder with a frozen config, a module, `PRESETS` and a `KIND`; the file's name is
the family's, and it is found by its file. Packages of others name their files in the entry point group `foveal.models`.
A KIND says what the models take and give, such as "images to logits", and nothing of what that is good for: whoever
wants models asks for a kind, and finds those of packages among them.
"""

import dataclasses
import importlib.util
import inspect
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from torch import nn

from foveal.errors import FovealError, expect, short_repr, unknown
from foveal.packages import foreign, left_out, loaded
from foveal.runtime import packaged

FOLDER = Path(__file__).parent
GROUP = "foveal.models"  # the entry points of packages that bring models
Thing = TypeVar("Thing")


KIND = re.compile(r"""^KIND(?:: \w+)? = (["'])([^"'\n]+)\1 *(?:#.*)?$""", re.MULTILINE)  # as it stands in a file


class Family(NamedTuple):
    name: str
    kind: str  # what its models take and give
    config: type[Any]  # a frozen dataclass with a field `family`
    model: type[nn.Module]
    presets: dict[str, Any]


@cache
def families() -> tuple[str, ...]:
    """The files of this folder that have presets, and those of others' packages. None of them is imported for it."""
    return tuple(sorted([*_own(), *foreign(GROUP, _own())]))


def families_of(kind: str) -> tuple[str, ...]:
    """The families whose models take and give this, such as "images to logits"; a line on stderr names those of which
    that cannot be known.
    """
    return tuple(one for one in families() if _known(one, lambda name: [_kind(name)]) == [kind])


@cache
def family(name: str) -> Family:
    """The family of models in the file of this name: the file alone is imported."""
    if name not in families():
        raise unknown("family of models", name, families())
    if name in _own():
        return _family(name, f"foveal.models.{name}")
    point = foreign(GROUP, _own())[name]
    return loaded(point, lambda: _family(name, point.value))


def _family(name: str, place: str) -> Family:
    module = importlib.import_module(place)
    presets, kind = module.PRESETS, getattr(module, "KIND", None)
    wanted = 'a KIND, what its models take and give, such as "images to logits"'
    expect(isinstance(kind, str), str(module.__file__), wanted, "none" if kind is None else short_repr(kind))
    config = type(next(iter(presets.values())))
    made: list[Any] = [
        one
        for one in vars(module).values()
        if inspect.isclass(one) and one.__module__ == module.__name__ and _takes(one, config)
    ]
    models = [one for one in made if hasattr(one, "example")]  # a part may be made of the config, too
    names = ", ".join(one.__name__ for one in models or made) or "none"
    wanted = f"one nn.Module with __init__(self, config: {config.__name__}) and a method example"
    found = names if models or not made else f"{names} without example"
    expect(len(models) == 1, str(module.__file__), wanted, found)
    return Family(name, str(kind), config, models[0], presets)


def presets(*only: str) -> dict[str, Any]:
    """Name → config, of all families or of these; a line on stderr names those that cannot be loaded."""
    found: dict[str, Any] = {}
    for one in sorted(only or families(), key=lambda name: name not in _own()):  # foveal's own names go first
        more = _known(one, lambda name: family(name).presets) or {}
        found |= {name: config for name, config in more.items() if name not in found}
    return found


def presets_of(kind: str) -> dict[str, Any]:
    """The same of the families of a kind."""
    only = families_of(kind)
    return presets(*only) if only else {}


def create(name: str, **changes: Any) -> nn.Module:
    """A model with new weights: a preset, or a family, such as "vit", by its config's defaults. changes: fields of the
    config, such as classes=18.
    """
    config = config_of(name, **changes)
    return family(config.family).model(config)


def config_of(name: str, **changes: Any) -> Any:
    """The config of a model of this name, so changed."""
    known = presets()
    if isinstance(name, str) and name in packaged.names():
        raise FovealError(f'{name}: create makes new weights of a preset; foveal.load("{name}") opens trained ones')
    if not isinstance(name, str) or (name not in known and name not in families()):
        raise unknown("model", str(name), known)
    config = known[name] if name in known else family(name).config()  # a family by its name, such as "vit"
    fields = {field.name for field in dataclasses.fields(config) if field.init}
    for key in changes:
        if key == "pretrained":
            raise FovealError(
                f'{name}: create gives new weights; trained ones are opened by foveal.load("icam-fast-pipes"), a run '
                "or a file"
            )
        if key not in fields:
            raise unknown(f"field of {name}'s config", key, fields)
    try:
        return dataclasses.replace(config, **changes)
    except TypeError as error:
        raise FovealError(f"{name}: expected fields that fit its config, got {short_repr(changes)}; {error}") from None


@cache
def _own() -> dict[str, Path]:
    """Name → file of foveal's own families."""
    return {file.stem: file for file in FOLDER.glob("*.py") if "\nPRESETS" in file.read_text(encoding="utf-8")}


def _kind(name: str) -> str:
    """What the models of a family take and give: read off its file, which is imported only where it cannot be read."""
    if name in _own():
        file: Path | None = _own()[name]
    else:
        point = foreign(GROUP, _own())[name]
        file = loaded(point, lambda: _file(point.value))
    found = None if file is None else KIND.search(file.read_text(encoding="utf-8"))
    return family(name).kind if found is None else found[2]


def _file(place: str) -> Path | None:
    """The source of a module; the packages around it are imported, itself is not."""
    spec = importlib.util.find_spec(place)
    origin = Path(spec.origin) if spec is not None and spec.has_location and spec.origin is not None else None
    return origin if origin is not None and origin.suffix == ".py" and origin.is_file() else None


def _known(name: str, look: Callable[[str], Thing]) -> Thing | None:
    """What is to be known of a family; of a package's that is broken a line on stderr, and None."""
    try:
        return look(name)
    except FovealError as error:
        if name in _own():
            raise
        left_out(str(error))
        return None


def _takes(kind: type, config: type) -> bool:
    """Whether a class is a module whose first argument is this config."""
    if not issubclass(kind, nn.Module):
        return False
    first = next(iter(inspect.signature(kind).parameters.values()), None)
    # An annotation is text where the file says `from __future__ import annotations`.
    return first is not None and first.name == "config" and first.annotation in (config, config.__name__)
