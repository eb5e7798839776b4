"""Losses of label maps, pixel by pixel or class by class, as pure functions of logits and labels.

    cross-entropy   L = (1/|Ω|) Σ_{i ∈ Ω} −w_{y_i} Σ_k y′_ik log p_ik,   y′ = (1 − ε) y + ε/(K + 1)
    of soft labels  L = −Σ_i ω_i Σ_k t_ik log p_ik / Σ_i ω_i,   ω_i = Σ_k w_k t_ik
    focal           L = (1/|Ω|) Σ_{i ∈ Ω} −w_{y_i} (1 − p_{i,y_i})^γ log p_{i,y_i}
    Dice            L = 1 − mean_{k ∈ P} 2 Σ_{i ∈ Ω} p_ik [y_i = k] / (Σ_{i ∈ Ω} p_ik + Σ_{i ∈ Ω} [y_i = k])
    weights         w_k = min(1/√f_k, 50 · min_j 1/√f_j) / Z,   Σ_k f_k w_k = 1

Symbols: p = softmax(ℓ) of logits ℓ (B, K + 1, H, W); y (B, H, W) labels, 0 background, 255 unlabelled; Ω the labelled
    pixels of the batch; t what teachers say of each pixel; P the classes that have pixels there: of a class without
    any, Dice could say only that it is predicted nowhere, which cross-entropy says already; f_k the share of class k in
    the labelled pixels of the training split. With the weights as large as 1/f, a class of a few pixels would weigh as
    much as the background, and their edges, which no two people draw alike, as well; their square root lies between. Of
    classes of fewer than one pixel in 2,500 even that is cut off, or the gradient of a batch would hang on whether one
    is in it. Mean 1 keeps the learning rate's meaning.
Paper: Tsung-Yi Lin, Priya Goyal, Ross Girshick, Kaiming He, Piotr Dollár (2017). Focal loss for dense object detection.
    ICCV. arXiv:1708.02002.
Paper: Fausto Milletari, Nassir Navab, Seyed-Ahmad Ahmadi (2016). V-Net: fully convolutional neural networks for
    volumetric medical image segmentation. 3DV. arXiv:1606.04797.
Paper: Abhinav Shrivastava, Abhinav Gupta, Ross Girshick (2016). Training region-based object detectors with online hard
    example mining. CVPR. arXiv:1604.03540.
Departs from the papers: focal over a softmax instead of sigmoids; Dice without squares, over the batch as a whole, and
    of several classes; the hardest examples are pixels, a fixed share of them.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from foveal.errors import expect
from foveal.runtime.components import UNLABELLED

RATIO = 50.0  # no class weighs more than this times the most frequent one


def label_cross_entropy(
    logits: Tensor,
    labels: Tensor,
    class_weight: Tensor | None = None,
    smoothing: float = 0.0,
    hardest: float = 1.0,
) -> Tensor:
    """The mean over the labelled pixels; with hardest < 1, over those with the largest loss: that share of all pixels
    of the batch. class_weight (K + 1,).
    """
    expect_labels(logits, labels)
    expect(0 < hardest <= 1, "hardest", "a share of the pixels, above 0 and at most 1", hardest)
    each = F.cross_entropy(exact(logits), labels, ignore_index=UNLABELLED, reduction="none", label_smoothing=smoothing)
    if class_weight is not None:
        each = each * _of_pixels(class_weight, labels)
    return _mean(each, labels, hardest)


def soft_cross_entropy(logits: Tensor, probability: Tensor, class_weight: Tensor | None = None) -> Tensor:
    """The mean over all pixels. probability (B, K + 1, H, W), as logits; class_weight (K + 1,)."""
    fits = logits.dim() == 4 and logits.shape == probability.shape
    expect(fits, "logits and probability", "(B, K + 1, H, W) both", f"{(*logits.shape,)} and {(*probability.shape,)}")
    each = -(probability * exact(logits).log_softmax(1)).sum(1)
    weight = torch.ones_like(each) if class_weight is None else (probability * class_weight[:, None, None]).sum(1)
    return (weight * each).sum() / weight.sum()


def focal(logits: Tensor, labels: Tensor, gamma: float = 2.0, class_weight: Tensor | None = None) -> Tensor:
    """Cross-entropy in which a pixel counts the less the surer its label is. class_weight (K + 1,)."""
    expect_labels(logits, labels)
    expect(gamma >= 0, "gamma", "at least 0", gamma)
    log_p = exact(logits).log_softmax(1).gather(1, _known_labels(logits, labels)[:, None])[:, 0]
    # above 0, where a root has no slope
    each = -((-log_p.expm1()).clamp(min=1e-6) ** gamma) * log_p
    if class_weight is not None:
        each = each * _of_pixels(class_weight, labels)
    return _mean(each.masked_fill(labels == UNLABELLED, 0.0), labels)


def dice(logits: Tensor, labels: Tensor, *, background: bool = True) -> Tensor:
    """1 − soft Dice, the mean over the classes in the batch, with or without the background; 0 where none is there."""
    expect_labels(logits, labels)
    classes, known = logits.shape[1], labels != UNLABELLED
    p = exact(logits).softmax(1)
    right = class_sums(p.gather(1, _known_labels(logits, labels)[:, None])[:, 0], labels, classes)
    area = class_sums(known.to(p.dtype), labels, classes)
    claimed = (p * known[:, None]).sum((2, 3)).sum(0)
    each = 1 - 2 * right / (claimed + area).clamp(min=1.0)  # of a class that is there, the sum is 1 and more
    return mean_present(each, area, background)


def pixel_weights(areas: NDArray[np.integer]) -> Tensor:
    """(K + 1,) weights of classes. areas (N, K + 2): pixels of each image per class, background first, unlabelled last.

    1 for a class without pixels.
    """
    expect(areas.ndim == 2 and areas.shape[1] > 2, "areas", "(N, K + 2)", areas.shape)
    pixels = areas[:, :-1].sum(0, dtype=np.float64)
    there = pixels > 0
    share = np.where(there, pixels, 1.0) / max(1.0, pixels.sum())
    weight = 1 / np.sqrt(share)
    weight = np.minimum(weight, RATIO * weight[there].min(initial=np.inf))
    mean = (share * weight)[there].sum()
    return torch.from_numpy(np.where(there, weight / (mean or 1.0), 1.0)).float()


def exact(logits: Tensor) -> Tensor:
    """In float32 at least."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def expect_labels(logits: Tensor, labels: Tensor) -> None:
    fits = logits.dim() == 4 and (logits.shape[0], *logits.shape[2:]) == labels.shape
    expect(fits, "logits and labels", "(B, K + 1, H, W) and (B, H, W)", f"{(*logits.shape,)} and {(*labels.shape,)}")


