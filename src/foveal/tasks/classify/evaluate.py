"""How good a classifier is, on labelled images: its own test split or any other data; of torch or exported."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from foveal.data.opened import opened_batches
from foveal.data.read import read
from foveal.data.source import Source
from foveal.errors import FovealError, expect, printable
from foveal.runtime.image import BadImage
from foveal.tasks.classify.card import ClassifyCard
from foveal.tasks.classify.classifier import classifier_of
from foveal.tasks.classify.evaluation import ClassifyEvaluation, Evaluated, Indices
from foveal.tasks.classify.options import EvaluateOptions
from foveal.tasks.classify.predict import Classifier
from foveal.tasks.classify.predictions import Predicted
from foveal.tasks.classify.scoring import score
from foveal.tasks.evaluated_on import (
    data_of,
    expect_unchanged,
    facts_of,
    fold_column_of,
    fold_of,
    labelled,
    reading_data,
    split_of,
    trained_on,
)

if TYPE_CHECKING:
    from foveal.progress import Progress
    from foveal.tasks.model import Model


def evaluate(
    model: "Model", options: EvaluateOptions, progress: "Progress", others: "Sequence[Model]" = ()
) -> ClassifyEvaluation:
    card = cast("ClassifyCard", model.card)
    column = fold_column_of(options, card)
    source = _source(options, card, column)
    fold = fold_of(source, options, card, column)
    split, notes = split_of(source, options.split, fold, "the epoch and the thresholds")
    models = []
    for one in (model, *others):
        _expect_same_classes(one, source)
        evaluated, left_out = _evaluated(one, source, split, fold, options, progress)
        models.append(evaluated)
        notes += [f"left out: {printable(file)}: {reason}" for file, reason in left_out]
        if options.data is not None:
            which = evaluated.name if others else "this model"
            notes += trained_on(evaluated.card, evaluated.predicted.files, which)
    facts = facts_of(model, source, split, fold, column)
    return ClassifyEvaluation(source, split, tuple(models), facts, (source.summary(), *notes), options.resamples)


def _evaluated(
    model: "Model", source: Source, split: str, fold: int | None, options: EvaluateOptions, progress: "Progress"
) -> tuple[Evaluated, list[tuple[str, str]]]:
    card, classifier = cast("ClassifyCard", model.card), classifier_of(model, options.batch)
    rows, logits, left_out = predict_split(classifier, source, split, fold, progress)
    # a set may have nothing to choose on
    chooses = split != "val" and bool(source.known(source.indices("val", fold)).any())
    validation = predict_split(classifier, source, "val", fold, progress) if chooses else None
    predicted = Predicted(tuple(source.file(int(row)) for row in rows), card.classes, source.labels[rows], logits)
    given = (
        None
        if options.threshold_metric or card.threshold is None
        else plain_thresholds(card.threshold, card.temperature)
    )
    scores = score(
        predicted,
        split,
        validation=None if validation is None else (source.labels[validation[0]], validation[1]),
        importance=source.importance,
        groups=None if source.group is None else source.group[rows],
        resamples=options.resamples,
        metric=options.threshold_metric,
        given=given,
    )
    name = Path(model.name).name if model.path is not None else model.name
    return Evaluated(name, card, predicted, rows, scores), left_out


def plain_thresholds(threshold: tuple[float, ...], temperature: float) -> tuple[float, ...]:
    """A card's thresholds are for sigmoid(z/T), those of scores for sigmoid(z): t/(1 − t) = e^{z/T},
    so e^z = (t/(1 − t))^T.
    """
    share = np.clip(np.array(threshold, np.float64), 0.0, 1.0)
    with np.errstate(divide="ignore", over="ignore"):
        logit = temperature * (np.log(share) - np.log1p(-share))
        return tuple(float(value) for value in 1.0 / (1.0 + np.exp(-logit)))


def predict_split(
    classifier: Classifier, source: Source, split: str, fold: int | None, progress: "Progress"
) -> tuple[Indices, NDArray[np.float64], list[tuple[str, str]]]:
    """The labelled images of a split that could be read, their logits, and the others with their reasons."""
    indices = labelled(source, split, fold)
    expect(len(indices) > 0, f"{printable(source.name)}, split {split}", "labelled images", "none")
    rows, logits, left_out = logits_of(classifier, source, indices, progress)
    if not len(rows):
        raise FovealError(f"{printable(source.name)}, split {split}: expected images that can be read, got none")
    return rows, logits, left_out


def logits_of(
    classifier: Classifier, source: Source, indices: Sequence[int] | Indices, progress: "Progress"
) -> tuple[Indices, NDArray[np.float64], list[tuple[str, str]]]:
    """(indices that could be read, their logits (N, C), the others with their reasons)."""
    rows: list[int] = []
    logits, left_out = [], []
    batches = math.ceil(len(indices) / classifier.batch)
    opened = opened_batches(lambda index: source.image(index, classifier.size), indices, classifier.batch)
    for batch in progress(opened, batches, "evaluating"):
        good = [(index, pixels) for index, pixels in batch if not isinstance(pixels, BadImage)]
        left_out += [(source.file(index), pixels.reason) for index, pixels in batch if isinstance(pixels, BadImage)]
        if good:
            rows += [index for index, _ in good]
            logits.append(classifier.logits([pixels for _, pixels in good]))
    found = np.concatenate(logits) if logits else np.zeros((0, len(classifier.card.classes)))
    return np.array(rows, np.int64), found, left_out


def _source(options: EvaluateOptions, card: ClassifyCard, column: str | None) -> Source:
    data = data_of(options, card)
    with reading_data(options):
        source = read(data, label=options.label or card.recipe.get("label"), fold_column=column, seed=0)
    expect_unchanged(source, options, card, column)
    return source


def _expect_same_classes(model: "Model", source: Source) -> None:
    card = cast("ClassifyCard", model.card)
    kinds = ("one label per image", "several labels per image")
    where = printable(source.name)
    expect(
        source.multi_label == card.multi_label,
        where,
        f"{kinds[card.multi_label]}, as {model.name} has",
        kinds[source.multi_label],
    )
    same = source.classes == card.classes
    expect(same, where, f"the classes of {model.name}, {', '.join(card.classes)}", ", ".join(source.classes))
