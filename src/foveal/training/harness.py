"""One training run, from a recipe to a folder that describes itself, and that a killed run is resumed from.

It knows no task.

A task brings a `Training`: its module and data for this recipe, and how a run ends. The harness brings the rest: one
process per folder, the same data as when the run began, Lightning's trainer, the journal, checkpoints, averaging,
interruption.
"""

import contextlib
import importlib.util
import json
import logging
import os
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import EarlyStopping
from torch.utils import deterministic

from foveal.atomic import folder_for, write_atomic
from foveal.device import choose
from foveal.errors import FovealError, expect
from foveal.training.journal import CHECKPOINT, AtomicCheckpoint, Bar, Journal
from foveal.training.module import TaskModule
from foveal.training.recipe import Recipe
from foveal.training.run_folder import DATA, RECIPE, expect_outside, expect_result, expect_same_data, finished, tidy

# Windows has none: there nobody is kept out
fcntl: Any = importlib.import_module("fcntl") if importlib.util.find_spec("fcntl") else None
Item = TypeVar("Item")
Progress = Callable[[Iterable[Any], int, str], Iterable[Any]]  # the items as they come, and how far they have
NOISE = (
    ".*does not have many workers.*",
    ".*GPU available but not used.*",
    ".*number of training batches.*logging interval.*",
    ".*lr_scheduler.step.*",
    ".*treespec, LeafSpec.*",
    ".*worker processes in total.*",
)
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
    def training(
        self, recipe: Any, data: Any, folder: Path, machine: Machine, progress: Progress, fresh: bool
    ) -> Training: ...


