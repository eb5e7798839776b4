"""What a model file says of itself: task, labels, preprocessing, thresholds, where it comes from. JSON, so that reading it runs nothing."""

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any

from foveal import __version__
from foveal.errors import FovealError, expect

SEWER_MEAN, SEWER_STD = (0.523, 0.453, 0.345), (0.210, 0.199, 0.154)  # of Sewer-ML: pictures from inside of pipes


@dataclass(frozen=True)
class Card:
    model: str  # the name it was created by
    family: str  # which kind of config: "icam" or "peer"
    config: dict[str, Any]
    classes: tuple[str, ...]
    many: bool = False  # several classes may hold for one picture
    task: str = "classify"
    size: int = 224  # side of the pictures in pixels
    mean: tuple[float, ...] = SEWER_MEAN
    std: tuple[float, ...] = SEWER_STD
    threshold: tuple[float, ...] | None = None  # many: one for each class; two classes: one, on the second; None: 0.5, or the largest
    temperature: float = 1.0  # probabilities = softmax or sigmoid of logits / temperature
    data: dict[str, Any] = field(default_factory=dict)  # what it was trained on
    metrics: dict[str, Any] = field(default_factory=dict)
    recipe: dict[str, Any] = field(default_factory=dict)
    origin: dict[str, Any] = field(default_factory=dict)
    note: str = ""  # what it is good for, and what not
    foveal: str = __version__

    def text(self) -> str:
        return json.dumps(dataclasses.asdict(self), ensure_ascii=False)


def read_card(text: str, where: str) -> Card:
    """The card that is written in a file; `where` names the file in errors."""
    try:
        facts = json.loads(text)
    except ValueError:
        raise FovealError(f"{where}: expected a card of foveal's in JSON, got something else; the file is damaged") from None
    expect(isinstance(facts, dict), where, "a card of foveal's", type(facts).__name__)
    newer = _version(facts.get("foveal")) > _version(__version__)
    expect(not newer, where, f"a file of foveal {__version__} or before", f"one of {facts.get('foveal')}", "upgrade foveal")
    known = {one.name for one in dataclasses.fields(Card)}
    missing = {"model", "family", "config", "classes"} - set(facts)
    expect(not missing, where, "a card with model, family, config and classes", f"one without {', '.join(sorted(missing))}")
    facts = {key: _frozen(value) if key in ("classes", "mean", "std", "threshold") else value for key, value in facts.items() if key in known}
    card = Card(**facts)
    expect(card.task == "classify", where, "a model that classifies", f"one that does {card.task!r}")
    expect(bool(card.classes) and all(isinstance(name, str) for name in card.classes), where, "names of classes", card.classes)
    return card


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _version(text: object) -> tuple[int, ...]:
    return tuple(int(part) for part in str(text).split(".")[:3] if part.isdigit())
