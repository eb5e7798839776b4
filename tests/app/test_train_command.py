"""`foveal train classify`, as it is typed."""

import dataclasses
import json
import shutil
import signal
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from training.little import FLAGS, a_set, result, rows, same_run, typed

from foveal.app import cli
from foveal.app.cli import main
from foveal.app.command import ablate
from foveal.errors import FovealError
from foveal.report import progress as progress_module
from foveal.tasks.task import all_tasks, find_task
from foveal.training.harness import Machine


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return a_set(tmp_path_factory.mktemp("set"))


def run_cli(capsys, *words):
    status = cli.main([str(word) for word in words])
    out, err = capsys.readouterr()
    return status, out, err


@pytest.mark.parametrize("task", all_tasks(), ids=lambda task: task.name)
def test_every_option_of_the_recipe_is_in_the_help(task, capsys):
    status, out, _ = run_cli(capsys, "train", task.name, "--help")
    assert status == 0
    for one in dataclasses.fields(task.recipe):
        assert f"--{one.name.replace('_', '-')} " in out


@pytest.mark.parametrize("words", [["train"], ["train", "classify"]])
def test_the_help_lists_the_recipes_that_are_shipped(words, capsys):
    status, out, _ = run_cli(capsys, *words, "--help")
    said = " ".join(out.split())
    assert status == 0
    for task in all_tasks():
        names = sorted(file.stem for file in (task.folder / "recipes").iterdir())
        assert names
        assert f"{task.name}: {', '.join(names)}" in said
    assert "(default: none if --data is given, else grammar for translate)" in said


@pytest.mark.parametrize("model", ["icam", "rnn-attention"])
def test_a_model_of_no_preset_is_refused_before_any_data_is_read(model, capsys, monkeypatch, tmp_path):
    task = find_task("classify")
    monkeypatch.setattr(type(task), "read", lambda *_: pytest.fail("the data were read"))
    status, _, err = run_cli(capsys, "train", "classify", "--model", model, "--data", tmp_path, "--out", "run")
    assert status == 2
    assert err.startswith(f"foveal: error: no model that classifies is called '{model}'; ")
    assert "icam-31k" in err
    assert "resnet-18" in err
    assert "transformer" not in err


def test_a_translator_has_no_use_for_workers():
    with pytest.raises(FovealError, match=r"--workers: expected none for a translator: .*, got 4; leave it out"):
        find_task("translate").training(None, None, Path(), Machine("cpu", workers=4), None, True)


def test_the_tables_of_an_ablation_are_listed(capsys):
    status, out, err = run_cli(capsys, "ablate", "icam", "--only", "?")
    assert (status, err) == (0, "")
    assert "first" in out.splitlines()


def test_no_two_tasks_have_an_ablation_of_one_name():
    names = [name for task in all_tasks() for name in task.ablations()]
    assert {"icam", "peers", "segment", "segment-peers", "transformer"} <= set(names)
    assert len(set(names)) == len(names)


def test_an_ablation_whose_name_is_taken_is_named(monkeypatch, capsys):
    first, second = (SimpleNamespace(name=name, ablations=lambda one=name: {"parts": one}) for name in "ab")
    monkeypatch.setattr(ablate, "all_tasks", lambda: [first, second])
    monkeypatch.setattr(ablate, "left_out", print)
    assert ablate.known() == {"parts": "a"}
    assert capsys.readouterr().out == "the ablation parts of b: another task has one of this name\n"


