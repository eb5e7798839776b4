"""An icam-seg with fewer operations: what a trained one becomes before it is exported.

    BN(W h) = W′h + b′                                     folded
    (u/255 − μ)/σ = (u − 255μ)/(255σ)                      the divisor goes into the stem's weights
    zeros around a map that its stride divides             as many as the kernel is larger than the stride, at any size
    Q⁰ and Q ← LN(Q̂ + FFN(Q̂))                             as deploy/twins/fused_icam_decoder.py has them
    z_k(i) = (e_k + W_c Q_k) · (W_p x_i + b_p)/√C_p + …    W_p goes to the few queries: z_k(i) = d_k · x_i + d′_k

Symbols: u bytes of the image; μ, σ mean and deviation; x the finest map of the path, P = W_p x + b_p its pixels;
the rest as in models/icam_seg.py. Departs from the trained model by rounding only; products of weights are made in
double precision. Holds in evaluation mode only.
"""

import copy
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from foveal.deploy.twins.byte_stem import ByteStem
from foveal.deploy.twins.fused_icam_decoder import First, LeanCrossBlock, wide
from foveal.models.icam import CrossBlock, Icam
from foveal.models.icam_seg import IcamSeg, Step
from foveal.models.image_model import fold_batch_norms
from foveal.models.mbconv import Same, Stages
from foveal.position.sinusoidal_2d import sinusoid_2d
from foveal.runtime.card import ImageCard


class LeanIcamSeg(nn.Module):
    """Pixels minus 255μ, (B, 3, h, w) → logits (B, classes, h/4, w/4). Of an IcamSeg with a Φ of its own."""

    steps: nn.ModuleList
    shown: Tensor  # (K, C_p + 1): of d and d′, what all images have in common

    def __init__(self, model: IcamSeg, card: ImageCard) -> None:
        super().__init__()
        model = copy.deepcopy(model).eval().requires_grad_(False)
        self.stride, self.first = model.stride, First(cast("Icam", model))  # which has these parts
        self.phi = lean_stages(cast("Stages", model.phi), card)
        self.steps = nn.ModuleList(LeanStep(cast("Step", step)) for step in fold_batch_norms(model.path).children())
        self.norm, self.embed, self.position = model.norm, model.embed, Positions(model.config.width)
        self.layers = nn.ModuleList(
            LeanCrossBlock(cast("CrossBlock", layer), model.config.classes, None) for layer in model.layers
        )
        self.gate, self.classes, self.maps = model.gate, model.config.classes, len(model.strides)
        self.answer, shown = of_pixels(model)
        self.register_buffer("shown", shown)

    def forward(self, pixels: Tensor) -> Tensor:
        maps: list[Tensor] = []
        for step, seen in zip(self.steps, reversed(self.phi.features(pixels)[-self.maps :]), strict=True):
            maps.append(step(seen, maps[-1] if maps else None))
        queries, x = self.gather(maps[0]), maps[-1]  # (B·K, C)
        found = self.answer(queries).unflatten(0, (-1, self.classes)) + self.shown  # (B, K, C_p + 1)
        added = found[..., -1:]
        if self.gate is not None:
            presence = self.gate(queries).view(-1, self.classes)[:, 1:]
            added = added + F.pad(F.logsigmoid(presence), (1, 0))[..., None]  # the background is always there
        products: Tensor = found[..., :-1] @ x.flatten(2) + added
        logits: Tensor = products.unflatten(2, x.shape[2:])
        return logits

    def read_bytes(self, card: ImageCard) -> None:
        """Take bytes (B, h, w, 3) instead, whose sides its `multiple` divides."""
        stem = cast("nn.Sequential", self.phi[0])
        self.phi[0] = ByteStem(cast("nn.Conv2d", stem[0]), stem[2], card.mean)
        for step in self.steps:
            cast("LeanStep", step).rows = True

    def gather(self, coarse: Tensor) -> Tensor:
        grid = self.norm(F.avg_pool2d(coarse, 2).permute(0, 2, 3, 1))
        memory = (self.embed(grid) + self.position(grid.shape[1], grid.shape[2])).flatten(1, 2)
        keys = memory.transpose(1, 2)
        queries: Tensor = self.first(grid.flatten(1, 2), memory, keys)[0]
        for layer in self.layers:
            queries, _ = layer(queries, memory, keys)
        return queries


