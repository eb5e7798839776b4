"""How good a classifier is, on labelled images: its own test split or any other data; of torch or exported."""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from foveal.data.name_sketch import count_known
from foveal.data.read import has_column, read
from foveal.data.source import Source
from foveal.errors import FovealError, expect, printable
from foveal.report.table import UNDEFINED, Table, write_tables
from foveal.runtime.image import BadImage, Pixels
from foveal.tasks.classify.card import TRAINED, ClassifyCard
from foveal.tasks.classify.classifier import classifier_of
from foveal.tasks.classify.compare import difference, score_name
from foveal.tasks.classify.options import EvaluateOptions
from foveal.tasks.classify.predict import Classifier
from foveal.tasks.classify.predictions import Predicted
from foveal.tasks.classify.report import write_report
from foveal.tasks.classify.report_tables import figures as table_of_figures
from foveal.tasks.classify.report_tables import percent, with_interval
from foveal.tasks.classify.scores import Scores
from foveal.tasks.classify.scoring import score
from foveal.tasks.task import Evaluation

if TYPE_CHECKING:
    from foveal.tasks.model import Model
    from foveal.training.harness import Progress

THUMBNAIL = 224  # pixels of an image in the report
THREADS = 4  # that open images
Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Evaluated:
    """One model: what it predicted, and what that is worth."""

    name: str
    card: ClassifyCard
    predicted: Predicted
    rows: Indices  # of its images in the source
    scores: Scores


@dataclass(frozen=True, eq=False)
class ClassifyEvaluation(Evaluation):
    source: Source
    split: str
    models: tuple[Evaluated, ...]  # the first one has the report; the others are compared with it
    facts: dict[str, Any]
    notes: tuple[str, ...] = ()
    resamples: int = 1000
    figures: dict[str, float] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "figures", {name: one.value for name, one in self.scores.figures.items()})

    @property
    def scores(self) -> Scores:
        return self.models[0].scores

    def summary(self) -> str:
        tables = [table_of_figures(self.scores)] if len(self.models) == 1 else self._comparison()
        return "\n".join([*self.notes, *([""] if self.notes else []), *(table.markdown() for table in tables)]).rstrip()

    def write(self, folder: Path) -> list[Path]:
        first = self.models[0]
        title = f"{first.card.model} on {printable(self.source.name)}"
        facts = self.facts | ({"notes": list(self.notes)} if self.notes else {})
        thumbnail = lambda place: self.source.image(int(first.rows[place]), THUMBNAIL)  # noqa: E731 — clearer here
        files = write_report(first.scores, folder, title=title, facts=facts, images=thumbnail)
        if len(self.models) > 1:
            caption = f"{first.scores.images:,} images of the split {self.split}; {first.scores.interval}."
            names = " and ".join(one.name for one in self.models)
            files += write_tables(
                folder,
                "comparison",
                self._comparison(),
                f"{names} on {printable(self.source.name)}",
                caption,
                self.facts["origin"],
            )
        return files

    def _comparison(self) -> list[Table]:
        """One column per model, and how far the figure that decides is from the first one's."""
        first, *others = self.models
        rows = [
            [name, *(with_interval(one.scores.figures[name]) for one in self.models)] for name in first.scores.figures
        ]
        rows.append(
            [
                f"{score_name(self.source.multi_label)} against {first.name}",
                UNDEFINED,
                *(self._against(first, one) for one in others),
            ]
        )
        return [Table(["figure, %", *(one.name for one in self.models)], rows)]

    def _against(self, first: Evaluated, other: Evaluated) -> str:
        if not self.resamples or first.predicted.files != other.predicted.files:
            return UNDEFINED
        groups = None if self.source.group is None else self.source.group[first.rows]
        found = difference({0: first.predicted}, {0: other.predicted}, self.source.multi_label, groups, self.resamples)
        return f"{percent(found.value)} ({percent(found.low)} to {percent(found.high)})"


