"""One training run, from a recipe to a folder that describes itself, and that a killed run goes on from."""

import contextlib
import importlib.util
import json
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
import yaml
from pytorch_lightning.callbacks import EarlyStopping
from torch import nn
from torch.utils import deterministic

from foveal.atomic import expect_folder, write_atomic
from foveal.data.pack import Progress, silent
from foveal.data.read import located, read
from foveal.data.source import Source
from foveal.device import choose
from foveal.errors import FovealError, expect, reading, short_repr
from foveal.models.store import load_for, model_file, read_file
from foveal.models.zoo import create, task_of
from foveal.options import Options
from foveal.runtime.card import SEWER_MEAN, SEWER_STD
from foveal.runtime.packaged import is_file
from foveal.tasks.classify.data import ClassifyData, divided
from foveal.tasks.classify.finish import RESULT, conclude, write_bad
from foveal.tasks.classify.module import Classify
from foveal.tasks.classify.recipe import ClassifyRecipe
from foveal.tasks.classify.teachers import Teachers, Wanted, load_teachers
from foveal.train.journal import CHECKPOINT, AtomicCheckpoint, Bar, Journal

fcntl: Any = importlib.import_module("fcntl") if importlib.util.find_spec("fcntl") else None  # Windows has none: there nobody is kept out
RECIPE, TEACHERS = "recipe.yaml", "teachers.json"
QUIET = (
    ".*does not have many workers.*",
    ".*GPU available but not used.*",
    ".*number of training batches.*logging interval.*",
    ".*lr_scheduler.step.*",
    ".*treespec, LeafSpec.*",
    ".*worker processes in total.*",
)


@dataclass(frozen=True)
class Machine:
    """What a run computes on."""

    device: str = "auto"  # "auto", "cpu", "cuda", "cuda:1", …
    devices: int = 1  # processes, or GPUs
    strategy: str = "auto"  # Lightning's: "ddp", "fsdp", …
    workers: int | None = None  # that decode pictures, where these do not fit into memory