def test_a_whole_run_says_little(data, tmp_path):
    """In a process of its own: progress on stderr and nothing else there, no warning of anybody's."""
    folder = tmp_path / "run"
    done = typed(
        "train",
        "classify",
        "--data",
        data,
        "--out",
        folder,
        *FLAGS,
        "--epochs",
        "2",
        "--recipe",
        "demo",
        "--config",
        "{image: 32, patch: 8, pool: 1}",
        "--augment",
        "strong",
    )
    assert done.returncode == 0
    begun, *epochs = done.stderr.splitlines()
    # those of the classes
    assert begun == "87 of 91 tensors begin with icam-fast-pipes; the others do not fit and are new"
    assert [line[:12] for line in epochs] == ["epoch 1 of 2", "epoch 2 of 2"]
    out = done.stdout.splitlines()
    assert out[0].startswith(f"{data.name}: labels.csv, 2 classes (left")
    assert (
        out[1]
        == f"validation score {result(folder)['val_score']:.4f} at epoch {result(folder)['epoch']}; the model is "
        f"{folder}/model.safetensors"
    )
    assert out[2] == f"next: foveal evaluate {folder}"
    assert len(out) == 3
    assert "label_smoothing: 0.02" in (folder / "recipe.yaml").read_text(), "of the recipe"
    assert "size: 32" in (folder / "recipe.yaml").read_text(), "a flag over the recipe"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["classfy"], "no task is called 'classfy'; the nearest is 'classify'"),
        (["classify", "--lr", "nan"], "--lr: expected a number, at least 0, got nan"),
        (["classify", "--epoch", "3"], "unrecognized arguments: --epoch 3"),
        (["classify", "--recipe", "demp"], "no recipe is called 'demp'; the nearest is 'demo'"),
        (["classify", "--jobs", "0"], "--jobs: expected at least 1, got 0"),
        (["classify", "--devices", "0"], "--devices: expected at least 1, got 0"),
        (["classify", "--workers", "-1"], "--workers: expected at least 0, got -1"),
        (["classify", "--data", "nowhere"], "nowhere: expected pipes, or a folder"),
        (["classify", "--data", "DATA", "--size", "225"], "--size: expected images that icam-31k takes, got 225 × 225"),
        (["classify", "--data", "DATA", "--folds", "0,5"], "--folds: expected numbers from 0 to 2, got 0,5"),
        (
            ["classify", "--data", "DATA", "--folds", "one"],
            "--folds: expected all, or numbers such as 0,1,2, got 'one'",
        ),
        (["classify", "--data", "DATA", "--fold", "3"], "fold: expected 0 to 2, got 3"),
        (["classify", "--data", "pipes:9", "--folds", "all"], "--folds: expected data with folds, got data without"),
        (
            ["classify", "--data", "DATA", "--fold-column", "split"],
            "--fold-column: expected --folds or --fold beside it, which say what to test on, got neither",
        ),
        (
            ["classify", "--data", "DATA", "--fold-column", "spilt", "--folds", "all"],
            "no column of labels.csv is called 'spilt'; the nearest is 'split'",
        ),
        (
            ["classify", "--data", "DATA", "--fold-column", "half", "--folds", "all"],
            "--folds: expected data with at least 3 folds, to test, to choose and",
        ),
        (
            ["classify", "--data", "pipes:9", "--fold-column", "split", "--folds", "all"],
            "--fold-column: expected none: rendered pipes have no columns, got split",
        ),
        (["classify", "--data", "DATA", "--device", "abacus"], "device: expected auto, or one that this machine has"),
        (["classify", "--data", "DATA", "--seeds", "0"], "--seeds: expected at least 1, got 0"),
    ],
)
def test_one_line_for_what_does_not_fit(data, tmp_path, capsys, words, says):
    halves = "half" in words
    words = [str(in_halves(data, tmp_path / "set") if halves else data) if word == "DATA" else word for word in words]
    status, _, err = run_cli(capsys, "train", *words, "--out", tmp_path / "run")
    assert status == 2
    assert err.count("\n") == 1
    assert err.startswith("foveal: ")
    assert says in err
    assert not (tmp_path / "run").exists()


def in_halves(data, folder):
    """The same set with a column half, of two values."""
    shutil.copytree(data, folder)
    head, *lines = (data / "labels.csv").read_text().splitlines()
    (folder / "labels.csv").write_text(
        "\n".join([f"{head},half", *(f"{line},{place % 2}" for place, line in enumerate(lines))]) + "\n"
    )
    return folder


