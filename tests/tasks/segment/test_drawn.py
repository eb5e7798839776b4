"""Classes weigh by what the windows that are drawn show of them, aimed and pasted."""

import numpy as np
import pytest
import torch
from tasks.segment.squares import FIELDS, squares

from foveal.data.windows import shown
from foveal.tasks.segment.data import SegmentData, drawn_as_often
from foveal.tasks.segment.drawn import Drawing, drawn_areas
from foveal.tasks.segment.loss import SegmentLoss
from foveal.tasks.segment.recipe import SegmentRecipe
from foveal.tasks.task import find_task


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return squares(tmp_path_factory.mktemp("squares"), side=(72, 80))


def settled(folder, **changes):
    task = find_task("segment")
    recipe = SegmentRecipe(data=str(folder), **FIELDS | {"balance": "weights"} | changes)
    source = task.read(recipe)
    return task.settled(recipe, source)[0], source


def weights(recipe, source):
    train = SegmentData(source, recipe).splits.train
    return SegmentLoss(recipe, source, train, drawn_as_often(source.areas[train], recipe.found or 0.0)).weight


@pytest.mark.parametrize(
    "changes",
    [
        {"paste": 0.0, "found": 0.0},
        {"paste": 0.0},  # windows of a fifth of an image, laid on its square
        {"paste": 1.0},
        {"zoom": 0.5},
        {"zoom": 2.0, "size": 64, "augment": "crop", "paste": 1.0},
    ],
)
def test_the_mean_weight_of_what_is_drawn_is_one(folder, changes):
    recipe, source = settled(folder, **changes)
    weight, data = weights(recipe, source), SegmentData(source, recipe)
    drawing, order = Drawing(recipe, max(recipe.zoom, 1.0)), data._train_order()
    pixels, number = torch.zeros(256), 0
    for epoch in range(90):
        order.set_epoch(epoch)
        for batch in order:
            torch.manual_seed(number)
            samples, index = data.opened[batch]
            seen = [
                shown(one, drawing.window(one.labels, i), recipe.size)
                for one, i in zip(samples, index.tolist(), strict=True)
            ]
            _, labels = drawing.pasted(*(torch.stack(parts) for parts in zip(*seen, strict=True)))
            pixels += labels.flatten().bincount(minlength=256)
            number += 1
    share = pixels[:3] / pixels[:3].sum()
    assert (share * weight).sum().item() == pytest.approx(1, abs=0.04)
    np.testing.assert_allclose(weight, weight[0] * (share[0] / share) ** 0.5, rtol=0.12)


def test_they_are_the_same_each_time_and_draw_nothing_from_the_run(folder):
    recipe, source = settled(folder)
    torch.manual_seed(3)
    state = torch.get_rng_state()
    assert torch.equal(weights(recipe, source), weights(recipe, source))
    assert torch.equal(torch.get_rng_state(), state)


def test_a_class_that_no_window_shows_leans_on_whole_images(folder, monkeypatch):
    recipe, source = settled(folder, paste=0.0)
    areas = source.areas / source.areas.sum(1, keepdims=True)
    counts = np.tile(np.array([900, 100, 0, 0]), (10, 1))  # of the windows, all show red and none blue
    monkeypatch.setattr("foveal.tasks.segment.drawn.drawn_counts", lambda *arguments: counts)
    found = drawn_areas(recipe, source, np.arange(len(source)), None)
    share, whole = found[0] / found.sum(), areas.mean(0)
    times = 0.1 / whole[1:3].sum()
    assert share[1] == pytest.approx((10 * 0.1 + 4 * times * whole[1]) / 14)
    assert share[2] == pytest.approx(times * whole[2])
    assert share.sum() == pytest.approx(1)
    assert share[3] == 0


def test_without_balance_nothing_weighs_more(folder):
    assert weights(*settled(folder, balance="none")) is None
