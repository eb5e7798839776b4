"""Scores of a segmenter as one HTML page that needs nothing beside it (report/page.py): figures, classes, confusion of
pixels, findings by size, and the worst images.
"""

import math
from collections.abc import Callable
from html import escape

import numpy as np
from numpy.typing import NDArray

from foveal.data.label_maps import LabelMap
from foveal.errors import FovealError
from foveal.report.confusion import confusion_section
from foveal.report.figure import Facts, Figure, percent, pixels
from foveal.report.page import (
    SHOT,
    between,
    blank,
    facts_section,
    head,
    picture,
    plain_tile,
    share_cell,
    tile,
    whole_page,
)
from foveal.report.plot import Frame, axis
from foveal.report.table import UNDEFINED
from foveal.tasks.segment import report_tables as table
from foveal.tasks.segment.overlay import palette
from foveal.tasks.segment.scores import Class, Scores, Size, Worst
from foveal.tasks.segment.side_by_side import side_by_side

Shown = tuple[NDArray[np.uint8], LabelMap, LabelMap]  # the image (H, W, 3), its label map and the predicted one
Images = Callable[[int], Shown]
TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)
AREA = "area error"  # a figure that is no share of a whole
LEFT_OUT = "area bias"  # which the tables have, and the page no room for
SIDES = ("image", "truth", "predicted")
CELLS = " In a cell stands the share of the row in %, and below it the number of pixels."
LEAST = 0.0005  # share of a row that is written as a number
WIDE = 1.8  # times as wide as it is high


def page(scores: Scores, title: str, facts: Facts, images: Images | None) -> str:
    tiles = [tile(name, figure) for name, figure in scores.figures.items()] + [_found_from(scores.found_from)]
    sections = [
        head(title, table.summary(scores), [f"Intervals: {scores.interval}."], tiles),
        _classes(scores),
        confusion_section(scores.names, scores.confusion, "pixels", _share_first, CELLS),
        _sizes(scores),
        _worst(scores, images),
        facts_section(facts),
    ]
    return whole_page(title, sections)


def _found_from(figure: Figure) -> str:
    """The side from which on most findings are found."""
    known = math.isfinite(figure.value)
    between = f"{pixels(figure.low)} – {pixels(figure.high)}" if figure.has_interval else ""
    return plain_tile("found from a side of", pixels(figure.value), " px" if known else "", "", between)


def _classes(scores: Scores) -> str:
    names = [name for name in scores.classes[0].figures if name != LEFT_OUT]
    head = "".join(f"<th>{escape(name)}</th>" for name in ["images", "findings", *names])
    rows = "".join(_class(one) for one in scores.classes)
    return (
        '<section>\n<h2>Classes</h2>\n<p class="soft">Of pixels, each class against all others. Within 2 px: a pixel '
        "beside is right, too. clDice: how much of the lines in the middle is right; thin classes are those whose "
        "findings are mostly thin. Findings found: those of whose pixels at least half are. Area error: the pixels "
        "too many or too few of each image, as a share of the true ones. All in %. "
        f"{UNDEFINED} is undefined: there was nothing to divide by.</p>\n"
        f'<div class="wide"><table class="tight"><thead><tr><th>class</th>{head}</tr></thead>\n'
        f"<tbody>\n{rows}</tbody></table></div>\n</section>\n"
    )


def _class(one: Class) -> str:
    name = f"{escape(one.name)}{' <small>thin</small>' if one.thin else ''}"
    cells = "".join(_cell(name, figure) for name, figure in one.figures.items() if name != LEFT_OUT)
    return f"<tr><th>{name}</th><td>{one.images:,}</td><td>{one.findings:,}</td>{cells}</tr>\n"


def _cell(name: str, figure: Figure) -> str:
    if name == AREA:
        return f"<td>{percent(figure.value)}<small>{between(figure)}</small></td>"
    return share_cell(figure)


def _share_first(count: int, share: float) -> str:
    if not count:
        return "0"
    written = "&lt; 0.1" if share < LEAST else f"{100 * share:.1f}"
    return f"{written}<small>{short(count)}</small>"


def short(count: int) -> str:
    """12,345,678 as 12.3M."""
    for size, sign in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= 0.9995 * size:
            return f"{count / size:.3g}{sign}"
    return str(count)


def _sizes(scores: Scores) -> str:
    if not scores.sizes:
        return '<section>\n<h2>Findings by size</h2>\n<p class="soft">There are none.</p>\n</section>\n'
    grid = table.sizes(scores)
    head = "".join(f"<th>{escape(name)}</th>" for name in grid.head)
    rows = "".join(
        f'<tr><td class="word">{escape(row[0])}</td>{"".join(f"<td>{escape(cell)}</td>" for cell in row[1:])}</tr>\n'
        for row in grid.rows
    )
    keys = '<span class="key half"></span>at least half of its pixels<span class="key tenth"></span>at least a tenth'
    return (
        '<section>\n<h2>Findings by size</h2>\n<p class="soft">A finding is what hangs together in a label map of one '
        "class; its side is that of a square of the same area. How many of each size are found:</p>\n"
        f'<div class="beside"><figure>{by_size(scores)}<figcaption class="keys">{keys}</figcaption></figure>\n'
        f'<div><div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>'
        f'<p class="soft">{_from_words(scores.found_from)}</p></div></div>\n</section>\n'
    )


