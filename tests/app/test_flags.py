"""Flags that several commands share: numbers of processes, what is read and never replaced, options of stages."""

import argparse
import dataclasses

import pytest

from foveal.app.cli import main
from foveal.app.command.flags import add_stage_options, expect_not_input, stage_options, task_of
from foveal.errors import FovealError
from foveal.tasks.task import all_tasks


@pytest.mark.parametrize(
    "line",
    [
        "train classify --data pipes:50 --workers 999999",
        "train classify --data pipes:50 --folds all --jobs 999999",
        "train classify --data pipes:50 --devices 999999",
        "ablate icam --data pipes:50 --jobs 999999",
        "data pipes:50 --check --jobs 999999",
        "render pipes --count 2 --out {out} --jobs 999999",
        "train classify --data pipes:50 --jobs 0",
    ],
)
def test_a_mistyped_number_of_processes_is_refused_before_any_is_started(line, tmp_path, capsys):
    out = [] if "--out" in line or line.startswith("data") else ["--out", str(tmp_path / "run")]
    assert main(line.format(out=tmp_path / "out").split() + out) == 2
    assert "--" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


# --- what is read is never replaced -----------------------------------------------------------------------------------


@pytest.fixture
def model(tmp_path):
    (tmp_path / "m.onnx").write_bytes(b"model")
    return tmp_path / "m.onnx"


def test_another_name_is_free(model, tmp_path):
    expect_not_input(tmp_path / "new.onnx", [model])
    expect_not_input(None, [model])
    expect_not_input(tmp_path / "other", [None, model, tmp_path / "gone"])
    (tmp_path / "other").write_bytes(b"")
    expect_not_input(tmp_path / "other", [None, model, tmp_path / "gone"])


@pytest.mark.parametrize("spelling", ["same", "dotted", "symbolic link", "hard link", "link to a folder"])
def test_the_input_is_refused_however_it_is_spelled(model, tmp_path, spelling):
    out = tmp_path / "out.onnx"
    if spelling == "same":
        out = model
    elif spelling == "dotted":
        (tmp_path / "sub").mkdir()
        out = tmp_path / "sub" / ".." / "m.onnx"
    elif spelling == "symbolic link":
        out.symlink_to(model)
    elif spelling == "hard link":
        out.hardlink_to(model)
    else:
        (tmp_path / "again").symlink_to(tmp_path)
        out = tmp_path / "again" / "m.onnx"
    with pytest.raises(
        FovealError, match=r"--out: expected another name than what is read, got .*; choose another name"
    ):
        expect_not_input(out, ["gone", model])
    assert model.read_bytes() == b"model"


def test_a_folder_that_is_read_is_refused(tmp_path):
    with pytest.raises(FovealError, match="--arrays: expected another name than what is read"):
        expect_not_input(tmp_path / ".." / tmp_path.name, [tmp_path], "--arrays")


# --- options of stages ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", ["predict", "evaluate", "explain", "export", "bench"])
def test_every_option_of_every_task_is_a_flag_of_the_stage(stage):
    parser = argparse.ArgumentParser()
    add_stage_options(parser, stage)
    added = {action.dest for action in parser._actions}
    for task in all_tasks():
        assert {one.name for one in dataclasses.fields(task.options(stage))} <= added


def test_an_option_of_another_task_is_refused():
    parser = argparse.ArgumentParser()
    add_stage_options(parser, "predict")
    args = parser.parse_args(["--beam", "3"])
    assert stage_options(args, "predict", "translate") == {"beam": 3}
    with pytest.raises(
        FovealError, match="--beam: expected a model that translates, got one that classifies; leave it out"
    ):
        stage_options(args, "predict", "classify")
    assert stage_options(parser.parse_args([]), "predict", "classify") == {}


def test_the_task_comes_first():
    assert task_of("classify").name == "classify"
    with pytest.raises(
        FovealError, match="the task: expected one of classify, segment, translate as the first word, got --epochs"
    ):
        task_of("--epochs")
    with pytest.raises(FovealError, match="no task is called 'clasify'; the nearest is 'classify'"):
        task_of("clasify")
