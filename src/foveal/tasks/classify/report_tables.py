"""A verdict as tables: for Markdown, CSV and LaTeX."""

import math
from collections.abc import Mapping
from typing import Any

from foveal.report.table import Table, in_latex, in_markdown
from foveal.tasks.classify.evaluation import Evaluation, Figure, Reliability

UNKNOWN = "–"  # undefined, or not asked for
WIDEST = 30  # classes of a confusion matrix that still fits on a page
PAIRS = 20  # beyond that: the most frequent confusions

Facts = Mapping[str, Any]


def percent(share: float, places: int = 2) -> str:
    return f"{100 * share:.{places}f}" if math.isfinite(share) else UNKNOWN


def with_interval(figure: Figure) -> str:
    """88.20 (84.10–91.50)."""
    if not (math.isfinite(figure.low) and math.isfinite(figure.high)):
        return percent(figure.value)
    return f"{percent(figure.value)} ({percent(figure.low)}–{percent(figure.high)})"


def figures(verdict: Evaluation) -> Table:
    return Table(["figure", "%"], [[name, with_interval(figure)] for name, figure in verdict.figures.items()])


def classes(verdict: Evaluation) -> Table:
    names = list(verdict.classes[0].figures)
    cut = any(one.threshold is not None for one in verdict.classes)
    rows = [
        [one.name, str(one.images), *([threshold(one.threshold)] if cut else []), *(with_interval(one.figures[name]) for name in names)]
        for one in verdict.classes
    ]
    return Table(["class", "images", *(["threshold"] if cut else []), *(f"{name} %" for name in names)], rows)


def threshold(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.4f}"


def confusion(verdict: Evaluation) -> Table:
    """One label: what it is against what was said, or the most frequent confusions of very many classes. Many: the four counts."""
    if verdict.confusion is None:
        rows = [[one.name, *map(str, one.counts)] for one in verdict.classes]
        return Table(["class", "found", "wrongly given", "missed", "rightly not given"], rows)
    names = [one.name for one in verdict.classes]
    if len(names) > WIDEST:
        return Table(["is", "taken for", "images"], [[names[i], names[j], str(n)] for n, i, j in pairs(verdict)], words=2)
    rows = [[name, *map(str, row)] for name, row in zip(names, verdict.confusion, strict=True)]
    return Table(["is ↓ said →", *names], rows)


def pairs(verdict: Evaluation) -> list[tuple[int, int, int]]:
    """(images, is, taken for): the most frequent confusions."""
    cells = [(n, i, j) for i, row in enumerate(verdict.confusion or ()) for j, n in enumerate(row) if i != j and n > 0]
    return sorted(cells, key=lambda cell: (-cell[0], cell[1], cell[2]))[:PAIRS]


def calibration(verdict: Evaluation) -> Table:
    def row(name: str, side: Reliability) -> list[str]:
        return [name, percent(side.error), f"{side.loss:.4f}"]

    after = verdict.calibration.after
    rows = [row("as trained", verdict.calibration.before)]
    if after is not None and verdict.calibration.temperature is not None:
        rows.append(row(f"temperature {verdict.calibration.temperature:.3f}", after))
    return Table(["probabilities", "ECE %", "negative log-likelihood"], rows)


def mistakes(verdict: Evaluation) -> Table:
    """With several labels one column more says which of them is at fault."""
    rows = []
    for one in verdict.mistakes:
        fault = [f"{one.about} {'missed' if one.missed else 'wrongly given'}"] if verdict.multi_label else []
        rows.append([one.file, named(one.truth), named(one.said), *fault, percent(one.confidence, 1)])
    fault = ["at fault"] if verdict.multi_label else []
    return Table(["file", "is", "said", *fault, "sure of it, %"], rows, words=3 + len(fault))


def named(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "none"


def summary(verdict: Evaluation) -> str:
    kind = "any number of labels an image" if verdict.multi_label else "one label per image"
    images = "1 image" if verdict.images == 1 else f"{verdict.images:,} images"
    return f"{images} of the split {verdict.split}, {len(verdict.classes)} classes, {kind}."


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


def markdown(verdict: Evaluation, title: str, facts: Facts) -> str:
    parts = [f"# {in_markdown(title)}\n", f"{in_markdown(summary(verdict))}\n"]
    parts += [f"Decision: {in_markdown(verdict.decision)}.  \nIntervals: {in_markdown(verdict.interval)}.\n"]
    for heading, grid in (
        ("Figures", figures(verdict)),
        ("Classes", classes(verdict)),
        ("Confusion" if verdict.confusion else "Counts", confusion(verdict)),
        ("Calibration", calibration(verdict)),
    ):
        parts += [f"## {heading}\n", grid.markdown()]
    if verdict.mistakes:
        parts += [f"## Worst mistakes\n\n{len(verdict.mistakes)} of {verdict.wrong} images with a mistake.\n", mistakes(verdict).markdown()]
    if facts:
        parts += ["## Origin\n", Table(["what", "value"], flat(facts), words=2).markdown()]
    return "\n".join(parts)


def figures_csv(verdict: Evaluation) -> str:
    """One row a figure; shares in [0, 1] with all their digits, empty where undefined; `class` is empty for figures of the whole."""
    rows = [["", name, *map(_digits, (one.value, one.low, one.high)), str(verdict.images)] for name, one in verdict.figures.items()]
    for one in verdict.classes:
        rows += [[one.name, name, *map(_digits, (f.value, f.low, f.high)), str(one.images)] for name, f in one.figures.items()]
    return Table(["class", "figure", "value", "low", "high", "images"], rows).csv()


def _digits(value: float) -> str:
    return repr(value) if math.isfinite(value) else ""


def latex(verdict: Evaluation, title: str, facts: Facts) -> str:
    """Two tables for a paper, with where the figures come from in a comment above."""
    lines = [f"% {' '.join(f'{name}: {value}'.split())}" for name, value in flat(facts)]
    said = f"{title}. {summary(verdict)} Decision: {verdict.decision}. In brackets: {verdict.interval}."
    for grid, caption in ((figures(verdict), said), (classes(verdict), f"{title}, each class against all others.")):
        lines += ["", r"\begin{table}", r"\centering", rf"\caption{{{in_latex(caption)}}}", grid.latex().rstrip(), r"\end{table}"]
    return "\n".join(["% needs \\usepackage{booktabs}", *lines]) + "\n"
