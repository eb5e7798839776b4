"""Augmentation of batches, suited to pipes: gravity stays where it is, while camera, lamp, lens,
dirt and burnt-in text vary.

Every image draws its own numbers, on the device where the batch lies, and every operation takes the whole batch: 500
operations for `pipe` and no question to the device. The same as a chain of kornia's augmentation modules took 1,760
and waited for its masks; training on an H200 at batch 64 went from 2,000 to 5,000 images per second. kornia's
functions do the colour and the blur here, too.

Paper, if recipe.mixup > 0: Hongyi Zhang, Moustapha Cisse, Yann N. Dauphin, David Lopez-Paz (2018). mixup: Beyond
    empirical risk minimization. ICLR. arXiv:1710.09412.
Paper, if recipe.cutmix > 0: Sangdoo Yun, Dongyoon Han, Seong Joon Oh, Sanghyuk Chun, Junsuk Choe, Youngjoon Yoo
    (2019). CutMix: regularization strategy to train strong classifiers with localizable features. ICCV.
    arXiv:1905.04899.
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from foveal.errors import unknown

# where cameras burn text in
CORNERS = ((0.0, 0.0, 0.25, 0.25), (0.7, 0.0, 1.0, 0.25), (0.0, 0.75, 0.45, 1.0), (0.65, 0.75, 1.0, 1.0))


@dataclass(frozen=True)
class Variation:
    """How far images may vary.

    Unless it says otherwise, a number x means: by a factor, or a shift, drawn evenly from −x to x.
    """

    turn: float = 0.0  # degrees of camera roll
    shift: float = 0.0  # shares of the side
    zoom: float = 0.0  # log of the scale
    shear: float = 0.0
    crop: float = 1.0  # least share of the area that is shown: a window anywhere in the image
    stretch: float = 0.0  # log of how much wider than high that window is
    upside_down: bool = False  # half of the images, for what has no up and down
    transposed: bool = False  # half of the images, for what has no direction either
    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0
    hue: float = 0.0  # shares of the circle
    tint: float = 0.0  # of each colour by itself: the lamp
    gamma: float = 0.0  # log of the exponent
    grey: float = 0.0  # share of the images that lose their colour
    blur: float = 0.0  # deviation in pixels of a Gaussian cut at ±3, mixed with the sharp image, of a third of them
    noise: float = 0.0  # deviation, of a third of the images
    hide: float = 0.0  # largest share of the image under a patch of one colour
    hidden: float = 0.0  # share of the images that get such a patch
    text: float = 0.0  # share of the corners that are taken from another image: burnt-in text must carry no label


# images and their label maps, of anything that has no direction; with a grain, and with an up and a down: below
FREE = Variation(
    15,
    zoom=0.3,
    upside_down=True,
    transposed=True,
    brightness=0.25,
    contrast=0.3,
    tint=0.04,
    gamma=0.2,
    blur=1.0,
    noise=0.02,
)
VARIATIONS: dict[str, Variation | None] = {
    "none": None,
    # the published recipe's, with its mirror
    "light": Variation(brightness=0.1, contrast=0.1, saturation=0.1, hue=0.1),
    # for rendered frames
    "lamp": Variation(brightness=0.3, contrast=0.3, tint=0.08, gamma=0.35, noise=0.03, hide=0.06, hidden=0.5),
    # for weights that know pipes already
    "mild": Variation(5, 0.05, 0.1, brightness=0.15, contrast=0.15, tint=0.04, hide=0.06, hidden=0.3),
    "pipe": Variation(
        10,
        0.08,
        0.2,
        0.0,
        brightness=0.3,
        contrast=0.3,
        tint=0.08,
        gamma=0.3,
        blur=1.5,
        noise=0.03,
        hide=0.1,
        hidden=0.5,
    ),
    # photos of anything: windows of them, as ImageNet's are shown to a network
    "crop": Variation(10, crop=0.55, stretch=0.25, brightness=0.4, contrast=0.4, saturation=0.4),
    # a surface seen from above, which has no up and down
    "surface": Variation(crop=0.55, upside_down=True, brightness=0.4, contrast=0.4),
    # no pixel is lost or made up: for faults of a few pixels, on squares that may lie in any way
    "turns": Variation(upside_down=True, transposed=True),
    "free": FREE,
    "grain": replace(FREE, turn=10.0, transposed=False),
    "upright": replace(FREE, turn=10.0, transposed=False, upside_down=False),
    "strong": Variation(
        15,
        0.12,
        0.4,
        0.1,
        brightness=0.4,
        contrast=0.4,
        tint=0.15,
        gamma=0.45,
        grey=0.15,
        blur=2.0,
        noise=0.05,
        hide=0.15,
        hidden=0.7,
        text=0.25,
    ),
}


def augmentation(name: str) -> nn.Module:
    """A module on images (B, 3, h, w) in 0…1.

    Its draws come from torch's own generator, which each step of training seeds.
    """
    if name not in VARIATIONS:
        raise unknown("augmentation", name, VARIATIONS)
    variation = VARIATIONS[name]
    return nn.Identity() if variation is None else Vary(variation)


class Vary(nn.Module):
    def __init__(self, variation: Variation) -> None:
        super().__init__()
        from kornia.filters import get_gaussian_kernel1d

        self.variation = variation
        self.register_buffer("kernel", get_gaussian_kernel1d(7, variation.blur or 1.0), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        v = self.variation
        if v.text:
            images = other_text(images, v.text)
        images = lit(moved(images, v), v)
        if v.blur:
            images = blurred(images, self.kernel)  # type: ignore[arg-type]
        if v.noise:
            images = images + v.noise * bernoulli(images, 1 / 3) * torch.randn_like(images)
        if v.hidden:
            images = hidden(images, v.hide, v.hidden)
        return images.clamp(0.0, 1.0)


def even(images: Tensor, reach: float, columns: int = 1) -> Tensor:
    """(B, columns, 1, 1) drawn evenly from −reach to reach."""
    return (torch.rand(len(images), columns, 1, 1, device=images.device) * 2 - 1) * reach


def bernoulli(images: Tensor, share: float) -> Tensor:
    """(B, 1, 1, 1): true for about this share."""
    return torch.rand(len(images), 1, 1, 1, device=images.device) < share


def moved(images: Tensor, v: Variation) -> Tensor:
    """Mirrored (upside down only where it says so: water lies at the bottom), rolled, shifted, nearer or farther.

    What comes into sight is a reflection.
    """
    if v.transposed and images.shape[2] == images.shape[3]:
        images = torch.where(bernoulli(images, 0.5), images.mT, images)
    if v.upside_down:
        images = torch.where(bernoulli(images, 0.5), images.flip(2), images)
    mirror = bernoulli(images, 0.5)
    if not (v.turn or v.shift or v.zoom or v.shear or v.crop < 1):
        return torch.where(mirror, images.flip(3), images)
    side = torch.where(mirror, -1.0, 1.0).flatten()
    angle, zoom = even(images, math.radians(v.turn)).flatten(), torch.exp(-even(images, v.zoom).flatten())
    cos, sin = torch.cos(angle) * zoom, torch.sin(angle) * zoom
    dx, dy = even(images, 2 * v.shift, 2)[:, :, 0, 0].unbind(1)
    rows = torch.stack([cos * side, even(images, v.shear).flatten() - sin, dx, sin * side, cos, dy], 1)
    if v.crop < 1:
        size, middle = window(images, v)
        rows = rows * size.repeat_interleave(3, 1)
        rows[:, 2::3] += middle
    grid = F.affine_grid(rows.view(-1, 2, 3).to(images.dtype), list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, padding_mode="reflection", align_corners=False)


def window(images: Tensor, v: Variation) -> tuple[Tensor, Tensor]:
    """A window inside of each image, its sides in shares of the image's, and its middle from −1 to 1: (B, 2) each."""
    area = 1 - (1 - v.crop) * torch.rand(len(images), 1, device=images.device)
    wider = even(images, v.stretch)[:, :, 0, 0]
    size = (area * torch.cat([wider, -wider], 1).exp()).sqrt().clamp(max=1.0)
    return size, even(images, 1.0, 2)[:, :, 0, 0] * (1 - size)


