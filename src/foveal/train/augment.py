"""Augmentation of batches, suited to pipes: gravity stays where it is, while light, lens, camera and dirt vary."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from foveal.errors import unknown


def augmentation(name: str) -> nn.Module:
    """A module on images (B, 3, h, w) in 0…1. Its draws come from torch's own generator, which each step of training seeds."""
    if name not in AUGMENTATIONS:
        raise unknown("augmentation", name, AUGMENTATIONS)
    return AUGMENTATIONS[name]()


def _light() -> nn.Module:
    """The published recipe: mirror, and a little colour."""
    import kornia.augmentation as K

    return nn.Sequential(K.RandomHorizontalFlip(p=0.5), K.ColorJiggle(0.1, 0.1, 0.1, 0.1, p=1.0))


def _pipe() -> nn.Module:
    """Mirror (never upside down: water lies at the bottom), camera roll and distance, lamp, lens, sensor, and things in the way."""
    import kornia.augmentation as K

    return nn.Sequential(
        K.RandomHorizontalFlip(p=0.5),
        K.RandomAffine(10.0, (0.08, 0.08), (0.85, 1.25), padding_mode="reflection", p=0.8),
        K.RandomBrightness((0.7, 1.3), p=0.6),
        K.RandomContrast((0.7, 1.3), p=0.6),
        K.RandomRGBShift(0.08, 0.08, 0.08, p=0.5),  # the lamp's colour; hue in HSV costs 30 × as much on a CPU
        K.RandomGamma((0.7, 1.4), p=0.3),
        K.RandomGaussianBlur((5, 5), (0.1, 1.5), p=0.2),
        Noise(0.03, share=0.2),
        K.RandomErasing((0.02, 0.12), p=0.5),
        _Clamp(),
    )


def _strong() -> nn.Module:
    """Like `pipe`, further: for very small sets."""
    import kornia.augmentation as K

    return nn.Sequential(
        K.RandomHorizontalFlip(p=0.5),
        K.RandomAffine(15.0, (0.12, 0.12), (0.7, 1.5), (-6.0, 6.0), padding_mode="reflection", p=0.9),
        K.RandomBrightness((0.6, 1.4), p=0.8),
        K.RandomContrast((0.6, 1.4), p=0.8),
        K.RandomRGBShift(0.15, 0.15, 0.15, p=0.8),
        K.RandomGrayscale(p=0.15),
        K.RandomGamma((0.6, 1.6), p=0.4),
        K.RandomGaussianBlur((5, 5), (0.1, 2.0), p=0.3),
        Noise(0.05, share=0.3),
        K.RandomErasing((0.02, 0.2), p=0.5),
        K.RandomErasing((0.02, 0.1), p=0.5),
        _Clamp(),
    )


class Noise(nn.Module):
    """Sensor noise on a share of the pictures, drawn where they lie: kornia's own is drawn on the CPU, 400 ms for 256 pictures on a GPU."""

    def __init__(self, deviation: float, share: float) -> None:
        super().__init__()
        self.deviation, self.share = deviation, share

    def forward(self, images: Tensor) -> Tensor:
        chosen = torch.rand(len(images), 1, 1, 1, device=images.device) < self.share
        return images + self.deviation * chosen * torch.randn_like(images)


class _Clamp(nn.Module):
    def forward(self, images: Tensor) -> Tensor:
        return images.clamp(0.0, 1.0)


AUGMENTATIONS: dict[str, Callable[[], nn.Module]] = {"none": nn.Identity, "light": _light, "pipe": _pipe, "strong": _strong}


def mixed(images: Tensor, targets: Tensor, alpha: float) -> tuple[Tensor, Tensor]:
    """Mixup: λ x_i + (1 − λ) x_j with the targets mixed alike, λ ~ Beta(α, α) for each picture (Zhang et al., 2018)."""
    share = torch.distributions.Beta(alpha, alpha).sample((len(images),)).to(images)
    other = torch.randperm(len(images), device=images.device)
    s, t = share[:, None, None, None], share[:, None]
    return s * images + (1 - s) * images[other], t * targets + (1 - t) * targets[other]
