"""The difference of two builds on the same images."""

import numpy as np
import pytest

from foveal.errors import FovealError
from foveal.tasks.classify.compare import difference, headline, pooled
from foveal.tasks.classify.predictions import Predicted


def told(files, truth, chosen, classes=("a", "b")):
    """Predictions that choose `chosen`."""
    return Predicted(tuple(files), classes, np.array(truth), 4.0 * np.eye(len(classes))[chosen])


def test_folds_become_one_test_in_the_order_of_names():
    one, two = told(["c", "a"], [0, 1], [0, 0]), told(["b"], [1], [1])
    all_ = pooled([one, two])
    assert all_.files == ("a", "b", "c")
    assert all_.truth.tolist() == [1, 1, 0]
    assert all_.logits.argmax(1).tolist() == [0, 1, 0]


def test_an_image_that_two_folds_test_is_refused():
    with pytest.raises(FovealError, match="every image once"):
        pooled([told(["a"], [0], [0]), told(["a"], [0], [0])])


def test_the_headline_is_balanced_accuracy_of_one_label():
    # class a: 2 of 3 right, class b: 1 of 1
    assert headline(told("wxyz", [0, 0, 0, 1], [0, 0, 1, 1]), multi_label=False)(None) == pytest.approx((2 / 3 + 1) / 2)


def test_the_headline_is_mean_average_precision_of_several():
    truth = np.array([[1, 0], [0, 1], [1, 0]])
    logits = np.array([[3.0, 1.0], [2.0, -1.0], [1.0, 0.0]])  # a: hits at 1 and 3; b: its one hit comes third
    assert headline(Predicted(("x", "y", "z"), ("a", "b"), truth, logits), multi_label=True)(None) == pytest.approx(
        ((1 + 2 / 3) / 2 + 1 / 3) / 2
    )


def test_scores_of_two_models_are_not_ranked_against_each_other():
    """Both rank their own two images right; the second model's scores are all lower."""
    first = Predicted(("a", "b"), ("x",), np.array([[1], [0]]), np.array([[5.0], [4.0]]))
    second = Predicted(("c", "d"), ("x",), np.array([[1], [0]]), np.array([[-4.0], [-5.0]]))
    assert headline(pooled([first, second]), multi_label=True)(None) == 1
    assert headline(pooled([first, second]), multi_label=True)(np.ones((7, 4))).shape == (7,)


def test_a_difference_by_hand_and_the_same_build_differs_by_nothing():
    files, truth = [f"{i:03d}" for i in range(200)], np.arange(200) % 2
    good, bad = truth.copy(), truth.copy()
    bad[:40] = 0  # half of these 40 are of class 1: recall of it falls from 1 to 0.8
    found = difference({0: told(files, truth, bad)}, {0: told(files, truth, good)}, multi_label=False)
    assert found.value == pytest.approx(0.1)
    assert 0.05 < found.low < 0.1 < found.high < 0.15
    same = difference({0: told(files, truth, bad)}, {0: told(files, truth, bad)}, multi_label=False)
    assert (same.value, same.low, same.high) == (0, 0, 0)


def test_groups_widen_the_interval():
    files, truth = [f"{i:03d}" for i in range(200)], np.arange(200) % 2
    bad = truth.copy()
    bad[:40] = 0
    pair = {0: told(files, truth, bad)}, {0: told(files, truth, truth)}
    alone, together = (
        difference(*pair, multi_label=False),
        difference(*pair, multi_label=False, groups=np.arange(200) // 40),
    )
    assert together.high - together.low > 1.5 * (alone.high - alone.low)


def test_builds_on_other_images_or_without_a_common_seed_are_refused():
    one, other = told(["a"], [0], [0]), told(["b"], [0], [0])
    with pytest.raises(FovealError, match="same test images"):
        difference({0: one}, {0: other}, multi_label=False)
    with pytest.raises(FovealError, match="in common"):
        difference({0: one}, {1: one}, multi_label=False)
