"""What a classifier got right, counted under weights.

    P = TP/(TP+FP)    R = TP/(TP+FN)    F_β = (1+β²)·P·R/(β²·P+R) = (1+β²)·TP/((1+β²)·TP + β²·FN + FP)
    accuracy = weight of the images that are wholly right
    balanced accuracy = mean R     macro F1 = mean F1     mAP = mean AP

N images, C classes. truth: (N,) class index, one label per image, or (N, C) 0/1, several labels per image. chosen:
what was decided, in the same form. probability (N, C). weight (N,): an image counts that much, 2 as if it were there
twice; (R, N) asks R questions at once, and every result then opens with R. Without weights every image counts 1.

Undefined is nan: P when a class was never chosen, R and AP when it never occurs, F_β when both, AUC when it always or
never occurs. The means run over the classes for which the value is defined, so a class that is absent neither helps
nor hurts; they are nan when there is none. F_β of a class that occurs and was never found is 0, not undefined.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foveal.errors import expect
from foveal.metrics.ranking import Array, Ranking, ratio

Labels = NDArray[np.integer] | NDArray[np.bool_]
Marks = NDArray[np.bool_]
Measure = Callable[[Array | None], dict[str, Array]]


@dataclass(frozen=True, eq=False)
class Counts:
    """Weight of the right and the wrong answers, each (..., C)."""

    hit: Array  # true positives
    false: Array  # false positives
    missed: Array  # false negatives
    passed: Array  # true negatives

    @property
    def precision(self) -> Array:
        return ratio(self.hit, self.hit + self.false)

    @property
    def recall(self) -> Array:
        return ratio(self.hit, self.hit + self.missed)

    @property
    def specificity(self) -> Array:
        return ratio(self.passed, self.passed + self.false)

    @property
    def balanced(self) -> Array:
        """Balanced accuracy of the class against all others: the mean of recall and specificity."""
        return (self.recall + self.specificity) / 2

    def f(self, beta: float = 1.0) -> Array:
        square = beta * beta
        return ratio((1 + square) * self.hit, (1 + square) * self.hit + square * self.missed + self.false)

    @property
    def pooled(self) -> "Counts":
        """All classes as one (micro average): (..., C) → (..., 1)."""
        return Counts(*(part.sum(-1, keepdims=True) for part in (self.hit, self.false, self.missed, self.passed)))


def checked(truth: Labels | Sequence[int], probability: NDArray[np.floating]) -> tuple[Labels, Array]:
    """Truth and probability as the metrics want them; a FovealError says what does not fit."""
    labels, scores = np.asarray(truth), np.asarray(probability, np.float64)
    expect(
        scores.ndim == 2 and scores.size > 0, "probability", "an array (N, C), not empty", f"the shape {scores.shape}"
    )
    expect(
        bool(np.isfinite(scores).all()), "probability", "numbers", "nan or infinity", "look for a model that diverged"
    )
    expect(
        scores.min() >= 0 and scores.max() <= 1,
        "probability",
        "values in [0, 1]",
        f"{scores.min():g} … {scores.max():g}",
    )
    fits = labels.shape in (scores.shape[:1], scores.shape)
    expect(fits, "truth", f"({len(scores)},) or {scores.shape}, as probability is", f"the shape {labels.shape}")
    expect(labels.dtype.kind in "iub", "truth", "integers", labels.dtype)
    low, high = int(labels.min()), int(labels.max())
    most = 1 if labels.ndim == 2 else scores.shape[1] - 1
    expect(
        low >= 0 and high <= most, "truth", f"labels 0…{most}", f"{low}…{high}", "leave out images that have no label"
    )
    return labels, scores


def marks(labels: Labels, classes: int) -> Marks:
    """Labels of either form as yes or no for each class: (N, C)."""
    return labels.astype(bool) if labels.ndim == 2 else labels[:, None] == np.arange(classes)


def weights(weight: Array | None, count: int) -> Array:
    """The weights to use, (..., N)."""
    if weight is None:
        return np.ones(count)
    expect(weight.shape[-1:] == (count,), "weight", f"(N,) or (R, N) with N = {count}", f"the shape {weight.shape}")
    expect(bool((weight >= 0).all()), "weight", "numbers, none negative", "others")
    return weight


def tally(truth: Labels, chosen: Labels, classes: int, weight: Array | None = None) -> Counts:
    """The four counts of every class against all others."""
    expect(truth.shape == chosen.shape, "chosen", f"the shape of truth, {truth.shape}", chosen.shape)
    real, predicted, weight = marks(truth, classes), marks(chosen, classes), weights(weight, len(truth))
    hit, positive, named = (weight @ part.astype(np.float64) for part in (real & predicted, real, predicted))
    return Counts(hit, named - hit, positive - hit, weight.sum(-1)[..., None] - positive - named + hit)


def confusion(truth: Labels, chosen: Labels, classes: int, weight: Array | None = None) -> Array:
    """One label per image: (..., C, C), a row for what it is, a column for what it was taken for."""
    expect(
        truth.ndim == chosen.ndim == 1,
        "a confusion matrix",
        "one label per image, (N,)",
        f"{truth.shape} and {chosen.shape}",
    )
    weight, cell = weights(weight, len(truth)), truth.astype(np.int64) * classes + chosen
    rows = [np.bincount(cell, row, classes * classes) for row in weight.reshape(-1, len(truth))]
    return np.stack(rows).astype(np.float64).reshape(*weight.shape[:-1], classes, classes)


def accuracy(truth: Labels, chosen: Labels, weight: Array | None = None) -> Array:
    """The share of images that are wholly right; with several labels this is called exact match."""
    weight = weights(weight, len(truth))
    right = truth == chosen if truth.ndim == 1 else (truth.astype(bool) == chosen.astype(bool)).all(1)
    return ratio(weight @ right.astype(np.float64), weight.sum(-1))


def balanced_accuracy(truth: Labels, chosen: Labels, classes: int, weight: Array | None = None) -> Array:
    """Mean recall of the classes that occur."""
    return mean(tally(truth, chosen, classes, weight).recall)


def average_precision(truth: Labels, probability: Array, weight: Array | None = None) -> Array:
    """AP of each class against all others, (..., C); their `mean` is mAP."""
    return np.stack([one.areas(weight)[0] for one in rankings(truth, probability)], -1)


def rankings(truth: Labels, probability: Array) -> list[Ranking]:
    real = marks(truth, probability.shape[1])
    return [Ranking(real[:, index], probability[:, index]) for index in range(probability.shape[1])]


def mean(values: Array) -> Array:
    """Over the classes for which there is a value: (..., C) → (...)."""
    there = ~np.isnan(values)
    return ratio(np.where(there, values, 0.0).sum(-1), there.sum(-1))


def measure(truth: Labels, chosen: Labels, probability: Array) -> Measure:
    """All of these at once, as a function of the weights: sorted here, once,
    and not again for each of a thousand resamples.

    Numbers by name, `accuracy` (or `exact match` and `micro F1`), `balanced accuracy` (one label), `macro F1`, `mAP`,
    `ROC AUC`, and for each class `precision`, `recall`, `F1`, `AP` and `AUC`, (..., C).
    """
    classes, multi_label, ranked = probability.shape[1], truth.ndim == 2, rankings(truth, probability)

    def figures(weight: Array | None = None) -> dict[str, Array]:
        counts, right = tally(truth, chosen, classes, weight), accuracy(truth, chosen, weight)
        areas = [one.areas(weight) for one in ranked]
        ap, auc = np.stack([area[0] for area in areas], -1), np.stack([area[1] for area in areas], -1)
        first = (
            {"exact match": right, "micro F1": counts.pooled.f()[..., 0]}
            if multi_label
            else {"accuracy": right, "balanced accuracy": mean(counts.recall)}
        )
        means = {"macro F1": mean(counts.f()), "mAP": mean(ap), "ROC AUC": mean(auc)}
        return (
            first
            | means
            | {"precision": counts.precision, "recall": counts.recall, "F1": counts.f(), "AP": ap, "AUC": auc}
        )

    return figures
