"""A view: images augmented as the recipe says, and mixed, with the targets that belong to them."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from foveal.data.augment import augmentation, bernoulli, cut_mixed, mixed
from foveal.tasks.classify.recipe import ClassifyRecipe


class Views(nn.Module):
    """Images (B, 3, S, S) in 0…1 and labels → such images and targets (B, C)."""

    def __init__(self, recipe: ClassifyRecipe, classes: int, multi_label: bool) -> None:
        super().__init__()
        self.recipe, self.classes, self.multi_label = recipe, classes, multi_label
        self.augment = augmentation(recipe.augment)

    def forward(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        images = self.augment(images)
        targets = labels if self.multi_label else F.one_hot(labels, self.classes).float()
        if self.recipe.mixup:
            images, targets = mixed(images, targets, self.recipe.mixup)
        if self.recipe.cutmix:
            images, targets = cut_mixed(images, targets, self.recipe.cutmix)
        return images, targets

    def draw(self, images: Tensor, labels: Tensor, seed: int) -> tuple[Tensor, Tensor]:
        """A view that comes again: drawn from its own seed, not from the step's, and of 8 bits as any image."""
        with torch.random.fork_rng([images.device] if images.is_cuda else []):
            torch.manual_seed(seed)
            images, targets = self(images, labels)
        return (images * 255).round().to(torch.uint8), targets

    def mirrored(self, images: Tensor) -> Tensor:
        """Half of the views that come again: what teachers say of an image, they say of its mirror image, too."""
        if not self.recipe.views or self.recipe.augment == "none":  # all other augmentations mirror
            return images
        flipped = torch.where(bernoulli(images, 0.5), images.flip(3), images)
        return flipped.contiguous(memory_format=torch.channels_last)
