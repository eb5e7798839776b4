"""One training run, from a recipe to a folder that describes itself, and that a killed run is resumed from.

It knows no task.

A task brings a `Training`: its module and data for this recipe, and how a run ends. The harness brings the rest: one
process per folder, the same data as when the run began, Lightning's trainer, the journal, checkpoints, averaging,
interruption.
"""

import contextlib
import json
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import EarlyStopping
from torch.utils import deterministic

from foveal.atomic import folder_for, write_atomic
from foveal.device import choose
from foveal.errors import FovealError, counted, expect
from foveal.progress import Progress, silent
from foveal.training.journal import CHECKPOINT, AtomicCheckpoint, Bar, Journal, duration
from foveal.training.module import TaskModule
from foveal.training.recipe import Recipe
from foveal.training.rehearsal import SHORT, Clock, Pace
from foveal.training.run_folder import (
    DATA,
    RECIPE,
    expect_outside,
    expect_result,
    expect_same_data,
    finished,
    outcome,
    tidy,
)
from foveal.training.stages import Stage, describe, unfinished
from foveal.training.surroundings import (
    alone,
    determinism,
    interruptible,
    kept_memory,
    matmul_precision,
    of_this_run,
    quiet,
)
from foveal.training.tensorboard import tensorboard

LIGHTNING_PRECISION = {"32": "32-true", "tf32": "32-true", "16": "16-mixed", "bf16": "bf16-mixed"}


@dataclass(frozen=True)
class Machine:
    """What a run computes on."""

    device: str = "auto"  # "auto", "cpu", "cuda", "cuda:1", …
    devices: int = 1  # processes, or GPUs
    strategy: str = "auto"  # Lightning's: "ddp", "fsdp", …
    workers: int | None = None  # processes that decode samples, where these do not fit into memory


class Data(Protocol):
    """A data set that a task has read."""

    @property
    def name(self) -> str: ...
    @property
    def folds(self) -> int: ...
    def summary(self) -> str: ...
    def facts(self) -> dict[str, Any]: ...


class Training(ABC):
    """What a task brings to one run."""

    module: TaskModule
    data: pl.LightningDataModule
    # the figure that patience and the best epoch go by, and its better end
    watched: tuple[str, str] = ("val_loss", "min")
    # how many validations `finish` takes as long as, for the time that is announced
    validations_at_end: float = 0.0
    # of a rehearsal: after how many epochs batches come again, as they do in its second epoch; None: never
    novel_epochs: int | None = None

    def begin(self, folder: Path) -> None:  # noqa: B027 — most need none
        """Write what a run's folder has from its first second on,
        and print what a person should know before it starts.
        """

    @abstractmethod
    def finish(self, trainer: pl.Trainer, journal: Journal, folder: Path, origin: dict[str, Any]) -> dict[str, Any]:
        """With the kept weights in `module.evaluated`: evaluate them, write model.safetensors and result.json,
        and return the result: model, epoch, seconds, and the number whose name is its `figure`, such as the watched
        one.
        """


class Trainable(Protocol):
    """The part of a task that the harness uses."""

    name: str

    def read(self, recipe: Any) -> Any: ...
    def settled(self, recipe: Any, data: Any) -> Any: ...
    def training(
        self, recipe: Any, data: Any, folder: Path, machine: Machine, progress: Progress, fresh: bool
    ) -> Training: ...
    def rehearsal(
        self, recipe: Any, data: Any, folder: Path, machine: Machine, progress: Progress, fresh: bool
    ) -> Training: ...


