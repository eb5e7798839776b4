"""From which probability on the answer is yes: the cut that is best on the validation images.

    t = argmax_t F_β(score ≥ t), or balanced accuracy, over every cut between two neighbouring distinct scores;
        t is the middle of the two

The lowest cut, everything is yes, lies halfway to 0. Of cuts that are equally good, the one nearest 0.5 is taken. A
class whose validation images say nothing (none has it; for balanced accuracy also: all have it) keeps 0.5. Choose on
validation scores only: a threshold chosen on the images that are evaluated flatters the figure.
"""

import re
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from foveal.errors import FovealError, expect
from foveal.metrics.classification import Counts, Labels, checked, marks
from foveal.metrics.ranking import Array, Ranking
from foveal.runtime.answers import DEFAULT


def thresholds(truth: Labels, probability: NDArray[np.floating], metric: str = "F1") -> Array:
    """The best threshold of every class against all others, (C,). metric: "F1", "F2", any "F<β>",
    or "balanced accuracy".
    """
    truth, scores = checked(truth, probability)
    real, worth = marks(truth, scores.shape[1]), _worth(metric)
    return np.array([_best(Ranking(real[:, index], scores[:, index]), worth) for index in range(scores.shape[1])])


def threshold_of_two(truth: Labels, probability: NDArray[np.floating], metric: str = "balanced accuracy") -> float:
    """One label, two classes: the probability of class 1 from which on the answer is class 1."""
    truth, scores = checked(truth, probability)
    expect(
        truth.ndim == 1 and scores.shape[1] == 2,
        "one threshold",
        "one label and two classes",
        f"probability {scores.shape}",
    )
    return _best(Ranking(truth == 1, scores[:, 1]), _worth(metric))


def _worth(metric: str) -> Callable[[Counts], Array]:
    if metric.lower() == "balanced accuracy":
        return lambda counts: counts.balanced
    named = re.fullmatch(r"f(\d+(?:\.\d+)?)", metric.lower())
    if named is None:
        raise FovealError(
            f"the metric of a threshold: expected 'F1', 'F2', another 'F<beta>' or 'balanced accuracy', got {metric!r}"
        )
    beta = float(named[1])
    return lambda counts: counts.f(beta)


def _best(ranking: Ranking, worth: Callable[[Counts], Array]) -> float:
    hit = np.cumsum(ranking.truth)[ranking.ends].astype(np.float64)
    false = ranking.ends + 1.0 - hit
    positive, negative = hit[-1], false[-1]
    value = worth(Counts(hit, false, positive - hit, negative - false))
    if positive == 0 or np.isnan(value).all():
        return DEFAULT
    above = ranking.score[ranking.ends]  # the lowest score that is still a yes
    cut = (above + np.append(above[1:], 0.0)) / 2
    cut = np.where(cut > np.append(above[1:], -1.0), cut, above)  # no number lies between the two
    best = np.flatnonzero(value >= np.nanmax(value) - 1e-12)  # equal but for rounding
    return float(cut[best[np.argmin(np.abs(cut[best] - DEFAULT))]])