def train(
    recipe: ClassifyRecipe,
    folder: Path,
    *,
    resume: bool = False,
    machine: Machine | None = None,
    origin: dict[str, Any] | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Train, keep the chosen weights as model.safetensors, and return the result, which is result.json, too."""
    machine, recipe = machine or Machine(), recipe.from_anywhere()
    first = os.environ.get("LOCAL_RANK", "0") == "0"  # the others are started by the first, within a run that has begun
    if (done := finished(recipe, folder, resume or not first)) is not None:
        return done
    fits = recipe.margin == 1 or recipe.balance == "margin"
    expect(fits, "the setting margin", f"1 beside balance {recipe.balance}", f"{recipe.margin:g}", "give margin: 1")
    quiet()
    source = read(recipe.data, label=recipe.label, by=recipe.by, seed=0)
    expect(len(source.classes) > 1 or source.multi_label, recipe.data, "at least 2 classes", f"{len(source.classes)}")
    last = folder / CHECKPOINT
    torch.manual_seed(recipe.seed)
    model = build(recipe, len(source.classes), fresh=not last.exists())
    teachers = _teachers(recipe, source, folder)
    journal = Journal(folder, recipe.keep, said=not sys.stderr.isatty())
    trainer = trainer_of(recipe, machine, journal, EarlyStopping("val_score", patience=recipe.patience, mode="max"))
    splits = divided(source, recipe.fold)
    _share(recipe, len(splits.train), machine.devices)
    expect_folder(folder)
    with alone(folder) if first else contextlib.nullcontext():
        feeds = ClassifyData(source, recipe, splits, machine.workers, progress)
        _share(recipe, len(feeds.splits.train), machine.devices)
        if first:
            tidy(folder)
            write_atomic(folder / RECIPE, recipe.text().encode())
            write_bad(feeds, folder)
            if teachers is not None:
                write_atomic(folder / TEACHERS, json.dumps(teachers[1], indent=1).encode())
        task = Classify(
            model,
            recipe,
            classes=len(source.classes),
            multi_label=source.multi_label,
            steps=feeds.steps * recipe.epochs,
            counts=feeds.counts,
            pictures=len(feeds.splits.train),
            mean=SEWER_MEAN,
            std=SEWER_STD,
            teachers=None if teachers is None else teachers[0],
        )
        with interruptible(), products(recipe.precision):
            trainer.fit(task, datamodule=feeds, ckpt_path=str(last) if last.exists() else None)
            return conclude(trainer, task, feeds, folder, origin or {})


def _teachers(recipe: ClassifyRecipe, source: Source, folder: Path) -> tuple[Teachers, dict[str, str]] | None:
    """Who teaches, and a digest of each; an error if the run was begun with others."""
    if recipe.teachers is None:
        return None
    wanted = Wanted(
        source,
        recipe.size,
        SEWER_MEAN,
        SEWER_STD,
        recipe.fold,
        [list(box) for box in recipe.blank],
        lambda label: read(recipe.data, label=label, by=recipe.by, seed=0),
    )
    teachers, digests = load_teachers(recipe.teachers, wanted, folder)
    if (folder / TEACHERS).exists():
        with reading(folder / TEACHERS):
            kept = json.loads((folder / TEACHERS).read_text(encoding="utf-8"))
        expect(kept == digests, f"the run in {folder}", f"the {len(kept)} teachers it was begun with", "others", "give another --out")
    return teachers, digests


@contextlib.contextmanager
def products(precision: str) -> Iterator[None]:
    """tf32: products of matrices as a GPU makes them of 19 bits. Its convolutions are made so anyway, unless torch is told otherwise."""
    before = torch.get_float32_matmul_precision()
    if precision == "tf32" and torch.cuda.is_available():
        torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """No other process may train into this folder meanwhile: two would write over each other. A process that dies lets go by dying."""
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise FovealError(
                f"the run in {folder}: expected nobody else at work on it, got another process; wait, or give another --out"
            ) from None
        yield
    finally:
        os.close(handle)


def finished(recipe: Options, folder: Path, resume: bool) -> dict[str, Any] | None:
    """The result of a run that has ended; None of one that has not. Another run's folder is left alone."""
    expect(folder.is_dir() or not folder.exists(), f"the folder {folder}", "a new or empty one", "a file", "give another --out")
    if not (folder / RECIPE).exists():
        empty = not folder.exists() or not any(folder.iterdir())
        expect(empty or resume, f"the folder {folder}", "a new or empty one", "one with other files in it", "give another --out")
        return None
    expect(
        resume, f"the folder {folder}", "a new or empty one", "one with a run in it", "add --resume to go on with it, or give another --out"
    )
    with reading(folder / RECIPE):
        kept = yaml.safe_load((folder / RECIPE).read_text(encoding="utf-8"))
    if isinstance(kept, dict):  # a path may be written down as it was typed in this folder
        kept |= {name: located(kept[name]) for name in ("data", "start") if isinstance(kept.get(name), str)}
        kept = yaml.safe_load(type(recipe)().text()) | recipe.before | kept  # settings that are newer than the run had their defaults
    now = yaml.safe_load(recipe.text())
    differing = sorted(key for key in now if not isinstance(kept, dict) or kept.get(key) != now[key])
    expect(
        not differing, f"the run in {folder}", "the settings it was begun with", f"others for {', '.join(differing)}", "give another --out"
    )
    result = folder / RESULT
    with reading(result):
        return json.loads(result.read_text(encoding="utf-8")) if result.exists() else None


def build(recipe: ClassifyRecipe, classes: int, fresh: bool = True) -> nn.Module:
    """The recipe's model, with the weights to begin with where the run is fresh; an error unless it takes the recipe's pictures."""
    for key in recipe.settings:
        expect(
            isinstance(key, str) and key not in ("name", "classes"), "the setting settings", "fields of the model's config", short_repr(key)
        )
    if is_file(recipe.model):
        expect(not recipe.settings, "the setting settings", "none beside a model's file, which has its own", short_repr(recipe.settings))
        model = load_for(recipe.model, classes)
    else:
        task = task_of(recipe.model)
        expect(task == "classify", f"the model {recipe.model}", "one that classifies", f"one that does {task!r}")
        model = create(recipe.model, classes=classes, **recipe.settings)
    if recipe.start is not None and fresh:
        fitting, all_ = begin(model, recipe.start), len(model.state_dict())
        if fitting < all_:
            print(f"{fitting} of {all_} tensors begin with {recipe.start}; the others do not fit and are new", file=sys.stderr, flush=True)
    try:
        with torch.no_grad():
            model.eval()(torch.zeros(1, 3, recipe.size, recipe.size))
    except (FovealError, RuntimeError, ValueError) as error:  # a peer has words of its own
        told = " ".join(str(error).split())
        raise FovealError(
            f"the setting size: expected pictures that {recipe.model} takes, got {recipe.size} × {recipe.size}; {told}"
        ) from None
    return model.train()


def begin(model: nn.Module, start: str) -> int:
    """Copy the weights of a model file wherever name and shape agree; how many tensors that were."""
    tensors, _ = read_file(model_file(start))
    own = model.state_dict()
    fitting = {name: tensor for name, tensor in tensors.items() if name in own and own[name].shape == tensor.shape}
    expect(bool(fitting), f"the weights of {start}", "some that fit the model", "none")
    model.load_state_dict(fitting, strict=False)
    return len(fitting)


def trainer_of(recipe: Any, machine: Machine, journal: Journal, patient: EarlyStopping, accumulate: int = 1) -> pl.Trainer:
    """recipe: of any task, with its epochs, precision, clip and patience."""
    terminal = sys.stderr.isatty()
    device = choose(machine.device)
    expect(recipe.precision != "16" or device.type == "cuda", "the setting precision", "32 or bf16 on a CPU", recipe.precision)
    expect(device.index is None or machine.devices == 1, "--device", "no number beside --devices", machine.device)
    callbacks: list[pl.Callback] = [Bar(journal)] if terminal else []
    if recipe.patience:
        callbacks.append(patient)
    callbacks.append(journal)
    deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # 3 % of a step; nothing here reads what it has not written
    try:
        return pl.Trainer(
            accelerator="gpu" if device.type == "cuda" else device.type,
            devices=machine.devices if device.index is None else [device.index],
            strategy=machine.strategy,
            precision={"32": "32-true", "tf32": "32-true", "16": "16-mixed", "bf16": "bf16-mixed"}[recipe.precision],  # type: ignore[arg-type]
            max_epochs=recipe.epochs,
            gradient_clip_val=recipe.clip or None,
            accumulate_grad_batches=accumulate,
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
        raise FovealError(f"cannot train on {device} × {machine.devices}, strategy {machine.strategy}: {error}") from None


def _share(recipe: ClassifyRecipe, pictures: int, devices: int) -> None:
    """Every process must have as many pictures of each batch as the others."""
    expect(recipe.batch % devices == 0, "the setting batch", f"a multiple of the {devices} devices", recipe.batch)
    expect(pictures >= devices, "--devices", f"at most {pictures}, a training picture each", devices)


def tidy(folder: Path) -> None:
    """Remove what a killed run had not written whole."""
    for part in folder.glob(".*.part"):
        part.unlink(missing_ok=True)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Lightning answers Ctrl-C by ending the process."""
    try:
        yield
    except SystemExit:
        raise KeyboardInterrupt from None


def _tensorboard(folder: Path) -> Any:
    with contextlib.suppress(ModuleNotFoundError):
        from pytorch_lightning.loggers import TensorBoardLogger

        return TensorBoardLogger(folder, name="", version="tensorboard")
    return False


def quiet() -> None:
    """Lightning tells of tips, devices and workers, and uses what torch is about to drop; a run says what matters by itself."""
    for name in ("pytorch_lightning", "lightning_fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    for words in QUIET:
        warnings.filterwarnings("ignore", words)
