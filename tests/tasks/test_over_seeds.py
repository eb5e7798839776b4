"""Builds held against each other over seeds, by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from foveal.errors import FovealError
from foveal.metrics.classification import weights
from foveal.metrics.difference import Difference
from foveal.tasks.over_seeds import (
    by_seed,
    difference,
    groups_of,
    mean_and_spread,
    order_of_names,
    points,
)


def said(files, right=()):
    return SimpleNamespace(files=tuple(files), right=np.array(right, float))


def share(test):
    """Of the images that are right."""
    return lambda weight: weights(weight, len(test.right)) @ test.right / weights(weight, len(test.right)).sum(-1)


def test_the_folds_of_a_seed_are_one_test():
    runs = [SimpleNamespace(recipe=SimpleNamespace(seed=seed), fold=fold) for fold in (0, 1) for seed in (3, 5)]
    found = by_seed(runs, lambda run: (run.recipe.seed, run.fold), list)
    assert found == {3: [(3, 0), (3, 1)], 5: [(5, 0), (5, 1)]}


def test_images_stand_in_the_order_of_their_names():
    assert order_of_names([said("ca"), said("b")]).tolist() == [1, 2, 0]
    with pytest.raises(FovealError, match="expected every image once, got some twice"):
        order_of_names([said("ab"), said("b")])


def test_the_difference_is_the_mean_over_the_seeds_that_both_have():
    base = {0: said("abcd", [1, 0, 0, 0]), 1: said("abcd", [0, 0, 0, 0]), 2: said("abcd", [1, 1, 1, 1])}
    other = {0: said("abcd", [1, 1, 0, 0]), 1: said("abcd", [1, 1, 0, 0])}
    found = difference(base, other, share, resamples=500)
    assert found.value == pytest.approx((0.25 + 0.5) / 2)
    assert 0 <= found.low < found.value < found.high <= 1
    whole = difference(base, other, share, np.zeros(4, np.int64), resamples=500)
    assert whole.low == whole.high == pytest.approx(whole.value), "a single group has no spread"
    with pytest.raises(FovealError, match="the seeds of two builds: expected some in common, got none"):
        difference({0: base[0]}, {1: other[1]}, share)
    with pytest.raises(FovealError, match="two builds: expected the same test images, got others"):
        difference(base, {0: said("abce", [1, 1, 0, 0])}, share)


class Images(list):
    group = np.array([7, 7, 2])

    def file(self, index):
        return self[index]


def test_groups_are_those_of_the_files():
    images = Images(["x", "y", "z"])
    assert groups_of(["z", "x"], images).tolist() == [2, 7]
    images.group = None
    assert groups_of(["z", "x"], images) is None


def test_cells_are_in_points():
    assert mean_and_spread([0.5, 0.7]) == ["60.0", "14.1"]
    assert mean_and_spread([0.25]) == ["25.0", "–"]
    assert points(Difference(-0.0123, -0.05, 0.025)) == "-1.2 (-5.0 to +2.5)"
