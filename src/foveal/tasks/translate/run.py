"""One run of translation, from a recipe to a folder that describes itself, and that a killed run goes on from."""

import contextlib
import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import EarlyStopping
from safetensors.torch import load_file
from torch import Tensor, nn

from foveal.atomic import expect_folder, write_atomic
from foveal.data.parallel import Pairs, Parallel, read_parallel
from foveal.errors import expect, short_repr
from foveal.metrics.bleu import Score, translation_scores
from foveal.models.store import describe, load_model, save_model
from foveal.models.zoo import create, names
from foveal.runtime.card import Card
from foveal.runtime.decode.batched import positions
from foveal.runtime.decode.search import Search
from foveal.runtime.packaged import FILE
from foveal.runtime.vocabulary import Vocabulary, both_from, learn_both, text_of
from foveal.tasks.classify.finish import RESULT
from foveal.tasks.translate.data import TranslateData
from foveal.tasks.translate.module import Translate, translate
from foveal.tasks.translate.recipe import TranslateRecipe
from foveal.train.journal import CHECKPOINT, TRAIL, Journal
from foveal.train.run import RECIPE, Machine, alone, finished, interruptible, products, quiet, tidy, trainer_of

DRAWS = 200  # of the interval that a run tells; `foveal evaluate` draws more


def train_translate(
    recipe: TranslateRecipe, folder: Path, *, resume: bool = False, machine: Machine | None = None, origin: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Train, keep the mean of the last epochs as model.safetensors, and return the result, which is result.json, too."""
    machine, recipe = machine or Machine(), recipe.from_anywhere()
    first = os.environ.get("LOCAL_RANK", "0") == "0"
    if (done := finished(recipe, folder, resume or not first)) is not None:
        return done
    quiet()
    data = read_set(recipe)
    torch.manual_seed(recipe.seed)
    model, vocabularies = build(recipe, data)
    expect_folder(folder)
    with alone(folder) if first else contextlib.nullcontext():
        feeds = TranslateData(data, recipe, *vocabularies, most=positions(vars(model.config)))
        if first:
            tidy(folder)
            print("\n".join(feeds.told()), file=sys.stderr, flush=True)
        journal = Journal(folder, "last", said=not sys.stderr.isatty(), trail=recipe.average)
        patient = EarlyStopping("val_loss", patience=recipe.patience, mode="min")
        trainer = trainer_of(recipe, machine, journal, patient, recipe.accumulate)
        if first:  # from here on it is this recipe's folder
            write_atomic(folder / RECIPE, recipe.text().encode())
        task, last = Translate(model, recipe), folder / CHECKPOINT
        with interruptible(), products(recipe.precision):
            trainer.fit(task, datamodule=feeds, ckpt_path=str(last) if last.exists() else None)
            return conclude(trainer, task, feeds, folder, origin or {}, journal)


def read_set(recipe: TranslateRecipe) -> Parallel:
    return read_parallel(recipe.data, source=recipe.source, target=recipe.target, bad=recipe.bad, longest=recipe.longest)


def build(recipe: TranslateRecipe, data: Parallel) -> tuple[nn.Module, tuple[Vocabulary, Vocabulary]]:
    """The recipe's model and its vocabularies: new ones, or those of the model to go on with."""
    for key in recipe.settings:
        allowed = isinstance(key, str) and key not in ("name", "source_words", "target_words", "pad", "begin", "end", "unknown")
        expect(allowed, "the setting settings", "fields of the model's config", short_repr(key))
    expect(recipe.model in names("translate"), "the setting model", f"one of {', '.join(names('translate'))}", recipe.model)
    if recipe.start is not None:
        started, card = load_model(recipe.start, "translate")
        expect(not recipe.settings, "the setting settings", "none beside start, whose model has its own", short_repr(recipe.settings))
        return _checkpointed(started, recipe).train(), both_from(card.vocabulary)
    train = data.splits["train"]
    both = learn_both(train.source, train.target, recipe.size, recipe.pieces, recipe.lowercase, recipe.joint)
    settings = {"tied": "output"} if not recipe.joint else {}
    model = create(recipe.model, source_words=len(both[0]), target_words=len(both[1]), **settings | recipe.settings)
    return _checkpointed(model, recipe).train(), both


def _checkpointed(model: Any, recipe: TranslateRecipe) -> nn.Module:
    expect(not recipe.checkpointing or hasattr(model, "checkpointing"), "the setting checkpointing", "a Transformer", recipe.model)
    if recipe.checkpointing:
        model.checkpointing = True
    whole: nn.Module = model
    return whole


def conclude(
    trainer: pl.Trainer, task: Translate, feeds: TranslateData, folder: Path, origin: dict[str, Any], journal: Journal
) -> dict[str, Any]:
    """Average the last epochs, translate validation and test, and write model.safetensors, the translations and the result."""
    if not trainer.is_global_zero:
        return {}  # one process has the journal, translates and writes
    recipe, data = task.recipe, feeds.data
    model = task.evaluated
    model.load_state_dict(mean_weights(folder, recipe.average))
    model.eval().to(trainer.strategy.root_device)
    rows = journal.rows
    result: dict[str, Any] = {
        "model": recipe.model,
        "weights": sum(weight.numel() for weight in model.parameters()),
        "data": data.facts(),
        "seed": recipe.seed,
        "epoch": len(rows),
        "val_loss": rows[-1]["val_loss"],
        "seconds": round(sum(row["seconds"] for row in rows), 1),
        "origin": origin,
    }
    search = Search(beam=recipe.beam, penalty=recipe.penalty)
    for split, pairs in data.splits.items():
        if split != "train" and len(pairs):
            said = translate(model, (feeds.source, feeds.target), pairs.source, search)
            result[split] = told(translation_scores(said, pairs.target, DRAWS))
            write_atomic(folder / translations(split), table(pairs, said).encode())
    result["val_score"] = result["val"]["bleu"]["value"]
    family, config = describe(model)
    card = Card(
        recipe.model, family, config, (), task="translate", vocabulary=text_of(feeds.source, feeds.target), data=data.facts(),
        metrics={split: result[split] for split in data.splits if split in result}, recipe=dataclasses.asdict(recipe), origin=origin,
    )  # fmt: skip
    save_model(model, folder / FILE, card)
    write_atomic(folder / RESULT, json.dumps(result, indent=1).encode())
    return result


def mean_weights(folder: Path, trail: int) -> dict[str, Tensor]:
    """The mean of the last epochs' weights, in double precision."""
    files = [file for place in range(trail) if (file := folder / TRAIL.format(place)).exists()]
    expect(bool(files), f"the run in {folder}", f"weights of its last epochs, such as {TRAIL.format(0)}", "none")
    parts = [load_file(file) for file in files]
    return {name: torch.stack([part[name].double() for part in parts]).mean(0).to(tensor.dtype) for name, tensor in parts[0].items()}


def translations(split: str) -> str:
    """What the translations of a split are called in a run's folder."""
    return f"translations-{split}.tsv"


def table(pairs: Pairs, said: list[str]) -> str:
    rows = zip(pairs.source, said, pairs.target, strict=True)
    return "source\ttranslation\treference\n" + "".join("\t".join(" ".join(cell.split()) for cell in row) + "\n" for row in rows)


def told(scores: dict[str, Score]) -> dict[str, Any]:
    return {
        name: {key: round(value, 3) if isinstance(value, float) else value for key, value in dataclasses.asdict(score).items()}
        for name, score in scores.items()
    }
