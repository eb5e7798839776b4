"""One run of translation: sentences, vocabulary and model of a recipe, and what is written at its end."""

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from torch import nn

from foveal.atomic import write_atomic
from foveal.data.parallel import Parallel, read_parallel
from foveal.errors import expect, short_repr
from foveal.metrics.bleu import translation_scores
from foveal.models.store import describe, expect_finite_weights, load_model, save_model, shapes_of
from foveal.models.zoo import create, presets_of
from foveal.runtime.decode.batched import max_positions
from foveal.runtime.decode.search import Search
from foveal.runtime.packaged import FILE, is_file
from foveal.runtime.vocabulary import LEAST, Vocabulary, both_from, learn_both, text_of
from foveal.tasks.translate.card import TranslateCard
from foveal.tasks.translate.data import TranslateData
from foveal.tasks.translate.module import TranslateModule, translate
from foveal.tasks.translate.recipe import TranslateRecipe
from foveal.tasks.translate.result import plain_scores, translations_file, translations_table
from foveal.tasks.translate.task import TASK
from foveal.training.harness import Training
from foveal.training.journal import Journal
from foveal.training.run_folder import RESULT

RESAMPLES = 200  # of the interval that a run reports; `foveal evaluate` has more
# fields of a config that the vocabulary decides
FIXED = (
    "family",
    "source_vocab",
    "target_vocab",
    "pad",
    "begin",
    "end",
    "unknown",
)


def read_data(recipe: TranslateRecipe) -> Parallel:
    """The sentences of a recipe; what is wrong with the recipe is found before they are read."""
    check_recipe(recipe)
    data = read_parallel(
        recipe.data, source=recipe.source, target=recipe.target, bad=recipe.bad, max_length=recipe.max_length
    )
    for split in ("train", "val"):
        expect(len(data.splits.get(split, ())) > 0, f"{data.name}, split {split}", "at least one pair", "none")
    return data


def check_recipe(recipe: TranslateRecipe) -> None:
    """Raise a FovealError unless there is such a model: it is built without memory."""
    for key in recipe.config:
        expect(isinstance(key, str) and key not in FIXED, "--config", "fields of the model's config", short_repr(key))
    if (trained := _trained(recipe)) is not None:
        expect(
            not recipe.config, "--config", f"none beside {trained}, whose model has its own", short_repr(recipe.config)
        )
        return
    known = presets_of(TASK.kind)
    expect(recipe.model in known, "--model", f"one of {', '.join(known)}, or a trained model", recipe.model)
    with torch.device("meta"):
        TranslateModule(_created(recipe, LEAST, LEAST), recipe)


def build(recipe: TranslateRecipe, data: Parallel) -> tuple[nn.Module, tuple[Vocabulary, Vocabulary]]:
    """The recipe's model and its vocabularies: new ones, or those of the model to continue with."""
    if (trained := _trained(recipe)) is not None:
        model, card = load_model(trained, TranslateCard)
        expect_finite_weights(model.state_dict(), trained)
        expect(bool(card.vocabulary), trained, "a model with its vocabulary", "one without")
        return model.train(), both_from(card.vocabulary)
    train = data.splits["train"]
    both = learn_both(train.source, train.target, recipe.vocab_size, recipe.subwords, recipe.lowercase, recipe.joint)
    return _created(recipe, len(both[0]), len(both[1])).train(), both


def _trained(recipe: TranslateRecipe) -> str | None:
    return recipe.init_from or (recipe.model if is_file(recipe.model) else None)


def _created(recipe: TranslateRecipe, source_vocab: int, target_vocab: int) -> nn.Module:
    tied = {} if recipe.joint else {"tied": "output"}
    return create(recipe.model, source_vocab=source_vocab, target_vocab=target_vocab, **tied | recipe.config)


class TranslateTraining(Training):
    module: TranslateModule
    data: TranslateData

    def __init__(self, recipe: TranslateRecipe, data: Parallel) -> None:
        self.recipe = recipe
        model, vocabularies = build(recipe, data)
        self.data = TranslateData(data, recipe, *vocabularies, positions=max_positions(vars(model.config)))
        self.module = TranslateModule(model, recipe)

    def begin(self, folder: Path) -> None:
        print("\n".join(self.data.summary()), file=sys.stderr, flush=True)

    def finish(self, trainer: pl.Trainer, journal: Journal, folder: Path, origin: dict[str, Any]) -> dict[str, Any]:
        """Translate validation and test, and write model.safetensors, the translations and the result."""
        kept: Any = trainer.validate(self.module, datamodule=self.data, verbose=False)[0]  # by all processes
        if not trainer.is_global_zero:
            return {}  # one process has the journal, translates and writes
        recipe, data = self.recipe, self.data.data
        model = self.module.evaluated.eval().to(trainer.strategy.root_device)
        result: dict[str, Any] = {
            "model": recipe.model,
            "parameters": sum(weight.numel() for weight in model.parameters()),
            "data": data.facts(),
            "seed": recipe.seed,
            "epoch": journal.kept_epoch,
            "val_loss": round(kept["val_loss"], 6),
            "figure": "val_score",
            "seconds": round(sum(row["seconds"] for row in journal.rows), 1),
            "origin": origin,
        }
        search = Search(beam=recipe.beam, length_penalty=recipe.length_penalty)
        for split, pairs in data.splits.items():
            if split != "train" and len(pairs):
                translations = translate(model, (self.data.source, self.data.target), pairs.source, search)
                result[split] = plain_scores(translation_scores(translations, pairs.target, RESAMPLES))
                write_atomic(folder / translations_file(split), translations_table(pairs, translations).encode())
        result["val_score"] = result["val"]["bleu"]["value"]
        save_model(model, folder / FILE, self.card(model, result, origin))
        write_atomic(folder / RESULT, json.dumps(result, indent=1).encode())
        return result

    def card(self, model: nn.Module, result: dict[str, Any], origin: dict[str, Any]) -> TranslateCard:
        family, config = describe(model)
        data = self.data.data
        return TranslateCard(
            model=self.recipe.model,
            family=family,
            config=config,
            vocabulary=text_of(self.data.source, self.data.target),
            data=data.facts(),
            metrics={split: result[split] for split in data.splits if split in result},
            recipe=dataclasses.asdict(self.recipe),
            origin=origin,
            shapes=shapes_of(model),
        )
