"""Scores of a segmenter: figures worked out by hand, weights against copies, and what is undefined."""

import json
import math

import numpy as np
import pytest
from tasks.segment.painted import KINDS, maps

from foveal.data.source import Names
from foveal.errors import FovealError
from foveal.progress import silent
from foveal.runtime.image import BadImage
from foveal.tasks.segment import scoring
from foveal.tasks.segment.predicted import joined, predict_images
from foveal.tasks.segment.scores import DECIDES
from foveal.tasks.segment.scoring import THIN, headline, measure, score

NOTHING = maps("0000", "0000", "0000")
A = maps("1100", "0002", "0002"), maps("1000", "0002", "0102")
B = NOTHING, NOTHING
C = maps("0000", "0110", "0110"), NOTHING
ABC = (A, B, C)


class Pairs:
    """Label maps, and beside each what a model says of it: an image is its number."""

    def __init__(self, pairs, bad=()):
        self.pairs, self.bad, self.names = pairs, bad, Names.of(f"{place}.png" for place in range(len(pairs)))

    def file(self, index):
        return self.names[index]

    def image(self, index):
        if index in self.bad:
            raise BadImage(self.file(index), "is gone")
        return np.full((*self.pairs[index][0].shape, 3), index, np.uint8)

    def label_map(self, index):
        return self.pairs[index][0]


def predicted(pairs, scores=None, kinds=KINDS, bad=()):
    source = Pairs(pairs, bad)
    sure = scores or [0.5] * len(pairs)

    def answer(pixels):
        index = int(pixels[0, 0, 0])
        return source.pairs[index][1], np.full(len(kinds) + 1, sure[index], np.float32)

    return predict_images(answer, kinds, source, range(len(pairs)), silent)


def scores_of(pairs, scores=None, kinds=KINDS, **options):
    return score(predicted(pairs, scores, kinds)[0], "test", **({"resamples": 0} | options))


def values(figures):
    return {name: one.value for name, one in figures.items()}


def test_figures_by_hand():
    """crack: 1 pixel right, 1 + 4 missed, 1 too many; hole: 2 right; background: 27 right, 5 too many, 1 taken."""
    found = scores_of(ABC, [0.9, 0.3, 0.1], thin_classes=[0])
    crack, hole = found.classes
    assert values(found.figures) == pytest.approx(
        {
            "mIoU of findings": (1 / 7 + 1) / 2,
            "mIoU with background": (27 / 33 + 1 / 7 + 1) / 3,
            "pixel accuracy": 30 / 36,
            "mean Dice of findings": (2 / 8 + 1) / 2,
            "F1 of any finding, strict": 2 * 3 / (8 + 4),
            "F1 of any finding within 2 px": 2 * 1.0 * 0.5 / 1.5,  # all 4 are near the truth, 4 of 8 near them
            "clDice of any finding": found.figures["clDice of any finding"].value,
            THIN: crack.figures["clDice"].value,
            "findings found": 2 / 3,
            "AUROC of any finding": 1 / 2,  # 0.9 is above 0.3, and 0.1 is not
        }
    )
    assert values(crack.figures) == pytest.approx(
        values(crack.figures)
        | {
            "IoU": 1 / 7,
            "Dice": 2 / 8,
            "precision": 1 / 2,
            "recall": 1 / 6,
            "findings found": 1 / 2,
            "area error": 4 / 6,  # as many as there are in the first image, none of 4 in the last
            "area bias": -4 / 6,
        }
    )
    whole = ("IoU", "Dice", "precision", "recall", "F1 within 2 px", "clDice", "findings found")
    assert [hole.figures[name].value for name in whole] == [1.0] * 7
    assert [hole.figures[name].value for name in ("area error", "area bias")] == [0.0, 0.0]
    assert (crack.images, crack.findings, crack.pixels, crack.thin) == (2, 2, 6, True)
    assert (hole.images, hole.findings, hole.pixels, hole.thin) == (1, 1, 2, False)
    assert (found.images, found.with_findings, found.split) == (3, 2, "test")
    assert found.confusion == ((27, 1, 0), (5, 1, 0), (0, 0, 2))
    assert found.names == ("background", *KINDS)
    assert found.found_from.value == pytest.approx(math.sqrt(2))  # of these both are found; of side 2 nothing is
    assert [(one.start, one.stop, one.findings, one.half, one.tenth) for one in found.sizes] == [(0, 4, 3, 2, 2)]


