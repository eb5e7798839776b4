"""Losses of thin things: whether a prediction runs along the middle of what is there, without gaps.

    soft skeleton    I_0 = p,  I_{t+1} = erode(I_t);   Δ_t = max(0, I_t − dilate(I_{t+1}))
                     S_0 = Δ_0,  S_t = S_{t−1} + (1 − S_{t−1}) Δ_t,   t ≤ T
    soft clDice      L = 1 − 2 P R/(P + R);   P = (Σ S(p) y + 1)/(Σ S(p) + 1),   R = (Σ S(y) p + 1)/(Σ S(y) + 1)
    skeleton recall  L = 1 − Σ_{i ∈ tube} p_i / |tube|

Symbols: p the probability of one class, y where it is labelled, S the soft skeleton after T steps; sums over the pixels
    of a batch. Both losses are the mean over the chosen classes that have pixels there. erode: the smallest of a pixel
    and its 4 neighbours, dilate: the largest of its 3 × 3. What is up to 2·T + 1 wide becomes thin. The tube is the
    skeleton of the labels, r wider on each side where the labels are as wide (runtime/skeleton.py).
Paper: Suprosanna Shit, Johannes C. Paetzold, Anjany Sekuboyina, Ivan Ezhov, Alexander Unger, Andrey Zhylka,
    Josien P. W. Pluim, Ulrich Bauer, Bjoern H. Menze (2021). clDice: a novel topology-preserving loss function for
    tubular structure segmentation. CVPR. arXiv:2003.07311.
Paper: Yannick Kirchhoff, Maximilian R. Rokuss, Saikat Roy, Balint Kovacs, Constantin Ulrich, Tassilo Wald, Maximilian
    Zenk, Philipp Vollmuth, Jens Kleesiek, Fabian Isensee, Klaus Maier-Hein (2024). Skeleton recall loss for
    connectivity conserving and resource efficient segmentation of thin tubular structures. ECCV. arXiv:2404.03010.
Departs from the papers: erosion by the cross, as clDice's own code has it; a class without pixels in the batch is left
    out of the mean; every class is thinned by itself, where skeleton recall thins all of the foreground as one.
Cost: soft clDice takes T + 1 erosions and dilations of the maps of the chosen classes, and as many of their labels;
    skeleton recall one gather, and numpy's time for the tubes.
"""

from collections.abc import Sequence
from types import EllipsisType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from foveal.errors import expect
from foveal.losses.segmentation import class_sums, exact, expect_labels, mean_present
from foveal.runtime import skeleton
from foveal.runtime.components import UNLABELLED

Offsets = tuple[tuple[int, int], ...]
Places = tuple[EllipsisType, slice, slice]
CROSS: Offsets = ((-1, 0), (1, 0), (0, -1), (0, 1))
SQUARE: Offsets = (*CROSS, (-1, -1), (-1, 1), (1, -1), (1, 1))


def soft_cldice(logits: Tensor, labels: Tensor, classes: Sequence[int], iterations: int = 3) -> Tensor:
    """Of the classes (labels 1 … K) that are thin."""
    expect_labels(logits, labels)
    _expect_classes(logits, classes)
    every, known = exact(logits).softmax(1), labels != UNLABELLED
    p = torch.stack([every[:, one] * known for one in classes], 1)
    y = torch.stack([labels == one for one in classes], 1).to(p.dtype)
    found, there = soft_skeleton(p, iterations), soft_skeleton(y, iterations)
    right, all_found, met, all_there = (_sums(one) for one in (found * y, found, there * p, there))
    precision, sensitivity = (right + 1) / (all_found + 1), (met + 1) / (all_there + 1)
    return mean_present(1 - 2 * precision * sensitivity / (precision + sensitivity), _sums(y), True)


def soft_skeleton(maps: Tensor, iterations: int = 3) -> Tensor:
    """(B, C, h, w) of values in [0, 1] → the same, what is left of each by thinning it."""
    thinner = _eroded(maps)
    found = F.relu(maps - _dilated(thinner))
    for _ in range(iterations):
        maps, thinner = thinner, _eroded(thinner)
        found = found + (1 - found) * F.relu(maps - _dilated(thinner))
    return found


