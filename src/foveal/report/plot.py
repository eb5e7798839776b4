"""Curves as an SVG: a line for each contender, its name at its end; of time, both axes are logarithmic.

x = log(across), y = log(up), each from the smallest to the largest value → the frame;   linear: x = across, y = up from 0
"""

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 760.0, 420.0, 64.0, 20.0, 190.0, 44.0
COLOURS = ("#b2182b", "#2166ac", "#1b7837", "#762a83", "#8c510a", "#35978f", "#4d4d4d")
NEAR = 14.0  # pixels between two names


def curve(lines: Mapping[str, Sequence[tuple[float, float]]], across: str, up: str, *, linear: bool = False) -> str:
    """lines: name → points of (across, up), all above 0, or if linear at least 0; the first is drawn thicker."""
    xs, ys = ([point[place] for points in lines.values() for point in points] for place in (0, 1))
    if linear:
        ys.append(0.0)
    scale = float if linear else math.log
    to_x = _axis(min(xs), max(xs), LEFT, WIDTH - RIGHT, scale)
    to_y = _axis(min(ys), max(ys), HEIGHT - BOTTOM, TOP, scale)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH:g}" height="{HEIGHT:g}" fill="#ffffff"/>',
    ]
    for tick in sorted(set(xs)):
        parts.append(_grid(to_x(tick), TOP, to_x(tick), HEIGHT - BOTTOM))
        parts.append(f'<text x="{to_x(tick):.1f}" y="{HEIGHT - BOTTOM + 16:g}" text-anchor="middle">{tick:g}</text>')
    for tick in _even(max(ys)) if linear else _ticks(min(ys), max(ys)):
        parts.append(_grid(LEFT, to_y(tick), WIDTH - RIGHT, to_y(tick)))
        parts.append(f'<text x="{LEFT - 8:g}" y="{to_y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>')
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2:g}" y="{HEIGHT - 8:g}" text-anchor="middle">{escape(across)}</text>')
    parts.append(f'<text x="14" y="{middle:g}" text-anchor="middle" transform="rotate(-90 14 {middle:g})">{escape(up)}</text>')
    places = _apart({name: to_y(points[-1][1]) for name, points in lines.items()})
    for number, (name, points) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        drawn = " ".join(f"{to_x(x):.1f},{to_y(y):.1f}" for x, y in points)
        thick = 3 if number == 0 else 1.6
        parts.append(f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="{thick:g}"/>')
        parts += [f'<circle cx="{to_x(x):.1f}" cy="{to_y(y):.1f}" r="{thick + 0.6:g}" fill="{colour}"/>' for x, y in points]
        parts.append(f'<text x="{WIDTH - RIGHT + 10:g}" y="{places[name] + 4:.1f}" fill="{colour}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _axis(low: float, high: float, start: float, end: float, scale: Callable[[float], float]) -> Callable[[float], float]:
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


def _grid(x: float, y: float, to_x: float, to_y: float) -> str:
    return f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}" stroke="#dddddd"/>'


def _apart(places: Mapping[str, float]) -> dict[str, float]:
    """The same heights, moved down where two names would touch."""
    moved: dict[str, float] = {}
    last = -math.inf
    for name, place in sorted(places.items(), key=lambda item: item[1]):
        last = max(place, last + NEAR)
        moved[name] = last
    return moved
