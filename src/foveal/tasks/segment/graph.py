"""From frames to label maps at the frames' own size: the one place where evaluation, prediction and the exported file
do it.

    x = (u/255 − μ)/σ of the pixels u, shrunk or enlarged by the card's zoom, padded to the model's multiple
    z = the model's logits + the card's offsets, enlarged to the frame's size (bilinear), what was padded cut off
    label map = argmax_k z_k
    score_k = the largest 3 × 3 mean of softmax(z)_k at the model's stride;   score_0: of 1 − softmax(z)_background

Symbols: μ, σ mean and deviation of each colour. A score says how sure the model is that the image shows class k at
all, the first one: that it shows anything.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from foveal.tasks.segment.card import SegmentCard


class Maps(nn.Module):
    """Frames (B, H, W, 3) of bytes → label maps (B, H, W) of bytes, scores (B, classes), logits at the model's stride,
    of the padded frames, and probabilities (B, classes, H, W) where they are wanted.
    """

    mean: Tensor
    std: Tensor | None  # None: the model's weights have it
    offsets: Tensor | None

    def __init__(self, model: nn.Module, card: SegmentCard, probabilities: bool = False) -> None:
        super().__init__()
        self.model, self.zoom, self.multiple, self.probabilities = model, card.zoom, card.multiple, probabilities
        # a power of 2, of the model's stride and the zoom together
        self.times = float(model.stride) / card.zoom  # type: ignore[arg-type]
        self.labels: nn.Module | None = None  # makes label maps of logits at the model's stride
        offsets = torch.tensor(card.offsets)[:, None, None] if any(card.offsets) else None
        self.register_buffer("offsets", offsets, persistent=False)
        self.register_buffer("mean", 255 * torch.tensor(card.mean)[:, None, None], persistent=False)
        self.register_buffer("std", 255 * torch.tensor(card.std)[:, None, None], persistent=False)

    def forward(self, frames: Tensor) -> tuple[Tensor, ...]:
        small, (height, width) = self.small_logits(frames), frames.shape[1:3]
        if self.labels is not None:
            return self.labels(small)[:, :height, :width], scores(small), small
        logits = self.enlarged(small, height, width)
        labels = logits.argmax(1).to(torch.uint8)
        answers = (labels, scores(small), small)
        return (*answers, logits.softmax(1)) if self.probabilities else answers

    def seen(self, frames: Tensor) -> Tensor:
        """Logits at the frames' own size, (B, classes, H, W)."""
        return self.enlarged(self.small_logits(frames), frames.shape[1], frames.shape[2])

    def small_logits(self, frames: Tensor) -> Tensor:
        """At the model's stride, of frames padded to its multiple."""
        logits = self.answered(frames)
        return logits if self.offsets is None else logits + self.offsets

    def answered(self, frames: Tensor) -> Tensor:
        """What the model says of them."""
        images = frames.permute(0, 3, 1, 2).float() - self.mean
        images = images if self.std is None else images / self.std
        if self.zoom < 1:
            times = round(1 / self.zoom)
            images = F.avg_pool2d(padded(images, times), times)
        elif self.zoom > 1:
            images = F.interpolate(images, scale_factor=self.zoom, mode="bilinear")
        logits: Tensor = self.model(padded(images, self.multiple))
        return logits

    def enlarged(self, logits: Tensor, height: int, width: int) -> Tensor:
        """To the frames' own size."""
        if self.times != 1:
            logits = F.interpolate(logits, scale_factor=self.times, mode="bilinear")
        return logits[:, :, :height, :width]


def padded(images: Tensor, multiple: int) -> Tensor:
    """The last row and column repeated, until `multiple` divides the sides."""
    height, width = images.shape[2:]
    down = (height + multiple - 1) // multiple * multiple - height
    along = (width + multiple - 1) // multiple * multiple - width
    return F.pad(images, (0, along, 0, down), mode="replicate")


def scores(logits: Tensor) -> Tensor:
    """(B, classes, h, w) → (B, classes)."""
    shares = (logits - logits.amax(1, keepdim=True)).exp()
    probability = shares / shares.sum(1, keepdim=True)  # onnxruntime's Softmax of channels takes ten times as long
    found = torch.cat([1 - probability[:, :1], probability[:, 1:]], 1)
    return F.avg_pool2d(found, 3, stride=1, padding=1).amax((2, 3))
