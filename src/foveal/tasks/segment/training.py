"""One run of segmentation: the model and its data in the harness, and how the run ends."""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any, cast

import pytorch_lightning as pl
import torch
from torch import nn

from foveal.atomic import write_atomic
from foveal.data.division import splits_of
from foveal.data.name_sketch import TRAINED, sketch
from foveal.data.segments import SegmentSource
from foveal.errors import FovealError, counted, expect, short_repr
from foveal.models.segmenting import learn
from foveal.models.store import describe, load_for, normalisation, save_model, shapes_of
from foveal.models.zoo import config_of, create, families_of
from foveal.progress import Progress
from foveal.runtime.packaged import FILE, is_file
from foveal.tasks.segment.card import BACKGROUND, SegmentCard
from foveal.tasks.segment.data import SegmentData
from foveal.tasks.segment.loss import expect_losses
from foveal.tasks.segment.module import SegmentModule
from foveal.tasks.segment.offsets import fitted
from foveal.tasks.segment.recipe import SegmentRecipe
from foveal.tasks.segment.task import TASK
from foveal.tasks.segment.teachers import Teachers, read_teachers, stand_in
from foveal.training.beginning import begin_with_weights
from foveal.training.harness import Machine, Training
from foveal.training.journal import Journal
from foveal.training.run_folder import RESULT
from foveal.training.taught import TEACHERS, expect_teachers, teacher_files


class SegmentTraining(Training):
    watched = ("val_score", "max")

    def __init__(
        self,
        recipe: SegmentRecipe,
        source: SegmentSource,
        folder: Path,
        machine: Machine,
        progress: Progress,
        fresh: bool,
        rehearsed: bool = False,
    ) -> None:
        """fresh: the run does not continue from a checkpoint, so that the weights to begin with are needed. rehearsed:
        it is thrown away after a few steps, and teachers that are trained first may not be there yet.
        """
        splits = splits_of(source, recipe.fold)
        self.recipe, self.source = recipe, source
        model = build(recipe, len(source.classes) + 1, fresh, quiet=rehearsed)
        self.teachers = self.taught_by(folder, rehearsed)
        self.data: SegmentData = SegmentData(source, self.recipe, splits, machine.workers, progress)
        images = len(self.data.splits.train)
        share = recipe.batch % machine.devices == 0
        expect(share, "--batch", f"a multiple of the {machine.devices} devices", recipe.batch)
        expect(images >= machine.devices, "--devices", f"at most {images}, one training image each", machine.devices)
        self.validations_at_end = 2.0 if recipe.offsets else 1.0
        steps = self.data.steps * (recipe.epochs or 1)
        self.card = card_of(model, recipe, source)
        taught = None if self.teachers is None else self.teachers[0]
        self.module: SegmentModule = SegmentModule(
            model, self.recipe, self.card, source, self.data.splits.train, steps, taught
        )

    def taught_by(self, folder: Path, rehearsed: bool) -> tuple[Teachers, dict[str, str]] | None:
        """The teachers, and a digest of each; an error if the run was begun with others."""
        recipe, source = self.recipe, self.source
        if not recipe.taught():
            return None
        if rehearsed and recipe.num_teachers:
            earlier = (cast("SegmentRecipe", one) for one in recipe.earlier(folder).values())
            models = [
                build(one.changed(size=one.size or recipe.size), len(source.classes) + 1, False) for one in earlier
            ]
            return Teachers([stand_in(model) for model in models]), {}
        teachers, digests = read_teachers(teacher_files(recipe, folder), recipe, source)
        expect_teachers(digests, folder)
        return teachers, digests

    def begin(self, folder: Path) -> None:
        if self.teachers is not None:
            write_atomic(folder / TEACHERS, json.dumps(self.teachers[1], indent=1).encode())

    def finish(self, trainer: pl.Trainer, journal: Journal, folder: Path, origin: dict[str, Any]) -> dict[str, Any]:
        found = trainer.validate(self.module, datamodule=self.data, verbose=False)[0]
        metrics = {name: float(found[name]) for name in ("val_loss", "val_score")}
        source, recipe = self.source, self.recipe
        offsets: tuple[float, ...] = ()
        if recipe.offsets and trainer.is_global_zero:
            maps = self.module.maps().to(trainer.strategy.root_device).eval()
            offsets, before, after = fitted(maps, self.data.opened, self.data.splits.val, len(self.card.classes))
            maps.to(self.module.device)
            metrics |= {"val_score_without_offsets": before, "val_score_with_offsets": after}
        result = {
            "model": self.card.model,
            "parameters": sum(parameter.numel() for parameter in self.module.model.parameters()),
            "data": source.facts(),
            "fold": recipe.fold,
            "seed": recipe.seed,
            "epoch": journal.kept_epoch,
            "figure": "val_score",
            **metrics,
            "offsets": dict(zip(self.card.classes, offsets, strict=False)),
            "bad": {source.file(index): reason for index, reason in sorted(self.data.opened.bad.items())},
            "seconds": round(sum(row["seconds"] for row in journal.rows), 1),
            "origin": origin,
        }
        if trainer.is_global_zero:
            trained = sketch(os.fsencode(source.file(int(index))) for index in self.data.splits.train)
            card = dataclasses.replace(
                self.card,
                data=source.facts() | {TRAINED: trained},
                metrics=metrics,
                origin=origin,
                offsets=offsets,
            )
            save_model(self.module.evaluated, folder / FILE, card)
            write_atomic(folder / RESULT, json.dumps(result, indent=1).encode())
        return result


