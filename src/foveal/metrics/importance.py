"""The two figures of the Sewer-ML benchmark.

    F2_CIW = Σ_k w_k·F2_k / Σ_k w_k,   F2 = 5·P·R/(4·P + R), an undefined one counts 0
    F1_Normal = F1 of the class that nobody marks: "no code"

A code is given when its probability is ≥ 0.5. w_k is the class-importance weight: what the defect costs the owner of
the pipe. F1_Normal is undefined (nan) when no image is normal and none was called so.

Paper: Haurum and Moeslund, Sewer-ML: A Multi-Label Sewer Defect Classification Dataset and Benchmark, CVPR 2021, arXiv
2103.10895
"""

import numpy as np

from foveal.errors import expect
from foveal.metrics.classification import Labels, tally
from foveal.metrics.ranking import Array
from foveal.runtime.answers import decide

CIW = {  # the codes of Sewer-ML in the paper's order
    "RB": 1.0,
    "OB": 0.5518,
    "PF": 0.2896,
    "DE": 0.1622,
    "FS": 0.6419,
    "IS": 0.1847,
    "RO": 0.3559,
    "IN": 0.3131,
    "AF": 0.0811,
    "BE": 0.2275,
    "FO": 0.2477,
    "GR": 0.0901,
    "PH": 0.4167,
    "PB": 0.4167,
    "OS": 0.9009,
    "OP": 0.3829,
    "OK": 0.4396,
}


def f2_ciw(
    truth: Labels,
    probability: Array,
    importance: Array,
    weight: Array | None = None,
    *,
    threshold: Array | float | None = None,
) -> Array:
    """F2_CIW; truth and probability (N, C), importance (C,).

    The benchmark's own figure is the one without a threshold.
    """
    importance = expect_importance(importance, probability.shape[1])
    f2 = tally(truth, decide(probability, True, threshold), probability.shape[1], weight).f(2.0)
    return np.asarray(np.nan_to_num(f2, nan=0.0) @ importance / importance.sum())


def f1_normal(
    truth: Labels, probability: Array, weight: Array | None = None, *, threshold: Array | float | None = None
) -> Array:
    """F1_Normal; truth and probability (N, C)."""
    real, predicted = (~np.any(labels, axis=1)[:, None] for labels in (truth, decide(probability, True, threshold)))
    return tally(real, predicted, 1, weight).f()[..., 0]


def expect_importance(importance: Array, classes: int) -> Array:
    importance = np.asarray(importance, np.float64)
    expect(
        importance.shape == (classes,),
        "importance",
        f"({classes},), one weight per class",
        f"the shape {importance.shape}",
    )
    fits = bool(np.isfinite(importance).all() and (importance >= 0).all() and importance.sum() > 0)
    expect(fits, "importance", "numbers, none negative, not all 0", "others")
    return importance
