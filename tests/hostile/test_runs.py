"""Runs that are resumed where they should not be, or in a state that nobody expects; names that are no UTF-8.

Disks that are full.
"""

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys

import pytest
import torch
from hostile.broken import file, together
from hostile.situation import Situation, check, filled, params
from PIL import Image
from safetensors.torch import load_file
from training.little import ENVIRONMENT, typed

RESUME = ("train", "{task}", "--data", "{data}", "{flags}", "--out", "run", "--resume")
TRAIN = ("train", "{task}", "--data", "{data}", "{flags}", "--out", "new")


def checkpoint(content):
    def make(place):
        stream = io.BytesIO()
        torch.save(content, stream)
        (place / "run/last.ckpt").write_bytes(stream.getvalue())
        (place / "run/result.json").unlink()

    return make


def other_run(place):
    """The checkpoint of another model."""
    kept = torch.load(place / "run/last.ckpt", weights_only=True)
    kept["state_dict"] = {f"other.{name}": tensor for name, tensor in kept["state_dict"].items()}
    checkpoint(kept)(place)


FOREIGN = together(
    file("docs/log.csv", b"mine"), file("docs/model.safetensors", b"mine"), file("docs/.x.part", b"mine")
)
SITUATIONS = [
    Situation("resumed in somebody's folder", (*RESUME[:-2], "docs", "--resume"), "other files", FOREIGN, quick=True),
    Situation("begun in somebody's folder", (*RESUME[:-2], "docs"), "other files", FOREIGN),
    Situation(
        "a sweep in somebody's folder", (*RESUME[:-2], "docs", "--seeds", "2", "--resume"), "other files", FOREIGN
    ),
    Situation("begun in a run's folder", RESUME[:-1], "add --resume"),
    Situation(
        "a checkpoint with other keys",
        RESUME,
        "last.ckpt",
        checkpoint({"a": 1}),
        talks=True,
        changes=("run/tensorboard",),
    ),
    Situation(
        "a checkpoint that is a list", RESUME, "last.ckpt", checkpoint([1]), talks=True, changes=("run/tensorboard",)
    ),
    Situation(
        "a checkpoint of another run",
        RESUME,
        "last.ckpt: expected a checkpoint of this run",
        other_run,
        talks=True,
        changes=("run/tensorboard",),
    ),
    Situation("a rank that is no number", TRAIN, "LOCAL_RANK", environment={"LOCAL_RANK": "x"}, apart=True),
    Situation("a split that nobody has", ("evaluate", "run", "--split", "nope"), "--split"),
    Situation(
        "a split that nobody has, and --out", ("evaluate", "run", "--split", "nope", "--out", "new/er"), "--split"
    ),
    Situation("an unknown option", ("evaluate", "run", "--no-such-flag", "1"), "no-such-flag"),
    Situation("an --out that is a file", (*TRAIN[:-1], "one"), "file", file("one", b"x")),
    Situation("a device that nobody has", (*TRAIN, "--device", "cuda:7"), "device", talks=True),
    Situation("a precision that a CPU has not", (*TRAIN, "--precision", "16"), "precision", talks=True),
    Situation("a strategy that nobody has", (*TRAIN, "--strategy", "nope"), "strategy", talks=True),
    Situation("jobs without end", (*TRAIN, "--seeds", "2", "--jobs", "100000"), "--jobs"),
    Situation("seeds without end", (*TRAIN, "--seeds", "99999999999999999999"), "--seeds", talks=True),
    Situation("folds of data without", (*TRAIN, "--folds", "0,x"), "--folds", talks=True),
    Situation(
        "a recipe of lists in lists",
        ("train", "{task}", "--recipe", "x.yaml", "--out", "new"),
        "lists within lists",
        file("x.yaml", b"[" * 100_000),
    ),
    Situation(
        "a recipe with a key twice",
        ("train", "{task}", "--recipe", "x.yaml", "--out", "new"),
        "epochs twice",
        file("x.yaml", b"epochs: 1\nepochs: 2\n"),
    ),
    Situation(
        "a recipe in seconds of an hour",
        ("train", "{task}", "--recipe", "x.yaml", "--out", "new"),
        "--epochs: expected an integer",
        file("x.yaml", b"epochs: 3:44\n"),
    ),
    Situation(
        "a recipe that runs code",
        ("train", "{task}", "--recipe", "x.yaml", "--out", "new"),
        "YAML",
        file("x.yaml", b"data: !!python/object/apply:os.system [touch x]\n"),
    ),
    Situation(
        "a config of lists in lists",
        ("train", "{task}", "--data", "{data}", "--config", "[" * 10_000, "--out", "new"),
        "--config",
    ),
    Situation(
        "a config with a key twice",
        ("train", "{task}", "--data", "{data}", "--config", "{a: 1, a: 2}", "--out", "new"),
        "--config",
    ),
]


@pytest.mark.parametrize("situation", params(SITUATIONS))
def test_situation(situation, task, bench, capfd):
    made = bench(task)
    check(situation, made.place, capfd, made.words)


@pytest.mark.slow
def test_data_that_changed(task, bench, capfd):
    """Samples that were tested might be trained on."""
    made = bench(task)

    def changed(place):
        made.tiny.change_data(place)
        (place / "run/result.json").unlink()

    situation = Situation("changed", RESUME, "the data it was begun with", changed, talks=True)
    check(situation, made.place, capfd, made.words)


@pytest.mark.slow
def test_evaluation_counts_samples_that_were_trained_on(task, bench, capfd):
    made = bench(task)
    made.tiny.change_data(made.place)
    situation = Situation(
        "trained on",
        ("evaluate", "run", "--data", "{data}", "--resamples", "5", "--split", "train", "--out", "new"),
        "",
        status=0,
        printed="train",
        changes=("new",),
    )
    ended = check(situation, made.place, capfd, made.words)
    assert "trained on" in ended.stdout or "in the training split" in ended.stdout, ended.stdout


