"""The curves of an evaluation: precision–recall, ROC and reliability.

Colours come from the page's style, so they follow light and dark.
"""

import math
from collections.abc import Iterable, Sequence
from html import escape

from foveal.report.plot import Frame, Point, unit_frame
from foveal.tasks.classify.scores import Calibration, Class, Reliability

TICKS, NUMBERED = (0.0, 0.25, 0.5, 0.75, 1.0), (0.0, 0.5, 1.0)
BARS = 0.25  # of the frame's height


def precision_recall(one: Class, images: int) -> str:
    """The staircase whose area is AP; what guessing gets (the share of images that have the class).

    Where the decision stands.
    """
    frame = unit_frame()
    corners: list[Point] = []
    before = 0.0
    for recall, precision in zip(one.recall, one.precision, strict=True):
        corners += [(before, precision), (recall, precision)]
        before = recall
    guess = one.images / images if images else 0.0
    parts = [_line(frame, [(0, guess), (1, guess)], "guess")] if one.images else []
    parts += _filled(frame, corners)
    parts += _dot(frame, (one.figures["recall"].value, one.figures["precision"].value))
    return _plot(frame, f"Precision against recall of {one.name}", "recall", "precision", parts)


def roc(one: Class) -> str:
    """The true positive rate against the false positive rate; guessing is the diagonal."""
    frame = unit_frame()
    hit, false, missed, passed = one.counts
    parts = [
        _line(frame, [(0, 0), (1, 1)], "guess"),
        *_filled(frame, list(zip(one.false_rate, one.true_rate, strict=True))),
    ]
    if hit + missed and false + passed:
        parts += _dot(frame, (false / (false + passed), hit / (hit + missed)))
    return _plot(frame, f"ROC curve of {one.name}", "false positive rate", "true positive rate", parts)


def reliability(calibration: Calibration) -> str:
    """How often right against how confident, before and after the temperature.

    Bars below show how many answers are that confident.
    """
    frame = unit_frame()
    parts = [*_bars(frame, calibration.before), _line(frame, [(0, 0), (1, 1)], "guess")]
    for side, kind in ((calibration.after, "after"), (calibration.before, "before")):
        if side is not None:
            points = [
                (x, y)
                for x, y in zip(side.confidence, side.right, strict=True)
                if math.isfinite(x) and math.isfinite(y)
            ]
            parts.append(_line(frame, points, kind))
            parts += [frame.dot(point, f'class="{kind}"', 2.6) for point in points]
    return _plot(frame, "How often right against how confident", "confidence", "right", parts)


def _bars(frame: Frame, side: Reliability) -> Iterable[str]:
    most, wide = max(side.count) or 1.0, 1 / len(side.count)
    for place, count in enumerate(side.count):
        if count:
            yield frame.bar(
                place * wide, (place + 1) * wide, BARS * count / most, 'class="amount"', f"{count:,.0f} answers"
            )


def _filled(frame: Frame, points: Sequence[Point]) -> list[str]:
    return [frame.area(points, 'class="area"'), _line(frame, points, "curve")] if points else []


def _line(frame: Frame, points: Sequence[Point], kind: str) -> str:
    return frame.line(points, f'class="{kind}"')


def _dot(frame: Frame, point: Point) -> list[str]:
    """Where the decision stands, if it stands anywhere."""
    return [frame.dot(point, 'class="here"', 4)] if all(map(math.isfinite, point)) else []


def _plot(frame: Frame, title: str, across: str, up: str, parts: Iterable[str]) -> str:
    """With its grid, ticks and what the axes mean."""
    grid = frame.grid(TICKS, TICKS, style=lambda tick: f'class="{"edge" if tick == 0 else "tick"}"')
    labels = frame.labels(NUMBERED, NUMBERED, (across, up))
    return frame.svg([*grid, *labels, *parts], f'role="img" aria-label="{escape(title)}"').replace("\n", "")
