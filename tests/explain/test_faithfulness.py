"""Faithfulness: the measures by hand, and a model whose answer hangs on one cell, for which everything is known."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from cards import classify_card
from torch import nn

from foveal.data.pipes import KINDS
from foveal.errors import FovealError
from foveal.explain.faithfulness import Sample, area, deletion, faithfulness, order_of, points, share_inside, weight
from foveal.models.zoo import create
from foveal.runtime.image_predictor import frame_of
from foveal.tasks.classify.predict_torch import TorchClassifier

SIDES = (7, 7)


class Brightest(nn.Module):
    """One class, `hole`: there if some cell of 5 × 5 pixels is brighter than 0.6 on average."""

    def forward(self, images):
        return 200 * (nn.functional.avg_pool2d(images.mean(1, keepdim=True), 5).flatten(1).amax(1, keepdim=True) - 0.6)


CARD = classify_card("brightest", "icam", {}, ("hole",), multi_label=True, size=35, mean=(0.0,) * 3, std=(1.0,) * 3)


def frame(row, column, kind="hole"):
    image, mask = np.full((35, 35, 3), 25, np.uint8), np.zeros((35, 35), bool)
    image[5 * row : 5 * row + 5, 5 * column : 5 * column + 5] = 250
    mask[5 * row + 1 : 5 * row + 3, 5 * column + 1 : 5 * column + 5] = True  # 8 of 1225 pixels, in this cell alone
    return Sample(image, frozenset([kind]), {kind: mask})


def measured(model, card, samples, **options):
    return faithfulness(TorchClassifier(model, card, "cpu"), card.classes, samples, **options)


NOTHING = Sample(np.full((35, 35, 3), 25, np.uint8), frozenset(), {})


def figure(result, measure, name):
    (found,) = [one for one in result["figures"] if (one["measure"], one["map"]) == (measure, name)]
    return found


def test_a_map_at_the_mask():
    share = np.array([[0, 0.5, 0], [0, 0.25, 0]])
    assert points(np.array([[0.1, 0.6, 0.3], [0, 0, 0]]), share) == 1
    assert points(np.array([[0.6, 0.1, 0.3], [0, 0, 0]]), share) == 0
    assert points(np.array([[0.3, 0.3, 0.1], [0, 0.3, 0]]), share) == pytest.approx(2 / 3)  # three are the largest
    assert points(np.full((2, 3), 1 / 6), share) == pytest.approx(1 / 3)  # a map that says nothing is as good as random
    assert weight(np.array([[1.0, 2, 0], [0, 4, 1]]), share) == pytest.approx((2 * 0.5 + 4 * 0.25) / 8)
    assert weight(np.zeros((2, 3)), share) == weight(np.ones((2, 3)), share) == pytest.approx(0.125)


def test_shares_by_hand():
    mask = np.zeros((4, 5), bool)
    mask[1:3, 0:2] = True
    mask[3, 4] = True
    np.testing.assert_allclose(share_inside(mask, (2, 2)), [[2 / 6, 0], [2 / 6, 1 / 4]])  # cells 3 and 2 pixels wide
    assert share_inside(mask, (4, 5)).astype(bool).tolist() == mask.tolist()


def test_orders_and_areas():
    assert order_of(np.array([[0.2, 0.5], [0.1, 0.2]]), np.random.default_rng(0)).tolist() in (
        [1, 0, 3, 2],
        [1, 3, 0, 2],
    )
    firsts = {int(order_of(np.ones((2, 2)), np.random.default_rng(seed))[0]) for seed in range(40)}
    assert firsts == {0, 1, 2, 3}
    assert area(np.array([0, 0.25, 1]), np.array([[1, 0.5, 0.5], [1, 0, 0]])) == pytest.approx([0.1875 + 0.375, 0.125])


def test_the_cell_that_counts_takes_the_answer_with_it():
    classifier = TorchClassifier(Brightest(), CARD, batch=11)
    image = classifier.prepare([frame(2, 4).pixels])
    cell = 2 * 7 + 4
    others = [number for number in range(49) if number != cell]
    orders = np.array([[cell, *others], [*others, cell], [*others[:7], cell, *others[7:]]])
    fill = lambda images: images.mean((2, 3), keepdim=True).expand_as(images)  # noqa: E731
    hidden, curves = deletion(classifier, image, orders, SIDES, 49, fill)
    np.testing.assert_allclose(hidden, np.arange(50) / 49)
    for number, until in enumerate((1, 49, 8)):  # hidden with the until-th cell
        assert (curves[number, :until, 0] > 0.99).all()
        assert (curves[number, until:, 0] < 0.01).all()
    hidden, coarse = deletion(classifier, image, orders, SIDES, 7, fill)
    np.testing.assert_allclose(hidden, np.arange(8) / 7)
    assert (coarse[2, :2, 0] > 0.99).all()
    assert (coarse[2, 2:, 0] < 0.01).all()
    # what is never shown cannot be hidden
    never = dataclasses.replace(CARD, recipe={"blank": [[4 / 7, 2 / 7, 5 / 7, 3 / 7]]})
    assert (deletion(TorchClassifier(Brightest(), never), image, orders, SIDES, 7, fill)[1][..., 0] > 0.99).all()


@pytest.mark.parametrize("fill", ["mean", "blur"])
def test_a_model_of_one_cell(fill):
    places = [(row, column) for row in (0, 3, 6) for column in (1, 4)]
    result = measured(
        Brightest(), CARD, (frame(*place) for place in places), steps=49, orders=3, fill=fill, resamples=50
    )
    assert (result["images"], result["findings"], result["right"], result["predicted"]) == (6, 6, 6, 6)
    assert result["cells"] == [7, 7]
    # it has none, and the rest is measured all the same
    assert result["attention"].startswith("no attention map can be had")
    assert {one["map"] for one in result["figures"]} == {"gradient", "occlusion", "random"}
    for name in ("gradient", "occlusion"):
        for measure, value in (
            ("points at the finding", 1),
            ("points at any finding", 1),
            ("weight on the finding", 8 / 25),
            ("deletion area", 0.5 / 49),
        ):
            found = figure(result, measure, name)
            assert found["mean"] == pytest.approx(value, abs=1e-3)
            assert found["interval"] == pytest.approx([value, value], abs=1e-3)
            assert found["against random"] == pytest.approx(value - figure(result, measure, "random")["mean"], abs=1e-3)
    assert figure(result, "points at the finding", "random")["mean"] == pytest.approx(1 / 49)
    assert figure(result, "weight on the finding", "random")["mean"] == pytest.approx(8 / 1225)
    assert 0.2 < figure(result, "deletion area", "random")["mean"] < 0.8
    assert len(result["curves"]["hidden"]) == 50
    assert result["curves"]["gradient"][1] < 0.01 < 0.99 < result["curves"]["gradient"][0]


def test_two_answers_in_one_image_and_the_mean_of_random_orders():
    class Colours(nn.Module):
        """`hole` hangs on the reddest cell, `root` on the greenest."""

        def forward(self, images):
            return 200 * (nn.functional.avg_pool2d(images[:, :2], 5).flatten(2).amax(2) - 0.6)

    image = np.full((35, 35, 3), 25, np.uint8)
    image[10:15, 20:25, 0] = image[25:30, 5:10, 1] = 250  # cells 2 · 7 + 4 and 5 · 7 + 1
    masks = [image[..., channel] > 99 for channel in (0, 1)]
    sample = Sample(image, frozenset(["hole", "root"]), dict(zip(("hole", "root"), masks, strict=True)))
    card = dataclasses.replace(CARD, classes=("hole", "root"))
    result = measured(Colours(), card, [sample], steps=49, orders=3, seed=11, resamples=20)
    assert (result["right"], result["predicted"]) == (2, 2)
    for name in ("gradient", "occlusion"):  # each answer by its own map
        assert figure(result, "points at the finding", name)["mean"] == 1
        assert figure(result, "weight on the finding", name)["mean"] == pytest.approx(1)
        assert figure(result, "deletion area", name)["mean"] == pytest.approx(0.5 / 49, abs=1e-4)
    draw = np.random.default_rng(11)
    orders = [draw.permutation(49).tolist() for _ in range(3)]
    by_hand = np.mean([(order.index(cell) + 0.5) / 49 for order in orders for cell in (18, 36)])
    assert figure(result, "deletion area", "random")["mean"] == pytest.approx(by_hand, abs=1e-4)


def test_only_what_is_there_and_was_predicted_can_be_pointed_at():
    frames = [frame(1, 1), frame(2, 2, kind="root"), NOTHING]
    result = measured(Brightest(), CARD, frames, resamples=20)
    # a root is none of its classes; called a hole all the same
    assert (result["findings"], result["right"], result["predicted"]) == (1, 1, 2)
    silent = measured(Brightest(), dataclasses.replace(CARD, threshold=(1.0,), temperature=50.0), frames, resamples=20)
    assert (silent["predicted"], silent["figures"], silent["curves"]) == (0, [], {})


def test_with_attention_and_the_same_seed():
    torch.manual_seed(0)
    model = create("icam-31k", classes=len(KINDS), image=40, patch=8)
    card = classify_card("icam-31k", "icam", {}, KINDS, True, size=40, threshold=(0.0,) * len(KINDS))
    given = [dataclasses.replace(one, pixels=frame_of(one.pixels, 40).pixels) for one in (frame(1, 5), frame(4, 0))]
    run = [measured(model, card, given, orders=2, steps=5, resamples=30, seed=5) for _ in range(2)]
    assert run[0] == run[1]
    assert json.loads(json.dumps(run[0])) == run[0]
    assert run[0]["cells"] == [5, 5]
    assert (run[0]["right"], run[0]["predicted"]) == (2, 2 * len(KINDS))
    assert [one["map"] for one in run[0]["figures"] if one["measure"] == "deletion area"] == [
        "attention",
        "gradient",
        "occlusion",
        "random",
    ]
    for one in run[0]["figures"]:
        assert one["interval"][0] - 1e-12 <= one["mean"] <= one["interval"][1] + 1e-12
    # 35 pixels in 5 cells of 7: row 1 · 5 + (1, 2) is 6 and 7, columns 26 to 29 are 26, 27 and 28, 29: four cells; the
    # other lies in one
    assert figure(run[0], "points at the finding", "random")["mean"] == pytest.approx((4 / 25 + 1 / 25) / 2)


def test_one_label_models_name_one():
    model = nn.Sequential(Brightest(), nn.Linear(1, 2, bias=False))
    model[1].weight.data = torch.tensor([[1.0], [-1.0]])
    card = dataclasses.replace(CARD, classes=("hole", "normal"), multi_label=False)
    result = measured(model, card, [frame(1, 1), NOTHING], resamples=20, steps=7)
    assert (result["right"], result["predicted"]) == (1, 2)


def test_what_cannot_be_measured():
    with pytest.raises(FovealError, match="at least one image"):
        measured(Brightest(), CARD, [])
    with pytest.raises(FovealError, match="no fill is called 'noise'"):
        measured(Brightest(), CARD, [frame(1, 1)], fill="noise")
    for words in ({"orders": 0}, {"steps": 0}, {"resamples": 0}):
        with pytest.raises(FovealError, match="at least 1"):
            measured(Brightest(), CARD, [frame(1, 1)], **words)
    broken = nn.Sequential(Brightest(), nn.Linear(1, 1))
    broken[1].weight.data.fill_(float("nan"))
    with pytest.raises(FovealError, match="diverged"):
        measured(broken, CARD, [frame(1, 1)])
