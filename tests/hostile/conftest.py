"""A tiny trained model of every task, made once, and a fresh folder with copies of it for every situation."""

import importlib
import shutil
from types import SimpleNamespace

import pytest
from training.little import typed

from foveal.tasks.task import task_names

MADE = {}  # task → its folder with data, run and model.onnx, and what its data are called there


def tiny_of(task):
    """The module tests/tasks/TASK/tiny.py: a task that has none is tested nowhere,
    and the tests of all tasks say so.
    """
    return importlib.import_module(f"tasks.{task}.tiny")


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """task → a folder with its data, its run, its inputs and its exported file."""

    def made(task):
        if task not in MADE:
            tiny, place = tiny_of(task), tmp_path_factory.mktemp(task)
            data = tiny.make_data(place)
            tiny.inputs(place)
            words = ["train", task, "--data", place / data, *tiny.FLAGS, "--out", place / "run"]
            done = typed(*words, timeout=600)
            assert done.returncode == 0, done.stderr
            done = typed("export", place / "run", "--out", place / "model.onnx", timeout=600)
            assert done.returncode == 0, done.stderr
            MADE[task] = place, data
        return MADE[task]

    return made


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def bench(trained, place):
    """task → (a fresh folder with copies of all that, what the words of a situation stand for)."""

    def made(task):
        (origin, data), tiny = trained(task), tiny_of(task)
        shutil.copytree(origin, place, dirs_exist_ok=True)
        shutil.copy(place / "run/model.safetensors", place / "model.safetensors")
        recipe = place / "run/recipe.yaml"
        recipe.write_text(recipe.read_text(encoding="utf-8").replace(str(origin), str(place)), encoding="utf-8")
        words = {
            "task": task,
            "data": data,
            "own": str(origin / data),  # as the card of the run names it
            "inputs": tiny.inputs(place),
            "subject": tiny.subject(place),
            "flags": tiny.FLAGS,
            "bare": bare(tiny.FLAGS),
        }
        return SimpleNamespace(place=place, words=words, tiny=tiny)

    return made


def bare(flags):
    """Flags without --config: a model that is there already has its own."""
    place = flags.index("--config") if "--config" in flags else len(flags)
    return [*flags[:place], *flags[place + 2 :]]


def pytest_generate_tests(metafunc):
    if "task" in metafunc.fixturenames:
        metafunc.parametrize("task", task_names())
