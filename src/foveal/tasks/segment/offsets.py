"""After training, each class of findings is moved until the label maps of the validation split are the best.

    b_k ← argmax_b mIoU(argmax_j z_j(i) + b_j, y),   one class after the other, twice;   b_0 = 0 of the background

Symbols: z the logits of pixel i, y the labels. Windows of findings, pasted findings and losses that ask for every pixel
    of a thin line make a model expect more of a class than images show. Of offsets that are as good as the best but for
    0.2 points, the one nearest to 0 is taken: the validation split is small.
Paper: Aditya Krishna Menon, Sadeep Jayasumana, Ankit Singh Rawat, Himanshu Jain, Andreas Veit, Sanjiv Kumar (2021).
    Long-tail learning via logit adjustment. ICLR. arXiv:2007.07314.
Departs from the paper: offsets are found by the figure itself, where the paper has the logarithms of frequencies.
Cost: for each class and round, one pass over the pixels; all offsets of a class are tried at once.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from foveal.data.windows import UNLABELLED
from foveal.tasks.segment.data import Opened
from foveal.tasks.segment.graph import Maps

GRID = np.arange(-12, 6.25, 0.25)  # that are tried
ROUNDS = 2
NEAR = 0.002  # of mIoU
ROOM = 2**26  # logits that are kept


class Fitted(NamedTuple):
    offsets: tuple[float, ...]  # of the background first
    before: float  # mIoU without them
    after: float


@torch.no_grad()
def fitted(maps: Maps, opened: Opened, indices: NDArray[np.int64], classes: int) -> Fitted:
    """Of these images, of which every n-th pixel of both axes counts, as many as there is room for."""
    pixels = opened.pixels(indices)
    step = max(1, int(np.ceil(np.sqrt(pixels * classes / ROOM))))
    logits, labels = [], []
    for index in indices.tolist():
        samples = opened[np.array([index])].samples
        if not samples:  # it could not be read
            continue
        sample = samples[0]
        seen = maps.seen(sample.image[None].to(maps.mean.device))[0, :, step // 2 :: step, step // 2 :: step]
        truth = sample.labels[step // 2 :: step, step // 2 :: step].flatten()
        known = truth != UNLABELLED
        logits.append(seen.flatten(1).T.cpu()[known])
        labels.append(truth[known])
    if not labels:
        return Fitted((0.0,) * classes, 0.0, 0.0)
    found = torch.cat(logits), torch.cat(labels)
    offsets = best_offsets(*found)
    return Fitted(offsets, miou(*found), miou(found[0] + torch.tensor(offsets), found[1]))


def best_offsets(logits: Tensor, labels: Tensor) -> tuple[float, ...]:
    """logits (N, K + 1) and labels (N,) → K + 1 offsets, those of classes without pixels 0."""
    classes, truth = logits.shape[1], labels.long()
    there = truth.bincount(minlength=classes) > 0
    grid = torch.from_numpy(GRID).to(logits.dtype)
    offsets = torch.zeros(classes, dtype=logits.dtype)
    for _ in range(ROUNDS):
        for place in range(1, classes):
            if bool(there[place]):
                offsets[place] = 0.0
                moved = logits + offsets
                moved[:, place] = -torch.inf
                largest, other = moved.max(1)
                scores = scores_of(largest - logits[:, place], other, truth, place, grid, there)
                good = np.flatnonzero(scores >= scores.max() - NEAR)
                offsets[place] = float(GRID[good[np.abs(GRID[good]).argmin()]])
    return tuple(offsets.tolist())


def miou(logits: Tensor, labels: Tensor) -> float:
    """Of the classes of findings that have pixels; 0 where there are none."""
    classes = logits.shape[1]
    counts = (labels.long() * classes + logits.argmax(1)).bincount(minlength=classes**2).view(classes, classes).double()
    right, there = counts.diagonal(), counts.sum(1)[1:] > 0
    iou = (right / (counts.sum(0) + counts.sum(1) - right).clamp(min=1))[1:]
    return float(iou[there].mean()) if bool(there.any()) else 0.0


def scores_of(
    gap: Tensor, other: Tensor, truth: Tensor, place: int, grid: Tensor, there: Tensor
) -> NDArray[np.float64]:
    """mIoU for each offset of the grid of the class at this place. gap (N,): the offset above which a pixel is taken
    for it; other (N,): what it is taken for below; there (K + 1,): which classes have pixels.
    """
    classes, steps = len(there), len(grid)
    from_step = torch.searchsorted(grid, gap, right=True)  # the first offset that is larger, or none
    cells = (from_step * classes + truth) * classes + other
    counts = cells.bincount(minlength=(steps + 1) * classes**2).view(steps + 1, classes, classes)
    taken = counts.cumsum(0)[:steps].double()
    confusion = counts.sum(0).double() - taken
    confusion[:, :, place] += taken.sum(2)
    right = confusion.diagonal(dim1=1, dim2=2)
    union = confusion.sum(1) + confusion.sum(2) - right
    found = there.clone()
    found[0] = False
    return (right / union.clamp(min=1))[:, found].mean(1).numpy()
