"""What a run writes while it goes, asked of the callback alone."""

import errno
import re
import time
import types
from pathlib import Path

import pytest
import torch
from pytorch_lightning.callbacks import EarlyStopping
from safetensors.torch import load
from torch import nn
from training.little import rows

from foveal.errors import FovealError
from foveal.training.journal import AtomicCheckpoint, Journal, weights
from foveal.training.rehearsal import Pace

WATCHED = ("val_score", "max")


class Trainer:
    """As much of Lightning's as a journal asks for."""

    def __init__(self, **metrics):
        self.is_global_zero, self.world_size, self.max_epochs, self.current_epoch = True, 1, 5, 0
        self.optimizers = [types.SimpleNamespace(param_groups=[{"lr": 0.00123456}])]
        self.callback_metrics = {name: torch.tensor(value) for name, value in metrics.items()}
        self.callbacks, self.should_stop, self.saved = [], False, []

    def save_checkpoint(self, path):
        self.saved.append(path)
        Path(path).write_bytes(b"")


class Module:
    unit, occasional = "images", ("val_bleu",)

    def __init__(self, value):
        self.evaluated = nn.Linear(2, 3)
        nn.init.constant_(self.evaluated.weight, value)

    def amount(self, batch):
        return len(batch.index)


def one_epoch(journal, trainer, epoch, score, value=0.0):
    trainer.current_epoch, trainer.callback_metrics["val_score"] = epoch, torch.tensor(score)
    journal.on_train_epoch_start(trainer, None)
    batch = types.SimpleNamespace(index=[1, 2, 3])
    journal.on_train_batch_start(trainer, Module(value), batch, 0)
    journal.on_train_batch_end(trainer, Module(value), None, batch, 0)
    journal.on_train_epoch_end(trainer, Module(value))


def test_a_trail_of_the_last_epochs(tmp_path):
    journal, trainer = Journal(tmp_path, "last", WATCHED, verbose=False, trail=2), Trainer(loss=0.5)
    for number in range(5):
        one_epoch(journal, trainer, number, 0.5, float(number))
    assert sorted(file.name for file in tmp_path.glob("weights*")) == ["weights-0.safetensors", "weights-1.safetensors"]
    kept = [float(load((tmp_path / f"weights-{place}.safetensors").read_bytes())["weight"][0, 0]) for place in range(2)]
    assert kept == [4.0, 3.0]


@pytest.mark.parametrize(("checkpoint", "best", "epoch", "kept"), [("best", 0.75, 1, 1.0), ("last", 0.5, 3, 3.0)])
def test_which_weights_are_kept(tmp_path, checkpoint, best, epoch, kept):
    journal, trainer = Journal(tmp_path, checkpoint, WATCHED, verbose=False), Trainer(loss=0.5)
    for number, score in enumerate((0.25, 0.75, 0.75, 0.5)):  # of two that are equal the first
        one_epoch(journal, trainer, number, score, float(number))
    assert (journal.best, journal.best_epoch) == (best, epoch)
    assert (load((tmp_path / "weights.safetensors").read_bytes())["weight"] == kept).all()
    assert trainer.saved == [tmp_path / "last.ckpt"] * 4
    log = rows(tmp_path / "log.csv")
    assert [row["epoch"] for row in log] == ["1", "2", "3", "4"]
    assert [row["val_score"] for row in log] == ["0.25", "0.75", "0.75", "0.5"]
    assert log[2]["lr"] == "0.00123"
    assert float(log[0]["images_per_second"]) > 0


def test_a_score_of_nothing_is_kept_too(tmp_path):
    journal = Journal(tmp_path, "best", WATCHED, verbose=False)
    one_epoch(journal, Trainer(), 0, 0.0)
    assert (tmp_path / "weights.safetensors").exists()


def test_state(tmp_path):
    journal, trainer = Journal(tmp_path, "best", WATCHED, verbose=False), Trainer()
    one_epoch(journal, trainer, 0, 0.5)
    other = Journal(tmp_path, "best", WATCHED, verbose=False)
    other.load_state_dict(journal.state_dict())
    one_epoch(other, trainer, 1, 0.25)
    assert (other.best, other.best_epoch) == (0.5, 0)
    assert [row["epoch"] for row in rows(tmp_path / "log.csv")] == ["1", "2"]


