"""Findings: counted, placed and measured, by hand, in plain loops, and as a ruler would."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from tasks.segment.painted import maps

from foveal.runtime.skeleton import skeleton
from foveal.tasks.segment.findings import COLUMNS, findings

CLASSES = ("background", "crack", "hole")


def found(label_map, smallest=0):
    return findings(np.asarray(label_map, np.uint8), CLASSES, smallest)[1]


def test_by_hand():
    one, two, three = found(maps("11000", "00100", "22000", "20001"))
    assert (one.kind, one.label, one.area, one.box) == ("crack", 1, 3, (0, 0, 3, 2))
    assert one.share == 3 / 20
    assert one.centre == ((0.5 + 1.5 + 2.5) / 3, (0.5 + 0.5 + 1.5) / 3)
    assert (two.kind, two.label, two.area, two.box) == ("hole", 2, 3, (0, 2, 2, 2))
    assert (three.kind, three.area, three.box, three.centre) == ("crack", 1, (4, 3, 1, 1), (4.5, 3.5))
    assert all(one.length is one.mean_width is None for one in (one, two, three))
    assert dict(zip(COLUMNS, (3, 0.15, 0, 0, 3, 2, 1.5, 0.83, None, None), strict=True)) == one.values()


def test_what_is_small_leaves_the_map_and_the_list():
    label_map = maps("110002", "110000", "000100")
    kept, rest = findings(label_map, CLASSES, 2)
    np.testing.assert_array_equal(kept, maps("110000", "110000", "000000"))
    assert [one.area for one in rest] == [4]
    assert kept.dtype == np.uint8
    assert label_map[0, 5] == 2  # what was given stays as it was
    assert findings(label_map, CLASSES, 5)[1] == ()
    assert len(findings(label_map, CLASSES, 1)[1]) == 3
    assert findings(np.zeros((3, 5), np.uint8), CLASSES)[1] == ()


@given(arrays(np.uint8, array_shapes(min_dims=2, max_dims=2, max_side=13), elements=st.integers(0, 2)))
def test_every_pixel_is_in_one_finding(label_map):
    all_ = found(label_map)
    for label in (1, 2):
        rows, columns = np.nonzero(label_map == label)
        own = [one for one in all_ if one.label == label]
        assert sum(one.area for one in own) == len(rows)
        for side, place in enumerate((columns, rows)):
            centre = sum(one.area * one.centre[side] for one in own)
            assert centre == pytest.approx((place + 0.5).sum())
    for one in all_:
        x, y, width, height = one.box
        assert (label_map[y : y + height, x : x + width] == one.label).sum() >= one.area
        assert one.length is None or one.length * one.mean_width == pytest.approx(one.area)


def bar(length, width, angle=0.0, side=131):
    """A straight bar in the middle of a square."""
    y, x = np.mgrid[:side, :side] - (side - 1) / 2
    across = x * math.sin(angle) - y * math.cos(angle)
    along = x * math.cos(angle) + y * math.sin(angle)
    return (abs(across) <= width / 2 - 1e-9) & (abs(along) <= length / 2 - 1e-9)


@pytest.mark.parametrize("width", [1, 3, 5, 7])
def test_a_bar_has_its_own_length_and_width(width):
    for label_map in (bar(101, width), bar(101, width).T):
        (one,) = found(label_map)
        assert one.length == pytest.approx(101)
        assert one.mean_width == pytest.approx(width)


def test_a_slanting_line_of_one_pixel():
    (one,) = found(np.eye(40))
    assert one.length == pytest.approx(39 * math.sqrt(2) + 1)  # 39 links, and half a pixel at each end
    assert one.mean_width == pytest.approx(40 / one.length)


@pytest.mark.parametrize("width", [3, 5])
def test_a_bar_at_any_angle(width):
    """Its skeleton may run into a corner: a bar of 5 pixels is then 5 or so too long."""
    lengths = np.array([found(bar(101, width, angle))[0].length for angle in np.linspace(0, math.pi, 25)])
    assert lengths.min() > 0.97 * 101
    assert lengths.max() < 101 + 2 * width
    assert lengths.mean() == pytest.approx(101, rel=0.025)


@pytest.mark.parametrize("width", [3, 8])
def test_a_ring_is_as_long_as_its_way_round(width):
    y, x = np.mgrid[:131, :131] - 65
    (one,) = found(abs(np.hypot(x, y) - 50) <= width / 2)
    assert one.length == pytest.approx(2 * math.pi * 50, rel=0.02)
    assert one.mean_width == pytest.approx(width, rel=0.05)


def test_a_branch_counts():
    """A T of two bars of one pixel: 41 along and 20 down, whose first link begins at the bar."""
    label_map = np.zeros((23, 45))
    label_map[1, 2:43] = 1
    label_map[2:22, 22] = 1
    (one,) = found(label_map)
    assert one.length == pytest.approx(41 + 20 + 0.5, abs=1)


def test_a_blot_has_no_length():
    assert found(bar(31, 5))[0].length is None  # 31·5 = 155 pixels, an eighth of 31² + 5² is 123
    assert found(bar(61, 5))[0].length == pytest.approx(61)


def test_many_at_once_are_as_each_alone():
    """Neighbours of another class, and of the same class a pixel away, change no length."""
    label_map = np.zeros((60, 90), np.uint8)
    shapes = [(slice(3, 5), slice(2, 80), 1), (slice(5, 6), slice(2, 80), 2), (slice(7, 10), slice(4, 70), 1)]
    shapes += [(slice(20, 58), slice(40, 42), 2), (slice(20, 58), slice(43, 46), 2)]
    alone = []
    for rows, columns, label in shapes:
        one = np.zeros_like(label_map)
        one[rows, columns] = label
        label_map[rows, columns] = label
        alone.append(found(one)[0])
    assert found(label_map) == tuple(alone)
    assert all(one.length is not None for one in alone)
    assert skeleton(label_map).sum() > 0