def _from_words(figure: Figure) -> str:
    if not math.isfinite(figure.value):
        return "Of no size most findings are found."
    between = f" ({pixels(figure.low)} – {pixels(figure.high)})" if figure.has_interval else ""
    return f"From a side of {pixels(figure.value)}{between} pixels on, most findings are found; below it, most are not."


def by_size(scores: Scores) -> str:
    """Bars: how many of the findings of each size are found, with their numbers."""
    count = len(scores.sizes)
    left, top, wide, high = 38.0, 18.0, 43.0 * max(count, 4), 190.0
    x, y = axis(0, count, left, left + wide), axis(0, 1, top + high, top)
    frame = Frame(left + wide + 10, top + high + 38, left, top, 10.0, 38.0, x, y)
    parts = frame.grid([], TICKS, style=lambda tick: f'class="{"edge" if tick == 0 else "tick"}"')
    parts.append(frame.line([(0, 0.5), (count, 0.5)], 'class="guess"'))
    for place, size in enumerate(scores.sizes):
        parts += _bars(frame, place, size)
        middle = x(place + 0.5)
        parts.append(
            f'<text x="{middle:.1f}" y="{top + high + 15:g}" text-anchor="middle">{escape(table.range_of(size))}</text>'
        )
    parts += frame.labels([], TICKS[::2], ("side of the finding, pixels", "found"))
    return frame.svg(parts, 'role="img" aria-label="Share of the findings that are found, by size"').replace("\n", "")


def _bars(frame: Frame, place: int, size: Size) -> list[str]:
    bars = []
    for kind, found in (("tenth", size.tenth), ("half", size.half)):
        if found:
            title = f"{found:,} of {size.findings:,} findings"
            bars.append(frame.bar(place + 0.12, place + 0.88, found / size.findings, f'class="{kind}"', title))
    top = max(size.half, size.tenth) / size.findings if size.findings else 0.0
    number = f"{size.half:,} of {size.findings:,}" if size.findings else "none"
    bars.append(f'<text x="{frame.x(place + 0.5):.1f}" y="{frame.y(top) - 4:.1f}" text-anchor="middle">{number}</text>')
    return bars


def _worst(scores: Scores, images: Images | None) -> str:
    if not scores.worst:
        return '<section>\n<h2>Worst images</h2>\n<p class="soft">None: every pixel is right.</p>\n</section>\n'
    keys = "".join(
        f'<span><span class="key" style="background:rgb({red},{green},{blue})"></span>{escape(one.name)}</span> '
        for one, (red, green, blue) in zip(scores.classes, palette()[1:].tolist(), strict=False)
    )
    shots = "".join(_shot(one, images) for one in scores.worst)
    many = f"{scores.imperfect:,} of {scores.images:,} images have a wrong pixel"
    below = "" if len(scores.worst) == scores.imperfect else f"; {len(scores.worst)} of them are below"
    return (
        f'<section>\n<h2>Worst images</h2>\n<p class="soft">{many}{below}; first those with the lowest IoU of all that '
        "is a finding or was taken for one, and of these the most wrong pixels. Missed are findings of whose pixels "
        f"less than half were found, in brackets their sides.</p>\n"
        f'<p class="keys">{keys}</p>\n<div class="triples">\n{shots}</div>\n</section>\n'
    )


def _shot(one: Worst, images: Images | None) -> str:
    shown = "" if images is None else _three(one, images)
    missed, extra = table.missed(one), table.extra(one)
    bad = ' class="sure"' if one.missed else ""
    return (
        f"<figure>{shown}<figcaption><span{bad}>missed {escape(missed)}</span>"
        f"<span>wrongly found {escape(extra)}</span>"
        f"<span>IoU {percent(one.iou, 1)}&nbsp;%, {percent(one.wrong, 2)}&nbsp;% of the pixels wrong</span>"
        f"<span>{escape(one.file)}</span></figcaption></figure>\n"
    )


def _three(one: Worst, images: Images) -> str:
    try:
        photo, truth, predicted = images(one.index)
    except FovealError as error:
        return blank(str(error))
    height, width = truth.shape
    wide = width > WIDE * height  # then one below the other
    side = 2 * SHOT if wide else SHOT
    shown = zip(SIDES, side_by_side(photo, (truth, predicted), side), strict=True)
    parts = "".join(
        f"<div>{picture(image, f'{one.file}: {what}', side)}<small>{what}</small></div>" for what, image in shown
    )
    return f'<div class="three{" stacked" if wide else ""}">{parts}</div>'