def test_pace_within_an_epoch(tmp_path, monkeypatch):
    """Ten images per second, 100 of 400 done: 30 s of this epoch, and four more of as long as the last one took."""
    journal, trainer = Journal(tmp_path, "best", WATCHED, verbose=False), Trainer()
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    journal.on_train_epoch_start(trainer, None)
    for place in range(10):
        batch = types.SimpleNamespace(index=range(10))
        journal.on_train_batch_start(trainer, Module(0.0), batch, place)
        now[0] += 1.0
        journal.on_train_batch_end(trainer, Module(0.0), None, batch, place)
    assert journal.pace(trainer, Module(0.0), 0.25) == {"images/s": "10", "left": "190 s"}
    journal.rows = [{"epoch": 1, "seconds": 100.0}]
    trainer.current_epoch = 1
    assert journal.pace(trainer, Module(0.0), 0.25) == {"images/s": "10", "left": "390 s"}
    trainer.max_epochs = 100
    assert journal.pace(trainer, Module(0.0), 0.25)["left"] == "165 min"


@pytest.mark.parametrize(
    ("first", "epoch", "row", "seconds", "share", "left"),
    [
        (0, 0, None, 10.0, 0.25, "100 s"),  # of an epoch of 40 s 30 s are left, then one of 40 s and three of 10 s
        (0, 0, (1, 40.0), 40.0, 1.0, "70 s"),  # as an epoch ends, its own row is the last
        (0, 1, (1, 40.0), 10.0, 0.25, "60 s"),
        (0, 2, (2, 40.0), 2.5, 0.25, "28 s"),  # the first whose batches come again
        (0, 2, (3, 10.0), 10.0, 1.0, "20 s"),
        (0, 3, (3, 20.0), 2.5, 0.25, "38 s"),  # what validation takes is known from the last epoch
        (2, 2, (2, 40.0), 10.0, 0.25, "80 s"),  # resumed, with nothing kept: two epochs of 40 s, and one of 10 s
        (2, 2, (2, 80.0), 10.0, 0.25, "170 s"),  # and known from the last epoch before it was stopped
    ],
)
def test_epochs_whose_batches_come_again_take_less_time(tmp_path, monkeypatch, first, epoch, row, seconds, share, left):
    pace = Pace(new=4.0, again=1.0, novel=2)
    journal, trainer = Journal(tmp_path, "best", WATCHED, verbose=False, pace=pace), Trainer()
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    trainer.current_epoch = first
    journal.on_train_start(trainer, None)
    trainer.current_epoch = epoch
    journal.rows = [] if row is None else [{"epoch": row[0], "seconds": row[1]}]
    journal.on_train_epoch_start(trainer, None)
    now[0] += seconds
    assert journal.pace(trainer, Module(0.0), share)["left"] == left


def test_a_stage_of_several_counts_those_behind_it(tmp_path, capsys):
    journal = Journal(tmp_path, "best", WATCHED, name="teachers/seed1", later=1800.0)
    one_epoch(journal, Trainer(loss=0.125), 4, 0.5)
    err = capsys.readouterr().err
    assert err.startswith("epoch 5 of 5 of teachers/seed1 · loss 0.1250 · ")
    assert err.endswith(" · left 30 min\n")


def test_a_line_per_epoch_on_stderr(tmp_path, capsys):
    one_epoch(Journal(tmp_path, "best", WATCHED, verbose=True), Trainer(loss=0.125), 1, 0.5)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("epoch 2 of 5 · loss 0.1250 · val_score 0.5000 · ")
    assert re.search(r" · images/s [\d,]+ · left \d+ s\n$", err)
    assert err.count("\n") == 1


def test_a_figure_that_is_not_of_every_epoch_is_left_out_and_a_loss_that_is_nan_is_not(tmp_path, capsys):
    journal, nan = Journal(tmp_path, "best", WATCHED), float("nan")
    one_epoch(journal, Trainer(loss=nan, val_bleu=nan), 1, 0.5)
    assert capsys.readouterr().err.startswith("epoch 2 of 5 · loss nan · val_score 0.5000 · images/s ")
    one_epoch(journal, Trainer(loss=0.5, val_bleu=0.25), 2, 0.5)
    assert "· loss 0.5000 · val_bleu 0.2500 · " in capsys.readouterr().err


def test_a_watched_figure_that_nobody_logs_is_one_line(tmp_path):
    journal = Journal(tmp_path, "best", ("val_mse", "min"), verbose=False)
    says = "the module: expected it to log val_mse, which the best epoch goes by, got loss, val_score"
    with pytest.raises(FovealError, match=f"^{says}$"):
        one_epoch(journal, Trainer(loss=0.5), 0, 0.5)
    assert list(tmp_path.iterdir()) == []


