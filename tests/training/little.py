"""A set of images small enough to train on in seconds, and the recipe that does it."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from safetensors.torch import load_file

from foveal.errors import FovealError
from foveal.tasks.task import find_task
from foveal.training import journal, sweep
from foveal.training.harness import Machine, train
from foveal.training.run_folder import finished

SIDE = 32
FIELDS = {
    "size": SIDE,
    "config": {"image": SIDE, "patch": 8},
    "batch": 5,
    "epochs": 2,
    "ema": 0.9,
    "lr": 0.003,
    "warmup": 0.2,
}
FLAGS = [
    "--size",
    "32",
    "--config",
    "{image: 32, patch: 8}",
    "--batch",
    "5",
    "--ema",
    "0.9",
    "--lr",
    "0.003",
    "--device",
    "cpu",
]
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
# `foveal …`, slowed down, so that it does not end before it is killed
SLOW = """
import sys, time
from foveal.app import cli
from foveal.tasks.classify.module import ClassifyModule
real = ClassifyModule.on_validation_epoch_start
ClassifyModule.on_validation_epoch_start = lambda self: (time.sleep(0.3), real(self))
sys.exit(cli.main())
"""


def image(number, label):
    """Noise, brighter on the left for label 0 and on the right for label 1; grey for none."""
    pixels = np.random.default_rng(number).integers(60, 120, (SIDE, SIDE, 3), np.uint8)
    if label is not None:
        pixels[:, :16] += 100 * (label == 0)
        pixels[:, 16:] += 100 * (label == 1)
    return pixels


def a_set(folder, count=23, multi_label=False, splits="train train val train test train"):
    """labels.csv with splits and 3 folds, of classes left and right: one an image, or none, one or both."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["file,left,right,split,fold" if multi_label else "file,label,split,fold"]
    for number in range(count):
        label = number * 7 % 11 % 2
        split = splits.split()[number % len(splits.split())]
        if multi_label:
            label = (0, 1, None)[number * 7 % 11 % 3]
        Image.fromarray(image(number, label)).save(folder / f"{number}.png")
        marks = f"{int(label == 0)},{int(label == 1)}" if multi_label else ("left", "right")[label]
        lines.append(f"{number}.png,{marks},{split},{number % 3}")
    (folder / "labels.csv").write_text("\n".join(lines) + "\n")
    return folder


def trained(recipe, folder, **options):
    """A run of classification in this process; its result."""
    return train(find_task("classify"), recipe, folder, **options)


def sweeps_here(monkeypatch):
    """Every run of a sweep in this process, without one of its own; the variants that were run."""
    done = []

    def run_all(runs, flags, jobs, diverging=False):
        for run in runs:
            if finished(run.recipe, run.folder, resume=True) is None:
                done.append(run.folder.parent.name)
                options = {"resume": True, "machine": Machine("cpu"), "origin": {"gpu": "a GPU"}}
                train(find_task(run.task), run.recipe, run.folder, **options)

    monkeypatch.setattr(sweep, "run_all", run_all)
    return done


def killed_and_resumed(recipe, folder, monkeypatch, checkpoints=1):
    """A run that is interrupted right after so many checkpoints were written, and then goes on to its end."""
    real, written = journal.write_atomic, []

    def deadly(path, content):
        real(path, content)
        written.append(path.name)
        if written.count(journal.CHECKPOINT) == checkpoints:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(journal, "write_atomic", deadly)
        with pytest.raises((KeyboardInterrupt, FovealError)):
            trained(recipe, folder, machine=Machine("cpu"))
    trained(recipe, folder, resume=True, machine=Machine("cpu"))


def typed(*words, timeout=300, **environment):
    """`foveal …` in a process of its own."""
    command = [sys.executable, "-m", "foveal", *map(str, words)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=timeout, env=ENVIRONMENT | environment, check=False
    )


def rows(file):
    with Path(file).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def figures(folder):
    """log.csv without what a clock says."""
    timed = ("seconds", "images_per_second", "waiting")
    return [{key: value for key, value in row.items() if key not in timed} for row in rows(folder / "log.csv")]


def result(folder):
    return json.loads((folder / "result.json").read_text(encoding="utf-8"))


def same_run(one, other):
    """Weights, figures and predictions are equal, bit for bit."""
    assert figures(one) == figures(other)
    for name in ("model.safetensors", "weights.safetensors"):
        here, there = load_file(one / name), load_file(other / name)
        assert here.keys() == there.keys()
        assert [key for key in here if not here[key].equal(there[key])] == [], name
    for name in ("predictions-val.csv", "predictions-test.csv", "bad.csv"):
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    for key in ("epoch", "val_score", "parameters"):
        assert result(one)[key] == result(other)[key]
    assert not list(one.glob(".*")), "what a killed run left half-written"
