"""Curves as inline SVG: precision–recall, ROC and reliability. Colours come from the page's style, so they follow light and dark.

x in [0, 1] → LEFT … LEFT + SIDE,   y in [0, 1] → TOP + SIDE … TOP (up is more)
"""

import math
from collections.abc import Iterable, Sequence
from html import escape

from foveal.tasks.classify.evaluation import Calibration, Class, Reliability

LEFT, TOP, SIDE = 38.0, 8.0, 184.0
WIDTH, HEIGHT = LEFT + SIDE + 10, TOP + SIDE + 34
TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)

Point = tuple[float, float]


def precision_recall(one: Class, images: int) -> str:
    """The staircase whose area is AP; what guessing gets (the share of images that have the class); where the decision stands."""
    corners: list[Point] = []
    before = 0.0
    for recall, precision in zip(one.recall, one.precision, strict=True):
        corners += [(before, precision), (recall, precision)]
        before = recall
    guess = one.images / images if images else 0.0
    parts = [_line([(0, guess), (1, guess)], "guess")] if one.images else []
    parts += _filled(corners)
    recall, precision = one.figures["recall"].value, one.figures["precision"].value
    parts += _dot(recall, precision)
    return _plot(f"Precision against recall of {one.name}", "recall", "precision", parts)


def roc(one: Class) -> str:
    """The share of images found against the share wrongly given; guessing is the diagonal."""
    hit, false, missed, passed = one.counts
    parts = [_line([(0, 0), (1, 1)], "guess"), *_filled(list(zip(one.false_rate, one.true_rate, strict=True)))]
    if hit + missed and false + passed:
        parts += _dot(false / (false + passed), hit / (hit + missed))
    return _plot(f"ROC curve of {one.name}", "wrongly given", "found", parts)


def reliability(calibration: Calibration) -> str:
    """How often right against how confident, before and after the temperature; bars below show how many answers are that confident."""
    parts = [*_bars(calibration.before), _line([(0, 0), (1, 1)], "guess")]
    for side, kind in ((calibration.after, "after"), (calibration.before, "before")):
        if side is not None:
            points = [(x, y) for x, y in zip(side.confidence, side.right, strict=True) if math.isfinite(x) and math.isfinite(y)]
            parts.append(_line(points, kind))
            parts += [f'<circle class="{kind}" cx="{_x(x)}" cy="{_y(y)}" r="2.6"/>' for x, y in points]
    return _plot("How often right against how confident", "confidence", "right", parts)


def _bars(side: Reliability) -> Iterable[str]:
    most, wide = max(side.count) or 1.0, SIDE / len(side.count)
    for place, count in enumerate(side.count):
        tall = 0.25 * SIDE * count / most
        if count:
            yield (
                f'<rect class="amount" x="{LEFT + place * wide + 0.5:.1f}" y="{TOP + SIDE - tall:.1f}" width="{wide - 1:.1f}" '
                f'height="{tall:.1f}"><title>{count:,.0f} answers</title></rect>'
            )


def _filled(points: Sequence[Point]) -> list[str]:
    if not points:
        return []
    ground = [(points[0][0], 0.0), *points, (points[-1][0], 0.0)]
    return [f'<polygon class="area" points="{_points(ground)}"/>', _line(points, "curve")]


def _line(points: Sequence[Point], kind: str) -> str:
    return f'<polyline class="{kind}" points="{_points(points)}"/>'


def _dot(x: float, y: float) -> list[str]:
    """Where the decision stands, if it stands anywhere."""
    return [f'<circle class="here" cx="{_x(x)}" cy="{_y(y)}" r="4"/>'] if math.isfinite(x) and math.isfinite(y) else []


def _plot(title: str, across: str, up: str, parts: Iterable[str]) -> str:
    """The frame around: grid, ticks and what the axes mean."""
    lines = [f'<svg viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img" aria-label="{escape(title)}">']
    for tick in TICKS:
        kind = "edge" if tick == 0 else "tick"
        lines.append(_line([(0, tick), (1, tick)], kind) + _line([(tick, 0), (tick, 1)], kind))
    for tick in (0.0, 0.5, 1.0):
        lines.append(f'<text x="{_x(tick)}" y="{TOP + SIDE + 13:g}" text-anchor="middle">{tick:g}</text>')
        lines.append(f'<text x="{LEFT - 5:g}" y="{float(_y(tick)) + 3.5:g}" text-anchor="end">{tick:g}</text>')
    middle = TOP + SIDE / 2
    lines.append(f'<text x="{LEFT + SIDE / 2:g}" y="{HEIGHT - 5:g}" text-anchor="middle">{escape(across)}</text>')
    lines.append(f'<text x="10" y="{middle:g}" text-anchor="middle" transform="rotate(-90 10 {middle:g})">{escape(up)}</text>')
    return "".join([*lines, *parts, "</svg>"])


def _points(points: Iterable[Point]) -> str:
    return " ".join(f"{_x(x)},{_y(y)}" for x, y in points)


def _x(share: float) -> str:
    return f"{LEFT + SIDE * share:.1f}"


def _y(share: float) -> str:
    return f"{TOP + SIDE * (1 - share):.1f}"
