"""The bootstrap: by hand, against copies that really are drawn, against the textbook, and in time."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveal.errors import FovealError
from foveal.metrics.calibration import calibration_error
from foveal.metrics.classification import accuracy, measure
from foveal.metrics.interval import bootstrap
from foveal.runtime.answers import decide


def share(right):
    return lambda weight: {"accuracy": weight @ right / weight.sum(-1)}


def test_all_right_has_no_spread():
    low, high = bootstrap(share(np.ones(11)), 11, resamples=29)["accuracy"]
    assert low == high == 1


def test_it_equals_drawing_copies():
    random = np.random.default_rng(5)
    truth, probability = random.integers(3, size=41), random.dirichlet(np.ones(3), 41)
    chosen = decide(probability, False)
    found = bootstrap(measure(truth, chosen, probability), 41, resamples=97, seed=3)
    again, copies = np.random.default_rng(3), []
    for _ in range(97):
        rows = again.integers(41, size=41)
        copies.append(measure(truth[rows], chosen[rows], probability[rows])())
    for name, (low, high) in found.items():
        drawn = np.stack([copy[name] for copy in copies])
        np.testing.assert_allclose(low, np.nanquantile(drawn, 0.025, axis=0), err_msg=name)
        np.testing.assert_allclose(high, np.nanquantile(drawn, 0.975, axis=0), err_msg=name)


def test_width_is_that_of_the_binomial():
    right = np.arange(1009) < 807
    low, high = bootstrap(share(right), 1009, resamples=2003)["accuracy"]
    p = 807 / 1009
    assert high - low == pytest.approx(2 * 1.96 * np.sqrt(p * (1 - p) / 1009), rel=0.08)
    assert low < p < high


def test_same_seed_same_interval_and_memory_does_not_matter(monkeypatch):
    right = np.random.default_rng(0).random(53) < 0.7
    first = bootstrap(share(right), 53, resamples=101, seed=7)["accuracy"]
    monkeypatch.setattr("foveal.metrics.interval.AT_ONCE", 200)
    assert bootstrap(share(right), 53, resamples=101, seed=7)["accuracy"] == first
    assert bootstrap(share(right), 53, resamples=101, seed=8)["accuracy"] != first


def test_groups_are_drawn_whole():
    groups = np.repeat(np.arange(7) * 10, 5)
    seen = []

    def watch(weight):
        seen.append(weight)
        return {"n": weight.sum(-1)}

    bootstrap(watch, 35, resamples=31, groups=groups)
    weight = np.concatenate(seen).reshape(31, 7, 5)
    assert (weight == weight[:, :, :1]).all()
    assert (weight[:, :, 0].sum(1) == 7).all()
    assert len(np.unique(weight[:, :, 0], axis=0)) > 20


def test_frames_of_one_pipe_make_a_wider_interval():
    groups = np.repeat(np.arange(23), 19)
    right = np.random.default_rng(1).random(23)[groups] < 0.6  # a pipe is right or wrong as a whole
    apart = bootstrap(share(right), len(right), resamples=301)["accuracy"]
    together = bootstrap(share(right), len(right), resamples=301, groups=groups)["accuracy"]
    assert together[1] - together[0] > 3 * (apart[1] - apart[0])


@given(st.lists(st.booleans(), min_size=1, max_size=23), st.integers(0, 9))
def test_order_of_the_ends_and_bounds(right, seed):
    low, high = bootstrap(share(np.array(right)), len(right), resamples=31, seed=seed)["accuracy"]
    assert 0 <= low <= high <= 1


def test_undefined_draws_are_left_out():
    truth, probability = (
        np.array([0, 0, 0, 1, 0]),
        np.array([[0.8, 0.2], [0.3, 0.7], [0.9, 0.1], [0.4, 0.6], [0.6, 0.4]]),
    )
    found = bootstrap(measure(truth, decide(probability, False), probability), 5, resamples=199)
    assert np.isfinite(found["recall"][0]).all()
    absent = bootstrap(measure(np.zeros(5, int), np.zeros(5, int), probability), 5, resamples=19)["AP"]
    assert np.isnan(absent[0][1])
    assert np.isnan(absent[1][1])


def test_bad_input():
    right = np.ones(5)
    with pytest.raises(FovealError, match="resamples: expected at least 1, got 0"):
        bootstrap(share(right), 5, resamples=0)
    with pytest.raises(FovealError, match=r"groups: expected \(5,\), one group per image"):
        bootstrap(share(right), 5, groups=np.zeros(4, int))
    with pytest.raises(FovealError, match="level"):
        bootstrap(share(right), 5, level=1.0)


def test_a_thousand_resamples_of_500_images_take_less_than_a_second_of_a_core():
    random = np.random.default_rng(0)
    truth, probability = random.integers(2, size=500), random.dirichlet(np.ones(2), 500)
    figures = measure(truth, decide(probability, False), probability)
    start = time.process_time()
    bootstrap(lambda weight: figures(weight) | {"ECE": calibration_error(truth, probability, weight)}, 500)
    assert time.process_time() - start < 1
    assert accuracy(truth, truth) == 1
