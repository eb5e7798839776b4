"""One run of classification: the model, its teachers and its data in the harness, and how the run ends."""

import json
from pathlib import Path
from typing import Any, cast

import pytorch_lightning as pl
import torch
from torch import nn

from foveal.atomic import write_atomic
from foveal.data.division import splits_of
from foveal.data.source import Source
from foveal.errors import FovealError, expect, short_repr
from foveal.models.icam import Icam
from foveal.models.mbconv import Stages
from foveal.models.store import load_for, normalisation
from foveal.models.zoo import config_of, create, families_of
from foveal.progress import Progress
from foveal.runtime.packaged import is_file
from foveal.tasks.classify.card import ClassifyCard
from foveal.tasks.classify.data import ClassifyData
from foveal.tasks.classify.finish import conclude, write_bad
from foveal.tasks.classify.hints import hints_of
from foveal.tasks.classify.module import ClassifyModule
from foveal.tasks.classify.reading import read_for
from foveal.tasks.classify.recipe import ClassifyRecipe
from foveal.tasks.classify.task import TASK
from foveal.tasks.classify.teachers import Teachers, View, Wanted, read_teachers
from foveal.training.beginning import begin_with_weights
from foveal.training.harness import Machine, Training
from foveal.training.journal import Journal
from foveal.training.taught import TEACHERS, expect_teachers, teacher_files


class ClassifyTraining(Training):
    watched = ("val_score", "max")

    def __init__(
        self,
        recipe: ClassifyRecipe,
        source: Source,
        folder: Path,
        machine: Machine,
        progress: Progress,
        fresh: bool,
        rehearsed: bool = False,
    ) -> None:
        """fresh: the run does not continue from a checkpoint, so that the weights to begin with are needed. rehearsed:
        it is thrown away after a few steps, and teachers that are trained first may not be there yet.
        """
        expect(
            len(source.classes) > 1 or source.multi_label, recipe.data, "at least 2 classes", f"{len(source.classes)}"
        )
        model = build(recipe, len(source.classes), fresh, quiet=rehearsed, check_cells=fresh)
        mean, std = normalisation(model)
        self.teachers = (
            (stand_ins(recipe, source, folder, mean, std), {})
            if rehearsed and recipe.num_teachers
            else teachers_of(recipe, source, folder, mean, std)
        )
        taught = None if self.teachers is None else self.teachers[0]
        splits = splits_of(source, recipe.fold)
        _share(recipe, len(splits.train), machine.devices)
        self.data: ClassifyData = ClassifyData(source, recipe, splits, machine.workers, progress)
        _share(recipe, len(self.data.splits.train), machine.devices)
        # val and test are predicted
        self.validations_at_end = 1 + len(self.data.splits.test) / len(self.data.splits.val)
        self.module: ClassifyModule = ClassifyModule(
            model,
            recipe,
            classes=len(source.classes),
            multi_label=source.multi_label,
            steps=self.data.steps * recipe.epochs,
            counts=self.data.counts,
            images=len(self.data.splits.train),
            mean=mean,
            std=std,
            teachers=taught,
            hints=hints_of(recipe.hints, model, recipe.size, taught),
        )

    def begin(self, folder: Path) -> None:
        write_bad(self.data, folder)
        if self.teachers is not None:
            write_atomic(folder / TEACHERS, json.dumps(self.teachers[1], indent=1).encode())

    def finish(self, trainer: pl.Trainer, journal: Journal, folder: Path, origin: dict[str, Any]) -> dict[str, Any]:
        return conclude(trainer, self.module, self.data, journal, folder, origin)


