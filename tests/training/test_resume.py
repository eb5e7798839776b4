"""A run that is killed and goes on ends with the weights, figures and predictions of one that was never killed,
bit for bit.
"""

import os
import random
import signal
import subprocess
import sys
import time

import pytest
import torch
from training.little import ENVIRONMENT, FIELDS, FLAGS, SLOW, a_set, figures, result, same_run, trained, typed

from foveal.errors import FovealError
from foveal.tasks.classify import finish as finish_module
from foveal.tasks.classify import training as training_module
from foveal.tasks.classify.data import ClassifyData
from foveal.tasks.classify.module import ClassifyModule
from foveal.tasks.classify.recipe import ClassifyRecipe
from foveal.training import journal as journal_module
from foveal.training.harness import Machine

CPU = Machine("cpu")


class Killed(BaseException):
    """Stands for SIGKILL inside of one process: nothing of foveal catches it, nothing is written on the way out."""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return a_set(tmp_path_factory.mktemp("set"))


def recipe_for(data, **changes):
    fields = (
        FIELDS
        | {"data": str(data), "epochs": 6, "augment": "pipe", "ema": 0.9, "patience": 2, "mixup": 0.2, "seed": 2}
        | changes
    )
    return ClassifyRecipe(**fields)


@pytest.fixture(scope="module")
def whole_run(data, tmp_path_factory):
    """A run that nobody kills; that stops early, so that what early stopping counts is tested too."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    trained(recipe_for(data), folder, machine=CPU)
    assert 3 <= len(figures(folder)) < 6, "the run must stop early, neither at once nor at its end"
    return folder


def kill_at(monkeypatch, owner, name, count, *, before=True, when=lambda *args, **keywords: True):
    """Raise Killed at the count-th call of owner.name for which `when` holds, before or after it does its work."""
    real, seen = getattr(owner, name), []

    def deadly(*args, **keywords):
        fits = when(*args, **keywords)
        seen.extend([1] if fits else [])
        if before and fits and len(seen) == count:
            raise Killed
        value = real(*args, **keywords)
        if not before and fits and len(seen) == count:
            raise Killed
        return value

    monkeypatch.setattr(owner, name, deadly)


def killed(monkeypatch, recipe, folder, *args, **keywords):
    with monkeypatch.context() as patch:
        kill_at(patch, *args, **keywords)
        with pytest.raises(Killed):
            trained(recipe, folder, resume=True, machine=CPU)


def of(name):
    return lambda path, content: path.name == name


def test_killed_at_every_kind_of_moment(data, whole_run, tmp_path, monkeypatch):
    recipe, folder = recipe_for(data), tmp_path / "run"
    # in the first epoch, before there is a checkpoint
    killed(monkeypatch, recipe, folder, ClassifyModule, "training_step", 2)
    # after the weights of an epoch, before its row and its checkpoint
    killed(monkeypatch, recipe, folder, journal_module, "write_atomic", 1, when=of("weights.safetensors"), before=False)
    # between the row and the checkpoint
    killed(monkeypatch, recipe, folder, journal_module, "write_atomic", 1, when=of("log.csv"), before=False)
    # within an epoch that is not the first, before a step and after one
    killed(monkeypatch, recipe, folder, ClassifyModule, "training_step", 5)
    killed(monkeypatch, recipe, folder, ClassifyModule, "on_train_batch_end", 2, before=False)
    # half-way through writing the checkpoint: the part is there, and takes no place
    with monkeypatch.context() as patch:

        def half(path, content):
            if path.name == "last.ckpt":
                path.with_name(f".{path.name}.77.part").write_bytes(content[: len(content) // 2])
                raise Killed
            real(path, content)

        real = journal_module.write_atomic
        patch.setattr(journal_module, "write_atomic", half)
        with pytest.raises(Killed):
            trained(recipe, folder, resume=True, machine=CPU)
    # while it validates
    killed(monkeypatch, recipe, folder, ClassifyModule, "on_validation_epoch_end", 2)
    # when all is trained, before anything is concluded; and when all but the result is written
    killed(monkeypatch, recipe, folder, training_module, "conclude", 1)
    killed(monkeypatch, recipe, folder, finish_module, "save_model", 1)
    trained(recipe, folder, resume=True, machine=CPU)
    same_run(folder, whole_run)


def test_a_run_that_had_stopped_early_or_was_through_trains_no_further(data, tmp_path, monkeypatch):
    recipe, folder = recipe_for(data, patience=0, epochs=2, balance="sampling"), tmp_path / "run"
    killed(monkeypatch, recipe, folder, training_module, "conclude", 1)
    monkeypatch.setattr(ClassifyModule, "training_step", lambda *args: pytest.fail("trained after the last epoch"))
    assert trained(recipe, folder, resume=True, machine=CPU)["epoch"] == result(folder)["epoch"]
    assert len(figures(folder)) == 2
    monkeypatch.setattr(ClassifyData, "__init__", lambda *args: pytest.fail("a finished run was begun again"))
    assert trained(recipe, folder, resume=True, machine=CPU) == result(folder)


def test_the_checkpoint_holds_what_the_epoch_came_to(whole_run):
    checkpoint = torch.load(whole_run / "last.ckpt", weights_only=True)
    early = next(state for name, state in checkpoint["callbacks"].items() if name.startswith("EarlyStopping"))
    assert early["wait_count"] == early["patience"] == 2
    assert len(checkpoint["callbacks"]["Journal"]["rows"]) == checkpoint["epoch"] + 1 == len(figures(whole_run))


def test_a_damaged_checkpoint_is_one_line(data, tmp_path, monkeypatch):
    recipe, folder = recipe_for(data), tmp_path / "run"
    killed(monkeypatch, recipe, folder, ClassifyModule, "training_step", 4)
    (folder / "last.ckpt").write_bytes((folder / "last.ckpt").read_bytes()[:5000])
    with pytest.raises(
        FovealError, match=r"last.ckpt: expected a checkpoint, got .*; remove it to begin this run anew"
    ):
        trained(recipe, folder, resume=True, machine=CPU)


def test_another_recipe_is_refused(data, whole_run):
    with pytest.raises(
        FovealError,
        match="expected the options it was begun with, got others for lr, weight_decay; choose another --out",
    ):
        trained(recipe_for(data, lr=0.1, weight_decay=0.5), whole_run, resume=True, machine=CPU)
    with pytest.raises(FovealError, match="one with a run in it; add --resume"):
        trained(recipe_for(data), whole_run, machine=CPU)


@pytest.mark.slow
def test_sigkill_and_ctrl_c_of_a_true_process(data, whole_run, tmp_path):
    folder = tmp_path / "run"
    words = [
        "train",
        "classify",
        "--data",
        data,
        "--out",
        folder,
        *FLAGS,
        "--epochs",
        "6",
        "--patience",
        "2",
        "--mixup",
        "0.2",
    ]
    words += ["--seed", "2", "--warmup", "0.2", "--resume"]
    draw = random.Random(5)
    for end in (signal.SIGKILL, signal.SIGINT):
        command = [sys.executable, "-c", SLOW, *map(str, words)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
        line = process.stderr.readline()
        assert line.startswith("epoch "), line + process.stderr.read()
        time.sleep(draw.uniform(0, 0.2))
        os.kill(process.pid, end)
        _, errors = process.communicate(timeout=300)
        assert process.returncode == (-9 if end == signal.SIGKILL else 130)
        lines = [line for line in errors.splitlines() if not line.startswith("epoch")]
        assert lines == ([] if end == signal.SIGKILL else ["foveal: stopped"])
    done = typed(*words)
    assert done.returncode == 0, done.stderr
    same_run(folder, whole_run)
