"""A figure with the ends of its interval: in words, as rows of a table, and as plain values for JSON.

88.20 (84.10–91.50)     a share, its interval from 84.10 to 91.50 %
"""

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foveal.errors import counted
from foveal.metrics.interval import Interval
from foveal.metrics.ranking import Array
from foveal.report.table import UNDEFINED, Table

Facts = Mapping[str, Any]


@dataclass(frozen=True)
class Figure:
    """A number, most often a share in [0, 1], with the ends of its interval; nan is undefined."""

    value: float
    low: float
    high: float

    @property
    def has_interval(self) -> bool:
        return math.isfinite(self.low) and math.isfinite(self.high)


def figure(value: Array, span: Interval | None, index: int | None = None) -> Figure:
    """What was measured, with the interval of the bootstrap; of arrays, what stands at this place."""
    ends = (np.nan, np.nan) if span is None else span
    low, high = (np.asarray(end) if index is None or span is None else np.asarray(end)[index] for end in ends)
    return Figure(float(value if index is None else value[index]), float(low), float(high))


def how(resamples: int, seed: int, groups: NDArray[np.integer] | None) -> str:
    """How intervals were made."""
    if not resamples:
        return "no intervals were asked for"
    units = "images" if groups is None else f"{counted(len(np.unique(groups)), 'group')} of images, each whole"
    return f"95 % percentile bootstrap over {units}, {resamples} resamples, seed {seed}"


def percent(share: float, places: int = 2) -> str:
    return f"{100 * share:.{places}f}" if math.isfinite(share) else UNDEFINED


def pixels(number: float) -> str:
    return f"{number:.1f}" if math.isfinite(number) else UNDEFINED


def with_interval(figure: Figure, written: Callable[[float], str] = percent) -> str:
    """88.20 (84.10–91.50)."""
    if not figure.has_interval:
        return written(figure.value)
    return f"{written(figure.value)} ({written(figure.low)}–{written(figure.high)})"


def figure_rows(
    figures: Mapping[str, Figure], classes: Iterable[tuple[str, int, Mapping[str, Figure]]], images: int
) -> Table:
    """One row per figure; shares in [0, 1] with all their digits, undefined where they are.

    classes: (name, images that have it, its figures). `class` is empty for figures of the whole.
    """
    rows = [["", name, *_digits(one), str(images)] for name, one in figures.items()]
    for label, count, own in classes:
        rows += [[label, name, *_digits(one), str(count)] for name, one in own.items()]
    return Table(["class", "figure", "value", "low", "high", "images"], rows)


def _digits(figure: Figure) -> list[str]:
    numbers = (figure.value, figure.low, figure.high)
    return [repr(number) if math.isfinite(number) else UNDEFINED for number in numbers]


def beside(
    names: Sequence[str],
    rows: Iterable[Sequence[str]],
    against: str,
    differences: Sequence[str],
    head: str = "figure, %",
) -> Table:
    """Models side by side: a column each, and at the end how far the others are from the first in what decides.

    rows: a figure's name, and what it is of each model. against: the name of the figure that decides.
    """
    last = [f"{against} against {names[0]}", UNDEFINED, *differences]
    return Table([head, *names], [*rows, last])


def difference_in_words(value: float, low: float, high: float) -> str:
    return f"{percent(value)} ({percent(low)} to {percent(high)})"


def flat(facts: Facts, above: str = "") -> list[tuple[str, str]]:
    """Facts within facts as lines: `data · name`."""
    lines: list[tuple[str, str]] = []
    for key, value in facts.items():
        name = f"{above} · {key}" if above else str(key)
        if isinstance(value, Mapping):
            lines += flat(value, name)
        elif isinstance(value, (list, tuple)):
            lines.append((name, ", ".join(map(str, value))))
        else:
            lines.append((name, str(value)))
    return lines


def plain(value: Any) -> Any:
    """Nothing but dicts, lists, words and numbers; nan becomes None."""
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def as_json(value: Any) -> str:
    return json.dumps(plain(value), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
