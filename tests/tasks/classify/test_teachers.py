"""Teachers: their mean answer, who may teach, and that a pupil comes to agree with them."""

import dataclasses
import shutil

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from training.little import FIELDS, a_set, rows, same_run, trained

from foveal.data.read import read
from foveal.errors import FovealError
from foveal.losses.classification import distillation_loss
from foveal.models.icam import Icam
from foveal.models.zoo import create
from foveal.runtime.card import SEWER_MEAN, SEWER_STD
from foveal.tasks.classify.kept import Kept
from foveal.tasks.classify.module import ClassifyModule
from foveal.tasks.classify.recipe import ClassifyRecipe
from foveal.tasks.classify.teachers import Teachers, View, Wanted, read_teachers
from foveal.training.harness import Machine
from foveal.training.taught import matching

CPU = Machine(device="cpu")


def load_teachers(pattern, wanted, folder):
    return read_teachers(matching(pattern, wanted.fold, folder), wanted)


@pytest.fixture(scope="module")
def taught(tmp_path_factory):
    """A set, and two teachers of fold 1."""
    place = tmp_path_factory.mktemp("taught")
    data = a_set(place / "set")
    for seed in (0, 1):
        trained(
            ClassifyRecipe(data=str(data), fold=1, seed=seed, **FIELDS | {"epochs": 6}),
            place / f"fold1-seed{seed}",
            machine=CPU,
        )
        (place / f"fold1-seed{seed}.txt").write_text("what the run printed")
    return place


def recipe_for(taught, **changes):
    fields = FIELDS | {"teachers": f"{taught}/fold{{fold}}-seed*", "fold": 1, "seed": 5} | changes
    return ClassifyRecipe(data=str(taught / "set"), **fields)


@pytest.mark.parametrize("multi_label", [False, True])
def test_the_mean_of_what_they_say(multi_label):
    torch.manual_seed(0)
    models = [create("icam-30k", classes=3, image=32, patch=8).train() for _ in range(3)]
    teachers = Teachers(models, multi_label)
    images = torch.randn(5, 3, 32, 32)
    answers = teachers(images)
    with torch.no_grad():
        each = [model(images) for model in models]
    expected = sum(logits.sigmoid() if multi_label else logits.softmax(1) for logits in each) / 3
    torch.testing.assert_close(answers, expected)
    assert not answers.requires_grad
    assert not any(model.training for model in models)


def test_on_a_device_they_say_the_same_without_batch_norms():
    torch.manual_seed(0)
    model, images = create("icam-30k", classes=3, image=32, patch=8), torch.randn(5, 3, 32, 32)
    model(images)  # so that BatchNorms have seen something
    teachers = Teachers([model], False)
    before = teachers(images)
    for _ in range(2):
        teachers.to(torch.device("cpu"), None)
        torch.testing.assert_close(teachers(images), before, atol=1e-5, rtol=1e-4)
    assert not any(isinstance(part, torch.nn.BatchNorm2d) for part in model.modules())


@pytest.mark.parametrize("multi_label", [False, True])
def test_the_loss_is_least_where_the_answers_are_theirs(multi_label):
    torch.manual_seed(0)
    soft = torch.rand(7, 4)
    soft = soft if multi_label else soft / soft.sum(1, keepdim=True)
    logits = (torch.logit(soft) if multi_label else soft.log()).requires_grad_()
    good = torch.tensor([1, 1, 0, 1, 1, 1, 1], dtype=torch.bool)
    distillation_loss(logits, soft, good, multi_label=multi_label).backward()
    assert logits.grad.abs().max() < 1e-6
    other = torch.randn(7, 4)
    each = (
        F.binary_cross_entropy_with_logits(other, soft, reduction="none").mean(1)
        if multi_label
        else F.cross_entropy(other, soft, reduction="none")
    )
    torch.testing.assert_close(distillation_loss(other, soft, good, multi_label=multi_label), each[good].mean())


