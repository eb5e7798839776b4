"""Distances to the nearest mark: by hand, and against all pairs of pixels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from oracle import distance as oracle

from foveal.errors import FovealError
from foveal.runtime.distance import distances, within


def test_by_hand():
    mask = np.zeros((5, 7), bool)
    mask[1, 2] = True
    found = distances(mask)
    assert found[1, 2] == 0
    assert found[4, 6] == 5  # three down and four along
    assert found[0, 3] == pytest.approx(np.sqrt(2))
    assert np.isinf(distances(np.zeros((2, 3), bool))).all()
    assert (distances(np.ones((2, 3), bool)) == 0).all()


@given(
    arrays(np.bool_, array_shapes(min_dims=2, max_dims=2, max_side=13), elements=st.sampled_from([False] * 9 + [True]))
)
def test_it_equals_all_pairs(mask):
    np.testing.assert_allclose(distances(mask), oracle.distances(mask.tolist()), rtol=1e-6)


@pytest.mark.parametrize("marks", [(slice(3, 5), slice(None)), (slice(None), slice(3, 5)), (slice(None, None, 5),) * 2])
@pytest.mark.parametrize("shape", [(11, 29), (29, 11)])
def test_few_columns_few_rows_or_many_of_both(marks, shape):
    mask = np.zeros(shape, bool)
    mask[marks] = np.random.default_rng(0).random(mask[marks].shape) < 0.6
    np.testing.assert_allclose(distances(mask), oracle.distances(mask.tolist()), rtol=1e-6)


@given(
    arrays(np.bool_, array_shapes(min_dims=2, max_dims=3, max_side=7), elements=st.sampled_from([False] * 5 + [True])),
    st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0, 3.7, 20.0]),
)
def test_within_is_a_distance(mask, radius):
    found = within(mask, radius)
    assert found.shape == mask.shape
    for one, near in zip(mask.reshape(-1, *mask.shape[-2:]), found.reshape(-1, *mask.shape[-2:]), strict=True):
        np.testing.assert_array_equal(near, distances(one) <= radius + 1e-6)


def test_bad_input():
    with pytest.raises(FovealError, match=r"a mask: expected \(H, W\)"):
        distances(np.zeros((2, 3, 4), bool))
    with pytest.raises(FovealError, match="radius: expected at least 0, got -1"):
        within(np.zeros((2, 3), bool), -1)
