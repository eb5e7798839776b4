"""A recipe: every setting of a training run, from flags, from a YAML file, or from one of the recipes that are shipped."""

import dataclasses
import glob
import types
import typing
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from foveal.data.pack import expect_box
from foveal.data.read import located
from foveal.errors import FovealError, expect, is_number, is_whole, shown, unknown
from foveal.models.packaged import is_file


def setting(default: Any, means: str, among: tuple[str, ...] = (), least: float | None = None, below: float = float("inf")) -> Any:
    """A field of a recipe: its default, what it means, and what is allowed."""
    metadata = {"means": means, "among": among, "least": least, "below": below}
    if isinstance(default, (dict, list)):
        return field(default_factory=lambda: type(default)(default), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Recipe:
    data: str = setting("pipes", "a name or a path: class folders, a csv, Sewer-ML, or pipes")
    label: str | None = setting(None, "the column of labels.csv that is the label")
    model: str = setting("icam-31k", "a preset or a peer; or a model's file, such as a pruned one, whose build and weights to begin with")
    settings: dict[str, Any] = setting({}, "fields of the model's config that differ, as YAML: '{first: static}'")  # noqa: RUF009 — it is a field
    start: str | None = setting(None, "a model whose weights to begin with, wherever shapes agree: a file, a run's folder, or icam-pipes")
    teachers: str | None = setting(None, "trained models whose answers to learn: a pattern of files or run folders, {fold} for the fold")
    truth: float = setting(0.2, "weight of the true labels beside the teachers' answers", least=0)
    size: int = setting(224, "side of the pictures in pixels", least=16)
    epochs: int = setting(90, "how often the training split is seen", least=1)
    batch: int = setting(32, "pictures in a step", least=1)
    lr: float = setting(1e-3, "largest learning rate of AdamW", least=0)
    backbone: float = setting(1.0, "share of the learning rate for what sees pixels: ICAM's Φ, a peer's all but the last layer", least=0)
    decay: float = setting(0.01, "weight decay", least=0)
    warmup: float = setting(0.05, "share of the run in which the learning rate rises", least=0, below=1)
    smoothing: float = setting(0.1, "of labels", least=0, below=1)
    balance: str = setting(
        "none",
        "rare classes count more in the loss, keep a wider margin, or are drawn more often",
        ("none", "weights", "margin", "sampling"),
    )
    ema: float = setting(0.99, "decay of the weights' moving average, which is what is judged and kept; 0: none", least=0, below=1)
    mixup: float = setting(0.0, "α of mixup; 0: none", least=0)
    augment: str = setting("pipe", "how pictures are varied", ("none", "light", "lamp", "mild", "pipe", "strong"))
    keep: str = setting("best", "the weights of the best epoch by the validation score, or of the last", ("best", "last"))
    patience: int = setting(0, "stop after so many epochs without a better validation score; 0: never", least=0)
    clip: float = setting(1.0, "largest norm of the gradient; 0: any", least=0)
    precision: str = setting("32", "of the arithmetic", ("32", "16", "bf16"))
    seed: int = setting(0, "of weights, order and augmentation", least=0)
    by: str | None = setting(None, "the column of labels.csv whose values are the folds, such as a campaign")
    fold: int | None = setting(None, "this fold tests and the next one selects; not given: the set's own splits", least=0)
    blank: list[list[float]] = setting([], "boxes [x0, y0, x1, y1] in shares of the picture that are painted grey, such as burnt-in text")  # noqa: RUF009

    def __post_init__(self) -> None:
        for one in dataclasses.fields(self):
            _check(one, getattr(self, one.name))

    def text(self) -> str:
        return str(yaml.safe_dump(dataclasses.asdict(self), sort_keys=False, allow_unicode=True))

    def from_anywhere(self) -> "Recipe":
        """With whole paths: what a run keeps of its recipe holds in another folder, too."""
        start = None if self.start is None else located(self.start)
        teachers = self.teachers
        if teachers is not None and not Path(teachers).expanduser().is_absolute():  # a pattern, in a folder whose name is none
            teachers = f"{glob.escape(str(Path.cwd())).replace('{', '[{]')}/{teachers}"
        elif teachers is not None:
            teachers = str(Path(teachers).expanduser())
        model = located(self.model) if is_file(self.model) else self.model
        return self.changed(data=located(self.data), model=model, start=start, teachers=teachers)

    def changed(self, **changes: Any) -> "Recipe":
        return dataclasses.replace(self, **changes)


def read_recipe(name_or_file: str) -> dict[str, Any]:
    """The settings in a YAML file, or in a recipe that is shipped, by its name."""
    folder = resources.files("foveal.train") / "recipes"
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
    expect(isinstance(content, dict), f"the recipe {name_or_file}", "settings and their values", shown(content))
    names = {one.name for one in dataclasses.fields(Recipe)}
    for key in content:
        if key not in names:
            raise unknown(f"setting in the recipe {name_or_file}", str(key), names)
    return typing.cast("dict[str, Any]", content)


def parsed(name: str, text: str) -> Any:
    """The value of a flag: as YAML reads it, except where a setting is text."""
    hint = typing.get_type_hints(Recipe)[name]
    if str in _kinds(hint):
        return text
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        value = text
    if isinstance(value, str) and float in _kinds(hint):  # YAML reads 1e-3 as text
        try:
            return float(value)
        except ValueError:
            return value
    return value


def _kinds(hint: Any) -> tuple[Any, ...]:
    if isinstance(hint, types.UnionType):
        return typing.get_args(hint)
    return (typing.get_origin(hint) or hint,)


def _check(one: "dataclasses.Field[Any]", value: Any) -> None:
    kinds = _kinds(typing.get_type_hints(Recipe)[one.name])
    what, among, least, below = f"the setting {one.name}", one.metadata["among"], one.metadata["least"], one.metadata["below"]
    if value is None and type(None) in kinds:
        return
    if among:
        expect(value in among, what, f"one of {', '.join(among)}", shown(value))
    elif int in kinds:
        expect(is_whole(value) and value >= least, what, f"a whole number, at least {least}", shown(value))
        expect(value < 2**31, what, "a number below 2³¹", shown(value))
    elif float in kinds:
        limit = f" and below {below:g}" if below < float("inf") else ""
        expect(is_number(value) and least <= value < below, what, f"a number, at least {least:g}{limit}", shown(value))
    else:
        expect(isinstance(value, tuple(kind for kind in kinds if kind is not type(None))), what, f"a {kinds[0].__name__}", shown(value))
    if one.name == "blank":
        for box in value:
            expect_box(box)
