"""A verdict as one HTML page that needs nothing beside it: style, curves and images are inside, and there is no script.

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
from foveal.tasks.classify import report_curves as curve
from foveal.tasks.classify import report_tables as table
from foveal.tasks.classify.evaluation import Class, Evaluation, Figure, Mistake
from foveal.tasks.classify.report_tables import Facts, percent

Images = Callable[[int], NDArray[np.uint8]]
SHOT = 224  # the longest side of an image, in pixels
LARGE = 4  # up to as many classes get large plots, and all of them at once
DENSE = 6  # from as many classes on, a confusion matrix is set tight
PLOTS = 60  # no page needs more classes drawn


def page(verdict: Evaluation, title: str, facts: Facts, images: Images | None) -> str:
    style = files("foveal.tasks.classify").joinpath("style.css").read_text(encoding="utf-8")
    sections = [
        _head(verdict, title),
        _classes(verdict),
        _confusion(verdict) if verdict.confusion else _counts(verdict),
        _curves(verdict),
        _calibration(verdict),
        _mistakes(verdict, images),
        _facts(facts),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n{''.join(sections)}</body>\n</html>\n"
    )


def _head(verdict: Evaluation, title: str) -> str:
    tiles = "".join(_tile(name, figure) for name, figure in verdict.figures.items())
    return (
        f"<header>\n<h1>{escape(title)}</h1>\n<p>{escape(table.summary(verdict))}</p>\n"
        f'<p class="soft">Decision: {escape(verdict.decision)}.<br>Intervals: {escape(verdict.interval)}.</p>\n</header>\n'
        f'<ul class="tiles">\n{tiles}</ul>\n'
    )


def _tile(name: str, figure: Figure) -> str:
    unit = "<i>%</i>" if math.isfinite(figure.value) else ""
    return (
        f'<li><span class="name">{escape(name)}{" · less is better" if name == "ECE" else ""}</span><span class="value">{percent(figure.value)}{unit}</span>'
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


def _classes(verdict: Evaluation) -> str:
    names = list(verdict.classes[0].figures)
    cut = any(one.threshold is not None for one in verdict.classes)
    head = "".join(f"<th>{escape(name)}</th>" for name in ["images", *(["threshold"] if cut else []), *(f"{name}, %" for name in names)])
    rows = "".join(
        f"<tr><th>{escape(one.name)}</th><td>{one.images:,}</td>"
        + (f"<td>{table.threshold(one.threshold)}</td>" if cut else "")
        + "".join(_share(one.figures[name]) for name in names)
        + "</tr>\n"
        for one in verdict.classes
    )
    return (
        '<section>\n<h2>Classes</h2>\n<p class="soft">Each against all others. Precision: of those given, how many are right. '
        "Recall: of those there, how many were found. AP and AUC judge the ranking, whatever the threshold. "
        f"{table.UNKNOWN} is undefined: there was nothing to divide by.</p>\n"
        f'<div class="wide"><table><thead><tr><th>class</th>{head}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n</section>\n'
    )


def _share(figure: Figure) -> str:
    to = 100 * figure.value if math.isfinite(figure.value) else 0.0
    return f'<td class="share" style="--to:{to:.1f}%">{percent(figure.value)}<small>{_between(figure)}</small></td>'


def _confusion(verdict: Evaluation) -> str:
    names = [one.name for one in verdict.classes]
    if len(names) > table.WIDEST:
        cells = "".join(
            f'<tr><td class="word">{escape(names[i])}</td><td class="word">{escape(names[j])}</td><td>{n:,}</td></tr>\n'
            for n, i, j in table.pairs(verdict)
        )
        body = f"<table><thead><tr><th>is</th><th>taken for</th><th>images</th></tr></thead>\n<tbody>\n{cells}</tbody></table>"
    else:
        head = "".join(f"<th>{escape(name)}</th>" for name in names)
        rows = "".join(_matrix_row(names[place], place, row) for place, row in enumerate(verdict.confusion or ()))
        kind = "matrix dense" if len(names) >= DENSE else "matrix"
        body = f'<table class="{kind}"><thead><tr><th>is ↓ said →</th>{head}</tr></thead>\n<tbody>\n{rows}</tbody></table>'
    return (
        '<section>\n<h2>Confusion</h2>\n<p class="soft">A row for what the image is, a column for what was said; the shade is the share '
        f'of the row.</p>\n<div class="wide snug">{body}</div>\n</section>\n'
    )


def _matrix_row(name: str, place: int, row: tuple[int, ...]) -> str:
    total = sum(row)
    cells = ""
    for column, count in enumerate(row):
        share = count / total if total else 0.0
        kind = ("right" if column == place else "wrong") if count else "none"
        shade = f"{kind} deep" if share >= 0.6 else kind
        cells += f'<td class="{shade}" style="--much:{0.08 + 0.92 * share:.2f}">{count:,}<small>{100 * share:.0f} %</small></td>'
    return f"<tr><th>{escape(name)}</th>{cells}</tr>\n"


def _counts(verdict: Evaluation) -> str:
    rows = "".join(_count_row(one) for one in verdict.classes)
    return (
        "<section>\n<h2>Counts</h2>\n"
        '<p class="keys"><span class="key found"></span>found<span class="key missed"></span>missed<span class="key given"></span>'
        "wrongly given</p>\n"
        '<div class="wide"><table><thead><tr><th>class</th><th></th><th>found</th><th>missed</th><th>wrongly given</th>'
        f"<th>rightly not given</th></tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n</section>\n"
    )


def _count_row(one: Class) -> str:
    hit, false, missed, passed = one.counts
    parts = "".join(f'<i class="{kind}" style="flex-grow:{n}"></i>' for kind, n in (("found", hit), ("missed", missed), ("given", false)))
    return (
        f'<tr><th>{escape(one.name)}</th><td><div class="stack">{parts}</div></td><td>{hit:,}</td><td>{missed:,}</td><td>{false:,}</td>'
        f"<td>{passed:,}</td></tr>\n"
    )


def _curves(verdict: Evaluation) -> str:
    drawn = [one for one in verdict.classes if one.recall][:PLOTS]
    small = len(drawn) > LARGE
    few = "" if len(drawn) == len(verdict.classes) else f" Drawn are {len(drawn)} of {len(verdict.classes)} classes."
    one_is_enough = len(verdict.classes) == 2 and not verdict.multi_label  # the other ROC curve is its mirror image
    sides = [one for one in (verdict.classes[1:] if one_is_enough else drawn) if one.false_rate][:PLOTS]
    precision = [(curve.precision_recall(one, verdict.images), one, "AP") for one in drawn]
    roc = [(curve.roc(one), one, "AUC") for one in sides]
    plots = _plots(precision, small) + f"<details><summary>ROC curves</summary>{_plots(roc, small)}</details>\n" if small else ""
    return (
        '<section>\n<h2>Curves</h2>\n<p class="soft">Precision against recall as the threshold falls, the area under it is AP; and the ROC '
        "curve, the area under it is AUC. The dashed line is what guessing gets, the dot is where the decision stands."
        f"{few}</p>\n{plots or _plots(precision + roc, small)}</section>\n"
    )


def _plots(plots: list[tuple[str, Class, str]], small: bool) -> str:
    figures = "".join(
        f"<figure>{svg}<figcaption><b>{escape(one.name)}</b> · {name} {percent(one.figures[name].value, 1)} %</figcaption></figure>\n"
        for svg, one, name in plots
    )
    return f'<div class="plots{" small" if small else ""}">\n{figures}</div>\n'


def _calibration(verdict: Evaluation) -> str:
    grid, after = table.calibration(verdict), verdict.calibration.after
    head = "".join(f"<th>{escape(name)}</th>" for name in grid.head)
    rows = "".join(
        f'<tr><td class="word">{escape(row[0])}</td>{"".join(f"<td>{escape(cell)}</td>" for cell in row[1:])}</tr>\n' for row in grid.rows
    )
    keys = '<span class="key before"></span>as trained' + ('<span class="key after"></span>with the temperature' if after else "")
    said = "The temperature, by which the logits are divided, was fitted on the validation images. No figure above uses it."
    if after is None:
        said = "No temperature was fitted: there were no validation images."
    return (
        '<section>\n<h2>Calibration</h2>\n<p class="soft">Of the answers given with confidence 0.8, are 80 % right? On the diagonal, yes; '
        f"below it the model is too sure of itself. Bars: how many answers are that confident.</p>\n"
        f'<div class="beside"><figure>{curve.reliability(verdict.calibration)}<figcaption class="keys">{keys}</figcaption></figure>\n'
        f'<div><div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>'
        f'<p class="soft">{said}</p></div></div>\n</section>\n'
    )


def _mistakes(verdict: Evaluation, images: Images | None) -> str:
    if not verdict.mistakes:
        return '<section>\n<h2>Worst mistakes</h2>\n<p class="soft">None: every answer is right.</p>\n</section>\n'
    shots = "".join(_shot(one, verdict.multi_label, images) for one in verdict.mistakes)
    return (
        f'<section>\n<h2>Worst mistakes</h2>\n<p class="soft">{_how_many(verdict)}; the most confident first.</p>\n'
        f'<div class="shots">\n{shots}</div>\n</section>\n'
    )


def _how_many(verdict: Evaluation) -> str:
    wrong = f"{verdict.wrong:,} of {verdict.images:,} images are wrong"
    return wrong if len(verdict.mistakes) == verdict.wrong else f"{wrong}; shown are {len(verdict.mistakes)}"


def _shot(one: Mistake, multi_label: bool, images: Images | None) -> str:
    about = f"{one.about} {'missed' if one.missed else 'wrongly given'}, " if multi_label else ""
    image = "" if images is None else _picture(one, images)
    return (
        f"<figure>{image}<figcaption><span>is <b>{escape(table.named(one.truth))}</b></span>"
        f"<span>said <b>{escape(table.named(one.said))}</b></span>"
        f'<span class="sure">{escape(about)}{percent(one.confidence, 1)}&nbsp;%&nbsp;sure</span><span>{escape(one.file)}</span></figcaption></figure>\n'
    )


def _picture(one: Mistake, images: Images) -> str:
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
        f'<img src="data:image/jpeg;base64,{coded}" width="{image.width}" height="{image.height}" alt="{escape(one.file)}" loading="lazy">'
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
