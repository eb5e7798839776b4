"""What a model file says of itself: its task, model, data, figures and origin. JSON, so that reading it runs nothing.

A task owns its part: it extends `Card` by what only its models have (classes and thresholds, or a vocabulary), each
with a check of its own, since a file may come from anybody. `format` is the number of this layout.
"""

import dataclasses
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, TypeVar

from foveal import __version__
from foveal.errors import FovealError, expect, is_integer, is_number, printable, short_repr

FORMAT = 1
LARGEST_IMAGE = 4096  # side in pixels of an image that a model takes; more is a mistake or an attack
# Of the side in the config, which the model was built for, the card's may be so many times as long, or so many pixels.
LARGEST_RATIO, SMALL_IMAGE = 8, 1024
RESERVED = ("file", "found", "error")  # columns of a table of predictions beside the classes
Kind = TypeVar("Kind", bound="Card")
SEWER_MEAN, SEWER_STD = (0.523, 0.453, 0.345), (0.210, 0.199, 0.154)  # of Sewer-ML: images from inside of pipes
LITE_MEAN, LITE_STD = (127 / 255,) * 3, (128 / 255,) * 3  # (u − 127)/128 of bytes u, as EfficientNet-Lite was trained


@dataclass(frozen=True, kw_only=True)
class Card:
    """What the models of every task have."""

    task: str
    model: str  # the name it was created by
    family: str  # which kind of config: the file in models/
    config: dict[str, Any]
    data: dict[str, Any] = field(default_factory=dict)  # what it was trained on
    metrics: dict[str, Any] = field(default_factory=dict)
    recipe: dict[str, Any] = field(default_factory=dict)
    origin: dict[str, Any] = field(default_factory=dict)
    note: str = ""  # what it is good for, and what not
    random: bool = False  # whether nobody trained it: its weights are those that it was created with
    # of the tensors that pruning made smaller than the config says
    shapes: dict[str, list[int]] = field(default_factory=dict)
    format: int = FORMAT
    foveal: str = __version__

    tuples: ClassVar[tuple[str, ...]] = ()  # fields that JSON writes as lists
    written: ClassVar[tuple[str, ...]] = ()  # fields that have a default in Python, and must be in a file all the same
    # family → fields of its config in files of before → as they are called now
    renamed_config: ClassVar[dict[str, dict[str, str]]] = {}
    # of the recipe: names of files on the machine that trained
    paths: ClassVar[tuple[str, ...]] = ("data", "model", "init_from")

    def text(self) -> str:
        facts = dataclasses.asdict(self)
        text = json.dumps(facts, ensure_ascii=False)
        strange = any(0xD800 <= ord(letter) < 0xE000 for letter in text)  # of a path that is no UTF-8: then escaped
        return json.dumps(facts) if strange else text

    @classmethod
    def upgraded(cls, facts: dict[str, Any]) -> dict[str, Any]:
        """The facts of a card that was written before `format: 1`, in today's words."""
        return facts

    def check(self, where: str) -> None:
        """Raise a FovealError unless every field is what its user expects; `where` names the file."""
        for name in ("model", "family", "note"):
            value = getattr(self, name)
            fits = isinstance(value, str) and (name == "note" or printable(value) == value)  # no name steers a terminal
            expect(fits, where, f"a card whose {name} is printable text", short_repr(value))
        for name in ("config", "data", "metrics", "recipe", "origin", "shapes"):
            value = getattr(self, name)
            expect(isinstance(value, dict), where, f"a card whose {name} has names and values", short_repr(value))
        expect(isinstance(self.random, bool), where, "a card whose random is true or false", short_repr(self.random))
        for name, shape in self.shapes.items():
            sizes = isinstance(shape, list) and all(is_integer(size) and size > 0 for size in shape)
            expect(sizes, where, f"a shape of {short_repr(name)} in integers above 0", short_repr(shape))

    def without_paths(self) -> Self:
        """The card without the folders of the machine that trained: an exported file goes to others."""
        names = {key: _last_part(value) for key in self.paths if isinstance(value := self.recipe.get(key), str)}
        return dataclasses.replace(self, recipe=self.recipe | names)


