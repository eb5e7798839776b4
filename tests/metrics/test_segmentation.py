"""Overlaps of label maps: by hand, in loops, against torchmetrics and MONAI, at the edges, and in time."""

import math
import time

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from monai.metrics import compute_dice
from oracle import segment_metric as oracle
from torchmetrics.functional import classification as witness

from foveal.errors import FovealError
from foveal.metrics.interval import bootstrap
from foveal.metrics.segmentation import confusion, measure, measure_areas

CLASSES = 4
label_maps = st.tuples(st.integers(1, 5), st.integers(1, 7)).flatmap(
    lambda shape: st.tuples(
        arrays(np.uint8, shape, elements=st.sampled_from([0, 0, 1, 2, CLASSES, 255])),
        arrays(np.uint8, shape, elements=st.sampled_from([0, 0, 1, 2, CLASSES])),
    )
)


def some(seed=0, images=7, shape=(11, 13), absent=3):
    """Truths and predictions that mostly agree; one class is nowhere, and some pixels are unlabelled."""
    random = np.random.default_rng(seed)
    truth = random.integers(0, CLASSES + 1, (images, *shape)).astype(np.uint8)
    truth[truth == absent] = 0
    predicted = np.where(random.random(truth.shape) < 0.6, truth, random.integers(0, 3, truth.shape)).astype(np.uint8)
    truth[random.random(truth.shape) < 0.1] = 255
    return truth, predicted


def confusions(truth, predicted):
    return np.stack([confusion(*pair, CLASSES) for pair in zip(truth, predicted, strict=True)])


def same(ours, theirs):
    np.testing.assert_allclose(ours, [math.nan if value is None else value for value in theirs], rtol=1e-12)


def test_by_hand():
    truth = np.array([[0, 0, 1, 1], [0, 2, 2, 255]], np.uint8)
    predicted = np.array([[0, 1, 1, 1], [0, 0, 2, 2]], np.uint8)
    table = confusion(truth, predicted, 3)
    np.testing.assert_array_equal(table, [[2, 1, 0, 0], [0, 2, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0]])
    figures = measure(table[None])()
    np.testing.assert_allclose(figures["IoU"], [2 / 4, 2 / 3, 1 / 2, np.nan])
    np.testing.assert_allclose(figures["Dice"], [4 / 6, 4 / 5, 2 / 3, np.nan])
    assert figures["mIoU"] == pytest.approx((2 / 3 + 1 / 2) / 2)
    assert figures["mIoU with background"] == pytest.approx((2 / 4 + 2 / 3 + 1 / 2) / 3)
    assert figures["mean Dice"] == pytest.approx((4 / 5 + 2 / 3) / 2)
    assert figures["pixel accuracy"] == pytest.approx(5 / 7)
    assert figures["finding F1"] == pytest.approx(2 * 3 / (4 + 4))
    areas = measure_areas(table[None])()
    np.testing.assert_allclose(areas["area error"], [1 / 2, 1 / 2, np.nan])
    np.testing.assert_allclose(areas["area bias"], [1 / 2, -1 / 2, np.nan])


def test_undefined_zero_and_one():
    nothing, one = np.zeros((2, 3), np.uint8), np.ones((2, 3), np.uint8)
    figures = measure(confusion(nothing, nothing, 2)[None])()
    np.testing.assert_array_equal(figures["IoU"], [1, np.nan, np.nan])
    assert np.isnan(figures["mIoU"])
    assert np.isnan(figures["finding F1"])
    assert figures["mIoU with background"] == 1
    figures = measure(confusion(nothing, one, 2)[None])()  # predicted, and nowhere in the truth
    np.testing.assert_array_equal(figures["IoU"], [0, 0, np.nan])
    assert figures["mIoU"] == figures["finding F1"] == 0
    unlabelled = measure(confusion(nothing + 255, one, 2)[None])()
    assert all(np.isnan(value).all() for value in unlabelled.values())
    # a class that one image lacks is judged by the others
    both = np.stack([confusion(nothing, nothing, 2), confusion(one, one, 2)])
    np.testing.assert_array_equal(measure(both)()["IoU"], [1, 1, np.nan])


@pytest.mark.parametrize("seed", range(3))
def test_everything_equals_the_loops_under_weights(seed):
    truth, predicted = some(seed)
    weight = np.random.default_rng(seed).integers(0, 3, (3, len(truth))).astype(float)
    tables = confusions(truth, predicted)
    found, areas = measure(tables)(weight), measure_areas(tables)(weight)
    images = [(a.tolist(), b.tolist()) for a, b in zip(truth, predicted, strict=True)]
    assert tables[0].tolist() == oracle.confusion(*images[0], CLASSES)
    for row, times in enumerate(weight.tolist()):
        iou, dice = oracle.overlaps(images, times, CLASSES)
        same(found["IoU"][row], iou)
        same(found["Dice"][row], dice)
        for name, values in (("mIoU", iou[1:]), ("mIoU with background", iou), ("mean Dice", dice[1:])):
            known = [value for value in values if value is not None]
            assert found[name][row] == pytest.approx(sum(known) / len(known))
        assert found["finding F1"][row] == pytest.approx(oracle.finding_f1(images, times))
        expected = [oracle.areas(images, times, label) for label in range(1, CLASSES + 1)]
        same(areas["area error"][row], [error for error, _ in expected])
        same(areas["area bias"][row], [bias for _, bias in expected])


