"""Thin things: by hand, in loops, and what a pixel beside costs."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from oracle import segment_metric as oracle

from foveal.errors import FovealError
from foveal.metrics.interval import bootstrap
from foveal.metrics.thin import measure, thin_counts

CLASSES = 2
label_maps = st.tuples(st.integers(1, 9), st.integers(1, 7)).flatmap(
    lambda shape: st.tuples(
        arrays(np.uint8, shape, elements=st.sampled_from([0, 0, 0, 1, 2, 255])),
        arrays(np.uint8, shape, elements=st.sampled_from([0, 0, 0, 1, 2])),
    )
)


def line(shape=(13, 17), row=6, width=1, label=1):
    label_map = np.zeros(shape, np.uint8)
    label_map[row : row + width] = label
    return label_map


def figures(truth, predicted, radius=2.0):
    return measure(thin_counts(truth, predicted, CLASSES, radius)[None], radius)()


def test_by_hand():
    """A line that is found two rows lower is found; one three rows lower is not; strictly, neither is."""
    truth = line()
    for row, found in ((6, 1), (7, 1), (8, 1), (9, 0)):
        result = figures(truth, line(row=row))
        assert result["F1 within 2 px"][0] == result["finding F1 within 2 px"] == found
        assert result["clDice"][0] == (1 if row == 6 else 0)
        assert np.isnan(result["F1 within 2 px"][1])  # class 2 is nowhere
        assert result["mean F1 within 2 px"] == found
    # Half of the line, and as much of something that is not there: P = ½, R = 10 of 17, two of them beyond its end.
    predicted = line()
    predicted[6, 8:] = 0
    predicted[0, :8] = 1
    result = figures(truth, predicted)
    assert result["F1 within 2 px"][0] == pytest.approx(2 * (1 / 2) * (10 / 17) / (1 / 2 + 10 / 17))


def test_distances_are_euclidean():
    truth, predicted = np.zeros((2, 9, 9), np.uint8)
    truth[4, 4], predicted[6, 6] = 1, 1
    assert figures(truth, predicted)["F1 within 2 px"][0] == 0  # a square would reach it
    assert figures(truth, predicted, 3.0)["F1 within 3 px"][0] == 1


def test_cldice_asks_for_the_line_not_its_width():
    truth, wide = line(width=1), line(row=4, width=5)
    result = figures(truth, wide)
    assert result["clDice"][0] > 0.85
    broken = line()
    broken[6, 6:11] = 0
    assert figures(truth, broken)["clDice"][0] == pytest.approx(2 * 1 * (12 / 17) / (1 + 12 / 17))


def test_the_wrong_class_is_a_finding_all_the_same():
    result = figures(line(label=1), line(label=2))
    assert result["finding F1 within 2 px"] == result["finding clDice"] == 1
    np.testing.assert_array_equal(result["F1 within 2 px"], [0, 0])
    np.testing.assert_array_equal(result["clDice"], [0, 0])


def test_unlabelled_pixels_are_left_out_on_both_sides():
    truth, predicted = line(), line()
    truth[:, 9:] = 255
    predicted[2, 9:] = 2
    counts = thin_counts(truth, predicted, CLASSES)
    assert counts[0, 0].tolist() == [9, 9, 9, 9]
    assert counts[2].sum() == 0


@given(label_maps, st.sampled_from([0.0, 1.0, 2.0, 3.5]))
def test_counts_equal_the_loops(case, radius):
    truth, predicted = case
    counts = thin_counts(truth, predicted, CLASSES, radius)
    for place, label in enumerate((None, 1, 2)):
        masks = oracle.chosen(truth.tolist(), predicted.tolist(), label)
        assert counts[place, 0].tolist() == oracle.near_counts(*masks, radius)
        assert counts[place, 1].tolist() == oracle.line_counts(*masks)


@given(label_maps)
def test_within_0_it_is_the_strict_f1_and_it_rises_with_the_radius(case):
    truth, predicted = case
    strict = figures(truth, predicted, 0.0)["finding F1 within 0 px"]
    expected = oracle.finding_f1([(truth.tolist(), predicted.tolist())], [1])
    assert strict == pytest.approx(math.nan if expected is None else expected, nan_ok=True)
    wider = [figures(truth, predicted, radius)[f"finding F1 within {radius:g} px"] for radius in (1.0, 2.0, 9.0)]
    if expected is not None:
        assert strict <= wider[0] <= wider[1] <= wider[2]


def test_figures_equal_the_loops_under_weights():
    random = np.random.default_rng(0)
    counts = random.integers(0, 9, (7, CLASSES + 1, 2, 4))
    counts[..., 0], counts[..., 2] = (
        np.minimum(counts[..., 0], counts[..., 1]),
        np.minimum(counts[..., 2], counts[..., 3]),
    )
    weight = random.integers(0, 3, (5, 7)).astype(float)
    found = measure(counts)(weight)
    for row, times in enumerate(weight):
        sums = (times[:, None, None, None] * counts).sum(0)
        for place, name in enumerate(("F1 within 2 px", "clDice")):
            each = [oracle.f1(*sums[label, place]) for label in range(CLASSES + 1)]
            assert found[f"finding {name}"][row] == pytest.approx(each[0])
            np.testing.assert_allclose(found[name][row], each[1:])
            assert found[f"mean {name}"][row] == pytest.approx(sum(each[1:]) / CLASSES)


def test_intervals_hold_the_figure():
    random = np.random.default_rng(1)
    maps = [(line(row=row), line(row=row + random.integers(0, 4))) for row in random.integers(0, 9, 29)]
    counts = np.stack([thin_counts(*pair, CLASSES) for pair in maps])
    value = measure(counts)()["finding F1 within 2 px"]
    low, high = bootstrap(measure(counts), 29, resamples=200)["finding F1 within 2 px"]
    assert low < value < high


def test_bad_input():
    with pytest.raises(FovealError, match="the prediction: expected"):
        thin_counts(line(), line().T, CLASSES)
    with pytest.raises(FovealError, match=r"counts: expected \(N, K \+ 1, 2, 4\)"):
        measure(np.zeros((3, 2, 4), np.int64))