def train(
    task: Trainable,
    recipe: Recipe,
    folder: Path,
    *,
    resume: bool = False,
    machine: Machine | None = None,
    origin: dict[str, Any] | None = None,
    progress: Progress = silent,
    announce: Callable[[str], object] = lambda text: None,
) -> dict[str, Any]:
    """Train, keep the chosen weights as model.safetensors, and return the result, which is result.json, too.

    Runs that the recipe wants before this one come first, each in a folder of its own inside of this one's. announce:
    called with the summary of the data, once they are read; of several runs also with how long all will take, before
    the first begins, and with the outcome of each.
    """
    machine, recipe = machine or Machine(), recipe.from_anywhere()
    first = is_first(machine)
    if not (folder / RECIPE).exists():
        expect_outside(folder, recipe.data)
        recipe.check_weights()
    if (done := finished(recipe, folder, resume or not first)) is not None:
        return done
    recipe.check_folds(chosen=False)
    data = task.read(recipe)
    if first:
        announce(data.summary())
    expect_same_data(folder, data)
    shown = progress if first else silent
    with _own(folder, first), quiet(), determinism(), kept_memory():
        stages = [_settled(task, stage, data, announce if first else None) for stage in unfinished(recipe, folder)]
        paces = [Pace()]
        later = [0.0]  # seconds that will pass after the last epoch of each stage: its end, and the stages behind it
        if recipe.earlier(folder):
            if first:
                announce("a few steps of each stage, to say how long the whole will take …")
            paces = _rehearse(task, stages, data, machine, shown)
            seconds = [pace.epochs(stage.epochs_left()) for stage, pace in zip(stages, paces, strict=True)]
            stages_take = [one + pace.end for one, pace in zip(seconds, paces, strict=True)]
            whole = sum(stages_take)
            later = [pace.end + sum(stages_take[place:]) for place, pace in enumerate(paces, 1)]
            if first:
                about = "at most about" if any(stage.plan.patience for stage in stages) else "about"
                announce(f"{describe(stages)}: {about} {duration(max(1, whole))} on {_words(machine)}")
                for stage in stages:  # also those that come later: their recipes are settled when the run begins
                    if not (stage.folder / RECIPE).exists():
                        _claim(stage, data)
        for stage, pace, behind in zip(stages[:-1], paces, later, strict=False):
            with _own(stage.folder, first), _named(stage):
                expect_same_data(stage.folder, data)
                result = _train_one(task, stage, data, machine, origin or {}, shown, pace, behind)
            if first:
                announce(outcome(stage.name, result))
        return _train_one(task, stages[-1], data, machine, origin or {}, shown, paces[-1], later[-1])


def _settled(task: Trainable, stage: Stage, data: Any, announce: Callable[[str], object] | None) -> Stage:
    """The stage with what its recipe leaves open chosen by the data, which a person is told."""
    recipe, reasons = task.settled(stage.recipe, data)
    if announce is not None:
        for line in reasons:
            announce(f"  {line}")
    return replace(stage, settled=recipe)


def _train_one(
    task: Trainable,
    stage: Stage,
    data: Any,
    machine: Machine,
    origin: dict[str, Any],
    progress: Progress,
    pace: Pace,
    later: float,
) -> dict[str, Any]:
    """One stage, begun or resumed. pace: of its epochs; later: seconds that will pass after the last."""
    recipe, folder = stage.plan, stage.folder
    last = folder / CHECKPOINT
    torch.manual_seed(recipe.seed)
    training = task.training(recipe, data, folder, machine, progress, fresh=not last.exists())
    terminal = sys.stderr.isatty()
    journal = Journal(
        folder,
        recipe.checkpoint,
        training.watched,
        verbose=not terminal,
        trail=recipe.average,
        name=stage.name,
        pace=pace,
        later=later,
    )
    callbacks: list[pl.Callback] = [Bar(journal)] if terminal else []
    if recipe.patience:
        callbacks.append(EarlyStopping(training.watched[0], patience=recipe.patience, mode=training.watched[1]))
    callbacks.append(journal)
    trainer = trainer_of(
        recipe,
        machine,
        callbacks=callbacks,
        max_epochs=recipe.epochs,
        logger=tensorboard(folder),
        enable_progress_bar=terminal,
    )
    if is_first(machine):
        _claim(stage, data)
        training.begin(folder)
        if (line := _not_recorded(training.module, trainer)) is not None:
            print(line, file=sys.stderr, flush=True)
    with interruptible(), matmul_precision(recipe.precision), of_this_run(last):
        trainer.fit(training.module, datamodule=training.data, ckpt_path=str(last) if last.exists() else None)
        journal.load_kept(training.module.evaluated, recipe.average)
        result = training.finish(trainer, journal, folder, origin)
        if trainer.is_global_zero:
            expect_result(result, f"the task {task.name}")
        trainer.strategy.barrier()  # the next stage may read what the first process has written
        return result


