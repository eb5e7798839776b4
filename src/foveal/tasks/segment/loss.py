"""What training a segmenter minimises: a sum of parts, each with the weight that the recipe gives it.

    L = CE(z, y) + w_dice Dice + w_deep Σ CE(z_s, y_s) + w_boundary BCE(b, ∂y) + w_presence BCE(g, y shows k)
        + w_skeleton (1 − skeleton recall) + w_cldice (1 − soft clDice) + w_distance boundary loss

Symbols: z logits, enlarged to the labels' size; z_s those of coarser maps, y_s the labels at their cells' middles;
    b and g what the boundary head and the presence gate say. Of models of queries (mask classification), the first row
    is the loss of the set instead, and z the map that their queries give together.
"""

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from foveal.data.segments import SegmentSource
from foveal.errors import expect
from foveal.losses.boundary import boundary_loss, edge_cross_entropy
from foveal.losses.presence import presence_loss
from foveal.losses.segmentation import dice, focal, label_cross_entropy, pixel_weights
from foveal.losses.set_prediction import set_loss
from foveal.losses.topology import label_tubes, skeleton_recall, soft_cldice
from foveal.models.segmenting import Learned
from foveal.options import flag
from foveal.tasks.segment.choose import thin_classes
from foveal.tasks.segment.drawn import drawn_areas
from foveal.tasks.segment.recipe import SegmentRecipe

# what the loss of a set has its own forms of, and what says nothing else: the defaults, or nothing
OF_PIXELS = {"focal": (0.0,), "ohem": (0.0,), "dice": (1.0, 0.0), "label_smoothing": (0.02, 0.0)}


class SegmentLoss(nn.Module):
    weight: Tensor | None

    def __init__(
        self, recipe: SegmentRecipe, source: SegmentSource, train: NDArray[np.int64], often: NDArray[np.float64] | None
    ) -> None:
        """train: the images that are learned from; often: how often each is drawn, None: all alike."""
        super().__init__()
        self.recipe = recipe
        weight = pixel_weights(drawn_areas(recipe, source, train, often)) if recipe.balance == "weights" else None
        self.register_buffer("weight", weight, persistent=False)
        self.thin = [place + 1 for place in thin_classes(source.properties(train))]
        self.has_skeletons = bool(recipe.skeleton and self.thin)

    def tubes(self, labels: Tensor) -> Tensor:
        """What skeleton recall asks for, (B, H, W); made on the CPU."""
        return label_tubes(labels)

    def forward(self, learned: Learned, labels: Tensor, tubes: Tensor | None = None) -> Tensor:
        """labels (B, H, W). tubes: of the labels, None: made here, where they count."""
        recipe = self.recipe
        logits = enlarged(learned.logits, labels)
        queries = learned.queries
        loss = set_loss(queries, labels) if queries else self.of_pixels(learned, logits, labels)
        if self.has_skeletons:
            loss = loss + (recipe.skeleton or 0.0) * skeleton_recall(logits, labels, self.thin, tubes)
        if recipe.cldice:
            classes = self.thin or range(1, logits.shape[1])
            loss = loss + recipe.cldice * soft_cldice(logits, labels, classes)
        if recipe.boundary_loss:
            loss = loss + recipe.boundary_loss * boundary_loss(logits, labels)
        return loss

    def of_pixels(self, learned: Learned, logits: Tensor, labels: Tensor) -> Tensor:
        recipe = self.recipe
        if recipe.focal:
            loss = focal(logits, labels, recipe.focal, self.weight)
        else:
            hardest = recipe.ohem or 1.0
            loss = label_cross_entropy(logits, labels, self.weight, recipe.label_smoothing, hardest)
        if recipe.dice:
            loss = loss + recipe.dice * dice(logits, labels)
        if recipe.deep:
            for one in learned.deep:
                loss = loss + recipe.deep * label_cross_entropy(one, at_cells(labels, one), self.weight)
        if recipe.boundary and learned.boundary is not None:
            edges = edge_cross_entropy(learned.boundary, at_cells(labels, learned.boundary))
            loss = loss + recipe.boundary * edges
        if recipe.presence and learned.presence is not None:
            loss = loss + recipe.presence * presence_loss(learned.presence, labels)
        return loss


def expect_losses(recipe: SegmentRecipe, learned: Learned) -> None:
    """Raise a FovealError where a recipe asks for losses that its model has forms of its own of. learned: what the
    model gives.
    """
    for name, unused in OF_PIXELS.items() if learned.queries else ():
        value = getattr(recipe, name)
        wanted = f"{unused[0]:g} of {recipe.model}, whose queries have a loss of their own"
        expect(value in unused, flag(name), wanted, f"{value:g}", "leave it out")


def enlarged(logits: Tensor, labels: Tensor) -> Tensor:
    """To the labels' size, and what was padded cut off."""
    times = -(-labels.shape[-1] // logits.shape[-1])
    if times > 1:
        logits = F.interpolate(logits, scale_factor=times, mode="bilinear")
    return logits[:, :, : labels.shape[-2], : labels.shape[-1]]


def at_cells(labels: Tensor, logits: Tensor) -> Tensor:
    """The labels in the middles of a map's cells, (B, h, w)."""
    times = -(-labels.shape[-1] // logits.shape[-1])
    picked = labels[:, times // 2 :: times, times // 2 :: times]
    missing = (0, logits.shape[-1] - picked.shape[-1], 0, logits.shape[-2] - picked.shape[-2])
    return F.pad(picked, missing, value=255)
