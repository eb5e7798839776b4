"""Copy-paste: findings of one window, each by itself, in other windows of the same batch.

    x ← (1 − α) x + α (f + mean_R x − mean_R f)      y ← k where the finding is
    α = 1 on the finding, ⅔ and ⅓ on the two pixels around it, 0 beyond

Symbols: f the finding and what is around it, mirrored and turned as the windows may be and scaled by 0.5 to 2; k its
    class; R the ring of background pixels around its soft edge, where it comes from and where it lands.
Paper: Golnaz Ghiasi, Yin Cui, Aravind Srinivas, Rui Qian, Tsung-Yi Lin, Ekin D. Cubuk, Quoc V. Le, Barret Zoph (2021).
    Simple copy-paste is a strong data augmentation method for instance segmentation. CVPR. arXiv:2012.07177.
Departs from the paper: connected components instead of annotated instances, each at a place of its own and as bright as
    its new surroundings; windows without findings are preferred. What the border of its window cuts off lies at a
    border again, so that no edge is made up; none is wider than its window.
Cost: numpy's time for the components of each window that gives one, and O(pixels of the finding's box) for each.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from foveal.data.augment import Variation
from foveal.runtime.components import BACKGROUND, UNLABELLED, Components, components
from foveal.runtime.distance import Mask

MOST = 3  # findings that a window gets
BESIDE = 0.25  # windows with findings are chosen that many times as often as those without
LARGEST = 0.5  # share of a window above which a finding would replace it, and stays where it is
SMALLEST, THINNEST = 16, 2  # pixels of a finding, and pixels across it, below which none is shrunk
SCALES = (0.5, 2.0)
FEATHER, RING = 2, 4  # pixels: of the soft edge, and of the ring around it


class Piece(NamedTuple):
    """A finding and its surroundings, as they will lie in a window."""

    image: Tensor  # (C, h, w)
    mask: Tensor  # (h, w) bool: the finding
    free: Tensor  # (h, w) bool: background
    low: tuple[bool, bool]  # whether it is cut off at the top, and on the left
    high: tuple[bool, bool]  # at the bottom, and on the right


def pasted(images: Tensor, labels: Tensor, share: float, v: Variation | None = None) -> tuple[Tensor, Tensor]:
    """images (B, C, S, S) in 0…1 and labels (B, S, S), on the CPU → both with findings pasted into this share of the
    windows without any, and into a quarter of it of the others. v: how they may be turned; None: not at all.
    """
    clean = ((labels == BACKGROUND) | (labels == UNLABELLED)).flatten(1).all(1)
    chosen = torch.rand(len(labels)) < share * torch.where(clean, 1.0, BESIDE)
    donors = (~clean).nonzero()[:, 0].tolist()
    if not donors or not bool(chosen.any()):
        return images, labels
    known: dict[int, Components] = {}
    of, truth = images, labels
    images, labels = images.clone(), labels.clone()
    for place in chosen.nonzero()[:, 0].tolist():
        for _ in range(1 + _below(MOST)):
            donor = donors[_below(len(donors))]
            if donor not in known:
                known[donor] = components(truth[donor].to(torch.uint8).numpy())
            if (number := _picked(known[donor], labels[0].numel())) is not None:
                what, value = piece(of[donor], truth[donor], known[donor], number, v), int(known[donor].value[number])
                if bool(what.mask.any()):  # shrunk, a net of thin lines may lose all of its pixels
                    put(images[place], labels[place], what, value, *corner(what, labels.shape[-1]))
    return images, labels


def piece(image: Tensor, labels: Tensor, found: Components, number: int, v: Variation | None = None) -> Piece:
    """The finding of this number of a window, turned and scaled by chance."""
    side = labels.shape[-1]
    x0, y0, x1, y1 = found.box[number].tolist()
    area, longest = int(found.area[number]), max(x1 - x0, y1 - y0)
    least = min(1.0, max(SCALES[0], math.sqrt(SMALLEST / area), THINNEST * longest / area))
    most = min(SCALES[1], side / longest)
    if longest == side:  # from border to border
        least = 1.0
    draws = torch.rand(4).tolist()
    scale = least * (most / least) ** draws[0]
    around = math.ceil((FEATHER + RING) / scale)
    rows, columns = (slice(max(low - around, 0), high + around) for low, high in ((y0, y1), (x0, x1)))
    mask = torch.from_numpy(found.numbers[rows, columns] == number + 1)
    free = labels[rows, columns] == BACKGROUND
    whole = torch.cat([image[:, rows, columns], mask[None].to(image), free[None].to(image)])
    low, high = (y0 == 0, x0 == 0), (y1 == side, x1 == side)
    if v is not None and v.transposed and draws[1] < 0.5:
        whole, low, high = whole.mT, low[::-1], high[::-1]
    if v is not None and v.upside_down and draws[2] < 0.5:
        whole, low, high = whole.flip(1), (high[0], low[1]), (low[0], high[1])
    if v is not None and draws[3] < 0.5:
        whole, low, high = whole.flip(2), (low[0], high[1]), (high[0], low[1])
    size = [max(1, round(length * scale)) for length in whole.shape[1:]]
    if size != list(whole.shape[1:]):
        smooth = F.interpolate(whole[None, :-2], size, mode="bilinear", align_corners=False)[0]
        whole = torch.cat([smooth, F.interpolate(whole[None, -2:], size, mode="nearest-exact")[0]])
    return Piece(whole[:-2], whole[-2] > 0.5, whole[-1] > 0.5, low, high)


def corner(what: Piece, side: int) -> tuple[int, int]:
    """Where the piece's first row and column lie in a window: somewhere where all of the finding is inside."""
    start = []
    for axis in (0, 1):
        along = what.mask.any(1 - axis).nonzero()
        first, last = int(along[0]), int(along[-1])
        room = max(side - (last + 1 - first), 0)
        start.append((0 if what.low[axis] else room if what.high[axis] else _below(room + 1)) - first)
    return start[0], start[1]


