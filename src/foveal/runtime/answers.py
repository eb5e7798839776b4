"""From logits to an answer: the one place where numpy does it. The exported graph holds the same once more.

    probability = softmax(logits / T), with several labels sigmoid(logits / T)
    answer      = the most probable class;  of two classes with a threshold t, the second where its probability ≥ t
                  with several labels, every class whose probability ≥ its threshold

Symbols: T the temperature, 1 unless it was fitted (Guo et al., 2017, arXiv:1706.04599).
"""

import numpy as np
from numpy.typing import NDArray

from foveal.errors import expect

Array = NDArray[np.float64]
DEFAULT = 0.5  # the threshold where none was chosen


def probabilities(logits: NDArray[np.floating], multi_label: bool, temperature: float = 1.0) -> Array:
    """(N, C) → (N, C), in double precision; a logit that is no number is an error."""
    scaled = np.asarray(logits, np.float64)
    expect(scaled.ndim == 2 and scaled.size > 0, "logits", "an array (N, C), not empty", f"the shape {scaled.shape}")
    expect(bool(np.isfinite(scaled).all()), "logits", "numbers", "nan or infinity", "look for a model that diverged")
    expect(temperature > 0, "temperature", "above 0", temperature)
    scaled = scaled / temperature
    if multi_label:
        small = np.exp(-np.abs(scaled))
        return np.where(scaled >= 0, 1.0, small) / (1.0 + small)
    powers = np.exp(scaled - scaled.max(1, keepdims=True))
    return np.asarray(powers / powers.sum(1, keepdims=True))


def probabilities_or_nan(logits: NDArray[np.floating], multi_label: bool, temperature: float = 1.0) -> Array:
    """The same, but a row whose logits are no numbers is nan: one bad image must not end a stream."""
    sound: NDArray[np.bool_] = np.asarray(np.isfinite(logits).all(1))
    found = probabilities(np.where(sound[:, None], logits, 0.0), multi_label, temperature)
    return np.where(sound[:, None], found, np.nan)


def decide(
    probability: Array, multi_label: bool, threshold: Array | float | None = None
) -> NDArray[np.int64] | NDArray[np.bool_]:
    """The answer: (N, C) bool with several labels, (N,) class numbers with one. threshold: one number,
    or (C,) with several labels.
    """
    if multi_label:
        return np.asarray(probability >= (DEFAULT if threshold is None else threshold), bool)
    if threshold is None:
        return np.asarray(probability.argmax(1), np.int64)
    expect(probability.shape[1] == 2, "a threshold for one label per image", "two classes", probability.shape[1])
    return np.asarray(probability[:, 1] >= threshold, np.int64)


def found(probability: Array, multi_label: bool, threshold: Array | float | None = None) -> NDArray[np.bool_]:
    """The answer as (N, C) of true and false, whatever its kind."""
    answer = decide(probability, multi_label, threshold)
    return answer.astype(bool) if multi_label else answer[:, None] == np.arange(probability.shape[1])
