"""Findings as such: by hand, in loops, and the size from which on they are found."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from oracle import metric
from oracle import segment_metric as oracle

from foveal.errors import FovealError
from foveal.metrics.findings import Findings, by_size, findings, measure, measure_presence
from foveal.metrics.interval import bootstrap

CLASSES = 3
label_maps = st.tuples(st.integers(1, 7), st.integers(1, 9)).flatmap(
    lambda shape: st.tuples(
        arrays(np.uint8, shape, elements=st.sampled_from([0, 0, 1, 2, 3, 255])),
        arrays(np.uint8, shape, elements=st.sampled_from([0, 0, 1, 2, 3])),
    )
)
rated = st.lists(st.tuples(st.integers(1, 6), st.booleans(), st.integers(0, 2)), min_size=1, max_size=13)


def of_areas(areas, found, images=None):
    """Findings of class 1 with these areas; those that are found are covered as a whole."""
    areas, count = np.array(areas), len(areas)
    image = np.arange(count) if images is None else np.array(images)
    ones = np.ones(count, np.int64)
    return Findings(ones, areas, areas * np.array(found), image, int(image.max(initial=0)) + 1)


def test_by_hand():
    truth = np.array([[1, 1, 0, 2, 2], [1, 1, 0, 2, 2], [0, 0, 0, 2, 2], [3, 0, 255, 0, 1]], np.uint8)
    predicted = np.array([[1, 0, 0, 2, 2], [1, 0, 0, 2, 0], [1, 1, 1, 1, 1], [2, 0, 1, 0, 0]], np.uint8)
    found = findings(truth, predicted, CLASSES)
    assert found.label.tolist() == [1, 2, 3, 1]
    assert found.area.tolist() == [4, 6, 1, 1]
    assert found.covered.tolist() == [2, 3, 0, 0]
    assert found.side.tolist() == [2, math.sqrt(6), 1, 1]
    assert found.found(0.5).tolist() == [True, True, False, False]
    assert found.found(0.51).tolist() == [False] * 4
    result = measure(found, CLASSES)()
    np.testing.assert_array_equal(result["found (half)"], [1 / 2, 1, 0])
    assert result["findings found (half)"] == 1 / 2
    assert result["mean findings found (half)"] == 1 / 2
    assert result["missed size (half)"] == 2
    assert by_size(found) == [(0, 4, 2)]


def test_a_tenth_is_enough_or_is_not():
    found = Findings(*(np.array(one) for one in ([1, 1, 1], [100, 100, 100], [9, 10, 50], [0, 0, 1])), 2)
    result = measure(found, 1)()
    assert result["findings found (tenth)"] == pytest.approx(2 / 3)
    assert result["findings found (half)"] == pytest.approx(1 / 3)


@given(label_maps)
def test_findings_equal_the_loops(case):
    truth, predicted = case
    found = findings(truth, predicted, CLASSES)
    rows = [list(one) for one in zip(found.label.tolist(), found.area.tolist(), found.covered.tolist(), strict=True)]
    assert rows == [list(one) for one in oracle.findings(truth.tolist(), predicted.tolist())]


@pytest.mark.parametrize(
    ("areas", "found", "size"),
    [
        ([1, 4, 9, 16], [0, 0, 1, 1], 3),
        ([1, 4, 9, 16], [0, 1, 0, 1], 2),  # one of two from 2 px on, and all from 4 px on
        ([1, 4, 9, 16], [0, 1, 0, 0], math.nan),  # of no size are half found
        ([1, 4, 9], [1, 1, 1], 1),
        ([1, 4, 9], [0, 0, 0], math.nan),
        ([4, 4, 4], [0, 0, 1], math.nan),
        ([4, 4], [0, 1], 2),
        ([], [], math.nan),
    ],
)
def test_missed_size_by_hand(areas, found, size):
    given_findings = Findings.of_all([of_areas(areas, np.array(found, int))])
    assert measure(given_findings, 1)()["missed size (half)"] == pytest.approx(size, nan_ok=True)


@given(rated)
def test_missed_size_is_where_the_rising_recall_passes_a_half(rows):
    side, found, times = (list(one) for one in zip(*rows, strict=True))
    all_findings = of_areas([one**2 for one in side], np.array(found, int))
    weight = np.array([times, [1] * len(rows)], float)
    sizes = measure(all_findings, 1)(weight)["missed size (half)"]
    for value, counts in zip(sizes, weight.astype(int).tolist(), strict=True):
        copies = [(one, mark) for one, mark, count in zip(side, found, counts, strict=True) for _ in range(count)]
        expected = oracle.missed_size(*zip(*copies, strict=True)) if copies else None
        assert value == pytest.approx(math.nan if expected is None else expected, nan_ok=True)


def test_figures_under_weights_equal_drawing_copies():
    random = np.random.default_rng(0)
    images = [
        findings(*random.choice([0, 0, 0, 1, 2], (2, 9, 9)).astype(np.uint8), CLASSES) for _ in range(7)
    ]  # class 3 is nowhere
    weight = random.integers(0, 3, (5, 7))
    found = measure(Findings.of_all(images), CLASSES)(weight.astype(float))
    for row, times in enumerate(weight):
        copies = Findings.of_all([one for one, count in zip(images, times, strict=True) for _ in range(count)])
        for name, value in measure(copies, CLASSES)().items():
            np.testing.assert_allclose(found[name][row], value, err_msg=name)
    assert np.isnan(found["found (half)"][:, 2]).all()


def test_images_without_findings_count_for_nothing():
    empty = findings(np.zeros((3, 5), np.uint8), np.ones((3, 5), np.uint8), CLASSES)
    assert len(empty) == 0
    result = measure(empty, CLASSES)()
    assert all(np.isnan(value).all() for value in result.values())
    both = Findings.of_all([empty, of_areas([4], [1]), empty])
    assert (both.images, both.image.tolist()) == (3, [1])
    assert measure(both, CLASSES)()["findings found (half)"] == 1
    low, high = bootstrap(measure(both, CLASSES), 3, resamples=50)["missed size (half)"]
    assert low == high == 2


def test_by_size():
    found = of_areas([1, 15**2, 16**2, 16**2, 500**2], [0, 1, 1, 0, 1])
    assert by_size(found) == [(0, 1, 0), (8, 1, 1), (16, 2, 1), (128, 1, 1)]


def test_any_finding():
    truth, score = np.array([True, False, True, False]), np.array([0.9, 0.1, 0.4, 0.4])
    assert measure_presence(truth, score)()["any finding AUC"] == pytest.approx(
        metric.roc_auc(truth.tolist(), score.tolist(), [1] * 4)
    )
    low, high = bootstrap(measure_presence(truth, score), 4, resamples=200)["any finding AUC"]
    assert low < 7 / 8 < high == 1


def test_bad_input():
    with pytest.raises(FovealError, match="findings: expected those of one image at least"):
        Findings.of_all([])
    with pytest.raises(FovealError, match="findings: expected those of 1 images"):
        measure(Findings(*(np.array([one]) for one in (1, 4, 4, 3))), 1)
    with pytest.raises(FovealError, match="the prediction: expected labels 0…3"):
        findings(np.zeros((2, 2), np.uint8), np.full((2, 2), 4, np.uint8), CLASSES)
