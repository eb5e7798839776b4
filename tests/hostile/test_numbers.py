"""Every numeric flag of every task's recipe and stages, derived from its options,
with numbers that nobody should type.
"""

import dataclasses

import pytest
from hostile.situation import Situation, check, filled

from foveal.app.cli import main
from foveal.options import flag, kinds_of
from foveal.tasks.task import find_task

pytestmark = pytest.mark.slow
INTEGERS = ("-1", str(10**20), "x", "nan", "1.5", "")
NUMBERS = ("-1e308", "1e308", "nan", "inf", "x", "")
STAGES = ("predict", "evaluate", "explain", "export")


def numeric(kind):
    """(flag, values that are never right) of every option that is a number."""
    for one in dataclasses.fields(kind):
        kinds = kinds_of(kind, one.name)
        if bool in kinds or one.metadata["among"]:
            continue
        if int in kinds or float in kinds:
            yield flag(one.name), INTEGERS if int in kinds else NUMBERS


def argv_of(stage, name, value):
    last = f"{name}={value}"
    if stage == "train":
        return ("train", "{task}", "--data", "{data}", "{flags}", last, "--out", "new")
    return {
        "predict": ("predict", "run", "{inputs}", last),
        "evaluate": ("evaluate", "run", "--data", "{data}", "--out", "new", last),
        "explain": ("explain", "run", "{subject}", "--out", "new", last),
        "export": ("export", "run", "--out", "new.onnx", last),
    }[stage]


@pytest.mark.parametrize("stage", ["train", *STAGES])
def test_numbers(stage, task, bench, capfd):
    made = bench(task)
    kind = find_task(task).recipe if stage == "train" else find_task(task).options(stage)
    for name, values in numeric(kind):
        for value in values:
            situation = Situation(f"{stage} {name} {value}", argv_of(stage, name, value), name)
            check(situation, made.place, capfd, made.words)


def test_the_largest_numbers_of_a_recipe(task, bench, capfd):
    """What just passes as a number trains, or is refused in one line,
    also where training finds that it is too large.
    """
    made = bench(task)
    for name, values in numeric(find_task(task).recipe):
        if values is NUMBERS:
            argv = ("train", "{task}", "--data", "{data}", "{flags}", f"{name}=1e15", "--out", f"new{name}")
            capfd.readouterr()
            status = main(filled(argv, made.words))
            error = capfd.readouterr().err
            assert status in (0, 2), error
            assert error.count("foveal: ") == (status == 2), error
