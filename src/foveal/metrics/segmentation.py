"""What a segmenter got right, pixel by pixel, from the confusion of each image.

    IoU_k = TP/(TP + FP + FN)    Dice_k = F1_k = 2 TP/(2 TP + FP + FN)    pixel accuracy = Σ_k TP_k / all
    mIoU = mean of IoU over the classes, with or without background      finding F1: any class against background

N images, K classes, labels 0 background and 1 … K. Pixels that are 255 in the truth are left out. The confusions of all
images, (N, K + 1, K + 1), hold all of this: with weights (R, N), for R questions at once, everything is one product of
matrices, and every result then opens with R.

All counts are summed over the images first. A class that is nowhere in the truth and nowhere predicted is undefined,
nan, and not in the means; one that is predicted and nowhere in the truth has 0.
"""

import numpy as np
from numpy.typing import NDArray

from foveal.errors import expect
from foveal.metrics.classification import Measure, mean, weights
from foveal.metrics.ranking import Array, ratio
from foveal.runtime.components import UNLABELLED

LabelMap = NDArray[np.integer]
Confusions = NDArray[np.int64]  # (N, K + 1, K + 1): a row for what a pixel is, a column for what it was taken for


def confusion(truth: LabelMap, predicted: LabelMap, classes: int) -> NDArray[np.int64]:
    """Of one image: two label maps (H, W) → (K + 1, K + 1). classes: K."""
    truth, predicted = checked_maps(truth, predicted, classes)
    known = truth != UNLABELLED
    cell = truth[known].astype(np.int64) * (classes + 1) + predicted[known]
    return np.bincount(cell, minlength=(classes + 1) ** 2).reshape(classes + 1, classes + 1)


def checked_maps(truth: LabelMap, predicted: LabelMap, classes: int) -> tuple[LabelMap, LabelMap]:
    """Two label maps as the metrics want them; a FovealError says what does not fit."""
    truth, predicted = np.asarray(truth), np.asarray(predicted)
    expect(truth.ndim == 2, "the truth", "a label map (H, W)", truth.shape)
    expect(predicted.shape == truth.shape, "the prediction", f"{truth.shape}, as the truth is", predicted.shape)
    for name, one, more in (("the truth", truth, (UNLABELLED,)), ("the prediction", predicted, ())):
        expect(one.dtype.kind in "iu", name, "integers", one.dtype)
        low, high = int(one.min(initial=0)), int(one.max(initial=0, where=~np.isin(one, more)))
        expect(low >= 0 and high <= classes, name, f"labels 0…{classes}{' and 255' * len(more)}", f"{low}…{high}")
    return truth, predicted


def measure(confusions: Confusions) -> Measure:
    """All of these at once, as a function of the weights.

    Numbers by name, `mIoU`, `mIoU with background`, `mean Dice` (without background), `pixel accuracy`, `finding F1`,
    and, background first, `IoU` and `Dice`, (..., K + 1).
    """
    labels = confusions.shape[-1]
    fits = confusions.ndim == 3 and confusions.shape[1] == labels and labels > 1
    expect(fits, "confusions", "(N, K + 1, K + 1)", confusions.shape)
    flat = confusions.reshape(len(confusions), -1).astype(np.float64)

    def figures(weight: Array | None = None) -> dict[str, Array]:
        weight = weights(weight, len(flat))
        table = (weight @ flat).reshape(*weight.shape[:-1], labels, labels)
        hit, real, said = np.einsum("...kk->...k", table), table.sum(-1), table.sum(-2)
        iou, dice = ratio(hit, real + said - hit), ratio(2 * hit, real + said)
        found = table[..., 1:, 1:].sum((-2, -1))  # of whatever class
        return {
            "mIoU": mean(iou[..., 1:]),
            "mIoU with background": mean(iou),
            "mean Dice": mean(dice[..., 1:]),
            "pixel accuracy": ratio(hit.sum(-1), real.sum(-1)),
            "finding F1": ratio(2 * found, real[..., 1:].sum(-1) + said[..., 1:].sum(-1)),
            "IoU": iou,
            "Dice": dice,
        }

    return figures


def measure_areas(confusions: Confusions) -> Measure:
    """Whether as much is found as there is: `area error` and `area bias`, shares of the true area, (..., K).

        error_k = Σ_i |predicted_ik − true_ik| / Σ_i true_ik      bias_k = Σ_i (predicted_ik − true_ik) / Σ_i true_ik

    Areas are in pixels of image i; undefined for a class that is nowhere in the truth.
    """
    real, said = confusions.sum(2)[:, 1:].astype(np.float64), confusions.sum(1)[:, 1:].astype(np.float64)

    def figures(weight: Array | None = None) -> dict[str, Array]:
        weight = weights(weight, len(real))
        return {
            "area error": ratio(weight @ np.abs(said - real), weight @ real),
            "area bias": ratio(weight @ (said - real), weight @ real),
        }

    return figures
