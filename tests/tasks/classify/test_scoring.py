"""The scores: figures by hand, what is chosen where, the worst mistakes, curves, and the way to JSON and back."""

import json
import math

import numpy as np
import pytest

from foveal.errors import FovealError
from foveal.metrics.calibration import fit_temperature
from foveal.metrics.classification import average_precision
from foveal.metrics.importance import CIW
from foveal.metrics.threshold import thresholds
from foveal.runtime.answers import probabilities
from foveal.tasks.classify.predictions import Predicted
from foveal.tasks.classify.scores import Figure
from foveal.tasks.classify.scoring import CORNERS, MISTAKES, score


def one(images=101, classes=3, seed=0, **options):
    random = np.random.default_rng(seed)
    truth = random.integers(classes, size=images)
    logits = 2 * random.normal(size=(images, classes)) + 2.0 * (truth[:, None] == np.arange(classes))
    names = [f"c{index}" for index in range(classes)]
    return score(
        Predicted([f"{i}.png" for i in range(images)], names, truth, logits), "test", **{"resamples": 53, **options}
    )


def many_scores(images=211, classes=17, seed=0):
    random = np.random.default_rng(seed)
    truth = (random.random((images, classes)) < 0.2).astype(np.uint8)
    return truth, random.normal(size=(images, classes)) + 2.5 * truth - 2.0


def multi_label(seed=0, images=211, **options):
    truth, logits = many_scores(images, seed=seed)
    return score(
        Predicted([f"{i}.png" for i in range(images)], tuple(CIW), truth, logits), "val", **{"resamples": 29, **options}
    )


LOGIT = math.log(9)  # two logits this far apart: probabilities 0.9 and 0.1


def test_four_images_by_hand():
    truth, logits = np.array([0, 0, 1, 1]), np.array([[LOGIT, 0], [0, LOGIT], [0, LOGIT], [0.1, 0]])
    scores = score(Predicted(list("abcd"), ("fine", "crack"), truth, logits), "test", resamples=31)
    assert scores.figures["accuracy"].value == scores.figures["balanced accuracy"].value == 1 / 2
    assert scores.confusion == ((1, 1), (1, 1))
    assert [row.name for row in scores.classes] == ["fine", "crack"]
    assert [row.images for row in scores.classes] == [2, 2]
    assert scores.classes[1].counts == (1, 1, 1, 1)
    assert scores.classes[1].threshold is None
    assert scores.wrong == 2
    first, second = scores.mistakes
    assert (first.index, first.file, first.truth, first.predicted, first.missed) == (
        1,
        "b",
        ("fine",),
        ("crack",),
        False,
    )
    assert first.confidence == pytest.approx(0.9)
    assert (second.index, second.predicted) == (3, ("fine",))
    assert second.confidence == pytest.approx(1 / (1 + math.exp(-0.1)))
    assert "no threshold was chosen" in scores.decision
    assert scores.calibration.temperature is None
    assert scores.calibration.after is None
    assert sum(scores.calibration.before.count) == 4


