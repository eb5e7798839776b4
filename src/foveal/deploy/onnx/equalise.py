"""Channels of one range, before int8: a map has one scale for all its channels,
and a channel of small numbers would be left a few steps of it.

    ρ(W h + b) = s ⊙ ρ((W h + b) / s),  s > 0;   V (s ⊙ y) = (V diag s) y

so that rows of one convolution are divided and columns of the next are multiplied by the same s, and nothing else
changes where ρ is ReLU. ReLU6 becomes min(max(·, 0), 6 s), and 6 s is never below r: it cuts off what no frame of the
calibration had, where int8 would cut it off as well.

    s_c = r_c / max r          before a depthwise convolution, each of whose channels has a scale of its own
    s_c = (r_c / max r)^½      before a projection, whose columns share the scale of a row: half way, as the paper does

Symbols: r_c the largest number of channel c behind ρ, on the frames of the calibration.
Paper: Markus Nagel, Mart van Baalen, Tijmen Blankevoort, Max Welling (2019). Data-free quantization through weight
    equalization and bias correction. ICCV. arXiv:1906.04721.
Departs from the paper: ranges of maps are seen, not guessed from weights.
"""

from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from foveal.deploy.onnx.calibration import seen_by
from foveal.deploy.twins.fused_icam import Frames, LeanBlock, LeanStages

FARTHEST = 64  # how many times a channel is made larger, at most
CEILINGS = {nn.ReLU: float("inf"), nn.ReLU6: 6.0}


def equalise(frames: Frames, calibration: NDArray[np.uint8]) -> None:
    """In place, and exact but for rounding, on these frames. A Φ that is not rectified is left as it is."""
    phi = frames.net
    if not isinstance(phi, LeanStages) or type(phi.activation) not in CEILINGS:
        return
    blocks = [cast("LeanBlock", block) for block in phi.blocks]
    if blocks and not blocks[0].residual:  # else the stem's map is added to another, too
        after = blocks[0].expand if blocks[0].expand is not None else blocks[0].depthwise
        _between(frames, calibration, phi.stem, after)
    for block in blocks:
        if block.expand is not None:
            _between(frames, calibration, block.expand, block.depthwise)
        scale = _divide(frames, calibration, block.depthwise, 0.5)
        block.weight *= scale
        if block.squeeze is not None:  # reads the same map
            block.squeeze.reduce.weight *= scale[:, None, None]


def _between(frames: Frames, calibration: NDArray[np.uint8], before: nn.Conv2d, after: nn.Conv2d) -> None:
    depthwise = after.groups > 1
    scale = _divide(frames, calibration, before, 1 if depthwise else 0.5)
    after.weight *= scale[:, None, None, None] if depthwise else scale[None, :, None, None]


@torch.no_grad()
def _divide(frames: Frames, calibration: NDArray[np.uint8], layer: nn.Conv2d, power: float) -> Tensor:
    """Divide a convolution's rows; the divisors."""
    seen = [largest for _, largest in seen_by(layer, frames, calibration, lambda _, y: y.amax((0, 2, 3)))]
    ceiling = CEILINGS[type(cast("LeanStages", frames.net).activation)]
    range_ = torch.stack(seen).amax(0).clamp(0, ceiling)
    share = range_ / range_.max()
    # What was always 0 has no range, and what was nearly so may be more in other frames.
    scale = torch.where(share > 0, share.clamp(min=1 / FARTHEST), 1).pow(power)
    assert layer.bias is not None
    layer.weight /= scale[:, None, None, None]
    layer.bias /= scale
    return scale
