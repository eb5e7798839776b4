"""A split that nobody gave: by the shares in every class, whole groups, the same for the same seed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveal.data.divide import divide
from foveal.errors import FovealError


def table(labels, split):
    """(3, C) how many of each class are in each split."""
    sets = labels if labels.ndim == 2 else np.eye(labels.max() + 1, dtype=int)[labels]
    return np.stack([sets[split == place].sum(0) for place in range(3)])


def test_by_hand():
    labels = np.repeat([0, 1], [100, 20])
    split = divide(labels, shares=(0.7, 0.2, 0.1))
    assert table(labels, split).tolist() == [[70, 14], [20, 4], [10, 2]]
    assert (split == divide(labels, shares=(0.7, 0.2, 0.1))).all()
    assert (split != divide(labels, shares=(0.7, 0.2, 0.1), seed=1)).any()


@given(st.lists(st.integers(3, 301), min_size=2, max_size=7), st.integers(0, 99))
def test_every_class_by_the_shares(sizes, seed):
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    found = table(labels, divide(labels, seed=seed))
    assert np.abs(found - np.outer((0.7, 0.15, 0.15), sizes)).max() <= 3
    assert found.min() >= 1


@given(st.integers(60, 701), st.integers(2, 7), st.integers(0, 99))
def test_several_labels(count, classes, seed):
    chance = np.random.default_rng(seed)
    labels = (chance.random((count, classes)) < chance.uniform(0.02, 0.6, classes)).astype(np.uint8)
    split = divide(labels, seed=seed)
    found, total = table(labels, split), labels.sum(0)
    assert np.abs(np.bincount(split, minlength=3) - np.array((0.7, 0.15, 0.15)) * count).max() <= 2 + classes
    assert np.abs(found - np.outer((0.7, 0.15, 0.15), total)).max() <= 3 + 0.1 * count**0.5 * classes
    assert (found[:, total >= 3] > 0).all() or classes > 4  # with very many classes one move may undo another


@pytest.mark.parametrize("seed", range(7))
def test_a_rare_label_among_common_ones(seed):
    labels = (np.random.default_rng(seed).random((2003, 7)) < 0.5).astype(np.uint8)
    labels[:, 3] = 0
    labels[::100, 3] = 1  # 21 images
    found = table(labels, divide(labels, seed=seed))[:, 3]
    assert np.abs(found - np.array((0.7, 0.15, 0.15)) * 21).max() <= 2


@given(st.integers(40, 401), st.integers(0, 99), st.booleans())
def test_groups_stay_whole(count, seed, multi_label):
    chance = np.random.default_rng(seed)
    group = chance.integers(0, count // 4, count) * 7 + 3
    labels = (chance.random((count, 3)) < 0.4).astype(np.uint8) if multi_label else chance.integers(0, 3, count)
    split = divide(labels, group, seed=seed)
    for number in np.unique(group):
        assert len(set(split[group == number].tolist())) == 1
    assert np.abs(np.bincount(split, minlength=3) / count - (0.7, 0.15, 0.15)).max() < 0.12
    found = table(labels, split)
    assert np.abs(found / found.sum(0) - np.array((0.7, 0.15, 0.15))[:, None]).max() < 0.2
    assert (split == divide(labels, group, seed=seed)).all()


def test_no_test_asked_for():
    labels = np.repeat([0, 1, 2], [97, 41, 3])
    split = divide(labels, shares=(0.85, 0.15, 0.0))
    assert set(split.tolist()) == {0, 1}
    assert table(labels, split)[1].min() >= 1


def test_images_without_a_label():
    split = divide(np.array([-1] * 50 + [0] * 50))
    assert np.bincount(split).tolist() == [70, 15, 15]
    assert len(divide(np.zeros(0, np.int64))) == 0


@pytest.mark.parametrize("shares", [(0.7, 0.3, 0.3), (0.0, 0.5, 0.5), (1.2, -0.1, -0.1), (0.5, 0.5)])
def test_bad_shares(shares):
    with pytest.raises(FovealError, match="three that add to 1"):
        divide(np.zeros(9, np.int64), shares=shares)
