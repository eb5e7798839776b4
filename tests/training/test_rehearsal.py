"""How long a run will take, by a clock that is told what time it is; and what is left of a run of several stages."""

import types

import pytest

from foveal.tasks.classify.recipe import ClassifyRecipe
from foveal.training import rehearsal
from foveal.training.rehearsal import Clock, Pace
from foveal.training.stages import Stage, describe

MODULE = types.SimpleNamespace(device=types.SimpleNamespace(type="cpu"))


@pytest.mark.parametrize(
    ("steps", "batches", "seconds"),
    [
        ([9.0, 2.0, 2.0, 2.0], 11, 11 * 2.0),  # the first warms up
        ([9.0, 3.0], 2, 2 * 3.0),
        ([9.0], 1, 9.0),  # there is no other
    ],
)
@pytest.mark.parametrize(("validated", "loaders", "more"), [(1.0, 2, 1.0), (1.0, 7, 3.5), (0.5, 1, 0.5)])
def test_seconds_of_an_epoch(monkeypatch, steps, batches, seconds, validated, loaders, more):
    now = [100.0]
    monkeypatch.setattr(rehearsal.time, "perf_counter", lambda: now[0])
    clock = Clock()
    trainer = types.SimpleNamespace(train_dataloader=range(batches), val_dataloaders=range(loaders))
    clock.on_train_start(trainer, MODULE)
    for share in (1.0, 0.25):  # the second epoch has the batches of the first, and takes less time
        clock.on_train_epoch_start(trainer, MODULE)
        for step in steps:
            now[0] += share * step
            clock.on_train_batch_end(trainer, MODULE, None, None, 0)
        clock.on_validation_start(trainer, MODULE)
        now[0] += share * validated
        clock.on_validation_end(trainer, MODULE)
    assert clock.epoch() == pytest.approx(seconds + more)
    assert clock.epoch(-1) == pytest.approx(0.25 * (seconds + more))
    assert clock.validation() == pytest.approx(more)


@pytest.mark.parametrize(
    ("novel", "count", "done", "seconds"), [(None, 5, 0, 35.0), (3, 5, 0, 25.0), (3, 2, 0, 14.0), (3, 5, 4, 2.0)]
)
def test_seconds_of_several_epochs(novel, count, done, seconds):
    assert Pace(7.0, 2.0, novel).epochs(count, done) == seconds


def test_what_is_left_of_a_stage(tmp_path):
    stage = Stage("teachers/seed0", ClassifyRecipe(epochs=5), tmp_path)
    assert (stage.epochs_left(), describe([stage])) == (5, "teachers/seed0: icam-31k, 5 epochs")
    (tmp_path / "log.csv").write_text("epoch,loss\n1,0.5\n2,0.25\n")
    assert stage.epochs_left() == 5, "without a checkpoint it begins anew"
    (tmp_path / "last.ckpt").touch()
    last = Stage("", ClassifyRecipe(model="icam-lite", epochs=1), tmp_path / "none")
    assert describe([stage, last]) == "teachers/seed0: icam-31k, 3 of 5 epochs left; then icam-lite, 1 epoch"
