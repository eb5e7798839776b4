"""Whether a probability means what it says, and one number that makes it so.

    ECE = Σ_b (n_b/N)·|accuracy of bin b − mean confidence of bin b|,   15 bins of equal width
    temperature T = argmin_T NLL(softmax(logits/T)), or of sigmoid(logits/T) with several labels

One label: the confidence is the probability of the most probable class. Many: each class by itself, its probability
against 0/1, and the mean over the classes. A bin holds [low, high); the last one holds 1 too. n_b cancels: ECE = Σ_b
|Σ_{i in b} w_i·(right_i − confidence_i)| / Σ w.

NLL is convex in s = 1/T (its slope, Σ (mean logit under p − logit of the truth), grows with s), so the zero of the
slope is found by halving. T is sought in [0.05, 20]: where every answer on the validation images is right, NLL falls
for ever as T falls, and T is the lower end.

Paper: Guo, Pleiss, Sun and Weinberger, On Calibration of Modern Neural Networks, ICML 2017, arXiv 1706.04599
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foveal.metrics.classification import Labels, checked, marks, weights
from foveal.metrics.ranking import Array, ratio
from foveal.runtime.answers import probabilities

BINS = 15
COLDEST, HOTTEST = 0.05, 20.0
HALVINGS = 60  # of log s: the answer is then exact to rounding


@dataclass(frozen=True, eq=False)
class Bins:
    """What a reliability diagram shows: how many answers fall into each bin, how confident they are, how often right.

    Empty: nan.
    """

    count: Array
    confidence: Array
    right: Array


def calibration_error(truth: Labels, probability: Array, weight: Array | None = None) -> Array:
    """ECE, (...) for weights (..., N); nan without weight."""
    weight, gaps = weights(weight, len(truth)), []
    for confidence, right in _answers(truth, probability):
        spread = (_bin(confidence)[:, None] == np.arange(BINS)) * (right - confidence)[:, None]  # (N, bins)
        gaps.append(np.abs(weight @ spread).sum(-1))
    return ratio(np.mean(gaps, axis=0), weight.sum(-1))


def reliability(truth: Labels, probability: Array) -> Bins:
    """The bins behind ECE; with several labels, the answers for all classes together."""
    pairs = _answers(truth, probability)
    confidence, right = (np.concatenate([pair[side] for pair in pairs]) for side in (0, 1))
    place = _bin(confidence)
    count, sure, good = (
        np.bincount(place, amount, BINS).astype(np.float64) for amount in (np.ones(len(place)), confidence, right)
    )
    return Bins(count, ratio(sure, count), ratio(good, count))


def negative_log_likelihood(truth: Labels, logits: NDArray[np.floating], temperature: float = 1.0) -> float:
    """Mean over the images (and, with several labels, over the classes), in nats."""
    scaled = np.asarray(logits, np.float64) / temperature
    if truth.ndim == 2:
        return float(np.mean(np.logaddexp(0.0, np.where(truth.astype(bool), -scaled, scaled))))
    top = scaled.max(1, keepdims=True)
    total = top[:, 0] + np.log(np.exp(scaled - top).sum(1))
    return float(np.mean(total - scaled[np.arange(len(truth)), truth]))


def fit_temperature(truth: Labels, logits: NDArray[np.floating]) -> float:
    """T from validation logits (N, C)."""
    multi_label = truth.ndim == 2
    checked(truth, probabilities(logits, multi_label))
    scores = np.asarray(logits, np.float64)
    real = marks(truth, scores.shape[1])
    low, high = -np.log(HOTTEST), -np.log(COLDEST)  # of log s
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        slope = ((probabilities(scores, multi_label, float(np.exp(-middle))) - real) * scores).sum()
        low, high = (low, middle) if slope > 0 else (middle, high)
    return float(np.exp(-(low + high) / 2)) if scores.any() else 1.0  # all logits 0: no temperature changes anything


def _answers(truth: Labels, probability: Array) -> list[tuple[Array, Array]]:
    """(confidence, right or not) of every answer: one list for one label per image, one per class for several."""
    if truth.ndim == 2:
        return [(probability[:, index], truth[:, index].astype(np.float64)) for index in range(truth.shape[1])]
    top = probability.argmax(1)
    return [(probability[np.arange(len(truth)), top], (top == truth).astype(np.float64))]


def _bin(confidence: Array) -> NDArray[np.int64]:
    return np.minimum(confidence * BINS, BINS - 1).astype(np.int64)
