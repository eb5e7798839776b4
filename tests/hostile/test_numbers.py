"""Every numeric flag of every task's recipe and stages, derived from its options, with numbers that nobody should type."""

import dataclasses

import pytest
from hostile.situation import Situation, check

from foveal.options import flag, kinds_of
from foveal.tasks.task import find_task

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


LARGE = {
    "--epochs",
    "--size",
    "--tokens",
    "--accumulate",
    "--patience",
    "--warmup",
    "--vocab-size",
    "--max-length",
    "--resamples",
    "--batch",
}


def test_large_numbers_of_a_recipe_train_or_are_refused(task, bench, capfd):
    """The largest that passes as a number: what comes is one line, or a model."""
    made = bench(task)
    for name, values in numeric(find_task(task).recipe):
        if values is NUMBERS:
            argv = ("train", "{task}", "--data", "{data}", "{flags}", f"{name}=1e15", "--out", f"new{name}")
            situation = Situation(name, argv, talks=True, changes=(f"new{name}",))
            try:
                check(situation, made.place, capfd, made.words)
            except AssertionError as error:
                assert "exit status 0" in str(error), error
