"""Scores as one HTML page that needs nothing beside it (report/page.py): figures, classes, curves and mistakes."""

from collections.abc import Callable
from html import escape

import numpy as np
from numpy.typing import NDArray

from foveal.errors import FovealError
from foveal.report.confusion import confusion_section
from foveal.report.figure import Facts, percent
from foveal.report.page import blank, facts_section, head, picture, share_cell, tile, whole_page
from foveal.report.table import UNDEFINED
from foveal.tasks.classify import report_curves as curve
from foveal.tasks.classify import report_tables as table
from foveal.tasks.classify.scores import Class, Mistake, Scores

Images = Callable[[int], NDArray[np.uint8]]
LARGE = 4  # up to as many classes get large plots, and all of them at once
PLOTS = 60  # no page needs more classes drawn


def page(scores: Scores, title: str, facts: Facts, images: Images | None) -> str:
    lines = [f"Decision: {scores.decision}.", f"Intervals: {scores.interval}."]
    notes = {"ECE": " · less is better"}
    tiles = [tile(name, figure, notes.get(name, "")) for name, figure in scores.figures.items()]
    sections = [
        head(title, table.summary(scores), lines, tiles),
        _classes(scores),
        _confusion(scores) if scores.confusion else _counts(scores),
        _curves(scores),
        _calibration(scores),
        _mistakes(scores, images),
        facts_section(facts),
    ]
    return whole_page(title, sections)


def _classes(scores: Scores) -> str:
    names = list(scores.classes[0].figures)
    cut = any(one.threshold is not None for one in scores.classes)
    head = "".join(
        f"<th>{escape(name)}</th>"
        for name in ["images", *(["threshold"] if cut else []), *(f"{name}, %" for name in names)]
    )
    rows = "".join(
        f"<tr><th>{escape(one.name)}</th><td>{one.images:,}</td>"
        + (f"<td>{table.threshold(one.threshold)}</td>" if cut else "")
        + "".join(share_cell(one.figures[name]) for name in names)
        + "</tr>\n"
        for one in scores.classes
    )
    return (
        '<section>\n<h2>Classes</h2>\n<p class="soft">Each against all others. Precision: of those given, how many '
        "are right. "
        "Recall: of those there, how many were found. AP and AUC measure the ranking, whatever the threshold. "
        f"{UNDEFINED} is undefined: there was nothing to divide by.</p>\n"
        f'<div class="wide"><table><thead><tr><th>class</th>{head}</tr></thead>\n'
        f"<tbody>\n{rows}</tbody></table></div>\n</section>\n"
    )


def _confusion(scores: Scores) -> str:
    return confusion_section([one.name for one in scores.classes], scores.confusion or ())


def _counts(scores: Scores) -> str:
    rows = "".join(_count_row(one) for one in scores.classes)
    return (
        "<section>\n<h2>Counts</h2>\n"
        '<p class="keys"><span class="key found"></span>true positives<span class="key missed"></span>false '
        'negatives<span class="key given"></span>'
        "false positives</p>\n"
        '<div class="wide"><table><thead><tr><th>class</th><th></th><th>true positives</th><th>false '
        "negatives</th><th>false positives</th>"
        f"<th>true negatives</th></tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n</section>\n"
    )


def _count_row(one: Class) -> str:
    hit, false, missed, passed = one.counts
    parts = "".join(
        f'<i class="{kind}" style="flex-grow:{n}"></i>'
        for kind, n in (("found", hit), ("missed", missed), ("given", false))
    )
    return (
        f"<tr><th>{escape(one.name)}</th><td><div "
        f'class="stack">{parts}</div></td><td>{hit:,}</td><td>{missed:,}</td><td>{false:,}</td>'
        f"<td>{passed:,}</td></tr>\n"
    )


