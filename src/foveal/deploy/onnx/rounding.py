"""Weights rounded one after the other, before int8: what is not rounded yet takes up the error, the bias last of all.

    min over q of E‖(W − s q) x + (b − b̂)‖²,  q_c in −127 … 127;      H = E[(x, 1)(x, 1)ᵀ] + diag(λ, …, λ, 0)
    for each weight i of a row w = (W_c, b_c), the largest first:
        q_i = round(w_i / s);   w ← w − (w_i − s q_i) (H⁻¹)_(·i) / (H⁻¹)_ii;   H⁻¹ ← (H without row and column i)⁻¹

Symbols: x what the convolution sees at one position, on the frames of the calibration; s = max|W_c| / 127 the step of a
    row; λ a thousandth of the mean of H's diagonal, because inputs that are always 0 say nothing of their weights. The
    largest weight is 127 steps exactly, so the row keeps its step.
Paper: Elias Frantar, Sidak Pal Singh, Dan Alistarh (2022). Optimal brain compression: a framework for accurate
    post-training quantization and pruning. NeurIPS. arXiv:2208.11580.
Departs from the paper: the largest weight goes first, not the one that costs least, and the bias is part of the row, so
    that the mean of a channel's error is 0, which is a step of its own in Nagel et al. (2019, arXiv:1906.04721).
Cost: O(rows · n³) for n weights of a row.
"""

from collections.abc import Callable
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from foveal.deploy.onnx.calibration import seen_by
from foveal.deploy.twins.fused_icam import Frames, LeanBlock, LeanStages, cell_means
from foveal.models.mbconv import Same

STEPS = 127
DAMPING = 1e-3  # λ, of the mean of H's diagonal


@torch.no_grad()
def round_weights(frames: Frames, calibration: NDArray[np.uint8], stem: bool = True) -> bool:
    """The weights of Φ's convolutions, and of the mixer's behind it, in place and in their order: each sees what the
    rounded ones before it make. False, and nothing is done, where the model has no Φ of its own.

    stem: whether the first of them takes part.
    """
    phi = frames.net
    if not isinstance(phi, LeanStages):
        return False
    if stem:
        _round_convolution(frames, calibration, phi.stem)
    for block in cast("list[LeanBlock]", list(phi.blocks)):
        if block.expand is not None:
            _round_convolution(frames, calibration, block.expand)
        _round_convolution(frames, calibration, block.depthwise)
        last = block is phi.blocks[-1] and phi.attention is None
        if block.squeeze is None and not (last and phi.pool == 1):  # else it is no convolution with weights of its own
            _round_projection(frames, calibration, block, phi.pool if last else None)
    mixer = None if frames.decoder is None else frames.decoder.mixer
    if isinstance(mixer, nn.Sequential):
        _round_convolution(frames, calibration, cast("nn.Conv2d", mixer[0]))
    return True


def _round_convolution(frames: Frames, calibration: NDArray[np.uint8], layer: nn.Conv2d) -> None:
    moments = _mean(frames, calibration, layer, lambda x, _: second_moments(windows(layer, x)))
    assert layer.bias is not None
    weight, bias = rounded(layer.weight.flatten(1), layer.bias, moments)
    layer.weight.copy_(weight.view_as(layer.weight))
    layer.bias.copy_(bias)


def _round_projection(frames: Frames, calibration: NDArray[np.uint8], block: LeanBlock, pool: int | None) -> None:
    """Which sees what the depthwise convolution makes, rectified. pool: the last one's, which may see means of cells,
    as `LeanBlock.cells` has it.
    """

    def seen(y: Tensor) -> Tensor:
        h = block.activation(y)
        cells = h if pool is None or h.shape[2] % pool else cell_means(h, h.shape[2] // pool)
        return second_moments(cells.flatten(2)[:, None])

    moments = _mean(frames, calibration, block.depthwise, lambda _, y: seen(y))
    bias = block.bias if block.biased else torch.zeros_like(block.bias)  # else the next block has it
    block.weight, block.bias = rounded(block.weight, bias, moments)
    block.biased = True


def _mean(
    frames: Frames, calibration: NDArray[np.uint8], layer: nn.Module, of: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    """Over the frames of the calibration, of a function of what goes into a layer and comes out of it."""
    found = seen_by(layer, frames, calibration, of)  # batches need not be equally large
    return torch.stack([count * mean for count, mean in found]).sum(0) / sum(count for count, _ in found)


def windows(layer: nn.Conv2d, x: Tensor) -> Tensor:
    """What each position sees: (B, G, n, positions), G groups of n weights."""
    if isinstance(layer, Same):
        x, padding = layer.padded(x), (0, 0)
    else:
        padding = cast("tuple[int, int]", layer.padding)
    seen: Tensor = F.unfold(
        x, cast("tuple[int, int]", layer.kernel_size), padding=padding, stride=cast("tuple[int, int]", layer.stride)
    )
    return seen.reshape(len(seen), layer.groups, -1, seen.shape[2])


def second_moments(seen: Tensor) -> Tensor:
    """(B, G, n, positions) → E[(x, 1)(x, 1)ᵀ], (G, n + 1, n + 1)."""
    seen = F.pad(seen, (0, 0, 0, 1), value=1.0)
    return (seen @ seen.mT).mean(0).double() / seen.shape[3]


def rounded(weight: Tensor, bias: Tensor, moments: Tensor) -> tuple[Tensor, Tensor]:
    """weight (rows, n), bias (rows,), moments (G, n + 1, n + 1) with G = 1 or rows → both, the weights on the grid."""
    rows, count = weight.shape
    step = (weight.abs().amax(1) / STEPS).clamp(min=torch.finfo(weight.dtype).tiny).double()
    left = torch.cat([weight, bias[:, None]], 1).double()  # (rows, n + 1)
    inverse = inverted(moments).expand(rows, -1, -1).clone()
    order, each = weight.abs().argsort(1, descending=True), torch.arange(rows)
    made = torch.zeros(rows, count, dtype=torch.float64)
    for place in order.T:
        value = left[each, place]
        kept = (value / step).round().clamp(-STEPS, STEPS) * step
        made[each, place] = kept
        column = inverse[each, :, place]  # (rows, n + 1)
        own = column[each, place]
        left = left - ((value - kept) / own)[:, None] * column
        inverse = inverse - column[:, :, None] * column[:, None, :] / own[:, None, None]
        # what is rounded has no part in what follows: rounding errors of the elimination must not either
        inverse[each, place, :] = 0.0
        inverse[each, :, place] = 0.0
    return made.to(weight.dtype), left[:, -1].to(bias.dtype)


def inverted(moments: Tensor) -> Tensor:
    """H⁻¹. The bias is not damped: beside the squares of bytes its own 1 would count for nothing."""
    diagonal = moments.diagonal(dim1=-2, dim2=-1)  # (G, n + 1)
    damping = (DAMPING * diagonal.mean(-1, keepdim=True)).expand_as(diagonal).clone()
    damping[:, -1] = 0.0
    inverse: Tensor = torch.linalg.inv(moments + torch.diag_embed(damping))
    return inverse
