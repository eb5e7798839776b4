"""The stages as functions, for those who have the name of a model and call it once:

    foveal.predict(model, inputs)     foveal.evaluate(model, data=…)     foveal.export(model, path)

A model is a `Model`, or whatever `foveal.load` opens. `save` writes a network of `foveal.create` as such a file.
"""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foveal.errors import FovealError, expect, naming_extras, short_repr, unknown
from foveal.runtime.packaged import FILE, SUFFIX
from foveal.tasks.load import load
from foveal.tasks.model import Model
from foveal.tasks.task import Evaluation, Exported, Result, Task, all_tasks

if TYPE_CHECKING:
    from torch import nn

OWN = ("model", "family", "config", "shapes", "task", "format", "foveal")  # of a card: what the network itself says


def predict(model: "str | Path | Model", inputs: Any, **options: Any) -> Iterator[Result]:
    """One result per input, as they come: `Model.predict`."""
    return _opened(model).predict(inputs, **options)


def evaluate(model: "str | Path | Model", data: str | Path | None = None, **options: Any) -> Evaluation:
    """How good a model is, by default on what it was trained on: `Model.evaluate`."""
    return _opened(model).evaluate(data, **options)


def export(model: "str | Path | Model", path: str | Path, **options: Any) -> Exported:
    """Write a file for a runtime without torch, with its proof: `Model.export`."""
    return _opened(model).export(path, **options)


def _opened(model: "str | Path | Model") -> Model:
    return model if isinstance(model, Model) else load(model)


@naming_extras()
def save(network: "nn.Module", path: str | Path, **facts: Any) -> Path:
    """Write a network of `foveal.create`, whoever trained it, as a file that `foveal.load` opens: a .safetensors
    file, or a folder with one.

    facts: what the network cannot know, as fields of its card: classes=("dry", "wet"), multi_label=True, note="…".
    """
    from foveal.models.store import describe, save_model, shapes_of

    expect(not isinstance(network, Model), "to save", "a network of torch", "a Model", "call its save_pretrained")
    family, _ = describe(network)
    task = _task_of(family)
    file = Path(path) / FILE if Path(path).suffix == "" else Path(path)
    expect(file.suffix == SUFFIX, "to save", f"a folder, or the name of a {SUFFIX} file", str(path))
    card = task.new_card(_name_of(network, family), network)
    fields = {one.name for one in dataclasses.fields(card)} - set(OWN)
    for name in facts:
        if name not in fields:
            raise unknown(f"field of the card of a model that {task.does}", name, fields)
    for name in card.tuples:
        several = isinstance(facts.get(name, ()), (list, tuple)) or facts[name] is None
        expect(several, name, "several values, such as a tuple", short_repr(facts.get(name)))
        facts |= {name: tuple(facts[name])} if facts.get(name) is not None else {}
    card = dataclasses.replace(card, **{"note": "", "shapes": shapes_of(network)} | facts)
    card.check(str(path))
    save_model(network, file, card)
    return file


def _task_of(family: str) -> Task:
    from foveal.models.zoo import families_of

    for task in all_tasks():
        if family in families_of(task.kind):
            return task
    raise FovealError(f"to save: expected a network that one of the tasks is done with, got one of {family}")


def _name_of(network: Any, family: str) -> str:
    """The preset that it was created of, as far as its config tells: its classes and its images may be one's own."""
    from foveal.models.zoo import presets

    config = network.config
    own = {name: getattr(config, name) for name in ("classes", "image") if hasattr(config, name)}
    same = (name for name, one in presets(family).items() if dataclasses.replace(one, **own) == config)
    return next(same, family)