@pytest.mark.slow
def test_a_pupil_comes_to_agree(taught, tmp_path):
    """With no weight on the labels, all it can learn is what they say."""
    probabilities = []
    for name, epochs, lr in (("first", 1, 1e-9), ("last", 60, 0.003)):
        recipe = recipe_for(
            taught, label_weight=0.0, epochs=epochs, lr=lr, checkpoint="last", augment="none", label_smoothing=0.0
        )
        trained(recipe, tmp_path / name, machine=CPU)
        probabilities.append(_probability(tmp_path / name))
    wanted = (_probability(taught / "fold1-seed0") + _probability(taught / "fold1-seed1")) / 2
    assert np.abs(probabilities[1] - wanted).mean() < 0.6 * np.abs(probabilities[0] - wanted).mean()


def _probability(folder):
    logits = torch.tensor(
        [[float(row["logit left"]), float(row["logit right"])] for row in rows(folder / "predictions-val.csv")]
    )
    return logits.softmax(1)[:, 1].numpy()


@pytest.mark.parametrize(("views", "accumulate"), [(0, 1), (3, 1), (3, 2)])
def test_resumed_it_is_the_run_that_was_never_stopped(taught, tmp_path, monkeypatch, views, accumulate):
    recipe = recipe_for(taught, epochs=4, views=views, accumulate=accumulate)
    trained(recipe, tmp_path / "whole", machine=CPU)
    with monkeypatch.context() as patch:
        real, seen = torch.Tensor.backward, []

        def stopped(self, *args, **kwargs):
            seen.append(1)
            if len(seen) == 3:
                raise KeyboardInterrupt
            return real(self, *args, **kwargs)

        patch.setattr(torch.Tensor, "backward", stopped)
        with pytest.raises(KeyboardInterrupt):
            trained(recipe, tmp_path / "stopped", machine=CPU)
    trained(recipe, tmp_path / "stopped", resume=True, machine=CPU)
    same_run(tmp_path / "whole", tmp_path / "stopped")


