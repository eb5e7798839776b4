"""Scores as tables."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from foveal.errors import counted
from foveal.report.table import UNDEFINED, Table
from foveal.tasks.classify.scores import Figure, Reliability, Scores

WIDEST = 30  # classes of a confusion matrix that still fits on a page
PAIRS = 20  # beyond that: the most frequent confusions

Facts = Mapping[str, Any]


def percent(share: float, places: int = 2) -> str:
    return f"{100 * share:.{places}f}" if math.isfinite(share) else UNDEFINED


def with_interval(figure: Figure) -> str:
    """88.20 (84.10–91.50)."""
    if not (math.isfinite(figure.low) and math.isfinite(figure.high)):
        return percent(figure.value)
    return f"{percent(figure.value)} ({percent(figure.low)}–{percent(figure.high)})"


def figures(scores: Scores) -> Table:
    return Table(["figure", "%"], [[name, with_interval(figure)] for name, figure in scores.figures.items()])


def classes(scores: Scores) -> Table:
    names = list(scores.classes[0].figures)
    cut = any(one.threshold is not None for one in scores.classes)
    rows = [
        [
            one.name,
            str(one.images),
            *([threshold(one.threshold)] if cut else []),
            *(with_interval(one.figures[name]) for name in names),
        ]
        for one in scores.classes
    ]
    return Table(["class", "images", *(["threshold"] if cut else []), *(f"{name} %" for name in names)], rows)


def threshold(value: float | None) -> str:
    return UNDEFINED if value is None else f"{value:.4f}"


def confusion(scores: Scores) -> Table:
    """One label: true against predicted classes, or the most frequent confusions of very many classes.

    Several: the four counts.
    """
    if scores.confusion is None:
        rows = [[one.name, *map(str, one.counts)] for one in scores.classes]
        return Table(["class", "true positives", "false positives", "false negatives", "true negatives"], rows)
    names = [one.name for one in scores.classes]
    if len(names) > WIDEST:
        return Table(
            ["true", "predicted", "images"], [[names[i], names[j], str(n)] for n, i, j in pairs(scores)], words=2
        )
    rows = [[name, *map(str, row)] for name, row in zip(names, scores.confusion, strict=True)]
    return Table(["true ↓ predicted →", *names], rows)


def pairs(scores: Scores) -> list[tuple[int, int, int]]:
    """(images, true, predicted): the most frequent confusions."""
    cells = [(n, i, j) for i, row in enumerate(scores.confusion or ()) for j, n in enumerate(row) if i != j and n > 0]
    return sorted(cells, key=lambda cell: (-cell[0], cell[1], cell[2]))[:PAIRS]


def calibration(scores: Scores) -> Table:
    def row(name: str, side: Reliability) -> list[str]:
        return [name, percent(side.error), f"{side.loss:.4f}"]

    after = scores.calibration.after
    rows = [row("as trained", scores.calibration.before)]
    if after is not None and scores.calibration.temperature is not None:
        rows.append(row(f"temperature {scores.calibration.temperature:.3f}", after))
    return Table(["probabilities", "ECE %", "negative log-likelihood"], rows)


def mistakes(scores: Scores) -> Table:
    """With several labels, one column more names which of them is at fault."""
    rows = []
    for one in scores.mistakes:
        fault = [f"{one.about} {'missed' if one.missed else 'wrongly predicted'}"] if scores.multi_label else []
        rows.append([one.file, named(one.truth), named(one.predicted), *fault, percent(one.confidence, 1)])
    fault = ["at fault"] if scores.multi_label else []
    return Table(["file", "true", "predicted", *fault, "confidence, %"], rows, words=3 + len(fault))


def named(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "none"


def summary(scores: Scores) -> str:
    kind = "several labels per image" if scores.multi_label else "one label per image"
    images, classes = counted(scores.images, "image"), counted(len(scores.classes), "class", "classes")
    return f"{images} of the split {scores.split}, {classes}, {kind}."


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


def tables(scores: Scores) -> list[Table]:
    """All of a report, the figures first."""
    named = [
        ("Figures", figures(scores)),
        ("Classes", classes(scores)),
        ("Confusion" if scores.confusion else "Counts", confusion(scores)),
        ("Calibration", calibration(scores)),
        *([(f"Worst mistakes, {len(scores.mistakes)} of {scores.wrong}", mistakes(scores))] if scores.mistakes else []),
    ]
    return [replace(table, title=title) for title, table in named]


def caption(scores: Scores) -> str:
    return f"{summary(scores)} Decision: {scores.decision}. Intervals: {scores.interval}."


def figure_rows(scores: Scores) -> Table:
    """One row per figure; shares in [0, 1] with all their digits, empty where undefined.

    `class` is empty for figures of the whole.
    """
    rows = [
        ["", name, *map(_digits, (one.value, one.low, one.high)), str(scores.images)]
        for name, one in scores.figures.items()
    ]
    for one in scores.classes:
        rows += [
            [one.name, name, *map(_digits, (f.value, f.low, f.high)), str(one.images)]
            for name, f in one.figures.items()
        ]
    return Table(["class", "figure", "value", "low", "high", "images"], rows)


def _digits(value: float) -> str:
    return repr(value) if math.isfinite(value) else UNDEFINED