def evaluate(
    model: "Model", options: EvaluateOptions, progress: "Progress", others: "Sequence[Model]" = ()
) -> ClassifyEvaluation:
    card = cast("ClassifyCard", model.card)
    column = _fold_column(options, card)
    source = _source(options, card, column)
    # A run's own fold, also where its data lies elsewhere now: another one would test what it was trained on.
    own = card.recipe.get("fold") if source.fold is not None and column == card.recipe.get("fold_column") else None
    fold = own if options.fold is None else options.fold
    split, notes = _split(source, options.split, fold)
    models = []
    for one in (model, *others):
        _expect_same_classes(one, source)
        evaluated, left_out = _evaluated(one, source, split, fold, options, progress)
        models.append(evaluated)
        notes += [f"left out: {printable(file)}: {reason}" for file, reason in left_out]
        if options.data is not None:
            notes += _trained_on(evaluated, source, len(others) > 0)
    facts: dict[str, Any] = {
        "model": card.model,
        "file": Path(model.name).name,
        "data": source.describe(),
        "split": split,
        "fold": fold,
    }
    if fold is not None and source.fold_names:
        facts |= {"fold column": column, "fold": f"{fold}, {source.fold_name(fold)}"}
    facts["seed of the training"] = card.recipe.get("seed")
    facts["origin"] = model.origin()
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
    indices = source.indices(split, fold)
    indices = indices[source.known(indices)]
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
    for batch in progress(opened_batches(source, indices, classifier.size, classifier.batch), batches, "evaluating"):
        good = [(index, pixels) for index, pixels in batch if not isinstance(pixels, BadImage)]
        left_out += [(source.file(index), pixels.reason) for index, pixels in batch if isinstance(pixels, BadImage)]
        if good:
            rows += [index for index, _ in good]
            logits.append(classifier.logits([pixels for _, pixels in good]))
    found = np.concatenate(logits) if logits else np.zeros((0, len(classifier.card.classes)))
    return np.array(rows, np.int64), found, left_out


def opened_batches(
    source: Source, indices: Sequence[int] | Indices, size: int, batch: int
) -> Iterator[list[tuple[int, Pixels | BadImage]]]:
    """Images in batches, opened in threads, one batch ahead."""

    def one(index: int) -> Pixels | BadImage:
        try:
            return source.image(index, size)
        except BadImage as bad:
            return bad

    def submitted(start: int) -> list[tuple[int, "Future[Pixels | BadImage]"]]:
        return [(int(index), pool.submit(one, int(index))) for index in indices[start : start + batch]]

    with ThreadPoolExecutor(THREADS) as pool:
        ahead = submitted(0)
        for start in range(batch, len(indices) + batch, batch):
            now, ahead = ahead, submitted(start)
            yield [(index, future.result()) for index, future in now]


def _split(source: Source, asked: str | None, fold: int | None) -> tuple[str, list[str]]:
    if asked is not None:
        return asked, []
    labelled: Callable[[str], bool] = lambda name: bool(source.known(source.indices(name, fold)).any())  # noqa: E731
    if labelled("test") or not labelled("val"):
        return "test", []
    return "val", [
        (
            "no image of the split test has a label: evaluated on val, which chose the epoch and the thresholds, "
            "so the figures flatter"
        )
    ]


def _fold_column(options: EvaluateOptions, card: ClassifyCard) -> str | None:
    """The column that makes the folds: the training's, unless another is given; other data may not have it."""
    own = card.recipe.get("fold_column")
    if options.fold_column is not None:
        named = options.fold_column == own or options.fold is not None
        expect(
            named,
            "--fold-column",
            "--fold beside it, which says what to test on: the training had no such folds",
            "none",
        )
        return options.fold_column
    if own is None or options.data is None:
        return own
    return own if has_column(options.data, own) else None


def _source(options: EvaluateOptions, card: ClassifyCard, column: str | None) -> Source:
    data = options.data or card.recipe.get("data")
    expect(
        data is not None,
        "--data",
        "images to evaluate the model on",
        "none, and its card does not say what it was trained on",
    )
    try:
        source = read(str(data), label=options.label or card.recipe.get("label"), fold_column=column, seed=0)
    except FovealError as error:
        advice = (
            "" if options.data is not None else "; these are what the model was trained with: name others with --data"
        )
        raise FovealError(f"{error}{advice}") from None
    if options.data is None and column == card.recipe.get("fold_column"):
        same = card.data.get("fingerprint") in (None, source.fingerprint())
        do = "name the data with --data to evaluate on what is there now"
        expect(same, f"{data}", "the images, labels and splits of the training", "others", do)
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


def _trained_on(evaluated: Evaluated, source: Source, named: bool) -> Iterable[str]:
    """How many of the images were in the model's training split, by their names."""
    names = [os.fsencode(source.file(int(row))) for row in evaluated.rows]
    found = count_known(evaluated.card.data.get(TRAINED), names)
    if found is None:
        return
    count, exact = found
    which = evaluated.name if named else "this model"
    flatter = ": the figures flatter" if count else ""
    about = "" if exact else "about "
    yield f"{about}{count} of {len(names)} images were in the training split of {which}, by their names{flatter}"
