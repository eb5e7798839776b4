"""The end of a run: what can be chosen is chosen on the validation split, and the model and its result are written."""

import csv
import dataclasses
import io
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from numpy.typing import NDArray

from foveal.atomic import write_atomic
from foveal.data.name_sketch import TRAINED, sketch
from foveal.data.source import UNLABELLED, Source
from foveal.errors import reading
from foveal.metrics.calibration import fit_temperature
from foveal.metrics.threshold import thresholds
from foveal.models.store import describe, model_file, normalisation, read_text, save_model, shapes_of
from foveal.runtime.answers import probabilities
from foveal.runtime.card import read_card
from foveal.runtime.packaged import FILE, is_file
from foveal.tasks.classify.card import ClassifyCard
from foveal.tasks.classify.data import ClassifyData
from foveal.tasks.classify.module import ClassifyModule
from foveal.training.gather import gathered
from foveal.training.journal import Journal
from foveal.training.run_folder import RESULT, read_result

BAD = "bad.csv"


@dataclass(frozen=True, eq=False)
class SplitLogits:
    """What the kept model predicts for a split: the logits, and where each image stands in the source."""

    split: str
    logits: NDArray[np.float32]
    index: NDArray[np.int64]


def conclude(
    trainer: pl.Trainer,
    module: ClassifyModule,
    data: ClassifyData,
    journal: Journal,
    folder: Path,
    origin: dict[str, Any],
) -> dict[str, Any]:
    """With the kept weights in the module: choose temperature and thresholds on the validation split,
    write model.safetensors and the result.
    """
    source, recipe = data.source, module.recipe
    module.adjust()
    parts = _predictions(trainer, module, data)
    val = next(part for part in parts if part.split == "val")
    truth = source.labels[val.index]
    # Of what is kept, which may be the mean of several epochs and then has a score of its own.
    val_score = module.score(torch.from_numpy(val.logits), torch.from_numpy(truth))
    temperature = float(fit_temperature(truth, val.logits))
    # Several labels: a threshold for each class, chosen where the test is not. One label: the most probable class.
    chosen = thresholds(truth, probabilities(val.logits, True, temperature)) if source.multi_label else None
    name = _name(recipe.model)
    result = {
        "model": name,
        "parameters": sum(parameter.numel() for parameter in module.model.parameters()),
        "data": source.facts(),
        "fold": recipe.fold,
        "seed": recipe.seed,
        "epoch": journal.kept_epoch,
        "figure": "val_score",
        "val_score": val_score,
        "seconds": round(sum(row["seconds"] for row in journal.rows), 1),
        "origin": origin,
    }
    if trainer.is_global_zero:
        write_bad(data, folder)
        for part in parts:
            _write(folder / predictions(part.split), _table(part, source))
        family, config = describe(module.model)
        mean, std = normalisation(module.model)
        card = ClassifyCard(
            model=name,
            family=family,
            config=config,
            classes=source.classes,
            multi_label=source.multi_label,
            size=recipe.size,
            mean=mean,
            std=std,
            threshold=None if chosen is None else tuple(float(threshold) for threshold in chosen),
            temperature=temperature,
            data=source.facts()
            | {TRAINED: sketch(os.fsencode(source.file(int(index))) for index in data.splits.train)},
            metrics={"val_score": val_score},
            recipe=dataclasses.asdict(recipe),
            origin=origin,
            shapes=shapes_of(module.model),
        )
        save_model(module.evaluated, folder / FILE, card)
        _write(folder / RESULT, json.dumps(result, indent=1))
    return result


def _name(model: str) -> str:
    """What a model file was created by, or the preset."""
    return read_card(read_text(model_file(model)), model, ClassifyCard).model if is_file(model) else model


def _predictions(trainer: pl.Trainer, module: ClassifyModule, data: ClassifyData) -> list[SplitLogits]:
    outputs: Any = trainer.predict(module, datamodule=data)
    lists: Sequence[Any] = outputs if len(data.splits.test) else [outputs]
    parts = []
    for split, batches in zip(("val", "test"), lists, strict=False):
        logits, index = gathered(module, *(torch.cat(column) for column in zip(*batches, strict=True)))
        order = index.argsort()
        parts.append(SplitLogits(split, logits[order].cpu().numpy(), index[order].cpu().numpy()))
    (unread,) = gathered(module, torch.tensor(sorted(data.unread), dtype=torch.int64))
    data.unread.update(unread.tolist())
    return parts


def describe_result(result: dict[str, Any], folder: Path) -> list[str]:
    """What a person reads at the end of a run."""
    lines = []
    with reading(folder / BAD):
        bad = max(0, len((folder / BAD).read_bytes().splitlines()) - 1)
    if bad:
        lines.append(f"{bad} image{'' if bad == 1 else 's'} could not be read: {folder / BAD} has the reasons")
    for file in sorted((folder / "teachers").glob(f"*/{RESULT}")):
        score = read_result(file.parent)["val_score"]
        lines.append(f"teacher: validation score {score:.4f}; the model is {file.with_name(FILE)}")
    lines.append(f"validation score {result['val_score']:.4f} at epoch {result['epoch']}; the model is {folder / FILE}")
    return [*lines, f"next: foveal evaluate {folder}"]


def predictions(split: str) -> str:
    """What the table of a split's predictions is called in a run's folder."""
    return f"predictions-{split}.csv"


def _table(part: SplitLogits, source: Source) -> str:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["file", "truth", *(f"logit {name}" for name in source.classes)])
    for row, index in zip(part.logits, part.index, strict=True):
        truth = source.labels[index]
        names = [source.classes[k] for k in (np.flatnonzero(truth == 1) if source.multi_label else [truth])]
        known = bool(source.known(np.array([index]))[0])
        table.writerow(
            [source.file(int(index)), ";".join(names) if known else UNLABELLED, *(f"{value:.6g}" for value in row)]
        )
    return text.getvalue()


def write_bad(data: ClassifyData, folder: Path) -> None:
    """The images that could not be read, each with its reason."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["file", "reason"])
    table.writerows((one.file, one.reason) for one in data.bad)
    _write(folder / BAD, text.getvalue())


def _write(file: Path, text: str) -> None:
    write_atomic(file, text.encode("utf-8", "surrogateescape"))  # a name of a file may be no UTF-8