def test_the_worst_images_come_first_with_what_was_missed_and_what_is_too_much():
    false = NOTHING, maps("0000", "0022", "0000")
    found = scores_of([A, B, C, false])
    assert [one.index for one in found.worst] == [2, 3, 0]  # IoU 0 of 4 pixels, of 2, and 3 of 5
    assert [one.file for one in found.worst] == ["2.png", "3.png", "0.png"]
    assert [one.iou for one in found.worst] == pytest.approx([0, 0, 3 / 5])
    assert [one.wrong for one in found.worst] == pytest.approx([4 / 12, 2 / 12, 2 / 12])
    assert [one.missed for one in found.worst] == [(("crack", 2.0),), (), ()]
    assert [one.extra for one in found.worst] == [(), (("hole", 2),), ()]  # half of the crack in the first is right
    assert found.imperfect == 3


def test_what_is_large_is_named_first():
    truth = maps("10000", "00011", "00011", "20000", "20000")
    said = maps("00222", "00000", "00000", "01110", "00010")
    worst = scores_of([(truth, said)]).worst[0]
    assert worst.missed == (("crack", 2.0), ("hole", pytest.approx(math.sqrt(2))), ("crack", 1.0))
    assert worst.extra == (("crack", 4), ("hole", 3))
    other = maps("00222", "02200", "00000", "00110", "00000")
    assert scores_of([(truth, other)]).worst[0].extra == (("hole", 5), ("crack", 2))


def test_at_most_24_images_are_kept():
    found = scores_of([C] * 27)
    assert len(found.worst) == 24
    assert found.imperfect == 27


def test_findings_are_counted_by_size():
    truth = np.zeros((40, 60), np.uint8)
    truth[2:4, 2:4], truth[10:16, 2:8], truth[10:20, 20:30] = 1, 1, 2  # sides 2, 6 and 10
    said = np.zeros_like(truth)
    said[10:12, 2:8], said[10:20, 20:30] = 1, 2  # a third of the second one
    sizes = scores_of([(truth, said)]).sizes
    assert [(one.start, one.stop, one.findings, one.half, one.tenth) for one in sizes] == [
        (0, 4, 1, 0, 0),
        (4, 8, 1, 0, 1),
        (8, 16, 1, 1, 1),
    ]


