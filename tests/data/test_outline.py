"""Outlines along the edges of pixels, and the label map of outlines: the one undoes the other."""

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from foveal.data.outline import Outline, filled, outlines, window_of
from foveal.runtime.components import components

label_maps = st.tuples(st.integers(1, 11), st.integers(1, 13)).flatmap(
    lambda size: arrays(np.uint8, size, elements=st.sampled_from([0, 0, 1, 1, 1, 2, 254]))
)
places = st.floats(-5, 17, width=32)
polygons = st.lists(st.tuples(places, places), min_size=3, max_size=7)


def inside(points, x, y):
    """Even-odd, in plain loops: how many edges a line from (x, y) to the left crosses."""
    crossings = 0
    for (ax, ay), (bx, by) in zip(points, [*points[1:], points[0]], strict=True):
        (ax, ay), (bx, by) = sorted([(ax, ay), (bx, by)], key=lambda corner: corner[1])
        if ay <= y < by:
            crossings += ax + (y - ay) * (bx - ax) / (by - ay) <= x
    return crossings % 2 == 1


def test_a_pixel_and_a_corner():
    label_map = np.array([[3, 0], [0, 3]], np.uint8)
    (found,) = outlines(label_map)
    assert found.label == 3
    corners = [(0, 0), (1, 0), (1, 1), (2, 1), (2, 2), (1, 2), (1, 1), (0, 1)]  # with the component on the right
    assert [tuple(corner) for corner in found.points.tolist()] == corners


def test_a_hole_is_joined_by_a_line_that_is_gone_along_twice():
    label_map = np.ones((4, 3), np.uint8)
    label_map[2, 1] = 0
    (found,) = outlines(label_map)
    corners = [(1, 0), (1, 3), (2, 3), (2, 2), (1, 2), (1, 0), (3, 0), (3, 4), (0, 4), (0, 0)]
    walk = [tuple(corner) for corner in found.points.tolist()]
    start = walk.index((1, 0)) if walk[0] != (1, 0) else 0
    assert walk[start:] + walk[:start] == corners
    assert (filled([found], 4, 3) == label_map).all()


@given(label_maps)
@example(np.zeros((3, 5), np.uint8))
@example(np.array([[1, 1, 1, 1], [1, 0, 1, 1], [1, 1, 0, 1], [1, 1, 1, 1]], np.uint8))  # holes that touch at a corner
@settings(deadline=None)
def test_one_polygon_for_each_component_and_back(label_map):
    found = outlines(label_map)
    parts = components(label_map)
    assert [one.label for one in found] == parts.value.tolist()
    for number, one in enumerate(found, 1):
        alone = filled([one], *label_map.shape)
        assert ((alone == one.label) == (parts.numbers == number)).all()
    assert (filled(found, *label_map.shape) == label_map).all()


@given(polygons, st.integers(1, 11), st.integers(1, 13))
@example([(0, 0), (4, 0), (4, 4)], 5, 5)
@example([(1, 1), (3, 1), (2, 1)], 5, 5)  # no area, no row crossed
@settings(deadline=None)
def test_a_pixel_is_inside_by_its_centre(points, height, width):
    label_map = filled([Outline(7, np.array(points, np.float64))], height, width)
    for row in range(height):
        for column in range(width):
            near = any(
                abs((bx - ax) * (row + 0.5 - ay) - (by - ay) * (column + 0.5 - ax)) < 1e-6
                for (ax, ay), (bx, by) in zip(points, [*points[1:], points[0]], strict=True)
            )
            if not near:  # on an edge, rounding decides
                assert (label_map[row, column] == 7) == inside(points, column + 0.5, row + 0.5)


def test_later_outlines_lie_over_earlier_ones_and_several_parts_are_one():
    square = np.array([(0, 0), (2, 0), (2, 2), (0, 2)], np.float64)
    label_map = filled([Outline(1, square), Outline(2, square + 1)], 3, 4)
    assert label_map.tolist() == [[1, 1, 0, 0], [1, 2, 2, 0], [0, 2, 2, 0]]
    rows, columns, both = window_of([square, square + 1], 3, 4)
    assert (rows.stop, columns.stop, int(both.sum())) == (3, 3, 7)


def test_what_lies_outside_is_cut_off_and_many_edges_take_several_turns(monkeypatch):
    from foveal.data import outline

    around = np.array([(-100, -100), (300, -100), (300, 300), (-100, 300)], np.float64)
    assert (filled([Outline(5, around)], 7, 11) == 5).all()
    assert not filled([Outline(5, around + 1000)], 7, 11).any()
    comb = np.array(
        [(x, y) for x in range(0, 40, 2) for y in ((0, 31) if x % 4 else (31, 0))] + [(38, 0), (0, 0)], float
    )
    whole = filled([Outline(1, comb)], 31, 40)
    monkeypatch.setattr(outline, "AT_ONCE", 50)
    assert (filled([Outline(1, comb)], 31, 40) == whole).all()
    assert 0 < whole.sum() < whole.size