def test_a_run_goes_on_from_another_folder(data, tmp_path, monkeypatch, capsys):
    """What was typed as a relative path is kept as a whole one."""
    monkeypatch.chdir(data.parent)
    words = ["train", "classify", "--out", tmp_path / "run", *FLAGS, "--epochs", "1", "--data"]
    assert run_cli(capsys, *words, data.name)[0] == 0
    monkeypatch.chdir(tmp_path)
    assert f"data: {data.resolve()}\n" in (tmp_path / "run" / "recipe.yaml").read_text()
    assert run_cli(capsys, "evaluate", "run", "--resamples", "0")[0] == 0
    assert run_cli(capsys, *words, data, "--resume")[0] == 0
    kept = (tmp_path / "run" / "recipe.yaml").read_text()
    (tmp_path / "run" / "recipe.yaml").write_text(kept.replace(str(data.resolve()), data.name))
    monkeypatch.chdir(data.parent)
    assert run_cli(capsys, *words, data.name, "--resume")[0] == 0, "a path that was written down as it was typed"


def test_threads_and_progress_are_reported(data, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(progress_module, "FIRST", 0.0)
    status, _, err = run_cli(
        capsys, "train", "classify", "--data", data, "--out", tmp_path / "run", *FLAGS, "--epochs", "1"
    )
    assert status == 0
    assert err.startswith("opening images: 1 of 23, about 0 s left\n")
    assert result(tmp_path / "run")["origin"]["threads"] == str(torch.get_num_threads())


def test_diverging_is_one_line(data, tmp_path, capsys):
    words = [
        "train",
        "classify",
        "--data",
        data,
        "--out",
        tmp_path / "run",
        *FLAGS,
        "--lr",
        "1e9",
        "--clip",
        "0",
        "--epochs",
        "9",
    ]
    status, _, err = run_cli(capsys, *words)
    assert status == 2
    lines = [line for line in err.splitlines() if not line.startswith("epoch")]
    assert len(lines) == 1
    assert "expected finite numbers, got NaN or infinity; lower --lr" in lines[0]


def test_a_finished_run_is_reported_again(data, tmp_path, capsys):
    words = ["train", "classify", "--data", data, "--out", tmp_path / "run", *FLAGS, "--epochs", "1"]
    first = run_cli(capsys, *words)
    assert first[0] == 0
    assert run_cli(capsys, *words)[2].startswith("foveal: error: the folder")
    described = first[1].splitlines()[1:]  # the data need not be read again
    assert described[0].startswith("validation score")
    assert run_cli(capsys, *words, "--resume") == (0, "\n".join(described) + "\n", "")
    status, _, err = run_cli(capsys, *words, "--resume", "--lr", "0.5")
    assert status == 2
    assert "the options it was begun with, got others for lr" in err


def test_bad_images_are_reported(data, tmp_path, capsys):
    mine = a_set(tmp_path / "set")
    (mine / "0.png").write_bytes(b"")
    status, out, _ = run_cli(
        capsys, "train", "classify", "--data", mine, "--out", tmp_path / "run", *FLAGS, "--epochs", "1"
    )
    assert status == 0
    assert f"1 image could not be read: {tmp_path}/run/bad.csv has the reasons" in out.splitlines()
    assert [row["file"] for row in rows(tmp_path / "run" / "bad.csv")] == ["0.png"]


SEVERAL = ["--folds", "all", "--seeds", "2", "--jobs", "2", "--epochs", "1"]


@pytest.mark.slow
def test_folds_and_seeds_stopped_and_gone_on_with(data, tmp_path, capsys):
    """Every fold tests once for each seed; the table is what the runs' predictions come to."""
    words = ["train", "classify", "--data", data, "--out", tmp_path / "cv", *FLAGS, *SEVERAL]

    def interrupt():
        while not list((tmp_path / "cv").glob("*/result.json")):
            time.sleep(0.05)
        time.sleep(0.3)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    status, _, err = run_cli(capsys, *words)
    assert status == 130
    assert err.splitlines()[-1] == "foveal: stopped"
    ended = {path.parent.name: path.stat().st_mtime_ns for path in (tmp_path / "cv").glob("*/result.json")}
    assert 1 <= len(ended) < 6
    status, _, err = run_cli(capsys, *words)
    assert status == 2
    assert "one with files in it; add --resume" in err
    status, out, err = run_cli(capsys, *words, "--resume")
    assert status == 0, err
    names = sorted(path.name for path in (tmp_path / "cv").iterdir() if path.is_dir())
    assert names == [f"fold{fold}-seed{seed}" for fold in range(3) for seed in range(2)]
    assert all((tmp_path / "cv" / name / "result.json").stat().st_mtime_ns == time_ for name, time_ in ended.items()), (
        "done once"
    )
    accuracy = []
    for name in names:
        listed = rows(tmp_path / "cv" / name / "predictions-test.csv")
        fold = name[4]
        assert [row["file"] for row in listed] == [
            row["file"] for row in rows(data / "labels.csv") if row["fold"] == fold
        ]
        accuracy.append(
            np.mean(
                [
                    ("left", "right")[float(row["logit right"]) > float(row["logit left"])] == row["truth"]
                    for row in listed
                ]
            )
        )
    kept = json.loads((tmp_path / "cv" / "summary.json").read_text())
    np.testing.assert_allclose([row[kept["figures"].index("accuracy")] for row in kept["values"]], accuracy)
    line = next(line for line in out.splitlines() if line.startswith("| accuracy"))
    assert f"| {np.mean(accuracy):.4f} | {np.std(accuracy, ddof=1):.4f} |" in line
    # each is the run that one gets alone
    alone = [
        "train",
        "classify",
        "--data",
        data,
        "--out",
        tmp_path / "alone",
        *FLAGS,
        "--epochs",
        "1",
        "--fold",
        "2",
        "--seed",
        "1",
    ]
    assert run_cli(capsys, *alone)[0] == 0
    same_run(tmp_path / "alone", tmp_path / "cv" / "fold2-seed1")


def test_the_config_of_a_recipe_goes_with_its_kind_of_model(capsys):
    words = ["train", "translate", "--recipe", "grammar", "--data", "nowhere"]
    for model, says in (
        ("rnn", "the recipe's config is of transformer-tiny: rnn begins with its own"),
        (
            "transformer-base",
            "transformer-base has the recipe's config: {'layers': 2, 'decoder_layers': 2, 'dropout': 0.05}",
        ),
        ("transformer-tiny", "foveal: error: nowhere"),
        ("no-such-model", "no-such-model has the recipe's config"),
    ):
        assert main([*words, "--model", model]) == 2
        assert capsys.readouterr().err.startswith(says)
    assert main([*words, "--model", "rnn", "--config", "{width: 8}"]) == 2
    assert capsys.readouterr().err.startswith("foveal: error: nowhere")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("train", "--seeds", "2", "classify", "--data", "d"), "the task first: foveal train classify …"),
        (("train", "--epochs", "3", "classify"), "the task first: foveal train classify …"),
        (("train", "--epochs", "3"), "the task first: foveal train TASK …"),
        (("ablate", "--seeds", "2", "icam"), "the ablation first: foveal ablate icam …"),
    ],
)
def test_a_flag_before_the_task_is_answered_with_where_it_belongs(words, line, capsys):
    status, out, err = run_cli(capsys, *words)
    assert (status, out) == (2, "")
    assert err == f"foveal: error: foveal {words[0]}: expected {line}, got {words[1]} before it\n"


def test_help_needs_no_task(capsys):
    status, out, _ = run_cli(capsys, "train", "--help")
    assert status == 0
    assert "--seeds" in out