@pytest.mark.slow
def test_a_model_that_is_gone_is_made_again(task, bench, capfd):
    made = bench(task)
    before = load_file(made.place / "run/model.safetensors")
    (made.place / "run/model.safetensors").unlink()
    check(Situation("gone", RESUME, status=0, changes=("run",)), made.place, capfd, made.words)
    after = load_file(made.place / "run/model.safetensors")
    assert all(after[name].equal(tensor) for name, tensor in before.items())


@pytest.mark.slow
@pytest.mark.parametrize(
    "environment", [{}, {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}], ids=["utf-8", "C"]
)
def test_names_that_are_no_utf8(task, bench, environment):
    """Data, --out and inputs: trained, evaluated and asked, as with any other name."""
    made = bench(task)
    strange = os.fsdecode(b"d\xff\xc3\xbc")
    (made.place / "data").rename(made.place / strange)
    data = made.words["data"].replace("data", strange, 1)
    for words in (
        ["train", task, "--data", data, *made.words["flags"], "--out", f"{strange}-run"],
        ["evaluate", f"{strange}-run", "--resamples", "5"],
        ["predict", f"{strange}-run", *made.words["inputs"], "--out", f"{strange}.csv"],
        ["export", f"{strange}-run", "--out", f"{strange}.onnx"],
        ["predict", f"{strange}.onnx", *made.words["inputs"]],
        ["show", f"{strange}-run/model.safetensors"],
        ["train", task, "--data", data, *made.words["flags"], "--out", f"{strange}-run", "--resume"],
    ):
        done = typed_bytes(*words, **environment)
        assert done.returncode == 0, (words, done.stderr)


@pytest.mark.slow
def test_names_of_classes_are_utf8_in_every_locale(place):
    """The same names in the same order: a model's answers are numbers of classes."""
    for name in ("ä", "日本", "z"):
        (place / "classes" / name).mkdir(parents=True)
        for number in range(3):
            Image.new("RGB", (9, 7), (number, 5, 7)).save(place / "classes" / name / f"{number}.png")
    plain = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    found = [typed_bytes("data", "classes", PYTHONIOENCODING="utf-8", **environment) for environment in ({}, plain)]
    assert [done.returncode for done in found] == [0, 0], found[1].stderr
    assert found[0].stdout == found[1].stdout
    assert "(z 3, ä 3, 日本 3)" in found[0].stdout.decode()


def typed_bytes(*words, **environment):
    command = [sys.executable, "-m", "foveal", *words]
    return subprocess.run(command, capture_output=True, timeout=120, env=ENVIRONMENT | environment, check=False)


@contextlib.contextmanager
def disk(folder, options):
    """A disk of its own at this folder; without root there is none, and the test is skipped."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder]
    if shutil.which("mount") is None or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("a disk of its own needs root")
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "reason"),
    [("size=16k", "No space left"), ("size=16k,ro", "Read-only file system")],
    ids=["full", "read-only"],
)
def test_a_disk_that_takes_nothing(task, bench, options, reason):
    made = bench(task)
    place = made.place / "disk"
    with disk(place, options):
        for words in (
            ["train", task, "--data", made.words["data"], *made.words["flags"], "--out", "disk/run"],
            ["export", "run", "--out", "disk/model.onnx"],
            ["evaluate", "run", "--resamples", "5", "--out", "disk/evaluation"],
            ["predict", "run", *made.words["inputs"] * 600, "--out", "disk/found.csv"],
        ):
            done = typed(*words)
            lines = [line for line in done.stderr.splitlines() if line.startswith("foveal:")]
            assert done.returncode == 2, (words, done.stderr)
            assert len(lines) == 1, done.stderr
            assert reason in lines[0], lines
            assert "bug of" not in done.stderr
            assert not list(place.rglob(".*.part"))
            for one in place.iterdir():
                shutil.rmtree(one) if one.is_dir() else one.unlink()


@pytest.mark.slow
def test_an_output_that_is_closed(task, bench):
    """>&- and a reader that has gone away: no traceback, and what was asked for is done."""
    made = bench(task)
    words = filled(("predict", "run", "{inputs}"), made.words)
    quoted = " ".join(f"'{word}'" for word in words)
    for shell in (f"{quoted} >&-", f"{quoted} | true", f"{quoted} > /dev/full"):
        done = subprocess.run(
            ["bash", "-c", f"'{sys.executable}' -m foveal {shell}"],
            capture_output=True,
            text=True,
            env=ENVIRONMENT,
            timeout=300,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        assert "bug of" not in done.stderr, done.stderr
        assert done.returncode in (0, 2), done.stderr


@pytest.mark.slow
def test_a_working_folder_that_is_gone(place):
    (place / "gone").mkdir()
    command = f"cd gone && rmdir ../gone && '{sys.executable}' -m foveal predict photo.jpg"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, env=ENVIRONMENT, timeout=300, check=False
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert "working folder" in done.stderr


@pytest.mark.slow
def test_the_rank_of_a_single_process_changes_nothing(task, bench):
    """LOCAL_RANK=1 left over in an environment: the run is whole."""
    made = bench(task)
    done = typed("train", task, "--data", made.words["data"], *made.words["flags"], "--out", "new", LOCAL_RANK="1")
    assert done.returncode == 0, done.stderr
    assert (made.place / "new/recipe.yaml").exists()
    assert json.loads((made.place / "new/result.json").read_text(encoding="utf-8"))
    assert (made.place / "new/model.safetensors").exists()
