"""Two processes on a CPU: one set of files, every image evaluated once, and a killed run goes on."""

import contextlib
import os
import signal
import subprocess
import sys

import pytest
import torch
from torch.nn import functional as F
from training.little import ENVIRONMENT, FLAGS, a_set, figures, result, rows, same_run, typed

from foveal.metrics.classification import balanced_accuracy
from foveal.tasks.classify.predictions import read_predicted
from foveal.training import gather

TWO = [
    "--devices",
    "2",
    "--strategy",
    "ddp",
    "--batch",
    "6",
    "--epochs",
    "2",
    "--label-smoothing",
    "0",
    "--checkpoint",
    "last",
    "--patience",
    "5",
]
DEADLY = """
import os, signal, sys
from foveal.app import cli
from foveal.training import journal
real = journal.Journal.on_train_epoch_end
def deadly(self, trainer, module):
    real(self, trainer, module)
    if trainer.is_global_zero:
        os.kill(os.getpid(), signal.SIGKILL)
journal.Journal.on_train_epoch_end = deadly
sys.exit(cli.main())
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """5 images that select, one that tests: neither can be halved."""
    folder = a_set(tmp_path_factory.mktemp("set"), count=29, splits="train train val train train train")
    text = (folder / "labels.csv").read_text()
    (folder / "labels.csv").write_text(
        text.replace("28.png,left,train", "28.png,left,test").replace("28.png,right,train", "28.png,right,test")
    )
    (folder / "3.png").write_bytes(b"")
    return folder


@pytest.fixture(scope="module")
def a_run(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    done = typed("train", "classify", "--data", data, "--out", folder, *FLAGS, *TWO, timeout=3000)
    assert done.returncode == 0, done.stderr
    return folder, done


@pytest.mark.slow
def test_one_process_speaks(a_run):
    folder, done = a_run
    out, err = done.stdout.splitlines(), done.stderr.splitlines()
    assert [line.split(" ·")[0] for line in err] == ["epoch 1 of 2", "epoch 2 of 2"]
    assert out[1] == f"1 image could not be read: {folder}/bad.csv has the reasons"
    assert out[2].startswith("validation score")
    assert len(out) == 4


@pytest.mark.slow
def test_every_image_is_evaluated_once(a_run, data):
    folder, _ = a_run
    splits = {row["file"]: row["split"] for row in rows(data / "labels.csv")}
    for split, count in (("val", 5), ("test", 1)):
        listed = [row["file"] for row in rows(folder / f"predictions-{split}.csv")]
        assert listed == [file for file in splits if splits[file] == split]
        assert len(listed) == count
    assert [row["file"] for row in rows(folder / "bad.csv")] == ["3.png"]


@pytest.mark.slow
def test_the_log_is_of_all_images_and_of_the_kept_weights(a_run):
    folder, _ = a_run
    predicted = read_predicted(folder / "predictions-val.csv", multi_label=False)
    loss = F.cross_entropy(torch.tensor(predicted.logits), torch.tensor(predicted.truth))
    assert float(figures(folder)[-1]["val_loss"]) == pytest.approx(float(loss), abs=2e-5)
    score = balanced_accuracy(predicted.truth, predicted.logits.argmax(1), 2)
    assert result(folder)["val_score"] == pytest.approx(float(score), abs=1e-6)


@pytest.mark.slow
def test_killed_and_resumed(a_run, data, tmp_path):
    (tmp_path / "deadly.py").write_text(DEADLY)
    words = [
        str(word) for word in ("train", "classify", "--data", data, "--out", tmp_path / "run", *FLAGS, *TWO, "--resume")
    ]
    killed = subprocess.Popen(
        [sys.executable, str(tmp_path / "deadly.py"), *words],
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        killed.communicate(timeout=300)  # the other process ends, too, or its pipe would stay open
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(killed.pid, signal.SIGKILL)
    assert killed.returncode == -9
    assert len(figures(tmp_path / "run")) == 1
    done = typed(*words, timeout=3000)
    assert done.returncode == 0, done.stderr
    same_run(tmp_path / "run", a_run[0])


def test_rows_of_processes_by_hand(monkeypatch):
    """Two processes with 3 and 1 rows: the shapes go first, then rows that are padded to 3, and cut again."""
    task = type("Task", (), {"trainer": type("Trainer", (), {"world_size": 2}), "device": torch.device("cpu")})()
    other = [
        torch.tensor([1, 2]),
        torch.tensor([[9.0, 9.5], [0, 0], [0, 0]]),
        torch.tensor([1]),
        torch.tensor([4, 0, 0]),
    ]

    def all_gather(parts, part, group=None):
        theirs = other.pop(0)
        assert theirs.shape == part.shape
        parts[0].copy_(part)
        parts[1].copy_(theirs)

    monkeypatch.setattr(torch.distributed, "get_world_size", lambda group=None: 2)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda group=None: 0)
    monkeypatch.setattr(torch.distributed, "barrier", lambda group=None: None)
    monkeypatch.setattr(torch.distributed, "all_gather", all_gather)
    logits, index = gather.gathered(task, torch.tensor([[1.0, 2], [3, 4], [5, 6]]), torch.tensor([0, 2, 6]))
    assert logits.tolist() == [[1, 2], [3, 4], [5, 6], [9, 9.5]]
    assert index.tolist() == [0, 2, 6, 4]
    task.trainer.world_size = 1
    assert gather.gathered(task, index)[0] is index