@dataclass(frozen=True, kw_only=True)
class ImageCard(Card):
    """What the models have that take an image and know classes."""

    classes: tuple[str, ...]
    size: int = 224  # side of the images in pixels
    mean: tuple[float, ...] = SEWER_MEAN
    std: tuple[float, ...] = SEWER_STD

    tuples: ClassVar[tuple[str, ...]] = ("classes", "mean", "std")
    written: ClassVar[tuple[str, ...]] = ("size",)  # images of another size than in training would be answered wrongly

    @property
    def blank(self) -> list[list[float]]:
        """Boxes that the model was never shown: shares of the image."""
        return list(self.recipe.get("blank", []))

    def check(self, where: str) -> None:
        super().check(where)
        check_classes(self.classes, where)
        count = len(self.classes)
        expect(
            self.config.get("classes", count) == count,
            where,
            f"{short_repr(self.config.get('classes'))} names of classes",
            count,
        )
        sized = is_integer(self.size) and 0 < self.size <= LARGEST_IMAGE
        expect(sized, where, f"a size of at most {LARGEST_IMAGE} pixels", short_repr(self.size))
        image = self.config.get("image")
        most = LARGEST_IMAGE if image is None or not is_integer(image) else max(LARGEST_RATIO * image, SMALL_IMAGE)
        expect(self.size <= most, where, f"a size of at most {most} beside the config's image {image}", self.size)
        expect(_numbers(self.mean, 3), where, "a mean of three numbers", short_repr(self.mean))
        expect(
            _numbers(self.std, 3) and min(self.std) > 0, where, "a std of three numbers above 0", short_repr(self.std)
        )
        for name in ("data", "label", "fold_column"):
            value = self.recipe.get(name)
            expect(value is None or isinstance(value, str), where, f"a recipe whose {name} is text", short_repr(value))
        fold = self.recipe.get("fold")
        expect(
            fold is None or (is_integer(fold) and fold >= 0), where, "a recipe whose fold is a number", short_repr(fold)
        )
        blank = self.recipe.get("blank", [])
        boxes = isinstance(blank, list) and all(isinstance(box, list) and _numbers(tuple(box), 4) for box in blank)
        expect(boxes, where, "a recipe whose blank is a list of boxes", short_repr(blank))


def check_classes(classes: Sequence[object], where: str) -> None:
    """Raise a FovealError unless these can be names of classes: in a table, on a terminal and in a file's name."""
    named = isinstance(classes, tuple) and bool(classes) and all(isinstance(name, str) for name in classes)
    expect(named, where, "names of classes", short_repr(classes))
    for name in classes:
        fits = isinstance(name, str) and name.strip() == name and name.isprintable() and bool(name)
        expect(fits, where, "names of classes in printable letters", short_repr(name), "rename the class")
        assert isinstance(name, str)
        # which a spreadsheet that opens a table would run
        formula = name[0] in "=+-@" and any(sign in name for sign in "(|!")
        expect(
            not formula,
            where,
            "names of classes that are no formula of a spreadsheet",
            short_repr(name),
            "rename the class",
        )
        expect(name not in RESERVED, where, f"no class that is called {', '.join(RESERVED)}", name, "rename the class")
    twice = sorted(str(name) for name, count in Counter(classes).items() if count > 1)
    expect(not twice, where, "every class once", f"{', '.join(twice)} twice")


def task_in(text: str) -> str | None:
    """The task that a card names; None of a text that is no card. Whoever reads the card says what is wrong with it."""
    try:
        task = json.loads(text).get("task")
    except (ValueError, RecursionError, AttributeError):
        return None
    return task if isinstance(task, str) else None


def read_card(text: str, where: str, kind: type[Kind]) -> Kind:
    """The card that is written in a file, as its task's kind of card; `where` names the file in errors."""
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError):
        raise FovealError(
            f"{where}: expected a card of foveal's in JSON, got something else; the file is damaged"
        ) from None
    expect(isinstance(facts, dict), where, "a card of foveal's", type(facts).__name__)
    layout = facts.get("format", 0)
    newer = not is_integer(layout) or layout > FORMAT or _version(facts.get("foveal")) > _version(__version__)
    expect(
        not newer,
        where,
        f"a file of foveal {__version__} or before",
        f"one of {short_repr(facts.get('foveal'))}",
        "upgrade foveal",
    )
    if layout < FORMAT:
        facts = kind.upgraded(facts) | {"format": FORMAT}
    names = kind.renamed_config.get(str(facts.get("family")), {})
    facts = with_renamed_config(facts, names)
    if isinstance(facts.get("recipe"), dict):
        facts["recipe"] = with_renamed_config(facts["recipe"], names)
    known = {one.name: one for one in dataclasses.fields(kind)}
    required = {name for name, one in known.items() if one.default is one.default_factory is dataclasses.MISSING}
    required |= set(kind.written)
    own = known["task"].default
    same = own is dataclasses.MISSING or facts.get("task", own) == own
    expect(same, where, f"a model for the task {own}", f"one for {short_repr(facts.get('task'))}")
    missing = sorted(required - set(facts))
    expect(not missing, where, f"a card with {', '.join(sorted(required))}", f"one without {', '.join(missing)}")
    lists = {key: tuple(facts[key]) for key in kind.tuples if isinstance(facts.get(key), list)}
    fields: dict[str, Any] = {key: value for key, value in (facts | lists).items() if key in known}
    card = kind(**fields)
    card.check(where)
    return card


def with_renamed_config(facts: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """A card or a recipe, the fields of its config by the names that they have now."""
    config = facts.get("config")
    if not isinstance(config, dict):
        return facts
    return facts | {"config": {names.get(key, key): value for key, value in config.items()}}


def _numbers(value: object, count: int) -> bool:
    return (
        isinstance(value, tuple) and len(value) == count and all(is_number(one) and math.isfinite(one) for one in value)
    )


def _last_part(path: str) -> str:
    return path.replace("\\", "/").rstrip("/").rpartition("/")[2]


def _version(text: object) -> tuple[int, ...]:
    return tuple(int(part[:9]) for part in str(text).split(".")[:3] if part.isdecimal())  # isdigit would let ² pass
