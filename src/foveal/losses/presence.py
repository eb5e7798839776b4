"""The loss of a head that says which classes an image shows at all.

    L = mean_b mean_k BCE(σ(ℓ_bk), [some pixel of image b is labelled k])

Symbols: ℓ (B, K) logits, without background. An image none of whose pixels is labelled says nothing; of one that is
    labelled in part, what is labelled counts.
Paper: Hang Zhang, Kristin Dana, Jianping Shi, Zhongyue Zhang, Xiaogang Wang, Ambrish Tyagi, Amit Agrawal (2018).
    Context encoding for semantic segmentation. CVPR. arXiv:1803.08904.
Departs from the paper: the background is no class here, since it is in nearly every image.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from foveal.errors import expect
from foveal.losses.classification import mean_usable
from foveal.losses.segmentation import exact


def presence_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Of logits (B, K), against labels (B, H, W)."""
    fits = logits.dim() == 2 and len(logits) == len(labels)
    expect(fits, "presence", f"logits (B, K) of {len(labels)} images", f"the shape {(*logits.shape,)}")
    there = present(labels, logits.shape[1] + 1)
    wanted = there[:, 1:].to(exact(logits).dtype)
    each = F.binary_cross_entropy_with_logits(exact(logits), wanted, reduction="none").mean(1)
    return mean_usable(each, there.any(1))


def present(labels: Tensor, classes: int) -> Tensor:
    """(B, H, W) → which of the labels 0 … classes − 1 each image has, (B, classes)."""
    flat = labels.flatten(1).clamp(max=classes)
    found = torch.zeros(len(labels), classes + 1, dtype=torch.bool, device=labels.device)
    return found.scatter_(1, flat, torch.ones_like(flat, dtype=torch.bool))[:, :classes]
