"""Losses of classifiers, one label or several, as pure functions of logits and targets.

    one label        L = −Σ_k y′_k log softmax(ℓ)_k · w_y
    several labels   L = mean_k BCE(σ(ℓ_k), y′_k) · (w_k where y_k = 1)
    label smoothing  y′ = (1 − ε) y + ε r,   r = 1/C, or 1/2 of several labels
    margin           ℓ ← ℓ + log π, r = π (of several labels log odds):
                     the logits then answer as if all classes were equally frequent
    distillation     L = −Σ_k soft_k log softmax(ℓ)_k, with the probabilities of teachers for targets

Symbols: ℓ (B, C) logits; y (B, C) targets, soft where mixup made them; w the weights of classes; π_k the share of
class k in the training split. Weights lose their effect once every training image is learned; a margin stays (Menon et
al., 2021, arXiv:2007.07314). Smoothing is left out of the weights, or the share that it gives to a rare class would
outweigh the true one; with a margin it goes towards the shares, or a class rarer than ε would be predicted in every
image.
Paper, if recipe.label_smoothing > 0: Christian Szegedy, Vincent Vanhoucke, Sergey Ioffe, Jonathon Shlens, Zbigniew
    Wojna (2016). Rethinking the Inception architecture for computer vision. CVPR. arXiv:1512.00567.
Paper, if recipe.balance == "margin": Aditya Krishna Menon, Sadeep Jayasumana, Ankit Singh Rawat, Himanshu Jain,
    Andreas Veit, Sanjiv Kumar (2021). Long-tail learning via logit adjustment. ICLR. arXiv:2007.07314.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F


def classification_loss(
    logits: Tensor,
    targets: Tensor,
    usable: Tensor,
    *,
    multi_label: bool,
    smoothing: float = 0.0,
    class_weight: Tensor | None = None,
    prior: Tensor | None = None,
) -> Tensor:
    """The mean over the usable images. targets (B, C); usable (B,): could be read.

    Prior (C,): see `log_prior`, None for no margin.
    """
    logits = logits.float()
    rest: Tensor | float = 1 / 2 if multi_label else 1 / logits.shape[1]  # where the smoothed part of a label goes
    if prior is not None:
        logits = logits + prior
        rest = prior.sigmoid() if multi_label else prior.exp()
    smoothed = targets * (1 - smoothing) + smoothing * rest
    if multi_label:
        each = F.binary_cross_entropy_with_logits(logits, smoothed, reduction="none")
        if class_weight is not None:
            each = each * torch.where(targets > 0.5, class_weight, 1.0)
        each = each.mean(1)
    else:
        each = -(smoothed * logits.log_softmax(1)).sum(1)
        if class_weight is not None:
            each = each * (targets @ class_weight)
    return mean_usable(each, usable)


def distillation_loss(logits: Tensor, soft: Tensor, usable: Tensor, *, multi_label: bool) -> Tensor:
    """Cross-entropy with the teachers' probabilities (B, C), the mean over the usable images (Hinton et al., 2015,
    arXiv:1503.02531).
    """
    logits = logits.float()
    if multi_label:
        each = F.binary_cross_entropy_with_logits(logits, soft, reduction="none").mean(1)
    else:
        each = -(soft * logits.log_softmax(1)).sum(1)
    return mean_usable(each, usable)


def mean_usable(each: Tensor, usable: Tensor) -> Tensor:
    """The mean over the images that could be read; 0 where none could."""
    share = usable.float()
    return (each * share).sum() / share.sum().clamp(min=1.0)


def class_weights(counts: NDArray[np.int64]) -> Tensor:
    """(C,): images per class on average / images of this class, so that all classes weigh the same in sum.

    1 for one that has none.
    """
    present = counts > 0
    return torch.from_numpy(
        np.where(present, counts.sum() / (max(1, present.sum()) * np.maximum(counts, 1)), 1.0)
    ).float()


def log_prior(counts: NDArray[np.int64], multi_label: bool, images: int) -> Tensor:
    """(C,): log of each class's share of the images; of several labels, log odds."""
    # one more of each: none is impossible
    share = (counts + 1.0) / (images + 2.0 if multi_label else images + len(counts))
    return torch.from_numpy(np.log(share) - (np.log1p(-share) if multi_label else 0.0)).float()
