"""Two ways to build a classifier, compared on the same images by the figure that decides: see tasks/over_seeds.py."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from foveal.metrics.classification import average_precision, balanced_accuracy, mean
from foveal.metrics.difference import Difference, Headline
from foveal.metrics.ranking import Array
from foveal.runtime.answers import probabilities
from foveal.tasks import over_seeds
from foveal.tasks.classify.predictions import Predicted


def pooled(runs: Sequence[Predicted]) -> Predicted:
    """The tests of several folds as one, in the order of the files' names."""
    files, order = [file for run in runs for file in run.files], over_seeds.order_of_names(runs)
    truth, logits = (np.concatenate([getattr(run, part) for run in runs])[order] for part in ("truth", "logits"))
    model = np.repeat(np.arange(len(runs)), [len(run.files) for run in runs])[order]
    return Predicted(tuple(files[place] for place in order), runs[0].classes, truth, logits, model)


def score_name(multi_label: bool) -> str:
    return "mean average precision" if multi_label else "balanced accuracy"


def headline(one: Predicted, multi_label: bool) -> Headline:
    """The figure that decides: mean average precision of several labels, balanced accuracy of one.

    A function of weights.

    Scores of different models are not ranked against each other: average precision is that of each model, and their
    mean.
    """
    probability = probabilities(one.logits, multi_label)
    if multi_label:
        parts = (
            [np.arange(len(one.files))]
            if one.model is None
            else [np.flatnonzero(one.model == k) for k in np.unique(one.model)]
        )

        def precision(weight: Array | None) -> Array:
            each = [
                average_precision(one.truth[p], probability[p], None if weight is None else weight[..., p])
                for p in parts
            ]
            return mean(np.stack([mean(values) for values in each], axis=-1))

        return precision
    return lambda weight: balanced_accuracy(one.truth, probability.argmax(1), len(one.classes), weight)


def difference(
    base: Mapping[int, Predicted],
    other: Mapping[int, Predicted],
    multi_label: bool,
    groups: NDArray[np.integer] | None = None,
    resamples: int = 2000,
) -> Difference:
    """B − A, both given as seed → pooled test. groups (N,): which images belong together,
    in the order of the files' names.
    """
    return over_seeds.difference(base, other, lambda one: headline(one, multi_label), groups, resamples)