def put(image: Tensor, labels: Tensor, what: Piece, value: int, top: int, left: int) -> None:
    """Into a window (C, S, S) and its labels (S, S), in place, from this row and column on."""
    (rows, of_rows), (columns, of_columns) = (
        (slice(max(start, 0), min(start + length, side)), slice(max(-start, 0), min(side - start, length)))
        for start, length, side in zip((top, left), what.mask.shape, labels.shape, strict=True)
    )
    there, truth = image[:, rows, columns], labels[rows, columns]
    finding, mask, free = (one[..., of_rows, of_columns] for one in what[:3])
    alpha, ring = soft(mask)
    moved = mean(there, ring & (truth == BACKGROUND)) - mean(finding, ring & free)
    alpha = alpha * (free | mask)  # other findings beside it stay where they are
    there.lerp_((finding + moved[:, None, None]).clamp(0.0, 1.0), alpha)
    truth.masked_fill_(mask, value)


def soft(mask: Tensor) -> tuple[Tensor, Tensor]:
    """(h, w) → α, and the ring of pixels around the soft edge."""
    grown = mask.numpy()
    alpha = grown.astype(np.float32)
    for _ in range(FEATHER):
        grown = _grown(grown, 1)
        alpha += grown
    return torch.from_numpy(alpha / (FEATHER + 1)), torch.from_numpy(_grown(grown, RING) & ~grown)


def mean(image: Tensor, of: Tensor) -> Tensor:
    """(C,) colour of these pixels (h, w); of all, where there are none."""
    count = of.sum()
    return (image * of).sum((1, 2)) / count if count else image.mean((1, 2))


def _picked(found: Components, pixels: int) -> int | None:
    """One of a window's findings: first the class, then the finding, so that rare classes are pasted as well."""
    small = found.area <= LARGEST * pixels
    values = sorted(set(found.value[small].tolist()))
    if not values:
        return None
    places = (small & (found.value == values[_below(len(values))])).nonzero()[0]
    return int(places[_below(len(places))])


def _grown(mask: Mask, by: int) -> Mask:
    """By a square, one side after the other: of 120 × 120 pixels in a tenth of the time of max_pool2d."""
    for axis in (0, 1):
        wide = mask.copy()
        to, of = (wide, mask) if axis == 0 else (wide.T, mask.T)
        for step in range(1, min(by, len(of) - 1) + 1):
            to[step:] |= of[:-step]
            to[:-step] |= of[step:]
        mask = wide
    return mask


def _below(count: int) -> int:
    return int(torch.randint(count, ()))
