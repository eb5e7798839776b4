"""What a model file says of itself: task, labels or vocabulary, preprocessing, thresholds, where it comes from. JSON, so that reading it runs nothing."""

import dataclasses
import json
import math
from dataclasses import dataclass, field
from typing import Any

from foveal import __version__
from foveal.errors import FovealError, expect, is_integer, is_number, short_repr

TASKS = {"classify": "classifies", "translate": "translates"}  # what a model may be for, and what it then does
SEWER_MEAN, SEWER_STD = (0.523, 0.453, 0.345), (0.210, 0.199, 0.154)  # of Sewer-ML: pictures from inside of pipes


@dataclass(frozen=True)
class Card:
    model: str  # the name it was created by
    family: str  # which kind of config: "icam", "peer", "transformer" or "seq2seq"
    config: dict[str, Any]
    classes: tuple[str, ...]  # none of a model that translates; many, size, mean, std, threshold and temperature say nothing there
    multi_label: bool = False  # several classes may hold for one picture
    task: str = "classify"  # or "translate"
    size: int = 224  # side of the pictures in pixels
    mean: tuple[float, ...] = SEWER_MEAN
    std: tuple[float, ...] = SEWER_STD
    threshold: tuple[float, ...] | None = None  # many: one for each class; two classes: one, on the second; None: 0.5, or the largest
    temperature: float = 1.0  # probabilities = softmax or sigmoid of logits / temperature
    vocabulary: str = ""  # of a model that translates: its tokenizer's own JSON, so that one file is all there is to give away
    data: dict[str, Any] = field(default_factory=dict)  # what it was trained on
    metrics: dict[str, Any] = field(default_factory=dict)
    recipe: dict[str, Any] = field(default_factory=dict)
    origin: dict[str, Any] = field(default_factory=dict)
    note: str = ""  # what it is good for, and what not
    shapes: dict[str, list[int]] = field(default_factory=dict)  # of the tensors that pruning made smaller than the config says
    foveal: str = __version__

    def text(self) -> str:
        return json.dumps(dataclasses.asdict(self), ensure_ascii=False)


def read_card(text: str, where: str, task: str = "classify") -> Card:
    """The card that is written in a file, of a model for this task; `where` names the file in errors."""
    expect(task in TASKS, "the task", f"one of {', '.join(TASKS)}", short_repr(task))
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError):
        raise FovealError(f"{where}: expected a card of foveal's in JSON, got something else; the file is damaged") from None
    expect(isinstance(facts, dict), where, "a card of foveal's", type(facts).__name__)
    newer = _version(facts.get("foveal")) > _version(__version__)
    expect(not newer, where, f"a file of foveal {__version__} or before", f"one of {short_repr(facts.get('foveal'))}", "upgrade foveal")
    known = {one.name for one in dataclasses.fields(Card)}
    missing = {"model", "family", "config", "classes"} - set(facts)
    expect(not missing, where, "a card with model, family, config and classes", f"one without {', '.join(sorted(missing))}")
    facts = {
        key: _frozen(value) if key in ("classes", "mean", "std", "threshold") else value for key, value in facts.items() if key in known
    }
    card = Card(**facts)
    expect(card.task == task, where, f"a model that {TASKS[task]}", f"one that does {short_repr(card.task)}")
    _check(card, where)
    if task == "classify":
        _check_classes(card, where)
    else:
        expect(card.classes == (), where, "no classes of a model that translates", short_repr(card.classes))
    return card


def _check(card: Card, where: str) -> None:
    """Raise a FovealError unless every field is what its user expects: a file may come from anybody."""
    for name in ("model", "family", "note", "vocabulary"):
        value = getattr(card, name)
        expect(isinstance(value, str), where, f"a card whose {name} is text", short_repr(value))
    for name in ("config", "data", "metrics", "recipe", "origin", "shapes"):
        value = getattr(card, name)
        expect(isinstance(value, dict), where, f"a card whose {name} has names and values", short_repr(value))
    for name, shape in card.shapes.items():
        sizes = isinstance(shape, list) and all(is_integer(size) and size > 0 for size in shape)
        expect(sizes, where, f"a shape of {short_repr(name)} in whole numbers above 0", short_repr(shape))
    for name in ("data", "label", "by"):
        value = card.recipe.get(name)
        expect(value is None or isinstance(value, str), where, f"a recipe whose {name} is text", short_repr(value))
    fold = card.recipe.get("fold")
    expect(fold is None or (is_integer(fold) and fold >= 0), where, "a recipe whose fold is a number", short_repr(fold))
    blank = card.recipe.get("blank", [])
    boxes = isinstance(blank, list) and all(isinstance(box, list) and _numbers(tuple(box), 4) for box in blank)
    expect(boxes, where, "a recipe whose blank is a list of boxes", short_repr(blank))


def _check_classes(card: Card, where: str) -> None:
    """The same for what only a classifier of pictures has."""
    named = isinstance(card.classes, tuple) and bool(card.classes) and all(isinstance(name, str) for name in card.classes)
    expect(named, where, "names of classes", short_repr(card.classes))
    count = len(card.classes)
    expect(card.config.get("classes", count) == count, where, f"{short_repr(card.config.get('classes'))} names of classes", count)
    expect(isinstance(card.multi_label, bool), where, "a card whose many is true or false", short_repr(card.multi_label))
    expect(is_integer(card.size) and card.size > 0, where, "a size in pixels", short_repr(card.size))
    expect(_numbers(card.mean, 3), where, "a mean of three numbers", short_repr(card.mean))
    expect(_numbers(card.std, 3) and min(card.std) > 0, where, "a std of three numbers above 0", short_repr(card.std))
    expect(is_number(card.temperature) and 0 < card.temperature < math.inf, where, "a temperature above 0", short_repr(card.temperature))
    if card.threshold is not None:
        wanted = count if card.multi_label else 1
        fits = _numbers(card.threshold, wanted) and (card.multi_label or count == 2)
        expect(
            fits, where, f"{wanted} thresholds" if card.multi_label else "a threshold of two classes, or none", short_repr(card.threshold)
        )


def _numbers(value: object, count: int) -> bool:
    return isinstance(value, tuple) and len(value) == count and all(is_number(one) and math.isfinite(one) for one in value)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _version(text: object) -> tuple[int, ...]:
    return tuple(int(part[:9]) for part in str(text).split(".")[:3] if part.isdecimal())  # isdigit would let ² pass
