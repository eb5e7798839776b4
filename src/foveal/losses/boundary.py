"""Losses of where labels meet: a head that finds the edges, and a distance to them.

    edges            e_i = 1  ⇔  a pixel at most r away has a neighbour (of 4) of another label
    edge head        L = ½ mean_{e_i = 1} −log σ(b_i) + ½ mean_{e_i = 0} −log(1 − σ(b_i))
    boundary loss    L = (1/|Ω|) Σ_{i ∈ Ω} Σ_k φ_ik p_ik
    signed distance  φ_ik = −(d_ik − ½)/D inside of class k, (d_ik − ½)/D outside

Symbols: b (B, 1, H, W) logits of the head; p = softmax(ℓ), k the classes but for background; Ω the labelled pixels;
    d_ik pixels to the nearest pixel on the other side, ½ of it on this side of the line between the two; D the image's
    diagonal. Unlabelled pixels are on no side: an edge of them is no edge, and they have no loss.
Paper: Saining Xie, Zhuowen Tu (2015). Holistically-nested edge detection. ICCV. arXiv:1504.06375.
Paper: Hoel Kervadec, Jihene Bouchtiba, Christian Desrosiers, Eric Granger, Jose Dolz, Ismail Ben Ayed (2019). Boundary
    loss for highly unbalanced segmentation. MIDL. arXiv:1812.07032.
Departs from the papers: both halves of the edge head count the same, also where an image has hardly an edge, where Xie
    and Tu's weights let both vanish; distances are shares of the diagonal, so that a loss has one scale for all sizes;
    a class that is not in an image has no boundary, and no loss there.
Cost: the distances take up to O(H·W·max(H, W)) for each class of an image, on the CPU; the losses O(B·K·H·W).
"""

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from foveal.errors import expect
from foveal.losses.segmentation import exact, expect_labels
from foveal.runtime.components import BACKGROUND, UNLABELLED
from foveal.runtime.distance import distances


def edge_cross_entropy(logits: Tensor, labels: Tensor, radius: float = 1.0) -> Tensor:
    """Of a head's logits (B, 1, H, W), against the edges of the labels (B, H, W)."""
    expect_labels(logits, labels)
    expect(logits.shape[1] == 1, "logits of edges", "(B, 1, H, W)", (*logits.shape,))
    wanted, b = edges(labels, radius), exact(logits)[:, 0]
    each = F.binary_cross_entropy_with_logits(b, (wanted == 1).to(b.dtype), reduction="none")
    return (_mean(each, wanted == 1) + _mean(each, wanted == 0)) / 2


def edges(labels: Tensor, radius: float = 1.0) -> Tensor:
    """(B, H, W) → 1 near an edge, 0 elsewhere, 255 where nothing is labelled."""
    expect(radius >= 0, "radius", "at least 0", radius)
    known = labels != UNLABELLED
    found = torch.zeros_like(known)
    for axis in (1, 2):
        size = labels.shape[axis] - 1
        one, other = labels.narrow(axis, 0, size), labels.narrow(axis, 1, size)
        meet = (one != other) & known.narrow(axis, 0, size) & known.narrow(axis, 1, size)
        found.narrow(axis, 0, size).logical_or_(meet)
        found.narrow(axis, 1, size).logical_or_(meet)
    return _within(found, radius).to(labels.dtype).masked_fill(~known, UNLABELLED)


def boundary_loss(logits: Tensor, labels: Tensor, signed: Tensor | None = None) -> Tensor:
    """signed (B, K, H, W): see `signed_distances`; None: made here.

    Alone it is content with predicting nothing: it goes with a loss of regions.
    """
    expect_labels(logits, labels)
    classes = logits.shape[1] - 1
    signed = signed_distances(labels, classes) if signed is None else signed
    known = (labels != UNLABELLED)[:, None]
    p = exact(logits).softmax(1)[:, 1:]
    return (p * signed * known).sum((1, 2, 3)).sum() / known.sum().clamp(min=1)


def signed_distances(labels: Tensor, classes: int) -> Tensor:
    """(B, H, W) → φ (B, K, H, W) of the labels 1 … K, 0 of a class that is not in an image or that fills it; made by
    numpy on the CPU.
    """
    on_cpu = labels.detach().cpu().numpy()
    found = np.zeros((len(on_cpu), classes, *on_cpu.shape[1:]), np.float32)
    diagonal = math.hypot(*on_cpu.shape[1:])
    for image, maps in zip(on_cpu, found, strict=True):
        for value in np.setdiff1d(image, (BACKGROUND, UNLABELLED)):
            inside, outside = image == value, (image != value) & (image != UNLABELLED)
            if outside.any():
                far = np.where(inside, 0.5 - distances(outside), distances(inside) - 0.5)
                maps[value - 1] = np.where(inside | outside, far / diagonal, 0.0)
    return torch.from_numpy(found).to(labels.device)


def _within(found: Tensor, radius: float) -> Tensor:
    """(B, H, W) → whether a True is at most `radius` away."""
    height, width = found.shape[1:]
    reach = int(radius)
    wide = F.pad(found, (reach, reach, reach, reach))
    near = found
    for down in range(-reach, reach + 1):
        for along in range(-reach, reach + 1):
            if 0 < down * down + along * along <= radius * radius:
                near = near | wide[:, reach + down :, reach + along :][:, :height, :width]
    return near


def _mean(each: Tensor, of: Tensor) -> Tensor:
    return (each * of).sum() / of.sum().clamp(min=1)
