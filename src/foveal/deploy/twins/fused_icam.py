"""The same function with fewer operations: what a trained ICAM becomes before it is exported.

    BN(W h) = W′h + b′                                         folded
    (u/255 − μ)/σ = (u − 255μ)/(255σ)                          the divisor goes into the stem's weights
    W′(s ⊙ h) = (W′ diag s) h                                  the gate scales a few weights, not a map
    mean(W′(s ⊙ h) + b′ + x) = W′(s ⊙ mean h) + b′ + mean x    the last projection is of one vector, or of one per
                                                               cell, not of a map
    W₁(y + b′) + b₁ = W₁y + (W₁b′ + b₁)                        a projection's bias goes into the next block's first bias

    Σ_row Σ_column Σ_colour = Σ_row Σ_(column, colour)         k pixels of a row are one of 3k channels, for int8

Symbols: u bytes of the image; μ, σ mean and deviation; s the gate of squeeze-and-excitation, made from mean h, which
is there already. Where attention stands between Φ and the mean, it reads the map, and the last projection is of the
map. 255μ stays a subtraction where the stem pads with 0 after it: a bias would not be 0 at the border. A
stem that does not pad has it in its bias. Departs from the trained model by rounding only; holds in evaluation mode
only, as BatchNorm in training needs the map that is left out.
"""

import copy
import itertools
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.fusion import fuse_conv_bn_eval

from foveal.deploy.twins.fused_icam_decoder import LeanDecoder
from foveal.errors import expect
from foveal.models.icam import Icam
from foveal.models.mbconv import MBConv, Same, Stages
from foveal.runtime.blank import GREY, blank_mask
from foveal.runtime.card import ImageCard
from foveal.vision.squeeze_excitation import SqueezeExcitation


