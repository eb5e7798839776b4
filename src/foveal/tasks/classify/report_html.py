"""Scores as one HTML page that needs nothing beside it: style, curves and images are inside, and there is no script.

Whatever comes from outside (names of classes and files, facts, the title) goes through `escape`.
"""

import base64
import io
import math
from collections.abc import Callable, Mapping
from html import escape
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from foveal.errors import FovealError, expect
from foveal.report.table import UNDEFINED
from foveal.tasks.classify import report_curves as curve
from foveal.tasks.classify import report_tables as table
from foveal.tasks.classify.report_tables import Facts, percent
from foveal.tasks.classify.scores import Class, Figure, Mistake, Scores

Images = Callable[[int], NDArray[np.uint8]]
SHOT = 224  # the longest side of an image, in pixels
LARGE = 4  # up to as many classes get large plots, and all of them at once
DENSE = 6  # from as many classes on, a confusion matrix is set tight
PLOTS = 60  # no page needs more classes drawn


def page(scores: Scores, title: str, facts: Facts, images: Images | None) -> str:
    style = files("foveal.tasks.classify").joinpath("style.css").read_text(encoding="utf-8")
    sections = [
        _head(scores, title),
        _classes(scores),
        _confusion(scores) if scores.confusion else _counts(scores),
        _curves(scores),
        _calibration(scores),
        _mistakes(scores, images),
        _facts(facts),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n"
        f"</head>\n<body>\n{''.join(sections)}</body>\n</html>\n"
    )


def _head(scores: Scores, title: str) -> str:
    tiles = "".join(_tile(name, figure) for name, figure in scores.figures.items())
    return (
        f"<header>\n<h1>{escape(title)}</h1>\n<p>{escape(table.summary(scores))}</p>\n"
        f'<p class="soft">Decision: {escape(scores.decision)}.<br>Intervals: '
        f"{escape(scores.interval)}.</p>\n</header>\n"
        f'<ul class="tiles">\n{tiles}</ul>\n'
    )


def _tile(name: str, figure: Figure) -> str:
    unit = "<i>%</i>" if math.isfinite(figure.value) else ""
    return (
        f'<li><span class="name">{escape(name)}{" · less is better" if name == "ECE" else ""}</span><span '
        f'class="value">{percent(figure.value)}{unit}</span>'
        f"{_range(figure)}<small>{_between(figure) or '&nbsp;'}</small></li>\n"
    )


def _range(figure: Figure) -> str:
    """A ruler from 0 to 1 with the interval and the value on it."""
    if not math.isfinite(figure.value):
        return '<span class="range"></span>'
    band = ""
    if _between(figure):
        band = f'<b style="left:{100 * figure.low:.2f}%;width:{100 * (figure.high - figure.low):.2f}%"></b>'
    return f'<span class="range">{band}<u style="left:{100 * figure.value:.2f}%"></u></span>'


def _between(figure: Figure) -> str:
    known = math.isfinite(figure.low) and math.isfinite(figure.high)
    return f"{percent(figure.low, 1)} – {percent(figure.high, 1)}" if known else ""


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
        + "".join(_share(one.figures[name]) for name in names)
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


def _share(figure: Figure) -> str:
    to = 100 * figure.value if math.isfinite(figure.value) else 0.0
    return f'<td class="share" style="--to:{to:.1f}%">{percent(figure.value)}<small>{_between(figure)}</small></td>'


def _confusion(scores: Scores) -> str:
    names = [one.name for one in scores.classes]
    if len(names) > table.WIDEST:
        cells = "".join(
            f'<tr><td class="word">{escape(names[i])}</td><td class="word">{escape(names[j])}</td><td>{n:,}</td></tr>\n'
            for n, i, j in table.pairs(scores)
        )
        head = "<tr><th>true</th><th>predicted</th><th>images</th></tr>"
        body = f"<table><thead>{head}</thead>\n<tbody>\n{cells}</tbody></table>"
    else:
        head = "".join(f"<th>{escape(name)}</th>" for name in names)
        rows = "".join(_matrix_row(names[place], place, row) for place, row in enumerate(scores.confusion or ()))
        kind = "matrix dense" if len(names) >= DENSE else "matrix"
        head = f"<tr><th>true ↓ predicted →</th>{head}</tr>"
        body = f'<table class="{kind}"><thead>{head}</thead>\n<tbody>\n{rows}</tbody></table>'
    return (
        '<section>\n<h2>Confusion</h2>\n<p class="soft">One row per true class, one column per predicted class; the '
        "shade is the share "
        f'of the row.</p>\n<div class="wide snug">{body}</div>\n</section>\n'
    )


def _matrix_row(name: str, place: int, row: tuple[int, ...]) -> str:
    total = sum(row)
    cells = ""
    for column, count in enumerate(row):
        share = count / total if total else 0.0
        kind = ("right" if column == place else "wrong") if count else "none"
        shade = f"{kind} deep" if share >= 0.6 else kind
        cells += (
            f'<td class="{shade}" style="--much:{0.08 + 0.92 * share:.2f}">'
            f"{count:,}<small>{100 * share:.0f} %</small></td>"
        )
    return f"<tr><th>{escape(name)}</th>{cells}</tr>\n"


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
    except FovealError as error:  # the image is gone or broken: the report is not
        return f'<div class="blank">{escape(str(error))}</div>'
    fits = pixels.ndim == 3 and pixels.shape[2] == 3 and pixels.dtype == np.uint8 and pixels.size > 0
    expect(fits, f"the image of {one.file}", "(H, W, 3) uint8", f"{pixels.shape} {pixels.dtype}")
    image, content = Image.fromarray(pixels), io.BytesIO()
    image.thumbnail((SHOT, SHOT))
    image.save(content, "JPEG", quality=82)
    coded = base64.b64encode(content.getvalue()).decode()
    return (
        f'<img src="data:image/jpeg;base64,{coded}" width="{image.width}" height="{image.height}" '
        f'alt="{escape(one.file)}" loading="lazy">'
    )


def _facts(facts: Facts) -> str:
    if not facts:
        return ""
    loose = {key: value for key, value in facts.items() if not isinstance(value, Mapping)}
    groups = {key: value for key, value in facts.items() if isinstance(value, Mapping) and value}
    lists = _list(loose) if loose else ""
    lists += "".join(f"<h3>{escape(str(key))}</h3>\n{_list(value)}" for key, value in groups.items())
    return f"<section>\n<h2>Where these figures come from</h2>\n{lists}</section>\n"


def _list(facts: Facts) -> str:
    lines = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>\n" for name, value in table.flat(facts))
    return f"<dl>\n{lines}</dl>\n"
