"""Curves: where a line goes, and what stands at the axes."""

import re

import pytest

from foveal.report.plot import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, _even, curve


@pytest.mark.parametrize(
    ("high", "ticks"),
    [(43.0, [0, 10, 20, 30, 40]), (7.9, [0, 1, 2, 3, 4, 5, 6, 7]), (100.0, [0, 20, 40, 60, 80, 100]), (0.0, [0])],
)
def test_even_ticks(high, ticks):
    assert _even(high) == pytest.approx(ticks)


def test_a_linear_curve_begins_at_zero():
    picture = curve({"one": [(10, 40.0), (20, 20.0)], "two": [(10, 0.0), (20, 30.0)]}, "words", "BLEU", linear=True)
    first, second = (
        [tuple(map(float, point.split(","))) for point in line.split()]
        for line in re.findall(r'points="([^"]+)"', picture)
    )
    middle = (TOP + HEIGHT - BOTTOM) / 2
    assert first == [(LEFT, TOP), (WIDTH - RIGHT, middle)]
    assert second == [
        (LEFT, HEIGHT - BOTTOM),
        (WIDTH - RIGHT, pytest.approx(TOP + (HEIGHT - BOTTOM - TOP) / 4, abs=0.1)),
    ]
    assert ">words<" in picture


def test_a_curve_of_time_is_logarithmic():
    picture = curve({"one": [(1, 1.0), (10, 10.0), (100, 100.0)]}, "images", "ms")
    (line,) = re.findall(r'points="([^"]+)"', picture)
    xs = [float(point.split(",")[0]) for point in line.split()]
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1], abs=0.2)