def lit(images: Tensor, v: Variation) -> Tensor:
    """Another lamp, another exposure."""
    images = images * (1 + even(images, v.brightness))
    mean = images.mean((1, 2, 3), keepdim=True)
    images = (images - mean) * (1 + even(images, v.contrast)) + mean + even(images, v.tint, 3)
    if v.hue:
        from kornia.color import hsv_to_rgb, rgb_to_hsv
        from kornia.enhance import adjust_hue_raw, adjust_saturation_raw

        hsv = rgb_to_hsv(images.clamp(0.0, 1.0))
        hsv = adjust_saturation_raw(hsv, 1 + even(images, v.saturation).flatten())
        images = hsv_to_rgb(adjust_hue_raw(hsv, even(images, 2 * math.pi * v.hue).flatten()))
    elif v.saturation:  # towards grey and away from it, as most augment: 1/25 of the time of the way through HSV
        from kornia.color import rgb_to_grayscale

        images = torch.lerp(rgb_to_grayscale(images), images, 1 + even(images, v.saturation))
    if v.grey:
        images = torch.where(bernoulli(images, v.grey), images.mean(1, keepdim=True), images)
    if v.gamma:
        images = images.clamp(1e-4, 1.0) ** torch.exp(even(images, v.gamma))
    return images


