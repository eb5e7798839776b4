"""Curves as SVG: one frame with axes, and lines, areas, dots and bars in it.

    x in [a, b] → LEFT … RIGHT,   y in [c, d] → BOTTOM … TOP (up is more);   an axis is linear, or logarithmic

What is drawn has a style: a class of the page's own style sheet, or attributes such as stroke and fill.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 760.0, 420.0, 64.0, 20.0, 190.0, 44.0
COLOURS = ("#b2182b", "#2166ac", "#1b7837", "#762a83", "#8c510a", "#35978f", "#4d4d4d")
NEAR = 14.0  # pixels between two names

Point = tuple[float, float]
Axis = Callable[[float], float]  # value → pixels


@dataclass(frozen=True)
class Frame:
    """A plot's size in pixels, the room around it, and its two axes."""

    width: float
    height: float
    left: float
    top: float
    right: float
    bottom: float
    x: Axis
    y: Axis

    def line(self, points: Iterable[Point], style: str) -> str:
        return f'<polyline {style} points="{self._points(points)}"/>'

    def area(self, points: Sequence[Point], style: str) -> str:
        """From the points down to 0."""
        return f'<polygon {style} points="{self._points([(points[0][0], 0.0), *points, (points[-1][0], 0.0)])}"/>'

    def dot(self, point: Point, style: str, radius: float) -> str:
        return f'<circle {style} cx="{self.x(point[0]):.1f}" cy="{self.y(point[1]):.1f}" r="{radius:g}"/>'

    def bar(self, start: float, end: float, high: float, style: str, title: str) -> str:
        left, right, top = self.x(start) + 0.5, self.x(end) - 0.5, self.y(high)
        sides = f'x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" height="{self.y(0) - top:.1f}"'
        return f"<rect {style} {sides}><title>{escape(title)}</title></rect>"

    def grid(self, across: Sequence[float], up: Sequence[float], style: Callable[[float], str]) -> list[str]:
        """Lines at these values of both axes."""
        low, high, left, right = self.height - self.bottom, self.top, self.left, self.width - self.right
        lines = [
            f'<line {style(one)} x1="{self.x(one):.1f}" y1="{high:.1f}" x2="{self.x(one):.1f}" y2="{low:.1f}"/>'
            for one in across
        ]
        return lines + [
            f'<line {style(one)} x1="{left:.1f}" y1="{self.y(one):.1f}" x2="{right:.1f}" y2="{self.y(one):.1f}"/>'
            for one in up
        ]

    def labels(self, across: Sequence[float], up: Sequence[float], names: tuple[str, str]) -> list[str]:
        """Numbers at the axes, and what the axes mean."""
        low = self.height - self.bottom
        texts = [f'<text x="{self.x(one):.1f}" y="{low + 15:g}" text-anchor="middle">{one:g}</text>' for one in across]
        texts += [
            f'<text x="{self.left - 6:g}" y="{self.y(one) + 4:.1f}" text-anchor="end">{one:g}</text>' for one in up
        ]
        middle, down = (self.left + self.width - self.right) / 2, (self.top + low) / 2
        texts.append(f'<text x="{middle:g}" y="{self.height - 6:g}" text-anchor="middle">{escape(names[0])}</text>')
        texts.append(
            f'<text x="12" y="{down:g}" text-anchor="middle" transform="rotate(-90 12 '
            f'{down:g})">{escape(names[1])}</text>'
        )
        return texts

    def svg(self, parts: Iterable[str], attributes: str) -> str:
        return "\n".join([f'<svg viewBox="0 0 {self.width:g} {self.height:g}" {attributes}>', *parts, "</svg>", ""])

    def _points(self, points: Iterable[Point]) -> str:
        return " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)


def unit_frame(side: float = 184.0) -> Frame:
    """A small square with both axes from 0 to 1."""
    left, top = 38.0, 8.0
    x, y = axis(0, 1, left, left + side), axis(0, 1, top + side, top)
    return Frame(left + side + 10, top + side + 34, left, top, 10.0, 34.0, x, y)


def curve(lines: Mapping[str, Sequence[Point]], across: str, up: str, *, linear: bool = False) -> str:
    """One line per contender, its name at its end; the first is drawn thicker.

    lines: name → points of (across, up), all above 0, since both axes are logarithmic; linear: at least 0, and `up`
    begins at 0.
    """
    xs, ys = ([point[place] for points in lines.values() for point in points] for place in (0, 1))
    if linear:
        ys.append(0.0)
    scale: Axis = float if linear else math.log
    x, y = axis(min(xs), max(xs), LEFT, WIDTH - RIGHT, scale), axis(min(ys), max(ys), HEIGHT - BOTTOM, TOP, scale)
    frame = Frame(WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM, x, y)
    ticks = sorted(set(xs)), _even(max(ys)) if linear else _ticks(min(ys), max(ys))
    parts = [f'<rect width="{WIDTH:g}" height="{HEIGHT:g}" fill="#ffffff"/>']
    parts += [*frame.grid(*ticks, style=lambda _: 'stroke="#dddddd"'), *frame.labels(*ticks, (across, up))]
    places = _apart({name: y(points[-1][1]) for name, points in lines.items()})
    for number, (name, points) in enumerate(lines.items()):
        colour, thick = COLOURS[number % len(COLOURS)], 3 if number == 0 else 1.6
        parts.append(frame.line(points, f'fill="none" stroke="{colour}" stroke-width="{thick:g}"'))
        parts += [frame.dot(point, f'fill="{colour}"', thick + 0.6) for point in points]
        parts.append(
            f'<text x="{WIDTH - RIGHT + 10:g}" y="{places[name] + 4:.1f}" fill="{colour}">{escape(name)}</text>'
        )
    return frame.svg(parts, 'xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="12"')


def axis(low: float, high: float, start: float, end: float, scale: Axis = float) -> Axis:
    """value → pixels; a single value stands in the middle."""
    if high <= low:
        return lambda _: (start + end) / 2
    return lambda value: start + (end - start) * (scale(value) - scale(low)) / (scale(high) - scale(low))


def _even(high: float) -> list[float]:
    """From 0 on, five to nine ticks, 1, 2 or 5 apart."""
    if not high:
        return [0.0]
    power = 10.0 ** math.floor(math.log10(high / 4))
    step = max(power * factor for factor in (1, 2, 5) if power * factor <= high / 4)
    return [step * place for place in range(int(high / step) + 1)]


def _ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 of each power of ten between the two."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [step * 10.0**power for power in powers for step in (1, 2, 5) if low <= step * 10.0**power <= high]


def _apart(places: Mapping[str, float]) -> dict[str, float]:
    """The same heights, moved down where two names would touch."""
    moved: dict[str, float] = {}
    last = -math.inf
    for name, place in sorted(places.items(), key=lambda item: item[1]):
        last = max(place, last + NEAR)
        moved[name] = last
    return moved