def build(recipe: SegmentRecipe, classes: int, fresh: bool = True, quiet: bool = False) -> nn.Module:
    """The recipe's model, with the weights to begin with where the run is fresh. classes: with the background. quiet:
    not a word about weights that did not fit.
    """
    for key in recipe.config:
        named = isinstance(key, str) and key not in ("family", "classes")
        expect(named, "--config", "fields of the model's config, and the data name the classes", short_repr(key))
    if is_file(recipe.model):
        expect(not recipe.config, "--config", "none beside a model file, which has its own", short_repr(recipe.config))
        model = load_for(recipe.model, SegmentCard, classes=classes)
    else:
        family = config_of(recipe.model).family
        fits = family in families_of(TASK.kind)
        expect(fits, f"the model {recipe.model}", "one that segments", f"one of the family {family}")
        model = create(recipe.model, classes=classes, **recipe.config)
    if recipe.init_from is not None and fresh:
        begin_with_weights(model, recipe.init_from, recipe.model, quiet)
    try:
        side = -(-int(recipe.size or 0) // int(model.multiple)) * int(model.multiple)  # type: ignore[arg-type]
        with torch.no_grad():
            learned = learn(model.eval(), torch.zeros(1, 3, side, side))
    except (FovealError, RuntimeError, ValueError) as error:  # each model has words of its own
        reason = " ".join(str(error).split())
        raise FovealError(f"--size: expected windows that {recipe.model} takes, got {recipe.size}; {reason}") from None
    expect_losses(recipe, learned)
    return model.train()


def card_of(model: nn.Module, recipe: SegmentRecipe, source: SegmentSource) -> SegmentCard:
    """The card of the model as it will be kept."""
    family, config = describe(model)
    mean, std = normalisation(model)
    taken = BACKGROUND in source.classes
    expect(not taken, f"the classes of {source.name}", f"none that is called {BACKGROUND}", BACKGROUND, "rename it")
    return SegmentCard(
        model=recipe.model if not is_file(recipe.model) else Path(recipe.model).name,
        family=family,
        config=config,
        classes=(BACKGROUND, *source.classes),
        size=recipe.size or 0,
        zoom=recipe.zoom or 1.0,
        multiple=int(model.multiple),  # type: ignore[arg-type]
        mean=mean,
        std=std,
        recipe=dataclasses.asdict(recipe),
        shapes=shapes_of(model),
    )


def describe_result(result: dict[str, Any], folder: Path) -> list[str]:
    """What a person reads at the end of a run."""
    bad = result["bad"]
    lines = [f"{counted(len(bad), 'image')} could not be read: {RESULT} has the reasons"] if bad else []
    score = 100 * result["val_score"]
    lines.append(f"validation: mIoU of findings {score:.2f} at epoch {result['epoch']}; the model is {folder / FILE}")
    moved = [f"{name} {offset:+g}" for name, offset in result.get("offsets", {}).items() if offset]
    if moved:
        gain = f"{100 * result['val_score_without_offsets']:.2f} → {100 * result['val_score_with_offsets']:.2f}"
        lines.append(f"offsets of logits, chosen on the validation split ({gain} there): {', '.join(moved)}")
    return [*lines, f"next: foveal evaluate {folder}"]