def _rehearse(task: Trainable, stages: Sequence[Stage], data: Any, machine: Machine, progress: Progress) -> list[Pace]:
    """How long each stage will take: a few of its steps, taken with a model that is then thrown away.

    What is wrong with a later stage is found here, before an earlier one has trained for long.
    """
    paces: dict[str, Pace] = {}  # stages that differ in their seed take as long as each other
    kinds = [stage.plan.changed(seed=0).text() for stage in stages]
    for stage, kind in zip(stages, kinds, strict=True):
        if kind not in paces:
            with _named(stage):
                paces[kind] = _pace(task, stage, data, machine, progress)
    return [paces[kind] for kind in kinds]


@contextlib.contextmanager
def _named(stage: Stage) -> Iterator[None]:
    """What is wrong with a run before this one is said of it: the flags were this one's."""
    try:
        yield
    except FovealError as error:
        if not stage.name or type(error) is not FovealError:
            raise
        raise FovealError(f"{stage.name}, whose recipe is its own: {error}") from None


def _pace(task: Trainable, stage: Stage, data: Any, machine: Machine, progress: Progress) -> Pace:
    """Of one stage. Nothing holds model and images once it has returned: the next stage's take their place."""
    recipe, fresh, clock = stage.plan, not (stage.folder / CHECKPOINT).exists(), Clock()
    training = task.rehearsal(recipe, data, stage.folder, machine, progress, fresh)
    novel = training.novel_epochs
    short = SHORT if novel is None else SHORT | {"max_epochs": 2}
    trainer = trainer_of(recipe, machine, callbacks=[clock], **short)
    with interruptible(), matmul_precision(recipe.precision):
        trainer.fit(training.module, datamodule=training.data)
    return Pace(clock.epoch(), clock.epoch(-1), novel, clock.validation() * training.validations_at_end)


def _claim(stage: Stage, data: Any) -> None:
    """From here on it is this recipe's folder."""
    tidy(stage.folder)
    write_atomic(stage.folder / RECIPE, stage.recipe.text().encode())
    write_atomic(stage.folder / DATA, json.dumps(data.facts(), indent=1).encode())


def _not_recorded(module: TaskModule, trainer: pl.Trainer) -> str | None:
    """What to say where CUDA graphs are wanted, the GPU is there, and no step can be recorded."""
    why = module.obstacle(trainer.world_size)
    wanted = module.recipe.cuda_graphs and trainer.strategy.root_device.type == "cuda"
    return f"--cuda-graphs: no step is recorded: {why}" if wanted and why is not None else None


@contextlib.contextmanager
def _own(folder: Path, first: bool) -> Iterator[None]:
    """The first process makes the folder and keeps other runs out; those that it has started belong to it, and must
    not try to write there while it tidies up.
    """
    if not first:
        yield
        return
    with folder_for(folder), alone(folder):
        yield


def _words(machine: Machine) -> str:
    device = choose(machine.device)
    part = counted(torch.get_num_threads(), "thread") if device.type == "cpu" else str(device)
    return part if machine.devices == 1 else f"{machine.devices} × {part}"


def is_first(machine: Machine) -> bool:
    """Whether this process is the first of its run: the others are started by it, by Lightning, which numbers them."""
    rank = os.environ.get("LOCAL_RANK", "0")
    return machine.devices == 1 or not rank.isdecimal() or rank == "0"


def trainer_of(recipe: Recipe, machine: Machine, **more: Any) -> pl.Trainer:
    device = choose(machine.device)
    expect(recipe.precision != "16" or device.type == "cuda", "--precision", "32 or bf16 on a CPU", recipe.precision)
    expect(device.index is None or machine.devices == 1, "--device", "no number beside --devices", machine.device)
    # 3 % of a step; nothing here reads what it has not written.
    deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    try:
        return pl.Trainer(
            accelerator="gpu" if device.type == "cuda" else device.type,
            devices=machine.devices if device.index is None else [device.index],
            strategy=machine.strategy,
            precision=LIGHTNING_PRECISION[recipe.precision],  # type: ignore[arg-type]
            gradient_clip_val=recipe.clip or None,
            accumulate_grad_batches=recipe.accumulate,
            plugins=[AtomicCheckpoint()],
            enable_model_summary=False,
            num_sanity_val_steps=0,
            use_distributed_sampler=False,  # the order gives every process its slice
            deterministic="warn",
            log_every_n_steps=1_000_000,  # once an epoch is enough
            **more,
        )
    except Exception as error:  # noqa: BLE001 — Lightning has many ways to say that a device is not there
        raise FovealError(
            f"cannot train on {device} × {machine.devices}, strategy {machine.strategy}: {error}"
        ) from None
