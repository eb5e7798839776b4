"""Teachers of a segmenter: what they answer, who may teach, and that a pupil learns it."""

import dataclasses
import json

import numpy as np
import pytest
import torch
import yaml
from PIL import Image
from tasks.segment.squares import FIELDS, squares
from torch import nn
from torch.nn import functional as F

import foveal
from foveal.errors import FovealError
from foveal.models.zoo import create
from foveal.tasks.segment.graph import Maps
from foveal.tasks.segment.module import SegmentModule
from foveal.tasks.segment.recipe import SegmentRecipe
from foveal.tasks.segment.teachers import Teacher, Teachers, read_teachers
from foveal.tasks.task import find_task

MEAN, STD = (0.1, 0.4, 0.7), (0.5, 0.3, 0.2)


class Colours(nn.Module):
    """Logits are the mean colours of its cells."""

    def __init__(self, stride, multiple):
        super().__init__()
        self.stride, self.multiple, self.seen = stride, multiple, []

    def forward(self, images):
        self.seen.append(images)
        return F.avg_pool2d(images, self.stride)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return squares(tmp_path_factory.mktemp("squares"))


@pytest.fixture(scope="module")
def taught(data, tmp_path_factory):
    """A pupil and the teacher that was trained for it."""
    place = tmp_path_factory.mktemp("taught")
    recipe = place / "teacher.yaml"
    recipe.write_text(
        yaml.safe_dump({name: FIELDS[name] for name in ("model", "config", "batch")} | {"epochs": 8, "lr": 0.01})
    )
    lines = []
    fields = FIELDS | {"num_teachers": 1, "teacher_recipe": str(recipe)}
    foveal.train("segment", data=str(data), out=place / "pupil", device="cpu", announce=lines.append, **fields)
    assert any("teachers/seed0: icam-seg, 8 epochs; then icam-seg, 2 epochs: about" in line for line in lines)
    return place


def test_each_sees_the_window_in_its_own_way_and_the_mean_is_learned():
    torch.manual_seed(0)
    images = torch.rand(2, 3, 20, 28)
    fine, coarse = Colours(4, 16), Colours(8, 8)
    plain = (0.0,) * 3, (1.0,) * 3
    teachers = Teachers([Teacher.of(fine, MEAN, STD), Teacher.of(coarse, *plain)])
    teachers.to(torch.device("cpu"))
    found = teachers(images, 4)
    assert fine.seen[0].shape == (2, 3, 32, 32)  # padded to its multiple
    assert coarse.seen[0].shape == (2, 3, 24, 32)
    mean, std = (torch.tensor(one)[:, None, None] for one in (MEAN, STD))
    one = F.avg_pool2d((images - mean) / std, 4).softmax(1)
    torch.testing.assert_close(found, (one + between(F.avg_pool2d(coarse.seen[0], 8).softmax(1), 5, 7)) / 2)
    assert not found.requires_grad


def between(cells, rows, columns):
    """(B, K, h, w) of cells of 8 pixels at the middles of cells of 4: three parts of the nearest, one of the next."""
    found = torch.empty(*cells.shape[:2], rows, columns)
    for y in range(rows):
        for x in range(columns):
            parts = 0.0
            for i, down in neighbours(y, cells.shape[2]):
                for j, along in neighbours(x, cells.shape[3]):
                    parts = parts + down * along * cells[:, :, i, j]
            found[:, :, y, x] = parts
    return found


def neighbours(place, count):
    nearest = place // 2
    other = nearest + (1 if place % 2 else -1)
    return (nearest, 0.75), (min(max(other, 0), count - 1), 0.25)


def test_a_pupil_is_taught_by_the_run_before_it(taught):
    digests = json.loads((taught / "pupil/teachers.json").read_text())
    assert list(digests) == ["teachers/seed0"]
    teacher, pupil = foveal.load(taught / "pupil/teachers/seed0"), foveal.load(taught / "pupil")
    assert teacher.card.recipe["epochs"] == 8
    assert teacher.card.recipe["augment"] == "free"  # of a recipe of one's own, its own
    assert pupil.card.recipe["num_teachers"] == 1


