"""The end of a run: the kept weights are judged, what can be chosen is chosen on the validation split, and the model and its result are written."""

import csv
import dataclasses
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file

from foveal.atomic import write_atomic
from foveal.data.source import UNTOLD, Source
from foveal.metrics.calibration import apply, fit_temperature
from foveal.metrics.threshold import thresholds
from foveal.models.store import describe, model_file, read_file, save_model, shapes_of
from foveal.runtime.card import Card
from foveal.runtime.packaged import FILE, is_file
from foveal.tasks.classify.data import ClassifyData
from foveal.tasks.classify.logit_adjustment import adjust_logits
from foveal.tasks.classify.module import Classify
from foveal.train.gather import gathered
from foveal.train.journal import WEIGHTS, Journal

RESULT, BAD = "result.json", "bad.csv"


@dataclass(frozen=True, eq=False)
class Evaluated:
    """What the kept model says of a split: the logits, and where each picture stands in the source."""

    split: str
    logits: NDArray[np.float32]
    index: NDArray[np.int64]


def conclude(trainer: pl.Trainer, task: Classify, feeds: ClassifyData, folder: Path, origin: dict[str, Any]) -> dict[str, Any]:
    """Judge the kept weights, choose temperature and thresholds on the validation split, and write model.safetensors and the result."""
    source, recipe = feeds.source, task.recipe
    task.evaluated.load_state_dict(load_file(folder / WEIGHTS))
    if task.shift is not None and recipe.margin != 1:
        adjust_logits(task.evaluated, task.shift)
    parts = _predictions(trainer, task, feeds)
    val = next(part for part in parts if part.split == "val")
    truth = source.labels[val.index]
    temperature = float(fit_temperature(truth, val.logits))
    # Several labels: a threshold for each class, chosen where the test is not. One label: the likeliest class.
    cuts = tuple(float(cut) for cut in thresholds(truth, apply(val.logits, True, temperature))) if source.multi_label else None
    journal = next(one for one in trainer.callbacks if isinstance(one, Journal))  # type: ignore[attr-defined]
    name = read_file(model_file(recipe.model))[1].model if is_file(recipe.model) else recipe.model
    result = {
        "model": name,
        "weights": sum(parameter.numel() for parameter in task.model.parameters()),
        "data": source.facts(),
        "fold": recipe.fold,
        "seed": recipe.seed,
        "epoch": journal.best_epoch + 1,
        "val_score": journal.best,
        "seconds": round(sum(row["seconds"] for row in journal.rows), 1),
        "origin": origin,
    }
    if trainer.is_global_zero:
        write_bad(feeds, folder)
        for part in parts:
            _write(folder / predictions(part.split), _table(part, source))
        family, config = describe(task.model)
        card = Card(
            name, family, config, source.classes, source.multi_label, size=recipe.size, threshold=cuts, temperature=temperature,
            data=source.facts(), metrics={"val_score": journal.best}, recipe=dataclasses.asdict(recipe), origin=origin,
            shapes=shapes_of(task.model),
        )  # fmt: skip
        save_model(task.evaluated, folder / FILE, card)
        _write(folder / RESULT, json.dumps(result, indent=1))
    return result


def _predictions(trainer: pl.Trainer, task: Classify, feeds: ClassifyData) -> list[Evaluated]:
    outputs: Any = trainer.predict(task, datamodule=feeds)
    lists: Sequence[Any] = outputs if len(feeds.splits.test) else [outputs]
    parts = []
    for split, batches in zip(("val", "test"), lists, strict=False):
        logits, index = gathered(task, *(torch.cat(column) for column in zip(*batches, strict=True)))
        order = index.argsort()
        parts.append(Evaluated(split, logits[order].cpu().numpy(), index[order].cpu().numpy()))
    (unread,) = gathered(task, torch.tensor(sorted(feeds.unread), dtype=torch.int64))
    feeds.unread.update(unread.tolist())
    return parts


def predictions(split: str) -> str:
    """What the table of a split's predictions is called in a run's folder."""
    return f"predictions-{split}.csv"


def _table(part: Evaluated, source: Source) -> str:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["file", "truth", *(f"logit {name}" for name in source.classes)])
    for row, index in zip(part.logits, part.index, strict=True):
        truth = source.labels[index]
        names = [source.classes[k] for k in (np.flatnonzero(truth == 1) if source.multi_label else [truth])]
        known = bool(source.known(np.array([index]))[0])
        table.writerow([source.file(int(index)), ";".join(names) if known else UNTOLD, *(f"{value:.6g}" for value in row)])
    return text.getvalue()


def write_bad(feeds: ClassifyData, folder: Path) -> None:
    """The pictures that could not be read, each with its reason."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["file", "reason"])
    table.writerows((one.file, one.reason) for one in feeds.bad)
    _write(folder / BAD, text.getvalue())


def _write(file: Path, text: str) -> None:
    write_atomic(file, text.encode())