def _curves(scores: Scores) -> str:
    drawn = [one for one in scores.classes if one.recall][:PLOTS]
    small = len(drawn) > LARGE
    few = "" if len(drawn) == len(scores.classes) else f" Plotted are {len(drawn)} of {len(scores.classes)} classes."
    one_is_enough = len(scores.classes) == 2 and not scores.multi_label  # the other ROC curve is its mirror image
    sides = [one for one in (scores.classes[1:] if one_is_enough else drawn) if one.false_rate][:PLOTS]
    precision = [(curve.precision_recall(one, scores.images), one, "AP") for one in drawn]
    roc = [(curve.roc(one), one, "AUC") for one in sides]
    plots = (
        _plots(precision, small) + f"<details><summary>ROC curves</summary>{_plots(roc, small)}</details>\n"
        if small
        else ""
    )
    return (
        '<section>\n<h2>Curves</h2>\n<p class="soft">Precision against recall as the threshold falls, the area under '
        "it is AP; and the ROC "
        "curve, the area under it is AUC. The dashed line is what guessing gets, the dot is where the decision stands."
        f"{few}</p>\n{plots or _plots(precision + roc, small)}</section>\n"
    )


def _plots(plots: list[tuple[str, Class, str]], small: bool) -> str:
    figures = "".join(
        f"<figure>{svg}<figcaption><b>{escape(one.name)}</b> · {name} {percent(one.figures[name].value, 1)} "
        "%</figcaption></figure>\n"
        for svg, one, name in plots
    )
    return f'<div class="plots{" small" if small else ""}">\n{figures}</div>\n'


def _calibration(scores: Scores) -> str:
    grid, after = table.calibration(scores), scores.calibration.after
    head = "".join(f"<th>{escape(name)}</th>" for name in grid.head)
    rows = "".join(
        f'<tr><td class="word">{escape(row[0])}</td>{"".join(f"<td>{escape(cell)}</td>" for cell in row[1:])}</tr>\n'
        for row in grid.rows
    )
    keys = '<span class="key before"></span>as trained' + (
        '<span class="key after"></span>with the temperature' if after else ""
    )
    note = (
        "The temperature, by which the logits are divided, was fitted on the validation images. "
        "No figure above uses it."
    )
    if after is None:
        note = "No temperature was fitted: there were no validation images."
    return (
        '<section>\n<h2>Calibration</h2>\n<p class="soft">Of the answers given with confidence 0.8, are 80 % right? '
        "On the diagonal, yes; "
        f"below it the model is too sure of itself. Bars: how many answers are that confident.</p>\n"
        f'<div class="beside"><figure>{curve.reliability(scores.calibration)}<figcaption '
        f'class="keys">{keys}</figcaption></figure>\n'
        f'<div><div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>'
        f'<p class="soft">{note}</p></div></div>\n</section>\n'
    )


def _mistakes(scores: Scores, images: Images | None) -> str:
    if not scores.mistakes:
        return '<section>\n<h2>Worst mistakes</h2>\n<p class="soft">None: every answer is right.</p>\n</section>\n'
    shots = "".join(_shot(one, scores.multi_label, images) for one in scores.mistakes)
    return (
        f'<section>\n<h2>Worst mistakes</h2>\n<p class="soft">{_how_many(scores)}; the most confident first.</p>\n'
        f'<div class="shots">\n{shots}</div>\n</section>\n'
    )


def _how_many(scores: Scores) -> str:
    wrong = f"{scores.wrong:,} of {scores.images:,} images are wrong"
    return wrong if len(scores.mistakes) == scores.wrong else f"{wrong}; {len(scores.mistakes)} of them are below"


def _shot(one: Mistake, multi_label: bool, images: Images | None) -> str:
    about = f"{one.about} {'missed' if one.missed else 'wrongly predicted'}, " if multi_label else ""
    image = "" if images is None else _thumbnail(one, images)
    return (
        f"<figure>{image}<figcaption><span>true <b>{escape(table.named(one.truth))}</b></span>"
        f"<span>predicted <b>{escape(table.named(one.predicted))}</b></span>"
        f'<span class="sure">{escape(about)}{percent(one.confidence, 1)}&nbsp;%&nbsp;confident</span>'
        f"<span>{escape(one.file)}</span></figcaption></figure>\n"
    )


def _thumbnail(one: Mistake, images: Images) -> str:
    try:
        pixels = np.asarray(images(one.index))
    except FovealError as error:
        return blank(str(error))
    return picture(pixels, one.file)
