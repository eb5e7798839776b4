"""Calibration: bins by hand, ECE against loops and torchmetrics,
temperature against a grid and a model that is known.
"""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle import metric as oracle
from torchmetrics.functional import classification as witness

from foveal.errors import FovealError
from foveal.metrics.calibration import COLDEST, calibration_error, fit_temperature, negative_log_likelihood, reliability
from foveal.runtime.answers import probabilities


def scored(seed, images, classes, multi_label):
    random = np.random.default_rng(seed)
    logits = random.normal(size=(images, classes)) * 2
    probability = probabilities(logits, multi_label)
    if multi_label:
        return (random.random((images, classes)) < probability).astype(np.uint8), logits
    return np.array([random.choice(classes, p=row) for row in probability]), logits


def test_probabilities():
    np.testing.assert_allclose(probabilities(np.array([[0.0, math.log(3)]]), False), [[1 / 4, 3 / 4]])
    np.testing.assert_allclose(probabilities(np.array([[0.0, math.log(3)]]), True), [[1 / 2, 3 / 4]])
    np.testing.assert_allclose(probabilities(np.array([[0.0, 2 * math.log(3)]]), False, 2.0), [[1 / 4, 3 / 4]])
    np.testing.assert_allclose(probabilities(np.array([[1e4, -1e4]]), True), [[1, 0]])
    np.testing.assert_allclose(probabilities(np.array([[1e4, -1e4]]), False), [[1, 0]])


def test_error_by_hand():
    truth, probability = np.array([0, 1, 0, 1]), np.array([[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.2, 0.8]])
    # Three answers at 0.9, two of them right; one at 0.8, right.
    assert calibration_error(truth, probability) == pytest.approx(3 / 4 * abs(2 / 3 - 0.9) + 1 / 4 * 0.2)
    bins = reliability(truth, probability)
    assert bins.count.tolist() == [0] * 12 + [1, 3, 0]
    np.testing.assert_allclose(bins.right[12:14], [1, 2 / 3])
    np.testing.assert_allclose(bins.confidence[12:14], [0.8, 0.9])
    assert np.isnan(bins.right[0])
    assert calibration_error(np.array([0]), np.array([[0.0, 1.0]])) == 1  # 1 belongs to the last bin


@pytest.mark.parametrize("multi_label", [False, True])
def test_error_equals_loops_under_weights(multi_label):
    truth, logits = scored(2, 61, 5, multi_label)
    probability = probabilities(logits, multi_label)
    weight = np.random.default_rng(0).integers(0, 3, (3, 61)).astype(float)
    for row, found in zip(weight, calibration_error(truth, probability, weight), strict=True):
        if multi_label:
            each = [
                oracle.calibration_error(probability[:, c].tolist(), truth[:, c].tolist(), row.tolist())
                for c in range(5)
            ]
            assert found == pytest.approx(sum(each) / 5)
        else:
            right = (probability.argmax(1) == truth).tolist()
            assert found == pytest.approx(oracle.calibration_error(probability.max(1).tolist(), right, row.tolist()))


def test_error_agrees_with_torchmetrics():
    truth, logits = scored(0, 503, 7, False)
    probability = probabilities(logits, False)
    theirs = witness.multiclass_calibration_error(
        torch.tensor(probability), torch.tensor(truth), 7, n_bins=15, norm="l1"
    )
    assert calibration_error(truth, probability) == pytest.approx(theirs.item(), rel=1e-4)
    truth, logits = scored(1, 503, 3, True)
    probability = probabilities(logits, True)
    each = [
        witness.binary_calibration_error(
            torch.tensor(probability[:, c]), torch.tensor(truth[:, c].astype(int)), n_bins=15, norm="l1"
        ).item()
        for c in range(3)
    ]
    assert calibration_error(truth, probability) == pytest.approx(np.mean(each), rel=1e-4)


@pytest.mark.parametrize("multi_label", [False, True])
def test_temperature_is_the_lowest_of_a_grid(multi_label):
    truth, logits = scored(4, 307, 3, multi_label)
    for factor in (0.3, 1.0, 4.0):
        found = fit_temperature(truth, logits * factor)
        least = negative_log_likelihood(truth, logits * factor, found)
        for other in found * np.geomspace(0.5, 2, 41):
            assert least <= negative_log_likelihood(truth, logits * factor, other) + 1e-12
        assert found == pytest.approx(factor * fit_temperature(truth, logits))  # T follows the scale of the logits


def test_temperature_of_a_model_that_is_right_about_itself_is_one():
    truth, logits = scored(9, 5003, 3, False)
    assert fit_temperature(truth, logits) == pytest.approx(1, abs=0.05)
    loud = logits * 3
    found = fit_temperature(truth, loud)
    assert (
        calibration_error(truth, probabilities(loud, False, found))
        < 0.03
        < calibration_error(truth, probabilities(loud, False))
    )


def test_loss_equals_loops():
    truth, logits = scored(3, 31, 5, False)
    assert negative_log_likelihood(truth, logits, 1.7) == pytest.approx(
        oracle.log_loss(truth.tolist(), logits.tolist(), 1.7)
    )
    truth, logits = scored(3, 31, 5, True)
    theirs = torch.nn.functional.binary_cross_entropy_with_logits(
        torch.tensor(logits) / 1.7, torch.tensor(truth.astype(float))
    )
    assert negative_log_likelihood(truth, logits, 1.7) == pytest.approx(theirs.item())


def test_edges_of_the_temperature():
    # nothing is wrong
    assert fit_temperature(np.array([0, 1]), np.array([[2.0, 0], [0, 3.0]])) == pytest.approx(COLDEST)
    assert fit_temperature(np.array([0, 1]), np.zeros((2, 2))) == 1.0  # nothing is said
    assert fit_temperature(np.array([0]), np.array([[0.0, 5.0]])) == pytest.approx(20)  # everything is wrong


@given(st.integers(0, 99), st.booleans(), st.floats(0.1, 10))
def test_error_is_a_share_and_ignores_order(seed, multi_label, temperature):
    truth, logits = scored(seed, 17, 3, multi_label)
    probability, order = probabilities(logits, multi_label, temperature), np.random.default_rng(seed).permutation(17)
    found = calibration_error(truth, probability)
    assert 0 <= found <= 1
    assert found == pytest.approx(calibration_error(truth[order], probability[order]))


def test_bad_input():
    with pytest.raises(FovealError, match="logits: expected numbers, got nan or infinity"):
        probabilities(np.array([[np.nan, 0.0]]), False)
    with pytest.raises(FovealError, match="temperature: expected above 0"):
        probabilities(np.zeros((1, 2)), False, 0.0)
    with pytest.raises(FovealError, match=r"logits: expected an array \(N, C\)"):
        probabilities(np.zeros(2), False)
    with pytest.raises(FovealError, match="truth: expected labels"):
        fit_temperature(np.array([3]), np.zeros((1, 2)))