def build(
    recipe: ClassifyRecipe, classes: int, fresh: bool = True, quiet: bool = False, check_cells: bool = True
) -> nn.Module:
    """The recipe's model, with the weights to begin with where the run is fresh.

    An error unless it takes the recipe's images. quiet: not a word about weights that did not fit. check_cells: an
    error, too, where a map is pooled to more cells than it has; not for runs that were begun when this was allowed.
    """
    for key in recipe.config:
        named = isinstance(key, str) and key not in ("family", "classes")
        expect(named, "--config", "fields of the model's config, and the data name the classes", short_repr(key))
    if is_file(recipe.model):
        expect(not recipe.config, "--config", "none beside a model file, which has its own", short_repr(recipe.config))
        model = load_for(recipe.model, ClassifyCard, classes=classes)
    else:
        family = config_of(recipe.model).family
        expect(
            family in families_of(TASK.kind),
            f"the model {recipe.model}",
            "one that classifies",
            f"one of the family {family}",
        )
        model = create(recipe.model, classes=classes, **recipe.config)
        if check_cells:
            _expect_cells(model)
    if recipe.init_from is not None and fresh:
        begin_with_weights(model, recipe.init_from, recipe.model, quiet)
    try:
        with torch.no_grad():
            model.eval()(torch.zeros(1, 3, recipe.size, recipe.size))
    except (FovealError, RuntimeError, ValueError) as error:  # each model has words of its own
        reason = _other_sizes(model, recipe) or " ".join(str(error).split())
        got = f"{recipe.size} × {recipe.size}; {reason}"
        raise FovealError(f"--size: expected images that {recipe.model} takes, got {got}") from None
    return model.train()


def _expect_cells(model: Any) -> None:
    """A map cannot be pooled to more cells than it has. Files of earlier versions may say so, and are opened."""
    if isinstance(model, Icam) and isinstance(model.phi, Stages):
        pool, patch = model.config.pool, model.config.patch
        side = model.phi.side(patch)
        most = f"at most {side} for patches of {patch} pixels, the side of Φ's map"
        expect(pool <= side, "--config, pool", most, pool, f"add pool: {side}, or choose a larger patch")


def _other_sizes(model: Any, recipe: ClassifyRecipe) -> str:
    """What to choose instead of a size that the model's patches do not divide."""
    size, patch = recipe.size, getattr(model.config, "patch", 0)
    if not isinstance(model, Icam) or size % patch == 0:
        return ""
    grid = model.config.image // patch
    cells = model.config.pool
    if isinstance(model.phi, Stages):
        cells = min(cells, model.phi.side(size // grid))
    pool = "" if cells == model.config.pool else f", pool: {cells}"
    other = f", or --config '{{image: {size}, patch: {size // grid}{pool}}}'" if size % grid == 0 else ""
    return f"choose a multiple of {patch}{'' if is_file(recipe.model) else other}"


def teachers_of(
    recipe: ClassifyRecipe, source: Source, folder: Path, mean: tuple[float, ...], std: tuple[float, ...]
) -> tuple[Teachers, dict[str, str]] | None:
    """The teachers, and a digest of each; an error if the run was begun with others.

    mean, std: what the pupil's images are normalised by.
    """
    if recipe.teachers is None and not recipe.num_teachers:
        return None
    blank = [list(box) for box in recipe.blank]
    finer = lambda label: read_for(recipe.changed(label=label))  # noqa: E731 — one line is clearer here
    wanted = Wanted(source, recipe.size, mean, std, recipe.fold, blank, finer)
    teachers, digests = read_teachers(teacher_files(recipe, folder), wanted)
    expect_teachers(digests, folder)
    return teachers, digests


def stand_ins(
    recipe: ClassifyRecipe, source: Source, folder: Path, mean: tuple[float, ...], std: tuple[float, ...]
) -> Teachers:
    """Models as the teachers of a recipe will be, untrained: a step with them takes as long."""
    models, views = [], []
    for teacher in recipe.earlier(folder).values():
        model = build(cast("ClassifyRecipe", teacher), len(source.classes), fresh=False, check_cells=False)
        models.append(model)
        views.append(View.of(recipe.size, mean, std, cast("ClassifyRecipe", teacher).size, *normalisation(model)))
    return Teachers(models, source.multi_label, views=views)


def _share(recipe: ClassifyRecipe, images: int, devices: int) -> None:
    """Every process must have as many images of each batch as the others."""
    expect(recipe.batch % devices == 0, "--batch", f"a multiple of the {devices} devices", recipe.batch)
    expect(images >= devices, "--devices", f"at most {images}, one training image each", devices)
