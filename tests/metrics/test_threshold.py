"""Thresholds: by hand, against trying them all, and what happens where nothing can be chosen."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from oracle import metric as oracle

from foveal.errors import FovealError
from foveal.metrics.classification import tally
from foveal.metrics.threshold import threshold_of_two, thresholds
from foveal.runtime.answers import decide


def of_one(truth, score, aim="F1"):
    return thresholds(np.array(truth)[:, None], np.array(score)[:, None], aim)[0]


def test_by_hand():
    assert of_one([0, 0, 1, 1], [0.1, 0.2, 0.4, 0.9]) == pytest.approx(0.3)  # between 0.2 and 0.4 nothing is wrong
    # All yes: TP 2, FP 1, F1 = 4/5. Above 0.3: TP 1, FP 1, ½. Above 0.6: TP 1, FP 0, 2/3.
    assert of_one([1, 0, 1], [0.3, 0.6, 0.8]) == pytest.approx(0.15)
    assert of_one([1, 0, 1], [0.3, 0.6, 0.8], "F0.1") == pytest.approx(0.7)  # precision counts more
    assert of_one([1, 0, 1], [0.3, 0.6, 0.8], "balanced accuracy") == pytest.approx(0.7)
    # F2 takes the low cut where F1 takes the high one.
    truth, score = [1, 0, 0, 0, 1], [0.2, 0.3, 0.4, 0.5, 0.8]
    assert of_one(truth, score, "F1") == pytest.approx(0.65)
    assert of_one(truth, score, "F2") == pytest.approx(0.1)


def test_of_equally_good_cuts_the_one_nearest_to_a_half_is_taken():
    # Balanced accuracy is ¾ at 0.35 (one negative too many) and at 0.8 (one positive missed).
    truth, score = [0, 1, 0, 1], [0.1, 0.6, 0.7, 0.9]
    assert of_one(truth, score, "balanced accuracy") == pytest.approx(0.35)
    assert of_one([0, 1, 0, 1], [0.1, 0.2, 0.3, 0.6], "balanced accuracy") == pytest.approx(0.45)


def test_two_classes_one_threshold():
    truth, score = np.array([0, 0, 0, 0, 1]), np.array([0.01, 0.02, 0.03, 0.2, 0.3])
    found = threshold_of_two(truth, np.stack([1 - score, score], 1))
    assert found == pytest.approx(0.25)
    np.testing.assert_array_equal(decide(np.stack([1 - score, score], 1), False, found), truth)


graded = st.integers(1, 13).flatmap(
    lambda images: st.tuples(
        arrays(np.int64, images, elements=st.integers(0, 1)),
        arrays(
            np.float64, images, elements=st.sampled_from([0.0, 0.1, 0.3, 0.31, 0.8, 1.0]) | st.floats(0, 1, width=32)
        ),
    )
)


@given(graded, st.sampled_from([("F1", 1.0), ("F2", 2.0), ("F0.5", 0.5)]))
def test_no_cut_is_better(case, aim):
    truth, score = case
    found = of_one(truth, score, aim[0])
    if not truth.any():
        assert found == 0.5
        return
    value = tally(truth[:, None], (score >= found)[:, None], 1).f(aim[1])[0]
    best, cuts = oracle.best_threshold(
        truth.tolist(), score.tolist(), lambda real, said: oracle.f_beta(real, said, [1] * len(real), aim[1])
    )
    assert value == pytest.approx(best)
    assert abs(found - 0.5) == pytest.approx(min(abs(cut - 0.5) for cut in cuts))


def test_neighbours_with_no_number_between_them():
    for low in (0.3, np.nextafter(0.3, 1)):  # of the two middles, one is rounded up and one down
        high = np.nextafter(low, 1)
        assert of_one([0, 1], [low, high]) == high


def test_a_class_that_says_nothing_keeps_a_half():
    truth, score = np.array([[0, 1], [0, 1]]), np.array([[0.9, 0.2], [0.8, 0.3]])
    assert thresholds(truth, score).tolist() == [0.5, pytest.approx(0.1)]  # all have the second: yes is always right
    assert thresholds(truth, score, "balanced accuracy").tolist() == [0.5, 0.5]


def test_bad_input():
    with pytest.raises(FovealError, match="the metric of a threshold: expected 'F1'"):
        of_one([0, 1], [0.1, 0.2], "accuracy")
    with pytest.raises(FovealError, match="one label and two classes"):
        threshold_of_two(np.array([0, 1]), np.full((2, 3), 1 / 3))
    with pytest.raises(FovealError, match="nan"):
        of_one([0, 1], [np.nan, 0.2])
