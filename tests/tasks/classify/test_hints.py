"""A pupil that learns feature maps of a larger model: whose, where, in which files, and what is refused."""

import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional as F
from training.little import FIELDS, a_set, killed_and_resumed, same_run, trained

from foveal.errors import FovealError
from foveal.models.store import normalisation
from foveal.models.zoo import create
from foveal.tasks.classify.hints import COARSE, hints_of
from foveal.tasks.classify.recipe import ClassifyRecipe
from foveal.tasks.classify.teachers import Teachers, View
from foveal.training.harness import Machine

CPU = Machine("cpu")
LITTLE = {"width_multiplier": 0.25, "depth_multiplier": 0.4}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return a_set(tmp_path_factory.mktemp("set"))


def test_a_larger_model_sees_the_pupils_images_its_own_way():
    torch.manual_seed(0)
    pupil = create("icam-30k", classes=2, image=32, patch=8)
    larger = create("efficientnet-lite0", classes=2, **LITTLE).eval()
    view = View.of(32, *normalisation(pupil), 64, *normalisation(larger))
    hints = hints_of("teachers", pupil, 32, Teachers([larger], False, views=[view]))
    images = torch.rand(3, 3, 32, 32)
    mean, std = (torch.tensor(one)[:, None, None] for one in normalisation(pupil))
    theirs, deviation = (torch.tensor(one)[:, None, None] for one in normalisation(larger))
    large = torch.nn.functional.interpolate(images, (64, 64), mode="bilinear", antialias=True)
    wanted = [
        one
        for one, stride in zip(larger.features((large - theirs) / deviation), larger.strides, strict=True)
        if stride >= COARSE
    ]
    found = hints.larger[0]((images - mean) / std)
    assert [one.shape for one in found] == [one.shape for one in wanted]
    for here, there in zip(found, wanted, strict=True):
        torch.testing.assert_close(here, there, rtol=1e-3, atol=1e-4)
    _, grid = pupil.answer_and_grid((images - mean) / std)
    loss = hints(grid, (images - mean) / std)
    assert loss.shape == (3,)
    loss.mean().backward()
    assert pupil.phi[0][0].weight.grad.abs().sum() > 0
    assert pupil.head[3].weight.grad is None
    assert all(parameter.grad is None for parameter in larger.parameters())
    assert not any("larger" in name for name in hints.state_dict())


def test_all_that_a_pupil_gathers_learns_what_the_heads_of_teachers_are_told():
    torch.manual_seed(0)
    pupil = create("icam-30k", classes=2, image=32, patch=8, queries=3)
    teachers = [create("efficientnet-lite0", classes=2, pooled=True, **LITTLE) for _ in range(2)]
    lot = Teachers(teachers, False)
    hints = hints_of("pooled", pupil, 32, lot)
    images = torch.rand(5, 3, 32, 32)
    soft, told = lot.answer_and_see(images)
    torch.testing.assert_close(soft, lot(images))
    with torch.no_grad():
        maps = teachers[1].features(images)
        pools = [pool for one in maps for pool in (one.mean((2, 3)), one.amax((2, 3)))]
        wanted = torch.cat([teachers[1].top(maps[-1]).mean((2, 3)), *pools], 1)
    torch.testing.assert_close(told[1], wanted)
    logits, summary = pupil.eval().answer_and_summary(images)
    torch.testing.assert_close(logits, pupil(images))
    assert summary.shape == (5, pupil.summary_width)
    torch.testing.assert_close(summary[:, :72], pupil.queries(images).flatten(1))
    loss = hints(summary, told)
    # by hand: every number standardised over the batch, by one linear map each
    gathered, losses = F.batch_norm(summary, None, None, training=True), []
    for linear, one in zip(hints.loss.linear, told, strict=True):
        standard = (one - one.mean(0)) / one.std(0, correction=0).clamp(min=1e-6)
        losses.append((F.linear(gathered, linear.weight[:, :, 0, 0], linear.bias) - standard).square().mean(1))
    torch.testing.assert_close(loss, (losses[0] + losses[1]) / 4, rtol=1e-4, atol=1e-5)
    loss.mean().backward()
    assert pupil.phi[0][0].weight.grad.abs().sum() > 0
    assert pupil.head[3].weight.grad is None
    with pytest.raises(FovealError, match="--hints pooled: expected 2 images or more at once, got 1; raise --batch"):
        hints(summary[:1], [one[:1] for one in told])
    with pytest.raises(FovealError, match="--hints pooled: expected EfficientNet-Lites as teachers, got Icam"):
        hints_of("pooled", pupil, 32, Teachers([pupil], False))
    with pytest.raises(FovealError, match="--hints: expected an ICAM, which learns them, got EfficientNetLite"):
        hints_of("pooled", teachers[0], 32, lot)


@pytest.mark.parametrize("views", [0, 2])
def test_a_run_with_pooled_hints_resumes(data, tmp_path, monkeypatch, views):
    trained(
        ClassifyRecipe(
            data=str(data), model="efficientnet-lite0", config={"pooled": True, **LITTLE}, size=32, batch=5, epochs=1
        ),
        tmp_path / "teacher",
        machine=CPU,
    )
    recipe = ClassifyRecipe(
        data=str(data), hints="pooled", teachers=f"{tmp_path}/teacher/", views=views, checkpoint="last",
        **FIELDS | {"epochs": 4},
    )  # fmt: skip
    trained(recipe, tmp_path / "runs/whole", machine=CPU)
    killed_and_resumed(recipe, tmp_path / "runs/killed", monkeypatch, checkpoints=3)
    same_run(tmp_path / "runs/whole", tmp_path / "runs/killed")


def test_a_run_with_hints_keeps_the_pupil_alone_and_resumes(data, tmp_path, monkeypatch):
    recipe = ClassifyRecipe(data=str(data), hints="imagenet", checkpoint="last", **FIELDS)
    plain = trained(recipe.changed(hints="none"), tmp_path / "plain", machine=CPU)
    whole = trained(recipe, tmp_path / "whole", machine=CPU)
    assert whole["parameters"] == plain["parameters"]
    kept, without = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "plain"))
    assert kept.keys() == without.keys()
    assert any(not kept[name].equal(without[name]) for name in kept if name.startswith("phi."))
    killed_and_resumed(recipe, tmp_path / "killed", monkeypatch)
    same_run(tmp_path / "whole", tmp_path / "killed")


def test_what_cannot_be_meant_is_refused(data, tmp_path):
    recipe = ClassifyRecipe(data=str(data), hints="teachers", **FIELDS)
    with pytest.raises(FovealError, match="--hints teachers: expected --num-teachers or --teachers beside it, got non"):
        trained(recipe, tmp_path / "run", machine=CPU)
    with pytest.raises(FovealError, match="--hint-weight: expected 1 beside --hints none, got 3"):
        recipe.changed(hints="none", hint_weight=3)
    with pytest.raises(FovealError, match="--hints: expected an ICAM, whose cells learn them, got EfficientNetLite"):
        hints_of("imagenet", create("efficientnet-lite0", classes=2, **LITTLE), 32, None)
    with pytest.raises(FovealError, match="--hints: expected a model that gives feature maps, got Linear"):
        hints_of("teachers", create("icam-30k"), 32, Teachers([torch.nn.Linear(1, 1)], False))