def test_it_agrees_with_torchmetrics():
    truth, predicted = some(absent=-1)
    figures = measure(confusions(truth, predicted))()
    given = torch.tensor(predicted.astype(int)).flatten(), torch.tensor(truth.astype(int)).flatten(), CLASSES + 1
    options = {"average": None, "ignore_index": 255}
    np.testing.assert_allclose(figures["IoU"], witness.multiclass_jaccard_index(*given, **options), rtol=1e-6)
    np.testing.assert_allclose(figures["Dice"], witness.multiclass_f1_score(*given, **options), rtol=1e-6)
    accuracy = witness.multiclass_accuracy(*given, average="micro", ignore_index=255)
    assert figures["pixel accuracy"] == pytest.approx(accuracy.item())


def test_dice_of_one_image_agrees_with_monai():
    truth, predicted = some(absent=-1)
    truth = np.where(truth == 255, 0, truth)
    one_hot = [torch.tensor(np.moveaxis(np.eye(CLASSES + 1)[of[:1]], -1, 1)) for of in (predicted, truth)]
    figures = measure(confusions(truth[:1], predicted[:1]))()
    np.testing.assert_allclose(figures["Dice"], compute_dice(*one_hot)[0], rtol=1e-6)


@given(label_maps)
def test_exchange_and_order_of_pixels(case):
    truth, predicted = case
    table = confusion(truth, predicted, CLASSES)
    assert table.sum() == (truth != 255).sum()
    swapped = np.where(truth == 255, 0, truth), np.where(truth == 255, 255, predicted)
    back = confusion(swapped[1], swapped[0], CLASSES)
    np.testing.assert_array_equal(back, table.T)
    np.testing.assert_allclose(measure(back[None])()["IoU"], measure(table[None])()["IoU"])
    figures = measure(table[None])()
    known = ~np.isnan(figures["IoU"])
    assert ((figures["IoU"][known] >= 0) & (figures["IoU"][known] <= figures["Dice"][known])).all()
    # Dice = 2 IoU/(1 + IoU)
    np.testing.assert_allclose(figures["Dice"], 2 * figures["IoU"] / (1 + figures["IoU"]))


def test_the_bootstrap_equals_drawing_copies():
    tables = confusions(*some(5, images=23))
    found = bootstrap(measure(tables), 23, resamples=41, seed=3)
    again = np.random.default_rng(3)
    copies = [measure(tables[again.integers(23, size=23)])() for _ in range(41)]
    for name, ends in found.items():
        drawn = np.stack([copy[name] for copy in copies])
        there = ~np.isnan(drawn).all(0)  # one class is in no image
        for end, share in zip(ends, (0.025, 0.975), strict=True):
            np.testing.assert_allclose(end[there], np.nanquantile(drawn[:, there], share, axis=0), err_msg=name)
            assert np.isnan(end[~there]).all()


def test_a_thousand_resamples_of_500_images_take_less_than_a_second_of_a_core():
    random = np.random.default_rng(0)
    tables = random.integers(0, 9999, (500, 16, 16))
    groups = np.repeat(np.arange(125), 4)
    start = time.process_time()
    found = bootstrap(measure(tables), 500, groups=groups)
    assert time.process_time() - start < 1
    assert found["IoU"][0].shape == (16,)


def test_bad_input():
    good = np.zeros((2, 3), np.uint8)
    with pytest.raises(FovealError, match=r"the truth: expected a label map \(H, W\)"):
        confusion(good[0], good, 2)
    with pytest.raises(FovealError, match=r"the prediction: expected \(2, 3\), as the truth is, got \(3, 2\)"):
        confusion(good, good.T, 2)
    with pytest.raises(FovealError, match="the prediction: expected labels 0…2, got 0…255"):
        confusion(good, good + 255, 2)
    with pytest.raises(FovealError, match="the truth: expected labels 0…2 and 255, got 0…3"):
        confusion(good + 3, good, 2)
    with pytest.raises(FovealError, match="the prediction: expected integers, got float64"):
        confusion(good, good * 0.5, 2)
    with pytest.raises(FovealError, match=r"confusions: expected \(N, K \+ 1, K \+ 1\)"):
        measure(np.zeros((3, 3), np.int64))
