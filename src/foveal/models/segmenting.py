"""What the models that segment share: what they give while they learn.

A model of the kind "images to maps" turns images (B, 3, h, w), whose sides its `multiple` divides, into logits
(B, K + 1, h/s, w/s), s its `stride`: background first, then K classes. Beside these, `learn(images)` gives what only
training uses.
"""

from typing import NamedTuple, cast

from torch import Tensor, nn


class Learned(NamedTuple):
    """What a model gives while it learns."""

    logits: Tensor  # (B, K + 1, h, w)
    deep: tuple[Tensor, ...] = ()  # further logits, of earlier maps: deep supervision
    boundary: Tensor | None = None  # (B, 1, h, w), logits: whether two labels meet here
    presence: Tensor | None = None  # (B, K), logits: whether the image shows a class at all
    # Of mask classification, per layer of its decoder, the last first: classes (B, N, K + 2), of which the last is
    # "nothing", and masks (B, N, h, w); logits both.
    queries: tuple[tuple[Tensor, Tensor], ...] = ()


def learn(model: nn.Module, images: Tensor) -> Learned:
    """What a model gives while it learns: its logits alone, where it has nothing else."""
    own = getattr(model, "learn", None)
    return cast("Learned", own(images)) if callable(own) else Learned(model(images))
