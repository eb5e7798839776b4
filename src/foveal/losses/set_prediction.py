"""The loss of mask classification: each of N queries says a class and a mask, and answers for one class of the image.

    σ = argmin_σ Σ_t [−λ_c p_{σ(t)}(k_t) + λ_m mask(m_{σ(t)}, y_t) + λ_d dice(m_{σ(t)}, y_t)]   σ(t) ≠ σ(u) for t ≠ u
    L = λ_c Σ_q w_q (−log p_q(k_q)) / Σ_q w_q + (1/T) Σ_t [λ_m mask(m_{σ(t)}, y_t) + λ_d dice(m_{σ(t)}, y_t)]
    mask   MaskFormer: the mean over pixels of −α (1 − s)² log s where y = 1, −(1 − α) s² log(1 − s) where y = 0
           Mask2Former: that of binary cross-entropy, over points
    dice   1 − (2 Σ s y + 1)/(Σ s + Σ y + 1)

Symbols: p_q the probabilities of query q for K + 1 classes, background first, and for "nothing"; s = σ(m_q) its mask;
    y_t the mask of the t-th class that the image shows, k_t; T of them, in a batch. A query that no class was assigned
    to shall say "nothing", with the weight w_q = 0.1 instead of 1. L is summed over the layers of the decoder, each
    with an assignment of its own. Unlabelled pixels belong to no mask, and are in none of the means and sums.
Paper: Bowen Cheng, Alexander G. Schwing, Alexander Kirillov (2021). Per-pixel classification is not all you need for
    semantic segmentation. NeurIPS. arXiv:2107.06278.
Paper: Bowen Cheng, Ishan Misra, Alexander G. Schwing, Alexander Kirillov, Rohit Girdhar (2022). Masked-attention mask
    transformer for universal image segmentation. CVPR. arXiv:2112.01527.
Departs from the papers: the background is a class like others; without points, classes are assigned by the share that
    they have of each cell of the mask, where the papers' code asks one pixel of it, and so may lose a crack; at a point
    the label is that of the pixel it lies in, without interpolation, and beyond a mask's border its logits do not fall
    to 0.
Cost: O(B·N·K·h·w) for the costs, O(T·H·W) for the masks; with P points O(B·N·K·P) and O(T·P).
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from foveal.errors import expect, expect_integer
from foveal.losses.assignment import assign
from foveal.losses.presence import present
from foveal.losses.segmentation import exact
from foveal.runtime.components import UNLABELLED

ALPHA = 0.25  # of focal
OVERSAMPLE, UNCERTAIN = 3, 0.75  # points that are drawn for each that is used; the share of those that are least sure


class SetWeights(NamedTuple):
    """λ_c, λ_m, λ_d, which mask loss, and the weight of a query that shall say nothing."""

    classes: float
    masks: float
    dice: float
    focal: bool
    nothing: float = 0.1


MASKFORMER = SetWeights(1.0, 20.0, 1.0, True)
MASK2FORMER = SetWeights(2.0, 5.0, 5.0, False)


def set_loss(
    queries: Sequence[tuple[Tensor, Tensor]],
    labels: Tensor,
    points: int | None = None,
    weights: SetWeights | None = None,
) -> Tensor:
    """queries: of each layer of the decoder, classes (B, N, K + 2) and masks (B, N, h, w), both logits. labels
    (B, H, W). points: how many of each mask are compared, None for all; it also says whose weights are the default.
    """
    expect(len(queries) > 0, "queries", "those of one layer at least", "none")
    if points is not None:
        expect_integer(points, "points")
    weights = weights or (MASKFORMER if points is None else MASK2FORMER)
    with torch.autocast(labels.device.type, enabled=False):
        losses = [_of_layer(exact(classes), exact(masks), labels, points, weights) for classes, masks in queries]
    return torch.stack(losses).sum()


def _of_layer(classes: Tensor, masks: Tensor, labels: Tensor, points: int | None, weights: SetWeights) -> Tensor:
    fits = classes.dim() == 3 and masks.dim() == 4 and classes.shape[:2] == masks.shape[:2]
    shapes = f"{(*classes.shape,)} and {(*masks.shape,)}"
    expect(fits and len(classes) == len(labels), "queries", "(B, N, K + 2) and (B, N, h, w), as many as labels", shapes)
    there = present(labels, classes.shape[2] - 1)  # (B, K + 1)
    labels = labels.to(torch.uint8)  # there will be many copies
    image, query, label = assigned(classes, masks, labels, there, points, weights)
    # What each query shall say; nothing is said of an image without labels.
    wanted = torch.full(classes.shape[:2], classes.shape[2] - 1, device=labels.device)
    wanted[image, query] = label
    share = torch.ones_like(classes[0, 0])
    share[-1] = weights.nothing
    share = share[wanted] * there.any(1, keepdim=True)
    said = F.cross_entropy(classes.transpose(1, 2), wanted, reduction="none")
    loss = weights.classes * (said * share).sum() / share.sum().clamp(min=1e-6)
    if not len(image):
        return loss
    picked = masks[image, query]  # (T, h, w)
    if points is None:
        m = F.interpolate(picked[:, None], labels.shape[1:], mode="bilinear", align_corners=False).flatten(1)
        at_pixels = labels[image].flatten(1)  # (T, pixels)
    else:
        places = _uncertain_places(picked.detach(), points)
        m, at_pixels = _sampled(picked[:, None], places)[:, 0], _labels_at(labels, image, places)
    known, y = at_pixels != UNLABELLED, (at_pixels == label[:, None]).to(m.dtype)
    if_there, if_not = _mask_losses(m, weights.focal)
    of_masks = (known * (y * if_there + (1 - y) * if_not)).sum(1) / known.sum(1).clamp(min=1)
    s = m.sigmoid() * known
    of_dice = 1 - (2 * (s * y).sum(1) + 1) / (s.sum(1) + y.sum(1) + 1)
    return loss + (weights.masks * of_masks + weights.dice * of_dice).sum() / len(image)


@torch.no_grad()
def assigned(
    classes: Tensor, masks: Tensor, labels: Tensor, there: Tensor, points: int | None, weights: SetWeights
) -> tuple[Tensor, Tensor, Tensor]:
    """(image, query, label) of every pair, (T,) each. there (B, K + 1): the labels that each image has."""
    cost = costs(classes, masks, labels, points, weights).double().cpu().numpy()
    pairs = []
    for number, (one, shown) in enumerate(zip(cost, there.cpu().numpy(), strict=True)):
        names = shown.nonzero()[0]
        rows, columns = assign(one[:, names])
        pairs += [(number, row, names[column]) for row, column in zip(rows, columns, strict=True)]
    image, query, label = torch.tensor(pairs, dtype=torch.int64, device=labels.device).reshape(-1, 3).unbind(1)
    return image, query, label


@torch.no_grad()
def costs(classes: Tensor, masks: Tensor, labels: Tensor, points: int | None, weights: SetWeights) -> Tensor:
    """(B, N, K + 1): what it costs that a query answers for a label."""
    of_classes = -classes.softmax(2)[..., :-1]
    count = of_classes.shape[2]
    if points is None:
        m, shares = masks.flatten(2), _shares(labels, count, *masks.shape[2:]).to(masks.dtype)
    else:
        places = torch.rand(len(labels), points, 2, dtype=masks.dtype, device=masks.device)
        m, at = _sampled(masks, places), _labels_at(labels, torch.arange(len(labels), device=labels.device), places)
        shares = (at[:, None] == torch.arange(count, device=at.device)[:, None]).to(m.dtype)
    known = shares.sum(1, keepdim=True)  # (B, 1, cells), of shares (B, K + 1, cells)
    if_there, if_not = _mask_losses(m, weights.focal)  # (B, N, cells)
    other = (if_not * known).sum(2, keepdim=True)
    of_masks = ((if_there - if_not) @ shares.mT + other) / known.sum(2, keepdim=True).clamp(min=1e-6)
    s = m.sigmoid()
    sizes = (s * known).sum(2, keepdim=True) + shares.sum(2)[:, None]
    of_dice = 1 - (2 * s @ shares.mT + 1) / (sizes + 1)
    return weights.classes * of_classes + weights.masks * of_masks + weights.dice * of_dice


def _mask_losses(m: Tensor, focal: bool) -> tuple[Tensor, Tensor]:
    """Of logits: the loss of each pixel where it is in the mask, and where it is not."""
    if_there, if_not = F.softplus(-m), F.softplus(m)  # −log s, −log(1 − s)
    if not focal:
        return if_there, if_not
    s = m.sigmoid()
    return ALPHA * (1 - s).square() * if_there, (1 - ALPHA) * s.square() * if_not


def _shares(labels: Tensor, classes: int, rows: int, columns: int) -> Tensor:
    """(B, H, W) → the share that each label has of each cell of a grid, (B, classes, cells)."""
    height, width = labels.shape[1:]
    down = torch.arange(height, device=labels.device) * rows // height
    along = torch.arange(width, device=labels.device) * columns // width
    cell = down[:, None] * columns + along
    bins = (labels.long().clamp(max=classes) * (rows * columns) + cell).flatten(1)
    found = torch.zeros(len(labels), (classes + 1) * rows * columns, device=labels.device)
    found.scatter_add_(1, bins, torch.ones_like(bins, dtype=found.dtype))
    found = found.reshape(len(labels), classes + 1, rows * columns)
    return (found / found.sum(1, keepdim=True).clamp(min=1.0))[:, :classes]


def _sampled(masks: Tensor, places: Tensor) -> Tensor:
    """masks (B, N, h, w) at places (B, P, 2), x and y from 0 to 1 → (B, N, P): between the centres of four pixels, and
    beyond the outermost centres, as there.
    """
    found: Tensor = F.grid_sample(masks, 2 * places[:, :, None] - 1, padding_mode="border", align_corners=False)
    return found.squeeze(3)


def _labels_at(labels: Tensor, image: Tensor, places: Tensor) -> Tensor:
    """labels (B, H, W) of images (T,) at places (T, P, 2) → (T, P)."""
    height, width = labels.shape[1:]
    x = (places[..., 0] * width).long().clamp(max=width - 1)
    y = (places[..., 1] * height).long().clamp(max=height - 1)
    return labels[image[:, None], y, x]


@torch.no_grad()
def _uncertain_places(masks: Tensor, points: int) -> Tensor:
    """masks (T, h, w) → places (T, P, 2): most of them where the logit is nearest 0 of three times as many, the others
    anywhere.
    """
    drawn = torch.rand(len(masks), OVERSAMPLE * points, 2, dtype=masks.dtype, device=masks.device)
    sure = _sampled(masks[:, None], drawn)[:, 0].abs()
    chosen = sure.topk(int(UNCERTAIN * points), dim=1, largest=False, sorted=False)[1]
    rest = torch.rand(len(masks), points - chosen.shape[1], 2, dtype=masks.dtype, device=masks.device)
    return torch.cat([drawn.gather(1, chosen[..., None].expand(-1, -1, 2)), rest], 1)