def silent(items: Iterable[Any], total: int, what: str) -> Iterable[Any]:
    """The Progress that shows nothing."""
    return items


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

    announce: called with the summary of the data, once they are read.
    """
    machine, recipe = machine or Machine(), recipe.from_anywhere()
    first = is_first(machine)
    if not (folder / RECIPE).exists():
        expect_outside(folder, recipe.data)
    if (done := finished(recipe, folder, resume or not first)) is not None:
        return done
    recipe.check_folds(chosen=False)
    data = task.read(recipe)
    if first:
        announce(data.summary())
    expect_same_data(folder, data)
    last = folder / CHECKPOINT
    torch.manual_seed(recipe.seed)
    with folder_for(folder), quiet(), determinism(), alone(folder) if first else contextlib.nullcontext():
        training = task.training(recipe, data, folder, machine, progress if first else silent, fresh=not last.exists())
        journal = Journal(
            folder, recipe.checkpoint, training.watched, verbose=not sys.stderr.isatty(), trail=recipe.average
        )
        trainer = trainer_of(recipe, machine, journal, training.watched)
        if first:  # from here on it is this recipe's folder
            tidy(folder)
            write_atomic(folder / RECIPE, recipe.text().encode())
            write_atomic(folder / DATA, json.dumps(data.facts(), indent=1).encode())
            training.begin(folder)
        with interruptible(), matmul_precision(recipe.precision), _of_this_run(last):
            trainer.fit(training.module, datamodule=training.data, ckpt_path=str(last) if last.exists() else None)
            journal.load_kept(training.module.evaluated, recipe.average)
            result = training.finish(trainer, journal, folder, origin or {})
            if trainer.is_global_zero:
                expect_result(result, f"the task {task.name}")
            return result


def is_first(machine: Machine) -> bool:
    """Whether this process is the first of its run: the others are started by it, by Lightning, which numbers them."""
    rank = os.environ.get("LOCAL_RANK", "0")
    return machine.devices == 1 or not rank.isdecimal() or rank == "0"


@contextlib.contextmanager
def matmul_precision(precision: str) -> Iterator[None]:
    """tf32: products of matrices of 19 bits, as a GPU makes those of convolutions anyway,
    unless torch is asked not to.
    """
    before = torch.get_float32_matmul_precision()
    if precision == "tf32" and torch.cuda.is_available():
        torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@contextlib.contextmanager
def determinism() -> Iterator[None]:
    """What the trainer sets for the whole process, put back at the end:
    who trains in a program of their own goes on as before.
    """
    enabled, warns = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    fills = deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(enabled, warn_only=warns)
        deterministic.fill_uninitialized_memory = fills  # type: ignore[attr-defined]


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """No other process may train into this folder meanwhile: two would write over each other.

    A process that dies lets go by dying.
    """
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise FovealError(
                f"{folder}: another process is training in this folder; wait for it, or choose another --out"
            ) from None
        yield
    finally:
        os.close(handle)


def trainer_of(recipe: Recipe, machine: Machine, journal: Journal, watched: tuple[str, str]) -> pl.Trainer:
    terminal = sys.stderr.isatty()
    device = choose(machine.device)
    expect(recipe.precision != "16" or device.type == "cuda", "--precision", "32 or bf16 on a CPU", recipe.precision)
    expect(device.index is None or machine.devices == 1, "--device", "no number beside --devices", machine.device)
    callbacks: list[pl.Callback] = [Bar(journal)] if terminal else []
    if recipe.patience:
        callbacks.append(EarlyStopping(watched[0], patience=recipe.patience, mode=watched[1]))
    callbacks.append(journal)
    # 3 % of a step; nothing here reads what it has not written.
    deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    try:
        return pl.Trainer(
            accelerator="gpu" if device.type == "cuda" else device.type,
            devices=machine.devices if device.index is None else [device.index],
            strategy=machine.strategy,
            precision=LIGHTNING_PRECISION[recipe.precision],  # type: ignore[arg-type]
            max_epochs=recipe.epochs,
            gradient_clip_val=recipe.clip or None,
            accumulate_grad_batches=recipe.accumulate,
            callbacks=callbacks,
            logger=_tensorboard(journal.folder),
            plugins=[AtomicCheckpoint()],
            enable_progress_bar=terminal,
            enable_model_summary=False,
            num_sanity_val_steps=0,
            use_distributed_sampler=False,  # the order gives every process its slice
            deterministic="warn",
            log_every_n_steps=1_000_000,  # once an epoch is enough
        )
    except Exception as error:  # noqa: BLE001 — Lightning has many ways to say that a device is not there
        raise FovealError(
            f"cannot train on {device} × {machine.devices}, strategy {machine.strategy}: {error}"
        ) from None


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Lightning answers Ctrl-C and SIGTERM by ending the process: the caller learns which of them it was."""
    try:
        yield
    except SystemExit as end:
        raise end.__context__ if isinstance(end.__context__, KeyboardInterrupt) else KeyboardInterrupt from None


@contextlib.contextmanager
def _of_this_run(last: Path) -> Iterator[None]:
    """A checkpoint that another run wrote does not fit this one's model."""
    try:
        yield
    except (RuntimeError, KeyError) as error:
        if "loading state_dict" not in str(error) and not isinstance(error, KeyError):
            raise
        reason = " ".join(str(error).split())[:160]
        raise FovealError(
            f"{last}: expected a checkpoint of this run, got another's ({reason}); remove it to begin this run anew"
        ) from None


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Lightning prints tips, devices and workers, and uses what torch is about to drop.

    A run prints what matters by itself; the caller's own filters and levels are put back at the end.
    """
    loggers = [logging.getLogger(name) for name in ("pytorch_lightning", "lightning_fabric")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        for words in NOISE:
            warnings.filterwarnings("ignore", words)
        try:
            for logger in loggers:
                logger.setLevel(logging.ERROR)
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


def _tensorboard(folder: Path) -> Any:
    with contextlib.suppress(ModuleNotFoundError):
        from pytorch_lightning.loggers import TensorBoardLogger

        return TensorBoardLogger(folder, name="", version="tensorboard")
    return False
