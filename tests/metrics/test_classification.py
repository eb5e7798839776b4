"""Counts, confusion, areas and the Sewer-ML figures: by hand, in loops, against torchmetrics, and at the edges."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from oracle import metric as oracle
from torchmetrics.functional import classification as witness

from foveal.errors import FovealError
from foveal.metrics.classification import (
    accuracy,
    average_precision,
    balanced_accuracy,
    checked,
    confusion,
    marks,
    mean,
    measure,
    tally,
)
from foveal.metrics.importance import CIW, f1_normal, f2_ciw
from foveal.metrics.ranking import Ranking
from foveal.runtime.answers import decide

IMAGES, CLASSES = 101, 7


def one_label(seed=0, images=IMAGES, classes=CLASSES):
    random = np.random.default_rng(seed)
    truth = random.integers(classes, size=images)
    logits = random.normal(size=(images, classes)) + 1.5 * marks(truth, classes)
    powers = np.exp(logits)
    return truth, powers / powers.sum(1, keepdims=True)


def many_labels(seed=0, images=IMAGES, classes=CLASSES):
    random = np.random.default_rng(seed)
    truth = (random.random((images, classes)) < 0.3).astype(np.uint8)
    # rounded: there are ties
    return truth, np.round(np.clip(0.3 * truth + 0.7 * random.random((images, classes)), 0, 1), 2)


def same(ours, theirs):
    return np.testing.assert_allclose(ours, [math.nan if value is None else value for value in theirs], rtol=1e-12)


def test_three_classes_by_hand():
    truth, chosen = np.array([0, 0, 0, 1, 1, 2]), np.array([0, 0, 1, 1, 0, 0])
    np.testing.assert_array_equal(confusion(truth, chosen, 3), [[2, 1, 0], [1, 1, 0], [1, 0, 0]])
    counts = tally(truth, chosen, 3)
    np.testing.assert_array_equal(counts.hit, [2, 1, 0])
    np.testing.assert_array_equal(counts.false, [2, 1, 0])
    np.testing.assert_array_equal(counts.missed, [1, 1, 1])
    np.testing.assert_array_equal(counts.passed, [1, 3, 5])
    np.testing.assert_allclose(counts.precision, [1 / 2, 1 / 2, np.nan])
    np.testing.assert_allclose(counts.recall, [2 / 3, 1 / 2, 0])
    np.testing.assert_allclose(counts.f(), [4 / 7, 1 / 2, 0])
    np.testing.assert_allclose(counts.f(2), [10 / (10 + 4 + 2), 5 / (5 + 4 + 1), 0])
    assert accuracy(truth, chosen) == 1 / 2
    assert balanced_accuracy(truth, chosen, 3) == pytest.approx((2 / 3 + 1 / 2) / 3)


def test_areas_by_hand_with_a_tie():
    ranking = Ranking(np.array([True, False, True, False, True]), np.array([0.9, 0.8, 0.8, 0.3, 0.1]))
    ap, auc = ranking.areas()
    assert ap == pytest.approx((1 / 1 + 2 / 3 + 3 / 5) / 3)  # the two at 0.8 are one step
    assert auc == pytest.approx((2 + 1.5 + 0) / 6)
    recall, precision = ranking.precision_recall()
    np.testing.assert_allclose(recall, [1 / 3, 2 / 3, 2 / 3, 1])
    np.testing.assert_allclose(precision, [1, 2 / 3, 1 / 2, 3 / 5])
    false, true = ranking.roc()
    np.testing.assert_allclose(false, [0, 0, 1 / 2, 1, 1])
    np.testing.assert_allclose(true, [0, 1 / 3, 2 / 3, 2 / 3, 1])


@pytest.mark.parametrize("seed", range(3))
def test_everything_equals_the_loops_under_weights(seed):
    for make, multi_label in ((one_label, False), (many_labels, True)):
        truth, probability = make(seed, 37, 5)
        weight = np.random.default_rng(seed).integers(0, 4, 37).astype(float)
        chosen = decide(probability, multi_label)
        figures = measure(truth, chosen, probability)(weight)
        real, predicted = marks(truth, 5).T.tolist(), marks(chosen, 5).T.tolist()
        score, times = probability.T.tolist(), weight.tolist()
        f1 = [oracle.f_beta(a, b, times) for a, b in zip(real, predicted, strict=True)]
        ap = [oracle.average_precision(a, b, times) for a, b in zip(real, score, strict=True)]
        auc = [oracle.roc_auc(a, b, times) for a, b in zip(real, score, strict=True)]
        recall = [oracle.recall(a, b, times) for a, b in zip(real, predicted, strict=True)]
        same(figures["precision"], [oracle.precision(a, b, times) for a, b in zip(real, predicted, strict=True)])
        same(figures["recall"], recall)
        same(figures["F1"], f1)
        same(figures["AP"], ap)
        same(figures["AUC"], auc)
        same(
            [figures["macro F1"], figures["mAP"], figures["ROC AUC"]],
            [oracle.mean(f1), oracle.mean(ap), oracle.mean(auc)],
        )
        same(
            tally(truth, chosen, 5, weight).f(0.5),
            [oracle.f_beta(a, b, times, 0.5) for a, b in zip(real, predicted, strict=True)],
        )
        if multi_label:
            flat = [[value for row in rows for value in row] for rows in (real, predicted)]
            same([figures["micro F1"]], [oracle.f_beta(*flat, times * 5)])
            right = [a == b for a, b in zip(truth.tolist(), chosen.astype(int).tolist(), strict=True)]
            assert figures["exact match"] == pytest.approx(
                sum(t for t, ok in zip(times, right, strict=True) if ok) / sum(times)
            )
        else:
            same(confusion(truth, chosen, 5, weight), oracle.confusion(truth.tolist(), chosen.tolist(), times, 5))
            same([figures["balanced accuracy"]], [oracle.mean(recall)])


def test_one_label_agrees_with_torchmetrics():
    truth, probability = one_label()
    figures = measure(truth, decide(probability, False), probability)()
    target, scores, classes = torch.tensor(truth), torch.tensor(probability), CLASSES
    pairs = {
        "accuracy": witness.multiclass_accuracy(scores, target, classes, average="micro"),
        "balanced accuracy": witness.multiclass_recall(scores, target, classes, average="macro"),
        "macro F1": witness.multiclass_f1_score(scores, target, classes, average="macro"),
        "precision": witness.multiclass_precision(scores, target, classes, average=None),
        "recall": witness.multiclass_recall(scores, target, classes, average=None),
        "F1": witness.multiclass_f1_score(scores, target, classes, average=None),
        "AP": witness.multiclass_average_precision(scores, target, classes, average=None),
        "AUC": witness.multiclass_auroc(scores, target, classes, average=None),
        "mAP": witness.multiclass_average_precision(scores, target, classes, average="macro"),
        "ROC AUC": witness.multiclass_auroc(scores, target, classes, average="macro"),
    }
    for name, value in pairs.items():
        np.testing.assert_allclose(figures[name], value.numpy(), rtol=1e-5, err_msg=name)
    matrix = witness.multiclass_confusion_matrix(scores, target, classes)
    np.testing.assert_array_equal(confusion(truth, decide(probability, False), classes), matrix.numpy())


def test_many_labels_agree_with_torchmetrics():
    truth, probability = many_labels()
    figures = measure(truth, decide(probability, True), probability)()
    # Its 0.5 is exclusive, ours is not: a step down from 0.5 makes the two ask the same.
    target, scores, below, classes = torch.tensor(truth.astype(int)), torch.tensor(probability), 0.5 - 1e-9, CLASSES
    pairs = {
        "exact match": witness.multilabel_exact_match(scores, target, classes, below),
        "micro F1": witness.multilabel_f1_score(scores, target, classes, below, average="micro"),
        "macro F1": witness.multilabel_f1_score(scores, target, classes, below, average="macro"),
        "precision": witness.multilabel_precision(scores, target, classes, below, average=None),
        "recall": witness.multilabel_recall(scores, target, classes, below, average=None),
        "AP": witness.multilabel_average_precision(scores, target, classes, average=None),
        "AUC": witness.multilabel_auroc(scores, target, classes, average=None),
    }
    for name, value in pairs.items():
        np.testing.assert_allclose(figures[name], value.numpy(), rtol=1e-5, err_msg=name)


def test_sewer_figures_by_hand():
    truth = np.array([[1, 0], [1, 0], [0, 0], [0, 0], [0, 1]])
    probability = np.array([[0.5, 0.1], [0.4, 0.2], [0.9, 0.0], [0.1, 0.3], [0.2, 0.49]])
    # First code: TP 1, FP 1, FN 1 → P = R = ½, F2 = ½. Second: never given, so P is undefined and F2 counts 0.
    assert f2_ciw(truth, probability, np.array([3.0, 1.0])) == pytest.approx(3 * 0.5 / 4)
    # Normal are images 2 and 3; called so are 1, 3 and 4: TP 1, FP 2, FN 1.
    assert f1_normal(truth, probability) == pytest.approx(2 / (2 + 2 + 1))


@pytest.mark.parametrize("seed", range(3))
def test_sewer_figures_equal_the_loops(seed):
    truth, probability = many_labels(seed, 53, 17)
    truth[:, 3], truth[::2] = 0, 0  # a code that never occurs, and normal images
    importance = np.array(list(CIW.values()))
    rows = truth.tolist(), probability.tolist()
    assert f2_ciw(truth, probability, importance) == pytest.approx(oracle.f2_ciw(*rows, importance.tolist()))
    probability[::3] *= 0.4
    assert f1_normal(truth, probability) == pytest.approx(oracle.f1_normal(truth.tolist(), probability.tolist()))


def test_sewer_weights_are_the_published_ones():
    ten_thousandths = (
        "RB 10000 OS 9009 FS 6419 OB 5518 OK 4396 PH 4167 PB 4167 OP 3829 RO 3559 IN 3131 PF 2896 FO 2477 "
        "BE 2275 IS 1847 DE 1622 GR 901 AF 811"
    )
    words = ten_thousandths.split()
    assert pytest.approx(CIW) == {
        code: int(number) / 10000 for code, number in zip(words[::2], words[1::2], strict=True)
    }


def test_normal_is_undefined_when_there_is_nothing_normal():
    assert np.isnan(f1_normal(np.array([[1]]), np.array([[0.9]])))
    assert f2_ciw(np.array([[0]]), np.array([[0.1]]), np.ones(1)) == 0  # where an undefined F2 counts 0


scored = st.integers(1, 3).flatmap(
    lambda classes: st.tuples(
        arrays(np.int64, st.tuples(st.just(13), st.just(classes)), elements=st.integers(0, 1)),
        arrays(
            np.float64, st.tuples(st.just(13), st.just(classes)), elements=st.sampled_from([0.0, 0.2, 0.5, 0.7, 1.0])
        ),
        arrays(np.int64, 13, elements=st.integers(0, 3)),
        st.permutations(range(13)),
    )
)


@given(scored)
def test_order_does_not_matter_weights_are_repetition_and_values_are_shares(case):
    truth, probability, times, order = case
    for labels, multi_label in ((truth, True), (truth.sum(1) % truth.shape[1], False)):
        chosen = decide(probability, multi_label)
        plain = measure(labels, chosen, probability)
        again = measure(labels[order], chosen[order], probability[order])()
        weighted = plain(times.astype(float))
        repeated = np.repeat(np.arange(13), times)
        for name, values in plain().items():
            np.testing.assert_allclose(values, again[name], err_msg=name)
            assert ((values >= 0) & (values <= 1) | np.isnan(values)).all()
            if times.any():
                other = measure(labels[repeated], chosen[repeated], probability[repeated])()[name]
                np.testing.assert_allclose(weighted[name], other, atol=1e-12, err_msg=name)
            else:
                assert np.isnan(weighted[name]).all()


@given(scored)
def test_many_weights_at_once_are_each_by_itself(case):
    truth, probability, times, order = case
    several = np.stack([times, times[list(order)], np.ones(13)]).astype(float)
    figures = measure(truth, decide(probability, True), probability)
    together, apart = figures(several), [figures(row) for row in several]
    for name, values in together.items():
        np.testing.assert_allclose(values, np.stack([one[name] for one in apart]), rtol=1e-12, err_msg=name)
    labels, chosen = truth[:, 0], decide(probability, True)[:, 0].astype(int)
    matrices = confusion(labels, chosen, 2, several)
    np.testing.assert_array_equal(matrices, np.stack([confusion(labels, chosen, 2, row) for row in several]))


def test_absent_classes_are_undefined_and_left_out_of_means():
    truth, probability = np.array([0, 0, 1]), np.array([[0.8, 0.2, 0.0], [0.3, 0.7, 0.0], [0.1, 0.9, 0.0]])
    figures = measure(truth, decide(probability, False), probability)()
    assert np.isnan([figures[name][2] for name in ("precision", "recall", "F1", "AP", "AUC")]).all()
    assert figures["balanced accuracy"] == pytest.approx((0.5 + 1) / 2)
    assert figures["macro F1"] == pytest.approx((2 / 3 + 2 / 3) / 2)
    # both images of class 0, and the one of class 1, come first in their rankings
    assert figures["mAP"] == pytest.approx(1)
    assert np.isnan(mean(np.full((2, 3), np.nan))).all()


def test_one_image_and_level_scores():
    figures = measure(np.array([1]), np.array([1]), np.array([[0.2, 0.8]]))()
    assert figures["accuracy"] == figures["mAP"] == 1
    assert np.isnan(figures["ROC AUC"])
    truth, level = np.array([0, 1, 1, 1, 0]), np.full((5, 2), 0.5)
    np.testing.assert_allclose(average_precision(truth, level), [2 / 5, 3 / 5])
    np.testing.assert_allclose(measure(truth, truth, level)()["AUC"], [0.5, 0.5])


def test_the_answer():
    probability = np.array([[0.5, 0.5], [0.4, 0.6], [0.7, 0.3]])
    np.testing.assert_array_equal(decide(probability, False), [0, 1, 0])
    np.testing.assert_array_equal(decide(probability, False, 0.3), [1, 1, 1])
    np.testing.assert_array_equal(decide(probability, True), [[1, 1], [0, 1], [1, 0]])
    np.testing.assert_array_equal(decide(probability, True, np.array([0.6, 0.6])), [[0, 0], [0, 1], [1, 0]])


@pytest.mark.parametrize(
    ("truth", "probability", "message"),
    [
        ([0, 1], [[0.5, np.nan], [0.5, 0.5]], "probability: expected numbers, got nan or infinity"),
        ([0, 1], [[0.5, 1.5], [0.5, 0.5]], "values in [0, 1], got 0.5 … 1.5"),
        ([0, 1, 1], [[0.5, 0.5], [0.5, 0.5]], "truth: expected (2,) or (2, 2), as probability is, got the shape (3,)"),
        ([[0, 1, 1]], [[0.5, 0.5]], "got the shape (1, 3)"),
        ([0, 2], [[0.5, 0.5], [0.5, 0.5]], "truth: expected labels 0…1, got 0…2"),
        ([0, -1], [[0.5, 0.5], [0.5, 0.5]], "leave out images that have no label"),
        ([[0, 255]], [[0.5, 0.5]], "labels 0…1, got 0…255"),
        ([0.0, 1.0], [[0.5, 0.5], [0.5, 0.5]], "integers, got float64"),
        ([0, 1], [0.5, 0.5], "an array (N, C), not empty, got the shape (2,)"),
        ([], np.zeros((0, 2)), "not empty"),
    ],
)
def test_bad_input_is_one_line(truth, probability, message):
    with pytest.raises(FovealError) as caught:
        checked(np.array(truth), np.array(probability))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bad_weights_and_shapes():
    truth, chosen = np.array([0, 1, 1]), np.array([0, 1, 0])
    with pytest.raises(FovealError, match="weight: expected"):
        tally(truth, chosen, 2, np.ones(4))
    with pytest.raises(FovealError, match="none negative"):
        tally(truth, chosen, 2, np.array([1, -1, 1.0]))
    with pytest.raises(FovealError, match="chosen: expected the shape of truth"):
        tally(truth, chosen[:2], 2)
    with pytest.raises(FovealError, match="one label per image"):
        confusion(np.eye(3, dtype=int), np.eye(3, dtype=int), 3)
    with pytest.raises(FovealError, match="two classes, got 3"):
        decide(np.full((2, 3), 1 / 3), False, 0.4)
    with pytest.raises(FovealError, match=r"importance: expected \(2,\)"):
        f2_ciw(np.eye(2, dtype=int), np.eye(2), np.ones(3))