def class_sums(values: Tensor, labels: Tensor, classes: int) -> Tensor:
    """values (B, H, W) → their sum over the pixels of each label, (classes,); other labels are left out.

    Row by row first: in float32, half a million ones and a bit do not add up one after the other.
    """
    width = labels.shape[-1]
    bins = labels.clamp(max=classes).reshape(-1, width)
    rows = values.new_zeros(len(bins), classes + 1)
    return rows.scatter_add(1, bins, values.reshape(-1, width)).sum(0)[:classes]


def mean_present(each: Tensor, area: Tensor, background: bool) -> Tensor:
    """The mean of the values (K + 1,) over classes that have an area; 0 where there is none."""
    present = (area > 0).to(each.dtype)
    if not background:
        present = torch.cat([torch.zeros_like(present[:1]), present[1:]])
    return (each * present).sum() / present.sum().clamp(min=1.0)


def _known_labels(logits: Tensor, labels: Tensor) -> Tensor:
    """Labels that can be an index, whatever an unlabelled pixel then says."""
    return labels.clamp(max=logits.shape[1] - 1)


def _of_pixels(class_weight: Tensor, labels: Tensor) -> Tensor:
    """The weight of each pixel's class; that of an unlabelled one is multiplied by a loss of 0."""
    return class_weight[labels.clamp(max=len(class_weight) - 1)]


def _mean(each: Tensor, labels: Tensor, hardest: float = 1.0) -> Tensor:
    """The mean over labelled pixels, of which the others have a loss of 0."""
    count = (labels != UNLABELLED).sum()
    if hardest < 1:
        kept = max(1, round(hardest * labels.numel()))
        each, count = each.flatten().topk(kept, sorted=False)[0], count.clamp(max=kept)
    return each.sum() / count.clamp(min=1)