def test_intervals_hold_the_value_and_can_be_left_out():
    scores = one()
    for figure in [*scores.figures.values(), *(f for row in scores.classes for f in row.figures.values())]:
        assert figure.low <= figure.high
    accuracy = scores.figures["accuracy"]
    assert accuracy.low < accuracy.value < accuracy.high
    assert "95 % percentile bootstrap over images, 53 resamples, seed 0" in scores.interval
    grouped = one(groups=np.arange(101) // 51)  # two halves: a draw is one of three mixtures
    assert "2 groups" in grouped.interval
    assert grouped.figures["accuracy"].value == accuracy.value
    assert (grouped.figures["accuracy"].low, grouped.figures["accuracy"].high) != (accuracy.low, accuracy.high)
    bare = one(resamples=0)
    assert math.isnan(bare.figures["accuracy"].low)
    assert bare.figures["accuracy"].value == accuracy.value
    assert one(seed=3).to_dict() == one(seed=3).to_dict()


def test_thresholds_come_from_the_validation_images_alone():
    known = many_scores(307, seed=9)
    scores = multi_label(validation=known)
    expected = thresholds(known[0], probabilities(known[1], True), "F1")
    assert [row.threshold for row in scores.classes] == expected.tolist()
    assert "best F1 on 307 validation images" in scores.decision
    other = multi_label(seed=5, validation=known)  # other images are evaluated: the same thresholds
    assert [row.threshold for row in other.classes] == expected.tolist()
    assert [row.threshold for row in multi_label().classes] == [0.5] * 17
    assert "no validation images" in multi_label().decision
    wide = multi_label(validation=known, metric="F2")
    assert "best F2" in wide.decision
    assert (
        [row.threshold for row in wide.classes]
        == thresholds(known[0], probabilities(known[1], True), "F2").tolist()
        != expected.tolist()
    )
    assert scores.figures["macro F1"].value > multi_label().figures["macro F1"].value


def test_temperature_comes_from_the_validation_images_and_changes_no_figure():
    random = np.random.default_rng(1)
    logits = random.normal(size=(997, 3))
    truth = np.array([random.choice(3, p=row) for row in probabilities(logits, False)])
    names, files = ("a", "b", "c"), [""] * 499
    with_, without = (
        score(Predicted(files, names, truth[:499], 3 * logits[:499]), "test", validation=known, resamples=0)
        for known in ((truth[499:], 4 * logits[499:]), None)
    )
    assert with_.calibration.temperature == fit_temperature(truth[499:], 4 * logits[499:])
    assert with_.calibration.after.error < 0.15 < with_.calibration.before.error
    assert with_.calibration.after.loss < with_.calibration.before.loss
    assert with_.to_dict()["calibration"]["before"] == without.to_dict()["calibration"]["before"]
    assert {name: f.value for name, f in with_.figures.items()} == {
        name: f.value for name, f in without.figures.items()
    }


def test_two_classes_can_have_one_threshold():
    second = np.array([-4.0, -3.0, -2.5, -1.0, -0.5])
    truth, logits = np.array([0, 0, 0, 1, 1]), np.stack([np.zeros(5), second], 1)
    names, files = ("fine", "crack"), list("abcde")
    plain = score(Predicted(files, names, truth, logits), "test", resamples=0)
    cut = score(
        Predicted(files, names, truth, logits),
        "test",
        validation=(truth, logits),
        metric="balanced accuracy",
        resamples=0,
    )
    assert plain.figures["balanced accuracy"].value == 0.5  # argmax says "fine" to everything
    assert cut.figures["balanced accuracy"].value == 1
    assert cut.classes[0].threshold is None
    assert 1 / (1 + math.exp(2.5)) < cut.classes[1].threshold < 1 / (1 + math.e)
    assert "crack from probability 0.17" in cut.decision
    assert not cut.mistakes


def test_mistakes_of_several_labels_name_the_class_at_fault():
    truth = np.array([[1, 0], [0, 0], [1, 1]])
    logits = np.array([[-LOGIT, 0.2], [-5, LOGIT / 2], [5, 5]])
    scores = score(Predicted(list("abc"), ("RB", "OB"), truth, logits), "val", resamples=0)
    assert scores.wrong == 2
    first, second = scores.mistakes
    assert (first.file, first.about, first.missed, first.truth, first.predicted) == ("a", "RB", True, ("RB",), ("OB",))
    assert first.confidence == pytest.approx(0.9)
    assert (second.file, second.about, second.missed, second.truth, second.predicted) == ("b", "OB", False, (), ("OB",))
    assert second.confidence == pytest.approx(0.75)


def test_only_the_worst_mistakes_are_kept_and_come_in_order():
    scores = one(images=1009)
    sure = [mistake.confidence for mistake in scores.mistakes]
    assert len(sure) == MISTAKES < scores.wrong
    assert sure == sorted(sure, reverse=True)


def test_importance_asks_for_the_sewer_figures():
    weights = np.array(list(CIW.values()))
    assert "F2_CIW" not in multi_label().figures
    plain = multi_label(importance=weights)
    assert list(plain.figures)[:2] == ["F2_CIW", "F1_Normal"]
    chosen = multi_label(importance=weights, validation=many_scores(seed=4))
    assert chosen.figures["F2_CIW"].value == plain.figures["F2_CIW"].value  # the benchmark's own stays at 0.5
    assert chosen.figures["F2_CIW, chosen thresholds"].value != plain.figures["F2_CIW"].value


def test_curves_enclose_their_areas_and_stay_short():
    scores = one(images=199)
    for row in scores.classes:
        steps = np.diff(np.append(0, row.recall))
        assert steps @ np.array(row.precision) == pytest.approx(row.figures["AP"].value, abs=1e-3)
        assert np.trapezoid(row.true_rate, row.false_rate) == pytest.approx(row.figures["AUC"].value, abs=1e-3)
        assert (row.false_rate[0], row.true_rate[0], row.false_rate[-1], row.true_rate[-1]) == (0, 0, 1, 1)
    random = np.random.default_rng(0)
    truth, logits = random.integers(2, size=5003), random.normal(size=(5003, 2))
    long = score(Predicted([""] * 5003, ("a", "b"), truth, logits), "test", resamples=0).classes[1]
    assert len(long.recall) <= CORNERS + 2
    assert np.diff(np.append(0, long.recall)) @ np.array(long.precision) == pytest.approx(
        long.figures["AP"].value, abs=0.01
    )
    assert average_precision(truth, probabilities(logits, False))[1] == long.figures["AP"].value


@pytest.mark.parametrize("make", [one, multi_label])
def test_all_goes_into_json(make):
    scores = make()
    text = scores.to_json()
    content = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert content == scores.to_dict()
    assert {name: Figure(**figure) for name, figure in content["figures"].items()} == scores.figures
    assert [tuple(one["counts"]) for one in content["classes"]] == [one.counts for one in scores.classes]
    assert [one["file"] for one in content["mistakes"]] == [one.file for one in scores.mistakes]


def test_undefined_is_null_in_json():
    scores = score(Predicted(["x"], ("a", "b"), np.array([0]), np.array([[1.0, 0.0]])), "test", resamples=11)
    content = json.loads(scores.to_json())
    assert content["classes"][1]["figures"]["AP"] == {"value": None, "low": None, "high": None}
    assert content["figures"]["ROC AUC"]["value"] is None
    assert content["classes"][1]["recall"] == []


def test_bad_input():
    truth, logits, names, files = np.array([0, 1]), np.zeros((2, 2)), ("a", "b"), ["x", "y"]
    with pytest.raises(FovealError, match=r"logits: expected \(N, 3\), one column per class"):
        score(Predicted(files, ("a", "b", "c"), truth, logits), "test")
    with pytest.raises(FovealError, match="files: expected 2, one per image, got 1"):
        score(Predicted(["x"], names, truth, logits), "test")
    with pytest.raises(FovealError, match=r"validation: labels: expected \(N, C\) with several labels"):
        score(Predicted(files, names, truth, logits), "test", validation=(np.eye(2, dtype=int), logits))
    with pytest.raises(FovealError, match="logits: expected numbers, got nan"):
        score(Predicted(files, names, truth, logits * np.nan), "test")
    with pytest.raises(FovealError, match="validation images to choose them on, got none"):
        score(Predicted(files, names, truth, logits), "test", metric="F1")
    with pytest.raises(FovealError, match="two classes, got 3"):
        one(metric="F1", validation=(np.array([0, 1, 2]), np.zeros((3, 3))))
    with pytest.raises(FovealError, match="importance: expected several labels"):
        score(Predicted(files, names, truth, logits), "test", importance=np.ones(2))
    with pytest.raises(FovealError, match="leave out images that have no label"):
        score(Predicted(files, names, np.array([0, -1]), logits), "test")
    with pytest.raises(FovealError, match="resamples"):
        one(resamples=-1)
