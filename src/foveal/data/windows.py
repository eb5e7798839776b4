"""Windows of images and their label maps, moved together: what a model that segments learns from.

    (x, y) of the image = A · (u, v, 1),   u and v from −½ to ½ across the window
    image: bilinear between the pixels;   label map: the nearest pixel;   what lies outside is a reflection

Each window is read straight from its image in that image's own resolution: what is cut, turned, mirrored and zoomed is
interpolated once, and no larger part of the image is touched than the window shows.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from foveal.data.augment import Variation

UNLABELLED = 255


class Labelled(NamedTuple):
    """An image and its label map, in bytes."""

    image: Tensor  # (H, W, 3) uint8
    labels: Tensor  # (H, W) uint8


def drawn_window(sample: Labelled, side: int, v: Variation, centre: tuple[float, float] | None = None) -> Tensor:
    """A (2, 3) of a window of `side` × `side` pixels, by the variation's turn, zoom, shear and mirrors.

    centre: what it shows somewhere, as (x, y) in pixels; without one it lies anywhere in the image.
    """
    height, width = sample.labels.shape
    turn = math.radians(v.turn) * _even()
    zoom = math.exp(-v.zoom * _even())
    if v.transposed and _half():
        turn += math.pi / 2
    mirror = -1.0 if _half() else 1.0
    upside = -1.0 if v.upside_down and _half() else 1.0
    cos, sin, shear = math.cos(turn), math.sin(turn), v.shear * _even()
    across = torch.tensor([[cos * mirror, (shear - sin) * upside], [sin * mirror, cos * upside]]) * side * zoom
    middle = []
    for axis, length in enumerate((width, height)):
        reach = float(across[axis].abs().sum()) / 2
        low, high = min(reach, length / 2), max(length - reach, length / 2)
        if centre is not None:  # as near to the middle of the window as its border
            at = centre[axis] + 0.8 * reach * _even()
            middle.append(min(max(at, low), high))
        else:
            middle.append(low + (high - low) * float(torch.rand(())))
    return torch.cat([across, torch.tensor(middle)[:, None]], 1)


def shown(sample: Labelled, matrix: Tensor, side: int) -> tuple[Tensor, Tensor]:
    """What a window shows: (3, S, S) in 0…1, and its labels (S, S) int64."""
    steps = (torch.arange(side) + 0.5) / side - 0.5
    places = matrix @ torch.stack([steps.repeat(side), steps.repeat_interleave(side), torch.ones(side * side)])
    height, width = sample.labels.shape
    x, y = reflected(places[0], width), reflected(places[1], height)
    left, top = max(math.floor(float(x.min()) - 1), 0), max(math.floor(float(y.min()) - 1), 0)
    right, bottom = min(math.ceil(float(x.max()) + 2), width), min(math.ceil(float(y.max()) + 2), height)
    part = sample.image[top:bottom, left:right].permute(2, 0, 1)[None].float() / 255
    scale = torch.tensor([2 / (right - left), 2 / (bottom - top)])
    grid = (torch.stack([x - left, y - top], 1) * scale - 1).view(1, side, side, 2)
    image = F.grid_sample(part, grid, padding_mode="border", align_corners=False)[0]
    rows = y.floor().long().clamp(0, height - 1)
    labels = sample.labels[rows, x.floor().long().clamp(0, width - 1)].view(side, side)
    return image, labels.long()


def reflected(place: Tensor, length: int) -> Tensor:
    """Places in pixels, those outside of 0…length mirrored at its ends."""
    folded = torch.remainder(place, 2 * length)
    return torch.minimum(folded, 2 * length - folded)


def pasted(images: Tensor, labels: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Into the chosen windows (B,) the findings of another window of the batch, somewhere else, as bright against their
    surroundings as they were there.

    Paper: Golnaz Ghiasi, Yin Cui, Aravind Srinivas, Rui Qian, Tsung-Yi Lin, Ekin D. Cubuk, Quoc V. Le, Barret Zoph
        (2021). Simple copy-paste is a strong data augmentation method for instance segmentation. CVPR.
        arXiv:2012.07177.
    """
    found = (labels > 0) & (labels != UNLABELLED)
    donors = found.flatten(1).any(1).nonzero()[:, 0]
    if not len(donors) or not bool(chosen.any()):
        return images, labels
    images, labels = images.clone(), labels.clone()
    side = labels.shape[-1]
    picked = donors[torch.randint(len(donors), (len(images),))]
    moves = torch.randint(side, (len(images), 2))
    for place in chosen.nonzero()[:, 0].tolist():
        donor, (down, along) = int(picked[place]), moves[place].tolist()
        if donor == place:
            continue
        mask = found[donor].roll((down, along), (0, 1))
        there = images[donor].roll((down, along), (1, 2))
        # of a window that shows nothing but the finding, its own brightness
        old = there[:, ~mask].mean(1) if not bool(mask.all()) else there.mean((1, 2))
        around = images[place].mean((1, 2))
        there = (there + (around - old)[:, None, None]).clamp(0.0, 1.0)
        images[place] = torch.where(mask, there, images[place])
        labels[place] = torch.where(mask, labels[donor].roll((down, along), (0, 1)), labels[place])
    return images, labels


def _even() -> float:
    return float(torch.rand(()) * 2 - 1)


def _half() -> bool:
    return bool(torch.rand(()) < 0.5)
