"""Scores as tables."""

from dataclasses import replace

from foveal.errors import counted
from foveal.report.confusion import confusion_table
from foveal.report.figure import figure_rows as rows_of
from foveal.report.figure import percent, with_interval
from foveal.report.table import UNDEFINED, Table
from foveal.tasks.classify.scores import Reliability, Scores


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
    return confusion_table([one.name for one in scores.classes], scores.confusion)


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
    return rows_of(scores.figures, [(one.name, one.images, one.figures) for one in scores.classes], scores.images)
