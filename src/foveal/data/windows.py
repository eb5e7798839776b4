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


def drawn_window(
    labels: Tensor, side: int, v: Variation | None = None, centre: tuple[float, float] | None = None
) -> Tensor:
    """A (2, 3) of a window of `side` × `side` pixels of an image with these labels (H, W), by the variation's turn,
    zoom, shear, shift, crop, stretch and mirrors; None: as the image lies.

    centre: what it shows somewhere, as (x, y) in pixels; without one it lies anywhere in the image, and over its border
    by at most the variation's shift.
    """
    height, width = labels.shape
    mirror = -1.0 if v is not None and _half() else 1.0
    v = v or Variation()
    turn = math.radians(v.turn) * _even()
    zoom = math.exp(-v.zoom * _even())
    if v.transposed and _half():
        turn += math.pi / 2
    upside = -1.0 if v.upside_down and _half() else 1.0
    cos, sin, shear = math.cos(turn), math.sin(turn), v.shear * _even()
    across = torch.tensor([[cos * mirror, (shear - sin) * upside], [sin * mirror, cos * upside]]) * side * zoom
    if v.crop < 1:  # a part of what it would show, wider or higher than that
        area, wider = 1 - (1 - v.crop) * float(torch.rand(())), v.stretch * _even()
        across *= (area * torch.tensor([[wider], [-wider]]).exp()).sqrt().clamp(max=1.0)
    middle = []
    for axis, length in enumerate((width, height)):
        reach = float(across[axis].abs().sum()) / 2
        beyond = 2 * v.shift * reach
        low, high = min(reach, length / 2) - beyond, max(length - reach, length / 2) + beyond
        if centre is not None:  # as near to the middle of the window as its border
            at = centre[axis] + 0.8 * reach * _even()
            middle.append(min(max(at, low), high))
        else:
            middle.append(low + (high - low) * float(torch.rand(())))
    return torch.cat([across, torch.tensor(middle)[:, None]], 1)


def shown(sample: Labelled, matrix: Tensor, side: int) -> tuple[Tensor, Tensor]:
    """What a window shows: (3, S, S) in 0…1, and its labels (S, S) int64."""
    height, width = sample.labels.shape
    x, y = seen_places(height, width, matrix, side)
    left, top = max(math.floor(float(x.min()) - 1), 0), max(math.floor(float(y.min()) - 1), 0)
    right, bottom = min(math.ceil(float(x.max()) + 2), width), min(math.ceil(float(y.max()) + 2), height)
    part = sample.image[top:bottom, left:right].permute(2, 0, 1)[None].float() / 255
    scale = torch.tensor([2 / (right - left), 2 / (bottom - top)])
    grid = (torch.stack([x - left, y - top], 1) * scale - 1).view(1, side, side, 2)
    image = F.grid_sample(part, grid, padding_mode="border", align_corners=False)[0]
    return image, labels_at(sample.labels, x, y).view(side, side)


def shown_labels(labels: Tensor, matrix: Tensor, side: int) -> Tensor:
    """The labels alone: (H, W) → (S, S) int64."""
    height, width = labels.shape
    return labels_at(labels, *seen_places(height, width, matrix, side)).view(side, side)


def seen_places(height: int, width: int, matrix: Tensor, side: int) -> tuple[Tensor, Tensor]:
    """x and y (S · S,) of a window's pixels in the image, in pixels from its border."""
    steps = (torch.arange(side) + 0.5) / side - 0.5
    places = matrix @ torch.stack([steps.repeat(side), steps.repeat_interleave(side), torch.ones(side * side)])
    return reflected(places[0], width), reflected(places[1], height)


def labels_at(labels: Tensor, x: Tensor, y: Tensor) -> Tensor:
    height, width = labels.shape
    return labels[y.floor().long().clamp(0, height - 1), x.floor().long().clamp(0, width - 1)].long()


def reflected(place: Tensor, length: int) -> Tensor:
    """Places in pixels, those outside of 0…length mirrored at its ends."""
    folded = torch.remainder(place, 2 * length)
    return torch.minimum(folded, 2 * length - folded)


def _even() -> float:
    return float(torch.rand(()) * 2 - 1)


def _half() -> bool:
    return bool(torch.rand(()) < 0.5)