def test_other_processes_write_nothing(tmp_path, capsys):
    journal, trainer = Journal(tmp_path, "best", WATCHED, verbose=True), Trainer()
    trainer.is_global_zero, trainer.save_checkpoint = False, trainer.saved.append
    one_epoch(journal, trainer, 0, 0.5)
    assert trainer.saved == [tmp_path / "last.ckpt"]  # in which they take part
    assert list(tmp_path.iterdir()) == []
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("waited", [1, 2])
def test_a_run_that_had_stopped_stays_stopped(tmp_path, waited):
    trainer, early = Trainer(), EarlyStopping("val_score", patience=2)
    early.wait_count, trainer.callbacks = waited, [early]
    Journal(tmp_path, "best", WATCHED, verbose=False).on_train_start(trainer, None)
    assert trainer.should_stop == (waited == 2)


def test_checkpoints_are_whole(tmp_path, monkeypatch):
    file, plugin = tmp_path / "last.ckpt", AtomicCheckpoint()
    whole = {"pytorch-lightning_version": "2", "state_dict": {}, "epoch": 7}
    plugin.save_checkpoint(whole | {"a": torch.arange(3), "b": [1, "x", None]}, file)
    read = plugin.load_checkpoint(file)
    assert read["a"].tolist() == [0, 1, 2]
    assert read["b"] == [1, "x", None]

    def full(self, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(FovealError, match=r"cannot write .*last.ckpt.*No space left on device"):
        plugin.save_checkpoint(whole | {"a": torch.arange(5)}, file)
    assert len(plugin.load_checkpoint(file)["a"]) == 3  # what was there before
    assert [path.name for path in tmp_path.iterdir()] == ["last.ckpt"]


@pytest.mark.parametrize(
    "content", [{"state_dict": {}, "epoch": 1}, [1, 2], torch.arange(3)], ids=["no version", "list", "tensor"]
)
def test_what_is_no_checkpoint_of_a_run_is_refused(tmp_path, content):
    torch.save(content, tmp_path / "last.ckpt")
    with pytest.raises(
        FovealError, match="expected a checkpoint of this run, got something else; remove it to begin this run anew"
    ):
        AtomicCheckpoint().load_checkpoint(tmp_path / "last.ckpt")


def test_the_mean_of_the_last_epochs_is_taken_in_double_precision(tmp_path):
    journal, trainer = Journal(tmp_path, "last", WATCHED, verbose=False, trail=3), Trainer(loss=0.5)
    values = (9.0, 1e8, 1.0, -1e8)  # in single precision 1e8 + 1 is 1e8
    for number, value in enumerate(values):
        one_epoch(journal, trainer, number, 0.5, value)
    model = nn.Linear(2, 3)
    journal.load_kept(model, 3)
    assert model.weight[0, 0].item() == pytest.approx(1 / 3)


def test_weights_that_are_gone_are_one_line(tmp_path):
    with pytest.raises(FovealError, match=r"expected weights that it kept, such as weights\.safetensors, got none"):
        Journal(tmp_path, "best", WATCHED, verbose=False).load_kept(nn.Linear(2, 3), 1)


def test_a_checkpoint_runs_no_code(tmp_path):
    file = tmp_path / "last.ckpt"
    torch.save({"a": Trainer()}, file)
    with pytest.raises(FovealError, match="expected a checkpoint"):
        AtomicCheckpoint().load_checkpoint(file)


def test_weights_are_those_that_are_evaluated():
    assert (load(weights(Module(2.5)))["weight"] == 2.5).all()


def test_of_epochs_with_the_same_score_the_one_with_the_smaller_loss_is_kept(tmp_path):
    journal = Journal(tmp_path, "best", WATCHED, verbose=False)
    model = torch.nn.Linear(2, 3)
    optimizer = types.SimpleNamespace(param_groups=[{"lr": 0.1}])
    for epoch, (score, loss) in enumerate(((0.0, 0.9), (0.0, 0.4), (0.0, 0.6), (0.5, 2.0), (0.5, 2.0))):
        trainer = types.SimpleNamespace(current_epoch=epoch, optimizers=[optimizer], max_epochs=9)
        journal._note(
            trainer,
            types.SimpleNamespace(evaluated=model, unit="images"),
            {"val_score": score, "val_loss": loss},
            score,
            1.0,
        )
        assert journal.best_epoch == (0, 1, 1, 3, 3)[epoch]