def blurred(images: Tensor, kernel: Tensor) -> Tensor:
    """A third of the images more or less out of focus."""
    from kornia.filters import filter2d_separable

    share = torch.rand(len(images), 1, 1, 1, device=images.device) * bernoulli(images, 1 / 3)
    return torch.lerp(images, filter2d_separable(images, kernel, kernel), share)


def hidden(images: Tensor, area: float, share: float) -> Tensor:
    """Something in the way: a rectangle of one colour, between a third and three times as high as wide."""
    down, along = (torch.arange(side, device=images.device) / side for side in images.shape[2:])
    size, shape = torch.rand(len(images), 1, 1, 1, device=images.device) * area, torch.exp(even(images, math.log(3)))
    middle = torch.rand(len(images), 2, 1, 1, device=images.device)
    under = (along[None, None, None, :] - middle[:, :1]).abs() < (size * shape).sqrt() / 2
    under = (
        under
        & ((down[None, None, :, None] - middle[:, 1:]).abs() < (size / shape).sqrt() / 2)
        & bernoulli(images, share)
    )
    return torch.where(under, torch.rand(len(images), 3, 1, 1, device=images.device), images)


def other_text(images: Tensor, share: float) -> Tensor:
    """Corners of another image of the batch in place of its own."""
    height, width = images.shape[2:]
    other, images = images.roll(1, 0), images.clone()
    for x0, y0, x1, y1 in CORNERS:
        rows, columns = slice(round(y0 * height), round(y1 * height)), slice(round(x0 * width), round(x1 * width))
        images[:, :, rows, columns] = torch.where(
            bernoulli(images, share), other[:, :, rows, columns], images[:, :, rows, columns]
        )
    return images


def mixed(images: Tensor, targets: Tensor, alpha: float) -> tuple[Tensor, Tensor]:
    """Mixup: λ x_i + (1 − λ) x_j with the targets mixed alike, λ ~ Beta(α, α) for each image (Zhang et al., 2018)."""
    share = torch.distributions.Beta(alpha, alpha).sample((len(images),)).to(images)
    other = torch.randperm(len(images), device=images.device)
    s, t = share[:, None, None, None], share[:, None]
    return s * images + (1 - s) * images[other], t * targets + (1 - t) * targets[other]


def cut_mixed(images: Tensor, targets: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """CutMix: a window of another image in this share of the images, the targets mixed by area (Yun et al., 2019).

    The window's area is drawn evenly from nothing to all, Beta(1, 1) as in the paper, and its middle anywhere: what
    would reach over the border is cut off.
    """
    down, along = (torch.arange(side, device=images.device) / side for side in images.shape[2:])
    side = torch.rand(len(images), 1, 1, 1, device=images.device).sqrt()
    middle = torch.rand(len(images), 2, 1, 1, device=images.device)
    under = (along[None, None, None, :] - middle[:, :1]).abs() < side / 2
    under = under & ((down[None, None, :, None] - middle[:, 1:]).abs() < side / 2) & bernoulli(images, share)
    other = torch.rand(len(images), device=images.device).argsort()  # a permutation, also in a CUDA graph
    t = 1 - under.float().mean((1, 2, 3))[:, None]
    return torch.where(under, images[other], images), t * targets + (1 - t) * targets[other]
