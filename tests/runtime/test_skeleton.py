"""Skeletons: by hand, against loops, and what a skeleton must keep: parts and holes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from oracle import components as flood
from oracle import skeleton as oracle

from foveal.errors import FovealError
from foveal.runtime.distance import distances
from foveal.runtime.skeleton import skeleton, tubes

masks = arrays(
    np.bool_,
    array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=13),
    elements=st.sampled_from([False, True, True]),
)


def blobs(seed, sides=(37, 41), count=7):
    """Discs and bars that overlap, with holes: thick, as random pixels are not."""
    random = np.random.default_rng(seed)
    down, along = np.mgrid[: sides[0], : sides[1]]
    mask = np.zeros(sides, bool)
    for number in range(count):
        y, x, radius = random.integers(sides[0]), random.integers(sides[1]), random.integers(1, 9)
        disc = (down - y) ** 2 + (along - x) ** 2 <= radius**2
        mask = mask & ~disc if number % 3 == 2 else mask | disc
    return mask


def parts(mask):
    return len(flood.components(mask.tolist(), 8, (False,)))


def holes(mask):
    """Of the background, with its outside, by 4 neighbours."""
    return len(flood.components(np.pad(~mask, 1, constant_values=True).tolist(), 4, (False,)))


def test_by_hand():
    bar = np.zeros((7, 13), bool)
    bar[2:5, 2:11] = True
    thin = skeleton(bar)
    assert set(np.flatnonzero(thin.any(1))) == {3}  # the row in the middle
    assert thin.sum() >= 6
    line = np.eye(7, dtype=bool)
    np.testing.assert_array_equal(skeleton(line), line)
    ring = np.ones((7, 7), bool)
    ring[3, 3] = False
    assert holes(skeleton(ring)) == 2
    assert skeleton(ring).sum() < 17


def test_small_squares_do_not_vanish():
    for size in (1, 2, 3, 4):
        square = np.zeros((6, 6), bool)
        square[1 : 1 + size, 1 : 1 + size] = True
        assert skeleton(square).sum() == 1


@given(masks)
def test_it_equals_loops(mask):
    np.testing.assert_array_equal(skeleton(mask), np.array(oracle.skeleton(mask.tolist()), bool))


@pytest.mark.parametrize("seed", range(12))
def test_thick_things_equal_loops_and_keep_their_parts_and_holes(seed):
    mask = blobs(seed)
    thin = skeleton(mask)
    np.testing.assert_array_equal(thin, np.array(oracle.skeleton(mask.tolist()), bool))
    assert (parts(thin), holes(thin)) == (parts(mask), holes(mask))
    assert not (thin & ~mask).any()
    assert thin.sum() < mask.sum() / 3
    # nowhere is it thick: no square of 2 × 2
    assert not (thin[1:, 1:] & thin[:-1, 1:] & thin[1:, :-1] & thin[:-1, :-1]).any()


@given(masks)
def test_parts_and_holes_of_anything(mask):
    thin = skeleton(mask)
    assert (parts(thin), holes(thin)) == (parts(mask), holes(mask))
    np.testing.assert_array_equal(skeleton(thin), thin)


def test_every_value_is_thinned_as_if_it_were_alone():
    label_maps = np.stack([blobs(1) * 1 + (blobs(2) & ~blobs(1)) * 7, blobs(3) * 2]).astype(np.uint8)
    thin = skeleton(label_maps)
    for one, found in zip(label_maps, thin, strict=True):
        for value in (1, 2, 7):
            np.testing.assert_array_equal(found & (one == value), skeleton(one == value))
    assert not thin[label_maps == 0].any()


def test_tubes():
    label_map = (blobs(4) * 3).astype(np.uint8)
    tube = tubes(label_map, 2.0)
    near = distances(skeleton(label_map)) <= 2
    np.testing.assert_array_equal(tube, np.where(near, label_map, 0))
    assert 0 < (tube > 0).sum() < (label_map > 0).sum()
    both = np.zeros((9, 11), np.uint8)
    both[2:7, :6], both[2:7, 6:] = 1, 2
    tube = tubes(both, 1.0)
    assert set(np.unique(tube)) == {0, 1, 2}
    assert ((tube == 0) | (tube == both)).all()  # no tube reaches into another class
    assert not tubes(np.zeros((3, 5), np.uint8)).any()


def test_bad_input():
    with pytest.raises(FovealError, match=r"a label map: expected \(…, H, W\)"):
        skeleton(np.zeros(3, bool))
