"""Connected components: by hand, and against flooding, pixel by pixel."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from oracle import components as oracle

from foveal.errors import FovealError
from foveal.runtime.components import components, numbered

label_maps = arrays(
    np.uint8, array_shapes(min_dims=2, max_dims=2, max_side=9), elements=st.sampled_from([0, 1, 1, 2, 255])
)


def drawing(text):
    return np.array([[int(sign) for sign in row] for row in text.split()], np.uint8)


def test_by_hand():
    found = components(drawing("11002 00102 10002"))
    np.testing.assert_array_equal(found.numbers, [[1, 1, 0, 0, 2], [0, 0, 1, 0, 2], [3, 0, 0, 0, 2]])
    assert found.value.tolist() == [1, 2, 1]
    assert found.area.tolist() == [3, 3, 1]
    assert found.box.tolist() == [[0, 0, 3, 2], [4, 0, 5, 3], [0, 2, 1, 3]]
    np.testing.assert_allclose(found.length(), [np.hypot(3, 2), np.hypot(1, 3), np.hypot(1, 1)])
    assert len(found) == 3
    # a corner joins nothing of 4 neighbours
    assert components(drawing("11002 00102 10002"), neighbours=4).area.tolist() == [2, 3, 1, 1]


def test_parts_that_meet_at_last_are_one():
    """A comb, a spiral and a staircase to the left: runs whose trees are hung together late."""
    assert components(drawing("10101 10101 11111")).area.tolist() == [11]
    assert components(drawing("11111 00001 11101 10001 11111"), neighbours=4).area.tolist() == [17]
    assert components(np.eye(7, dtype=np.uint8)[:, ::-1]).area.tolist() == [7]


@given(label_maps, st.sampled_from([4, 8]))
def test_it_equals_flooding(label_map, neighbours):
    found = components(label_map, neighbours=neighbours)
    flooded = oracle.components(label_map.tolist(), neighbours, (0, 255))
    assert found.value.tolist() == [value for value, _ in flooded]
    assert found.area.tolist() == [len(pixels) for _, pixels in flooded]
    assert found.numbers.max(initial=0) == len(flooded)
    for number, (_, pixels) in enumerate(flooded, 1):
        assert np.argwhere(found.numbers == number).tolist() == [list(pixel) for pixel in pixels]
        down, along = zip(*pixels, strict=True)
        box = [min(along), min(down), max(along) + 1, max(down) + 1]
        assert found.box[number - 1].tolist() == box


@given(label_maps)
def test_what_is_nothing_can_be_chosen(label_map):
    found = components(label_map, (1, 2))
    assert found.area.sum() == np.isin(label_map, (0, 255)).sum()
    assert set(found.value.tolist()) <= {0, 255}
    np.testing.assert_array_equal(numbered(label_map, (1, 2)), found.numbers)


def test_masks_and_empty_maps():
    assert components(np.ones((3, 5), bool)).area.tolist() == [15]
    for shape in ((3, 5), (0, 5), (5, 0)):
        found = components(np.zeros(shape, np.uint8))
        assert (len(found), found.numbers.shape, found.box.shape) == (0, shape, (0, 4))


def test_bad_input():
    with pytest.raises(FovealError, match=r"a label map: expected \(H, W\)"):
        components(np.zeros((2, 3, 4), np.uint8))
    with pytest.raises(FovealError, match="neighbours: expected 4 or 8, got 6"):
        components(np.zeros((2, 3), np.uint8), neighbours=6)
