"""How well thin things are found: a pixel beside is a hit, and what counts is the line, not its width.

    within r    P = predicted pixels that are at most r from a true one / predicted pixels
                R = true pixels that are at most r from a predicted one / true pixels
    clDice      P = pixels of the prediction's skeleton that are true / pixels of that skeleton
                R = pixels of the truth's skeleton that are predicted / pixels of that skeleton
    F = 2 P R/(P + R)

Distances are Euclidean, r = 2 pixels. Each class by itself, and all classes as one: "finding". Pixels that are 255 in
the truth are left out, on both sides. The four counts are made once for each image, (K + 1, 2, 4), the finding first,
and summed over the images before they are divided. F of what is nowhere, in the truth or predicted, is undefined, nan.

Paper: David R. Martin, Charless C. Fowlkes, Jitendra Malik (2004). Learning to detect natural image boundaries using
    local brightness, color, and texture cues. TPAMI. doi:10.1109/TPAMI.2004.1273918.
Paper: Suprosanna Shit, Johannes C. Paetzold, Anjany Sekuboyina, Ivan Ezhov, Alexander Unger, Andrey Zhylka,
    Josien P. W. Pluim, Ulrich Bauer, Bjoern H. Menze (2021). clDice: a novel topology-preserving loss function for
    tubular structure segmentation. CVPR. arXiv:2003.07311.
Departs from the papers: hits within r need not be matched one to one; clDice is of the whole set, not the mean over
    images, of which many have nothing to find.
"""

import numpy as np
from numpy.typing import NDArray

from foveal.errors import expect
from foveal.metrics.classification import Measure, mean, weights
from foveal.metrics.ranking import Array, ratio
from foveal.metrics.segmentation import LabelMap, checked_maps
from foveal.runtime.components import UNLABELLED
from foveal.runtime.distance import within
from foveal.runtime.skeleton import skeleton

RADIUS = 2.0
Masks = NDArray[np.bool_]


def thin_counts(truth: LabelMap, predicted: LabelMap, classes: int, radius: float = RADIUS) -> NDArray[np.int64]:
    """Of one image: two label maps (H, W) → (K + 1, 2, 4). classes: K.

    Of any finding, then of each class; within r, then by skeletons: the right ones of the predicted, the predicted, the
    met ones of the true, the true.
    """
    truth, predicted = checked_maps(truth, predicted, classes)
    known = truth != UNLABELLED
    real, said = np.where(known, truth, 0), np.where(known, predicted, 0)
    found = np.zeros((classes + 1, 2, 4), np.int64)
    found[0] = _counts(real > 0, said > 0, skeleton(real > 0), skeleton(said > 0), radius)
    thin_real, thin_said = skeleton(real), skeleton(said)  # of each class by itself
    for value in np.union1d(real, said):
        if value > 0:
            one, other = real == value, said == value
            found[value] = _counts(one, other, thin_real & one, thin_said & other, radius)
    return found


def _counts(real: Masks, said: Masks, thin_real: Masks, thin_said: Masks, radius: float) -> list[list[int]]:
    near = [said & within(real, radius), said, real & within(said, radius), real]
    lines = [thin_said & real, thin_said, thin_real & said, thin_real]
    return [[int(one.sum()) for one in of] for of in (near, lines)]


def measure(counts: NDArray[np.int64], radius: float = RADIUS) -> Measure:
    """As a function of the weights, of counts (N, K + 1, 2, 4).

    Numbers by name, for "F1 within 2 px" and "clDice": `mean …` over the classes, `finding …` of all as one, and of
    each class, (..., K).
    """
    expect(counts.ndim == 4 and counts.shape[2:] == (2, 4), "counts", "(N, K + 1, 2, 4)", counts.shape)
    flat = counts.reshape(len(counts), -1).astype(np.float64)

    def figures(weight: Array | None = None) -> dict[str, Array]:
        weight = weights(weight, len(flat))
        sums = (weight @ flat).reshape(*weight.shape[:-1], *counts.shape[1:])
        result: dict[str, Array] = {}
        for place, name in enumerate((f"F1 within {radius:g} px", "clDice")):
            right, said, met, real = np.moveaxis(sums[..., place, :], -1, 0)
            f = f1(right, said, met, real)
            result |= {f"mean {name}": mean(f[..., 1:]), f"finding {name}": f[..., 0], name: f[..., 1:]}
        return result

    return figures


def f1(right: Array, said: Array, met: Array, real: Array) -> Array:
    """2 P R/(P + R) of P = right/said and R = met/real: 0 where only one of the two is there, nan where neither is."""
    precision, recall = np.nan_to_num(ratio(right, said)), np.nan_to_num(ratio(met, real))
    both = precision + recall
    f = np.divide(2 * precision * recall, both, out=np.zeros_like(both), where=both > 0)
    return np.where(said + real > 0, f, np.nan)