def test_what_they_say_of_a_view_is_asked_once(taught, tmp_path, monkeypatch):
    recipe = recipe_for(taught, epochs=5, views=2, augment="strong", mixup=0.3, config=FIELDS["config"])
    real, asked, seen = Teachers.__call__, [], []

    def counting(self, images):
        asked.append(images.clone())
        return real(self, images)

    monkeypatch.setattr(Teachers, "__call__", counting)
    trained(recipe, tmp_path / "once", machine=CPU)
    once = len(asked)
    augmented = ClassifyModule.augmented

    def noted(self, batch):
        images, targets = augmented(self, batch)
        seen.append(images.clone())
        return images, targets

    monkeypatch.setattr(ClassifyModule, "augmented", noted)
    monkeypatch.setattr(Kept, "__contains__", lambda *_: False)
    trained(recipe, tmp_path / "each", machine=CPU)
    steps = len(seen)
    assert once * 5 == steps * 2, "the batches of two epochs"
    same_run(tmp_path / "once", tmp_path / "each")
    for number, images in enumerate(seen):
        same = torch.equal(images, seen[number % once])
        assert same, "a view comes again as it was"
    assert not torch.equal(seen[0], seen[once // 2]), "and is another in the next epoch"


def test_views_of_images_with_several_labels_come_again_with_what_was_said_of_them(tmp_path, monkeypatch):
    data = a_set(tmp_path / "set", multi_label=True)
    teacher = ClassifyRecipe(data=str(data), **FIELDS)
    trained(teacher, tmp_path / "teachers" / "one", machine=CPU)
    changes = {"teachers": f"{tmp_path}/teachers/*", "epochs": 5, "views": 2, "mixup": 0.3, "seed": 5}
    recipe = ClassifyRecipe(data=str(data), **FIELDS | changes)
    real, asked = Teachers.__call__, []

    def counting(self, images):
        asked.append(len(images))
        return real(self, images)

    monkeypatch.setattr(Teachers, "__call__", counting)
    trained(recipe, tmp_path / "once", machine=CPU)
    once = len(asked)
    monkeypatch.setattr(Kept, "__contains__", lambda *_: False)
    trained(recipe, tmp_path / "each", machine=CPU)
    assert (len(asked) - once) * 2 == once * 5, "once: the batches of two epochs; each: of all five"
    same_run(tmp_path / "once", tmp_path / "each")


def test_a_pupil_sees_half_of_its_views_mirrored(taught, tmp_path, monkeypatch):
    drawn, seen = [], []
    real, forward = ClassifyModule.augmented, Icam.forward

    def augmented(self, batch):
        images, targets = real(self, batch)
        drawn.append(images)
        return images, targets

    def noted(self, images):
        if self.training:
            seen.append(images)
        return forward(self, images)

    monkeypatch.setattr(ClassifyModule, "augmented", augmented)
    monkeypatch.setattr(Icam, "forward", noted)
    trained(recipe_for(taught, epochs=6, views=2), tmp_path / "run", machine=CPU)
    kinds = [
        "same" if torch.equal(one, before) else "mirrored" if torch.equal(one, before.flip(2)) else "another"
        for images, views in zip(seen, drawn, strict=True)
        for one, before in zip(images, views, strict=True)
    ]
    assert set(kinds) == {"same", "mirrored"}
    assert 0.2 < kinds.count("mirrored") / len(kinds) < 0.8


def wanted(taught, **changes):
    source = read(str(taught / "set"))
    return dataclasses.replace(
        Wanted(source, 32, SEWER_MEAN, SEWER_STD, 1, [], lambda label: read(str(taught / "set"), label=label)),
        **changes,
    )


def test_who_may_teach(taught, tmp_path):
    pattern, pupil = f"{taught}/fold{{fold}}-*", tmp_path / "pupil"
    source = read(str(taught / "set"))
    moved = dataclasses.replace(source, fold=np.roll(source.fold, 1))
    others = dataclasses.replace(source, classes=("a", "b"))
    several = dataclasses.replace(source, multi_label=True, labels=np.eye(2, dtype=np.uint8)[source.labels])
    teachers, digests = load_teachers(pattern, wanted(taught), pupil)
    assert len(teachers.models) == len(digests) == 2
    for changed, words in (
        ({"fold": None}, "a pattern without {fold} where no fold is given"),
        ({"fold": 0}, "which meets none"),
        ({"source": others, "finer": lambda label: others}, "the pupil's classes, ('a', 'b'), got ('left', 'right')"),
        ({"source": several}, "the pupil's kind of label, True, got False"),
        ({"source": moved}, "the pupil's images, labels and folds"),
        ({"blank": [[0, 0, 1, 0.5]]}, "the pupil's blank boxes"),
    ):
        with pytest.raises(FovealError) as caught:
            load_teachers(pattern, wanted(taught, **changed), pupil)
        assert words in str(caught.value)
    with pytest.raises(FovealError, match="a teacher has seen what is tested"):
        load_teachers(f"{taught}/fold1-*", wanted(taught, fold=2), pupil)
    with pytest.raises(FovealError, match="the pupil's fold, None, got 1"):
        load_teachers(f"{taught}/fold1-seed0", wanted(taught, fold=None), pupil)
    with pytest.raises(FovealError, match="runs in another folder than the pupil's"):
        load_teachers(pattern, wanted(taught), taught / "fold1-seed7")


def test_a_teacher_sees_images_of_its_own_size(taught, tmp_path):
    teachers, _ = load_teachers(f"{taught}/fold{{fold}}-*", wanted(taught, size=64), tmp_path / "pupil")
    torch.manual_seed(0)
    small = torch.randn(3, 3, 32, 32)
    large = small.repeat_interleave(2, 2).repeat_interleave(2, 3)
    answers = teachers(large)
    alike, _ = load_teachers(f"{taught}/fold{{fold}}-*", wanted(taught), tmp_path / "pupil")
    shrunk = F.interpolate(large, (32, 32), mode="bilinear", antialias=True)
    torch.testing.assert_close(answers, alike(shrunk))
    assert not torch.allclose(answers, alike(large[:, :, :32, :32]))


def test_a_teacher_sees_images_normalised_its_own_way(taught, tmp_path):
    """The same bytes: what it answers is what it would answer to images that were normalised for it."""
    own, _ = load_teachers(f"{taught}/fold{{fold}}-*", wanted(taught), tmp_path / "pupil")
    mean, std = (0.1, 0.4, 0.7), (0.5, 0.3, 0.2)
    teachers, _ = load_teachers(f"{taught}/fold{{fold}}-*", wanted(taught, mean=mean, std=std), tmp_path / "pupil")
    torch.manual_seed(0)
    pixels = torch.rand(3, 3, 32, 32)
    normalised = [
        (pixels - torch.tensor(one)[:, None, None]) / torch.tensor(by)[:, None, None]
        for one, by in ((mean, std), (SEWER_MEAN, SEWER_STD))
    ]
    torch.testing.assert_close(teachers(normalised[0]), own(normalised[1]), rtol=0, atol=1e-6)
    assert (own(normalised[0]) - own(normalised[1])).abs().max() > 1e-4


def test_the_view_of_a_teacher():
    """μ = 0.5, σ = 0.25 and μ_t = 0.1, σ_t = 0.5 by hand: the pixel 0.75 is 1 to the pupil and 1.3 to the teacher."""
    view = View.of(5, (0.5,) * 3, (0.25,) * 3, 5, (0.1,) * 3, (0.5,) * 3)
    seen = view(torch.ones(1, 3, 5, 5), *view.affine())
    torch.testing.assert_close(seen, torch.full((1, 3, 5, 5), 1.3))
    pixels = torch.rand(2, 3, 7, 7, dtype=torch.float64).to(memory_format=torch.channels_last)
    mean, std, own_mean, own_std = (0.4, 0.5, 0.6), (0.2, 0.3, 0.1), (127 / 255,) * 3, (128 / 255,) * 3
    column = lambda values: torch.tensor(values, dtype=torch.float64)[:, None, None]  # noqa: E731
    view = View.of(7, mean, std, 7, own_mean, own_std)
    seen = view((pixels - column(mean)) / column(std), *(one.double() for one in view.affine()))
    torch.testing.assert_close(seen, (pixels - column(own_mean)) / column(own_std), rtol=0, atol=1e-6)
    assert seen.is_contiguous(memory_format=torch.channels_last)
    assert View.of(7, mean, std, 7, mean, std) == View()
    assert View.of(7, mean, std, 5, mean, std) == View(5)


def test_a_pattern_that_meets_nothing_leaves_nothing(taught, tmp_path):
    with pytest.raises(FovealError, match="which meets none"):
        trained(recipe_for(taught, teachers=f"{taught}/nobody{{fold}}"), tmp_path / "run", machine=CPU)
    assert not list((tmp_path / "run").glob("*"))


def test_a_run_keeps_its_teachers(taught, tmp_path, monkeypatch):
    recipe = recipe_for(taught, teachers=f"{taught}/fold{{fold}}-seed0*", epochs=3)
    with monkeypatch.context() as patch:
        patch.setattr("foveal.tasks.classify.training.conclude", lambda *args: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            trained(recipe, tmp_path / "run", machine=CPU)
    shutil.copytree(taught / "fold1-seed1", taught / "fold1-seed01")
    try:
        with pytest.raises(FovealError, match="the 1 teachers it was begun with, got others"):
            trained(recipe, tmp_path / "run", resume=True, machine=CPU)
    finally:
        shutil.rmtree(taught / "fold1-seed01")
    trained(recipe, tmp_path / "run", resume=True, machine=CPU)


def test_a_pattern_from_a_folder_with_a_strange_name(taught, tmp_path, monkeypatch):
    strange = tmp_path / "run[1]{fold}*"
    strange.mkdir()
    shutil.copytree(taught / "fold1-seed0", strange / "teachers" / "fold1-seed0")
    monkeypatch.chdir(strange)
    pattern = ClassifyRecipe(data="pipes", teachers="teachers/fold{fold}-*").from_anywhere().teachers
    monkeypatch.chdir(tmp_path)
    assert len(load_teachers(pattern, wanted(taught), tmp_path / "pupil" / "fold1")[1]) == 1


def finer_set(folder, also=""):
    """The little set with a second column: left is upper left and lower left, in unlike shares."""
    a_set(folder)
    lines = (folder / "labels.csv").read_text().split()
    place = [
        "part",
        *(f"{'upper' if number % 4 else 'lower'} {line.split(',')[1]}" for number, line in enumerate(lines[1:])),
    ]
    place[1] = also or place[1]
    (folder / "labels.csv").write_text(
        "\n".join(f"{line},{part}" for line, part in zip(lines, place, strict=True)) + "\n"
    )
    return folder


@pytest.mark.parametrize("balance", ["none", "margin"])
def test_a_teacher_of_finer_classes_says_the_pupils(tmp_path, balance):
    data = finer_set(tmp_path / "set")
    fields = FIELDS | {"fold": 1, "label": "part", "balance": balance}
    trained(ClassifyRecipe(data=str(data), **fields), tmp_path / "teachers" / "fold1", machine=CPU)
    coarse = read(str(data), label="label")
    asked = Wanted(coarse, 32, SEWER_MEAN, SEWER_STD, 1, [], lambda label: read(str(data), label=label))
    teachers, _ = load_teachers(f"{tmp_path}/teachers/fold{{fold}}", asked, tmp_path / "pupil")
    images = torch.randn(5, 3, 32, 32)
    with torch.no_grad():
        fine = teachers.models[0](images).softmax(1)
    source = read(str(data), label="part")
    assert source.classes == ("lower left", "lower right", "upper left", "upper right")
    counts = source.counts(np.flatnonzero((source.fold != 1) & (source.fold != 2)))  # fold 1 is tested, fold 2 selects
    if balance == "margin":
        left, right = counts[[0, 2]] / counts[[0, 2]].sum(), counts[[1, 3]] / counts[[1, 3]].sum()
        fine = fine * torch.tensor([left[0], right[0], left[1], right[1]]).float()
    expected = torch.stack([fine[:, [0, 2]].sum(1), fine[:, [1, 3]].sum(1)], 1)
    torch.testing.assert_close(teachers(images), expected / expected.sum(1, keepdim=True))
    recipe = ClassifyRecipe(
        data=str(data), **fields | {"label": "label", "teachers": f"{tmp_path}/teachers/fold{{fold}}"}
    )
    assert trained(recipe, tmp_path / "pupils" / "fold1", machine=CPU)


@pytest.mark.parametrize("empty", [1, 4])
def test_an_image_without_a_label_of_one_kind(tmp_path, empty):
    """Column 1 is the pupil's label, 4 the teacher's: rows of the two sets are not at the same place."""
    data = finer_set(tmp_path / "set")
    lines = (data / "labels.csv").read_text().splitlines()
    cells = lines[2].split(",")
    lines[2] = ",".join(["" if place == empty else cell for place, cell in enumerate(cells)])
    (data / "labels.csv").write_text("\n".join(lines) + "\n")
    trained(
        ClassifyRecipe(data=str(data), **FIELDS | {"fold": 1, "label": "part"}),
        tmp_path / "teachers" / "fold1",
        machine=CPU,
    )
    asked = Wanted(
        read(str(data), label="label"), 32, SEWER_MEAN, SEWER_STD, 1, [], lambda label: read(str(data), label=label)
    )
    teachers, _ = load_teachers(f"{tmp_path}/teachers/fold{{fold}}", asked, tmp_path / "pupil")
    assert teachers.coarser[0].tolist() == [[1, 0], [0, 1], [1, 0], [0, 1]]


def test_a_finer_class_lies_within_one(tmp_path):
    data = finer_set(tmp_path / "set", also="upper right")
    assert rows(data / "labels.csv")[0]["label"] == "left"
    trained(
        ClassifyRecipe(data=str(data), **FIELDS | {"fold": 1, "label": "part"}),
        tmp_path / "teachers" / "fold1",
        machine=CPU,
    )
    recipe = ClassifyRecipe(
        data=str(data), **FIELDS | {"fold": 1, "label": "label", "teachers": f"{tmp_path}/teachers/fold{{fold}}"}
    )
    with pytest.raises(
        FovealError, match="classes that each lie within one of the pupil's, got upper right, which lies in several"
    ):
        trained(recipe, tmp_path / "pupils" / "fold1", machine=CPU)