def test_a_taught_run_that_is_resumed_has_the_same_weights(taught, data, tmp_path, monkeypatch):
    fields = FIELDS | {"num_teachers": 1, "teacher_recipe": str(taught / "teacher.yaml")}
    real = SegmentModule.on_validation_epoch_start

    def stop(module):
        if module.recipe.num_teachers and module.trainer.max_epochs == 2 and module.current_epoch == 1:
            raise KeyboardInterrupt
        real(module)

    monkeypatch.setattr(SegmentModule, "on_validation_epoch_start", stop)
    with pytest.raises((KeyboardInterrupt, SystemExit, FovealError)):
        foveal.train("segment", data=str(data), out=tmp_path / "run", device="cpu", **fields)
    assert not (tmp_path / "run/result.json").exists()
    monkeypatch.setattr(SegmentModule, "on_validation_epoch_start", real)
    foveal.train("segment", data=str(data), out=tmp_path / "run", device="cpu", resume=True, **fields)
    one, other = (foveal.load(out).network.state_dict() for out in (taught / "pupil", tmp_path / "run"))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_shipped_recipe_of_teachers_and_what_the_data_choose(data, tmp_path, monkeypatch):
    """The teacher's folder keeps what was left open; pupil and teacher are found to belong together, also resumed."""
    shipped = tmp_path / "recipes"
    shipped.mkdir()
    fields = {name: value for name, value in FIELDS.items() if name != "zoom"} | {"num_teachers": 1, "epochs": 1}
    own = {name: FIELDS[name] for name in ("model", "config", "batch")}
    (shipped / "teacher.yaml").write_text(yaml.safe_dump(own | {"epochs": 1}))
    monkeypatch.setattr(SegmentRecipe, "recipes", shipped)
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    foveal.train("segment", data=str(data), out=whole, device="cpu", **fields)
    teacher, pupil = foveal.load(whole / "teachers/seed0").card, foveal.load(whole).card
    assert teacher.zoom == pupil.zoom == 4.0  # images of 36 pixels
    assert teacher.recipe["augment"] == pupil.recipe["augment"] == "turns"
    real = SegmentModule.on_validation_epoch_start

    def stop(module):
        if module.recipe.num_teachers and not module.trainer.fast_dev_run and module.trainer.limit_train_batches == 1.0:
            raise KeyboardInterrupt
        real(module)

    monkeypatch.setattr(SegmentModule, "on_validation_epoch_start", stop)
    with pytest.raises((KeyboardInterrupt, SystemExit, FovealError)):
        foveal.train("segment", data=str(data), out=stopped, device="cpu", **fields)
    assert (stopped / "teachers/seed0/result.json").exists()
    monkeypatch.setattr(SegmentModule, "on_validation_epoch_start", real)
    foveal.train("segment", data=str(data), out=stopped, device="cpu", resume=True, **fields)
    one, other = (foveal.load(out).network.state_dict() for out in (whole, stopped))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_pupil_comes_to_agree_with_its_teacher(taught, data, tmp_path):
    """Without labels: what it learns, it has from the teacher alone."""
    teacher = str(taught / "pupil/teachers/seed0")
    fields = FIELDS | {"epochs": 12, "lr": 0.01, "teachers": teacher, "label_weight": 0.0}
    foveal.train("segment", data=str(data), out=tmp_path / "run", device="cpu", **fields)
    own, taught_by = (foveal.load(path).network.eval() for path in (tmp_path / "run", teacher))
    new = create("icam-seg", classes=3, **FIELDS["config"]).eval()
    maps = Maps(new, foveal.load(teacher).card)
    pixels = [np.asarray(Image.open(data / f"images/{number:03d}.png"))[:32, :32] for number in range(6)]
    images = (torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2) - maps.mean) / maps.std
    with torch.no_grad():
        wanted = taught_by(images).softmax(1)
        far = lambda model: float((model(images).softmax(1) - wanted).abs().mean())  # noqa: E731
        assert far(own) < 0.5 * far(new)


def test_who_may_teach(taught, data, tmp_path):
    recipe = SegmentRecipe(data=str(data), **FIELDS)
    source = find_task("segment").read(recipe)
    files = {"one": taught / "pupil/teachers/seed0"}
    assert len(read_teachers(files, recipe, source)[0].teachers) == 1
    for changed, other, words in (
        ({"fold": 1}, source, "the teacher one: expected the pupil's fold, 1, got None"),
        ({"zoom": 0.5}, source, "the pupil's zoom, 0.5, got 1.0"),
        ({}, dataclasses.replace(source, classes=("a", "b")), "the pupil's classes"),
    ):
        with pytest.raises(FovealError) as caught:
            read_teachers(files, recipe.changed(**changed), other)
        assert words in str(caught.value)
    elsewhere = squares(tmp_path / "elsewhere", seed=1)
    with pytest.raises(FovealError, match="the pupil's images and label maps"):
        read_teachers(files, recipe, find_task("segment").read(recipe.changed(data=str(elsewhere))))
    with pytest.raises(FovealError, match="--num-teachers: expected 0 beside --teachers"):
        SegmentRecipe(data=str(data), teachers="x", num_teachers=1)


def test_the_shipped_recipe_has_a_teacher_with_weights_of_imagenet():
    from foveal.options import read_options

    fields = read_options("small", SegmentRecipe, SegmentRecipe.recipes)
    recipe = SegmentRecipe(data="x", augment="turns", **fields)
    (teacher,) = recipe.earlier().values()
    assert teacher.init_from == "imagenet"
    assert teacher.augment == "turns"
    assert teacher.config["backbone"] == "efficientnet-lite0"