class Frames(nn.Module):
    """A model that takes frames as a camera gives them, (B, h, w, 3) bytes, and answers with logits (B, C) and,
    of an Icam, where it looked.
    """

    mean: Tensor
    std: Tensor
    blank: Tensor | None

    def __init__(self, model: nn.Module, card: ImageCard, runs: bool = False) -> None:
        """runs: a stem that cuts its patch into squares reads their rows, and not pixels."""
        super().__init__()
        model = copy.deepcopy(model).eval().requires_grad_(False)
        self.patch, self.run = (model.config.patch, 1) if isinstance(model, Icam) else (0, 1)
        self.decoder, self.scaled, self.centred = None, True, True
        if isinstance(model, Icam):
            check_cut(card.size, self.patch)
            self.decoder = LeanDecoder(model, card.size // self.patch, card.size // self.patch)
            self.scaled = not isinstance(model.phi, Stages)  # a lean Φ has the divisor in its weights
            attention = None if isinstance(model.attention, nn.Identity) else model.attention
            phi = (
                model.phi if self.scaled else LeanStages(cast("Stages", model.phi), card, model.config.pool, attention)
            )
            self.centred = self.scaled or cast("LeanStages", phi).centred
            if runs and not self.centred:
                self.run = cast("LeanStages", phi).read_runs(self.patch)
            self.net: nn.Module = nn.Sequential(phi, model.attention, model.pool) if self.scaled else phi
        else:
            self.net = model
        self.register_buffer("blank", blanked(card))
        self.register_buffer("mean", 255 * torch.tensor(card.mean)[:, None, None])
        self.register_buffer("std", 255 * torch.tensor(card.std)[:, None, None])

    def forward(self, frames: Tensor) -> tuple[Tensor, Tensor | None]:
        seen = self.see(self.cut(frames))
        return (seen, None) if self.decoder is None else self.decoder(seen)

    def cut(self, frames: Tensor) -> Tensor:
        """Bytes still: images, or of an Icam their patches (B·P, 3, patch, patch).

        In runs of k pixels, (B·P, 3k, patch, patch / k).
        """
        if self.blank is not None:
            frames = torch.where(self.blank, GREY, frames)
        return cut_frames(frames, self.patch, self.run) if self.patch else frames.permute(0, 3, 1, 2)

    def see(self, images: Tensor) -> Tensor:
        """What Φ sees in each patch; of another model, its logits."""
        pixels = images.to(self.mean.dtype)
        pixels = pixels - self.mean if self.centred else pixels
        seen: Tensor = self.net(pixels / self.std if self.scaled else pixels)
        return seen

    def widest(self) -> int:
        """Bytes of the widest map that Φ makes of one patch."""
        sizes = [0]
        hooks = [
            part.register_forward_hook(lambda _, __, y: sizes.append(y.nbytes))
            for part in self.modules()
            if isinstance(part, nn.Conv2d)
        ]
        try:
            self.see(torch.zeros(1, 3 * self.run, self.patch, self.patch // self.run, dtype=torch.uint8))
        finally:
            for hook in hooks:
                hook.remove()
        return max(sizes)


def check_cut(size: int, patch: int) -> None:
    expect(size % patch == 0, "the card's size", f"one that patches of {patch} divide", size)


def blanked(card: ImageCard) -> Tensor | None:
    """(S, S, 1): where the model is shown grey instead of the image; None: nowhere."""
    boxes = card.blank
    if not boxes:
        return None
    return torch.from_numpy(blank_mask(card.size, boxes))[..., None]


def cut_frames(frames: Tensor, patch: int, run: int = 1) -> Tensor:
    """Frames (B, h, w, 3) → patches (B·P, 3·run, patch, patch / run), row by row.

    In two steps, each of which moves whole runs of bytes: rows of patches first, then colours.
    """
    batch, height, width, _ = frames.shape
    rows, columns = height // patch, width // patch
    tiles = frames.reshape(batch, rows, patch, columns, patch * 3).permute(0, 1, 3, 2, 4)
    return tiles.reshape(batch * rows * columns, patch, patch // run, 3 * run).permute(0, 3, 1, 2)


class LeanStages(nn.Module):
    """Φ on pixels (B, 3, h, w), minus 255μ if it wants them centred → its map, pooled to s × s cells: (B, C′, s, s)."""

    def __init__(self, stages: Stages, card: ImageCard, pool: int, attention: nn.Module | None = None) -> None:
        """pool: s. attention: what the map goes through before it is pooled."""
        super().__init__()
        stem, *blocks = stages
        self.stem = folded(cast("nn.Sequential", stem))
        self.centred = self.stem.padding != (0, 0) or isinstance(self.stem, Same)
        with torch.no_grad():
            self.stem.weight /= 255 * torch.tensor(card.std)[:, None, None]
            if not self.centred:
                assert self.stem.bias is not None
                self.stem.bias -= 255 * (self.stem.weight.double().sum((2, 3)) @ torch.tensor(card.mean).double()).to(
                    self.stem.bias.dtype
                )
        self.blocks = nn.Sequential(*(LeanBlock(cast("MBConv", block)) for block in blocks))
        self.pool, self.attention, self.activation = pool, attention, cast("nn.Sequential", stem)[2]
        for place, (block, after) in enumerate(itertools.pairwise(self.blocks)):
            last = place == len(self.blocks) - 2
            cast("LeanBlock", block).hand_on_bias(cast("LeanBlock", after), last)

    def read_runs(self, patch: int) -> int:
        """Let the stem take k pixels of a row as one of 3k channels, if it cuts its patch into squares of k.

        The answer is k, else 1.

        onnxruntime gathers what an int8 convolution sees a position of the kernel at a time: k positions of 3k bytes
        instead of k² of 3. That is an eighth of the time of a small model. A float convolution loses 2 %.
        """
        side = self.stem.kernel_size[0]
        if self.stem.stride[0] != side or patch % side:
            return 1
        wide = nn.Conv2d(3 * side, self.stem.out_channels, (side, 1), (side, 1)).requires_grad_(False)
        # (out, colour, row, column) → (out, column · colour, row, 1)
        wide.weight.copy_(self.stem.weight.permute(0, 3, 1, 2).reshape(wide.weight.shape))
        wide.bias = self.stem.bias
        self.stem = wide
        return side

    def forward(self, pixels: Tensor) -> Tensor:
        x: Tensor = self.activation(self.stem(pixels))
        if self.attention is not None:
            return F.adaptive_avg_pool2d(self.attention(self.blocks(x)), self.pool)
        if len(self.blocks) == 0:
            return F.adaptive_avg_pool2d(x, self.pool)
        for block in list(self.blocks)[:-1]:
            x = block(x)
        last = cast("LeanBlock", self.blocks[-1])
        return last.mean(x)[:, :, None, None] if self.pool == 1 else last.cells(x, self.pool)


class LeanBlock(nn.Module):
    weight: Tensor  # of the projection
    bias: Tensor

    def __init__(self, block: MBConv) -> None:
        super().__init__()
        self.expand = None if isinstance(block.expand, nn.Identity) else folded(block.expand)
        self.depthwise = folded(block.depthwise)
        self.squeeze = block.squeeze if type(block.squeeze) is SqueezeExcitation else None
        project = folded(block.project)
        self.register_buffer("weight", project.weight[:, :, 0, 0])
        self.register_buffer("bias", project.bias)
        self.residual, self.biased, self.activation = block.residual, True, block.depthwise[2]

    def hand_on_bias(self, after: "LeanBlock", last: bool) -> None:
        """Where nothing but the next block's expansion reads the map, or the sum with it is of one vector."""
        if after.expand is None or (after.residual and not last):
            return
        with torch.no_grad():
            after.expand.bias += after.expand.weight[:, :, 0, 0] @ self.bias  # type: ignore[operator]
            if after.residual:
                after.bias = after.bias + self.bias
        self.biased = False

    def forward(self, x: Tensor) -> Tensor:
        h, bias = self.widened(x), self.bias if self.biased else None
        if self.squeeze is None:
            y = F.conv2d(h, self.weight[:, :, None, None], bias)
        else:
            y = ((self.weight * self.gate(averaged(h))[:, None, :]) @ h.flatten(2)).unflatten(2, h.shape[2:])
            y = y if bias is None else y + bias[:, None, None]
        return x + y if self.residual else y

    def mean(self, x: Tensor) -> Tensor:
        """The mean of the map (B, C), without the map."""
        average = averaged(self.widened(x))
        if self.squeeze is not None:
            average = self.gate(average) * average
        y = F.linear(average, self.weight, self.bias)
        return y + x.mean((2, 3)) if self.residual else y

    def cells(self, x: Tensor, pool: int) -> Tensor:
        """The means (B, C, pool, pool) of the map's cells, without the map where cells do not overlap."""
        stride = self.depthwise.stride[0]
        # a patch is square; while torch traces, a side is a tensor
        side, rest = divmod((int(x.shape[2]) + stride - 1) // stride, pool)
        if rest or self.squeeze is not None:
            return F.adaptive_avg_pool2d(self(x), pool)
        y = F.conv2d(cell_means(self.widened(x), side), self.weight[:, :, None, None], self.bias)
        return y + cell_means(x, side) if self.residual else y

    def widened(self, x: Tensor) -> Tensor:
        h: Tensor = self.activation(self.depthwise(x if self.expand is None else self.activation(self.expand(x))))
        return h

    def gate(self, average: Tensor) -> Tensor:
        squeeze = cast("SqueezeExcitation", self.squeeze)
        hidden = squeeze.activation(F.linear(average, squeeze.reduce.weight.flatten(1), squeeze.reduce.bias))
        gate: Tensor = squeeze.gate(F.linear(hidden, squeeze.widen.weight.flatten(1), squeeze.widen.bias))
        return gate


def averaged(h: Tensor) -> Tensor:
    """(B, C, h, w) → (B, C), as a pooling, which a runtime does without moving the map."""
    return F.avg_pool2d(h, h.shape[2:]).flatten(1)


def cell_means(h: Tensor, side: int) -> Tensor:
    """(B, C, h, w) → the means of cells of so many rows and columns.

    As a convolution: onnxruntime pools int8 eight times as slowly.
    """
    if side == 1:
        return h
    share = torch.full((h.shape[1], 1, side, side), side**-2, dtype=h.dtype, device=h.device)
    return F.conv2d(h, share, stride=side, groups=h.shape[1])


def folded(layer: nn.Sequential) -> nn.Conv2d:
    """A convolution that does what it and the BatchNorm after it do."""
    return fuse_conv_bn_eval(cast("nn.Conv2d", layer[0]), cast("nn.BatchNorm2d", layer[1])).requires_grad_(False)