class LeanStep(nn.Module):
    """A `Step` whose finer map has twice the rows and columns, whatever these are: a runtime need not reckon them."""

    def __init__(self, step: Step) -> None:
        super().__init__()
        self.lateral, self.refine, self.rows = step.lateral, step.refine, False

    def forward(self, seen: Tensor, coarser: Tensor | None) -> Tensor:
        x: Tensor = self.lateral(seen)
        if coarser is not None:
            x = x + (repeated(coarser) if self.rows else F.interpolate(coarser, scale_factor=2.0, mode="nearest"))
        y: Tensor = self.refine(F.relu(x))
        return y


def repeated(x: Tensor) -> Tensor:
    """Every pixel four times, as runs of bytes in the order in which int8 has them: a third of a Resize's time."""
    y = x.permute(0, 2, 3, 1)
    batch, height, width, channels = y.shape
    y = torch.cat([y, y], 3).reshape(batch, height, 2 * width, channels)
    y = torch.cat([y, y], 2).reshape(batch, 2 * height, 2 * width, channels)
    return y.permute(0, 3, 1, 2)


class Positions(nn.Module):
    """Sinusoidal2d as sines alone, cos a = sin(a + π/2), of half as many operations: (h, w, C)."""

    waves: Tensor  # (2, 2, C): of rows and of columns, by how much a step turns each channel, and where it begins

    def __init__(self, width: int) -> None:
        super().__init__()
        ends = torch.arange(2, dtype=torch.float64)
        start, step = sinusoid_2d(ends[:1], ends[:1], width)[0, 0], sinusoid_2d(ends, ends, width)[1, 1]
        begin = start.asin()  # 0 or π/2
        turn = torch.where(start == 0, step.asin(), step.acos())  # at most 1
        rows = torch.arange(width) < width - width // 2
        waves = torch.stack([torch.stack([turn, begin]) * kept for kept in (rows, ~rows)])
        self.register_buffer("waves", waves.float())

    def forward(self, rows: int, columns: int) -> Tensor:
        down, along = (
            torch.sin(torch.arange(count)[:, None] * wave[0] + wave[1])
            for count, wave in zip((rows, columns), self.waves, strict=True)
        )
        return down[:, None] + along


def lean_stages(stages: Stages, card: ImageCard) -> Stages:
    """Φ for pixels minus 255μ, in place."""
    fold_batch_norms(stages)
    stem = cast("nn.Conv2d", cast("nn.Sequential", stages[0])[0])
    stem.weight /= 255 * torch.tensor(card.std)[:, None, None]
    for part in list(stages.modules()):
        if isinstance(part, nn.Sequential) and isinstance(part[0], Same):
            part[0] = Padded(part[0])
    return stages


class Padded(Same):
    """A `Same` of maps whose sides its stride divides."""

    def __init__(self, layer: Same) -> None:
        kernel, stride = cast("tuple[int, int]", layer.kernel_size), cast("tuple[int, int]", layer.stride)
        super().__init__(layer.in_channels, layer.out_channels, kernel, stride, groups=layer.groups)
        self.weight, self.bias = layer.weight, layer.bias
        (before, after), (above, below) = (
            (size // 2, size - size // 2) for size in (kernel[1] - stride[1], kernel[0] - stride[0])
        )
        self.missing = (before, after, above, below)

    def padded(self, x: Tensor) -> Tensor:
        return F.pad(x, self.missing)


@torch.no_grad()
def of_pixels(model: IcamSeg) -> tuple[nn.Linear, Tensor]:
    """Queries (…, C) → (…, C_p + 1), d and d′ without the gate; and what is to be added, (K, C_p + 1)."""
    pixels, path = model.pixels, model.config.path
    assert pixels.bias is not None
    both = torch.cat([pixels.weight[:, :, 0, 0], pixels.bias[:, None]], 1).double() * path**-0.5  # (C_p, C_p + 1)
    answer = wide(model.answer)
    made = nn.Linear(model.config.width, path + 1).requires_grad_(False)
    made.weight.copy_(both.T @ answer.weight)
    made.bias.copy_(answer.bias @ both)
    common = model.bias.new_zeros(len(model.bias), path) if model.common is None else model.common
    shown = common.double() @ both
    shown[:, -1] += model.bias.flatten()
    return made, shown.to(model.bias.dtype)