def skeleton_recall(
    logits: Tensor,
    labels: Tensor,
    classes: Sequence[int],
    tubes: Tensor | None = None,
    radius: float = 2.0,
) -> Tensor:
    """Of the classes (labels 1 … K) that are thin. tubes (B, H, W): see `label_tubes`; None: made here."""
    expect_labels(logits, labels)
    _expect_classes(logits, classes)
    tubes = label_tubes(labels, radius) if tubes is None else tubes
    expect(tubes.shape == labels.shape, "tubes", f"the shape of labels, {(*labels.shape,)}", (*tubes.shape,))
    count = logits.shape[1]
    p = exact(logits).softmax(1).gather(1, tubes.clamp(max=count - 1)[:, None])[:, 0]
    recalled, length = class_sums(p, tubes, count), class_sums(torch.ones_like(p), tubes, count)
    each = 1 - recalled / length.clamp(min=1.0)
    each, length = (torch.stack([of[one] for one in classes]) for of in (each, length))
    return mean_present(each, length, True)


def label_tubes(labels: Tensor, radius: float = 2.0) -> Tensor:
    """(…, H, W) → the labels near the skeleton of their own class, 0 elsewhere; made by numpy on the CPU."""
    on_cpu = labels.detach().cpu().numpy().astype(np.uint8)
    made = skeleton.tubes(np.where(on_cpu == UNLABELLED, 0, on_cpu), radius)
    return torch.from_numpy(made.astype(np.int64)).to(labels.device)


def _eroded(maps: Tensor) -> Tensor:
    least: Tensor = _Extreme.apply(maps, CROSS, False)  # type: ignore[no-untyped-call]
    return least


def _dilated(maps: Tensor) -> Tensor:
    largest: Tensor = _Extreme.apply(maps, SQUARE, True)  # type: ignore[no-untyped-call]
    return largest


class _Extreme(torch.autograd.Function):
    """The least or the largest of each pixel's neighbours, which has its gradient; the same as max_pool2d, which on a
    CPU takes several times as long for maps of few channels.
    """

    @staticmethod
    def forward(context: Any, maps: Tensor, offsets: Offsets, largest: bool) -> Tensor:
        best, which, other = maps.clone(), torch.zeros_like(maps), torch.empty_like(maps)
        better, extreme = (torch.gt, torch.maximum) if largest else (torch.lt, torch.minimum)
        for number, offset in enumerate(offsets, 1):
            to, of = _places(maps, offset)
            if context.needs_input_grad[0]:  # the last that was better; numbers, since bool tensors are slow on a CPU
                better(maps[of], best[to], out=other[to]).mul_(number)
                torch.maximum(which[to], other[to], out=which[to])
            extreme(best[to], maps[of], out=best[to])
        context.save_for_backward(which)
        context.offsets = offsets
        return best

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (which,) = context.saved_tensors
        here = torch.empty_like(gradient)
        of_maps = gradient * torch.eq(which, 0, out=here)
        for number, offset in enumerate(context.offsets, 1):
            to, of = _places(gradient, offset)
            of_maps[of].addcmul_(gradient[to], torch.eq(which[to], number, out=here[to]))
        return of_maps, None, None


def _places(maps: Tensor, offset: tuple[int, int]) -> tuple[Places, Places]:
    """Where a map that was moved by an offset covers itself, and with what."""
    slices = [
        (slice(max(0, by), min(size, size + by)), slice(max(0, -by), min(size, size - by)))
        for by, size in zip(offset, maps.shape[-2:], strict=True)
    ]
    return (..., slices[0][0], slices[1][0]), (..., slices[0][1], slices[1][1])


def _sums(maps: Tensor) -> Tensor:
    """(B, C, h, w) → (C,), the sum of each image first."""
    return maps.sum((2, 3)).sum(0)


def _expect_classes(logits: Tensor, classes: Sequence[int]) -> None:
    fits = len(classes) > 0 and all(0 < one < logits.shape[1] for one in classes)
    expect(fits, "the classes of a loss of thin things", f"some of the labels 1…{logits.shape[1] - 1}", list(classes))
