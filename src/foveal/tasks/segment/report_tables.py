"""Scores of a segmenter as tables."""

from collections.abc import Callable
from dataclasses import replace

from foveal.errors import counted
from foveal.report.confusion import confusion_table
from foveal.report.figure import Figure, percent, pixels, with_interval
from foveal.report.figure import figure_rows as rows_of
from foveal.report.table import Table
from foveal.tasks.segment.scores import Scores, Size, Worst

FOUND_FROM = "side from which on most findings are found, pixels"
LISTED = 3  # findings of one image that are named
SHORT = ("IoU", "F1 within 2 px", "findings found")  # of a class, where there is little room


def units(scores: Scores) -> dict[str, Callable[[float], str]]:
    """How figures are written, by their names with their units."""
    return {f"{name}, %": percent for name in scores.figures} | {FOUND_FROM: pixels}


def all_figures(scores: Scores) -> dict[str, Figure]:
    """By their names with their units."""
    return {f"{name}, %": one for name, one in scores.figures.items()} | {FOUND_FROM: scores.found_from}


def figures(scores: Scores) -> Table:
    written = units(scores)
    rows = [[name, with_interval(one, written[name])] for name, one in all_figures(scores).items()]
    return Table(["figure", "value"], rows)


def classes(scores: Scores, names: tuple[str, ...] | None = None) -> Table:
    """names: of the figures; None: all."""
    names = names or tuple(scores.classes[0].figures)
    rows = [
        [one.name, str(one.images), str(one.findings), *(with_interval(one.figures[name]) for name in names)]
        for one in scores.classes
    ]
    return Table(["class", "images", "findings", *(f"{name}, %" for name in names)], rows)


def sizes(scores: Scores) -> Table:
    rows = [
        [range_of(one), str(one.findings), share(one.half, one.findings), share(one.tenth, one.findings)]
        for one in scores.sizes
    ]
    return Table(["side, pixels", "findings", "found by half, %", "found by a tenth, %"], rows)


def range_of(size: Size) -> str:
    if size.stop is None:
        return f"≥ {size.start}"
    return f"{size.start}–{size.stop}" if size.start else f"< {size.stop}"


def share(part: int, whole: int) -> str:
    return percent(part / whole if whole else float("nan"), 1)


def worst(scores: Scores) -> Table:
    rows = [[one.file, missed(one), extra(one), percent(one.iou), percent(one.wrong)] for one in scores.worst]
    return Table(["file", "missed", "wrongly found", "IoU, %", "wrong pixels, %"], rows, words=3)


def missed(one: Worst) -> str:
    return _listed([f"{name} ({side:.0f} px)" for name, side in one.missed])


def extra(one: Worst) -> str:
    return _listed([f"{name} ({counted(count, 'pixel')})" for name, count in one.extra])


def _listed(words: list[str]) -> str:
    return ", ".join(words[:LISTED] + [f"{len(words) - LISTED} more"] * (len(words) > LISTED)) or "nothing"


def summary(scores: Scores) -> str:
    images, kinds = counted(scores.images, "image"), counted(len(scores.classes), "class", "classes")
    return f"{images} of the split {scores.split}, {scores.with_findings} with findings, {kinds} beside the background."


def tables(scores: Scores) -> list[Table]:
    """All of a report, the figures first."""
    named = [
        ("Figures", figures(scores)),
        ("Classes", classes(scores)),
        ("Confusion of pixels", confusion_table(scores.names, scores.confusion, "pixels")),
        *([("Findings by size", sizes(scores))] if scores.sizes else []),
        *([(f"Worst images, {len(scores.worst)} of {scores.imperfect}", worst(scores))] if scores.worst else []),
    ]
    return [replace(table, title=title) for title, table in named]


def caption(scores: Scores) -> str:
    return f"{summary(scores)} Intervals: {scores.interval}."


def figure_rows(scores: Scores) -> Table:
    whole = scores.figures | {FOUND_FROM: scores.found_from}
    return rows_of(whole, [(one.name, one.images, one.figures) for one in scores.classes], scores.images)