def random_pairs(count, seed=0, side=11):
    draw = np.random.default_rng(seed)
    pairs = []
    for _ in range(count):
        truth = np.kron(draw.integers(0, 3, (3, 4)), np.ones((side // 3, side // 4))).astype(np.uint8)
        said = np.where(draw.random(truth.shape) < 0.3, draw.integers(0, 3, truth.shape), truth).astype(np.uint8)
        truth[draw.random(truth.shape) < 0.1] = 255
        pairs.append((truth, said))
    return pairs


def test_an_image_that_weighs_two_is_there_twice():
    pairs, scores = random_pairs(5), [0.1, 0.7, 0.5, 0.5, 0.9]
    weight = np.array([[2.0, 0.0, 1.0, 3.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0]])
    copies = [place for place, times in enumerate(weight[0]) for _ in range(int(times))]
    together = measure(predicted(pairs, scores)[0], [1])(weight)
    copied = measure(predicted([pairs[one] for one in copies], [scores[one] for one in copies])[0], [1])(None)
    plain = measure(predicted(pairs, scores)[0], [1])(None)
    assert set(together) == set(copied)
    for name, value in together.items():
        np.testing.assert_allclose(value[0], copied[name], err_msg=name)
        np.testing.assert_allclose(value[1], plain[name], err_msg=name)


def test_many_findings_are_weighed_in_parts(monkeypatch):
    whole, weight = predicted(random_pairs(5))[0], np.random.default_rng(0).integers(0, 3, (9, 5)).astype(float)
    together = measure(whole)(weight)
    monkeypatch.setattr(scoring, "AT_ONCE", 4 * len(whole.findings))  # 4, 4 and 1
    for name, value in measure(whole)(weight).items():
        np.testing.assert_array_equal(value, together[name], err_msg=name)


def test_parts_together_are_the_whole():
    pairs, scores = random_pairs(7), [0.3, 0.1, 0.8, 0.2, 0.9, 0.6, 0.4]
    whole = predicted(pairs, scores)[0]
    parts = joined([predicted(pairs[:3], scores[:3])[0], predicted(pairs[3:], scores[3:])[0]])
    np.testing.assert_array_equal(whole.findings.image, parts.findings.image)
    for name, value in measure(whole)(None).items():
        np.testing.assert_array_equal(value, measure(parts)(None)[name], err_msg=name)
    for place, (_, said) in enumerate(pairs):
        np.testing.assert_array_equal(parts.maps.label_map(place), said)


def test_intervals_hold_the_value_and_groups_are_drawn_whole():
    pairs = [*random_pairs(11), (np.zeros((3, 4), np.uint8),) * 2]
    alone = scores_of(pairs, [place / 12 for place in range(12)], resamples=200)
    for name, one in alone.figures.items():
        assert one.low <= one.value <= one.high, name
    assert alone.figures[DECIDES].low < alone.figures[DECIDES].high
    assert alone.interval == "95 % percentile bootstrap over images, 200 resamples, seed 0"
    one_group = scores_of(pairs, resamples=50, groups=np.zeros(12, int))
    figure = one_group.figures[DECIDES]
    assert (figure.low, figure.high) == (figure.value, figure.value)
    assert "over 1 group of images, each whole" in one_group.interval


def test_a_class_without_a_pixel_is_undefined_and_one_that_is_only_predicted_has_nothing():
    absent = scores_of(ABC, kinds=("crack", "hole", "root"), resamples=20)
    assert all(math.isnan(one.value) and math.isnan(one.low) for one in absent.classes[2].figures.values())
    assert absent.figures[DECIDES].value == pytest.approx((1 / 7 + 1) / 2)
    assert json.loads(absent.to_json())["classes"][2]["figures"]["IoU"] == {"value": None, "low": None, "high": None}
    there = scores_of([*ABC, (NOTHING, maps("3000", "0000", "0000"))], kinds=("crack", "hole", "root"))
    assert there.figures[DECIDES].value == pytest.approx((1 / 7 + 1 + 0) / 3)
    assert values(there.classes[2].figures) == pytest.approx(
        {"IoU": 0, "Dice": 0, "precision": 0, "recall": math.nan, "F1 within 2 px": 0, "clDice": 0}
        | dict.fromkeys(("findings found", "area error", "area bias"), math.nan),
        nan_ok=True,
    )


def test_one_image_and_nothing_at_all():
    one = scores_of([A], resamples=30)
    assert one.figures[DECIDES].low == one.figures[DECIDES].value == one.figures[DECIDES].high
    assert math.isnan(one.figures["AUROC of any finding"].value)
    empty = scores_of([B, B], resamples=30)
    assert math.isnan(empty.figures[DECIDES].value)
    assert math.isnan(empty.found_from.value)
    assert empty.figures["pixel accuracy"].value == 1
    assert (empty.worst, empty.sizes, empty.imperfect) == ((), (), 0)


def test_without_resamples_there_are_no_intervals():
    found = scores_of(ABC)
    assert found.interval == "no intervals were asked for"
    assert all(math.isnan(one.low) for one in (*found.figures.values(), found.found_from))
    with pytest.raises(FovealError, match=r"resamples: expected an integer, at least 0, got 1\.5"):
        scores_of(ABC, resamples=1.5)


def test_without_thin_classes_no_figure_of_theirs():
    assert THIN not in scores_of(ABC).figures


def test_what_is_unlabelled_counts_nowhere():
    pairs = [(np.where(one == 1, 255, one).astype(np.uint8), said) for one, said in ABC]
    found = scores_of(pairs)
    assert found.confusion == ((27, 1, 0), (0, 0, 0), (0, 0, 2))
    assert found.classes[0].images == 0


def test_the_headline_is_the_figure_that_decides():
    whole = predicted(ABC)[0]
    assert headline(whole.confusions)(None) == pytest.approx(scores_of(ABC).figures[DECIDES].value)
    assert headline(whole.confusions)(np.ones((5, 3))).shape == (5,)


def test_an_image_that_cannot_be_read_is_left_out():
    found, rows, left_out = predicted(ABC, bad=(1,))
    assert (found.files, rows.tolist()) == (("0.png", "2.png"), [0, 2])
    assert left_out == [("1.png", "is gone")]
    assert predicted(ABC, bad=(0, 1, 2))[0] is None


def test_an_answer_that_is_no_number_is_left_out():
    _, rows, left_out = predicted(ABC, [0.5, math.nan, 0.5])
    assert rows.tolist() == [0, 2]
    assert left_out == [("1.png", "the model's answer is no number")]


def test_an_image_of_another_size_than_its_label_map_is_left_out():
    class Turned(Pairs):
        def image(self, index):
            return np.swapaxes(super().image(index), 0, 1)

    found, _, left_out = predict_images(lambda pixels: 1 / 0, KINDS, Turned([A]), [0], silent)
    assert found is None
    assert left_out == [("0.png", "is 4×3, but its image 3×4, as if one of them were turned")]
