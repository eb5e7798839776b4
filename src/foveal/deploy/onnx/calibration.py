"""What the layers of a model see on the frames of a calibration, before int8."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from foveal.deploy.twins.fused_icam import Frames

BATCH = 8


@torch.no_grad()
def seen_by(
    layer: nn.Module, frames: Frames, calibration: NDArray[np.uint8], of: Callable[[Tensor, Tensor], Tensor]
) -> list[tuple[int, Tensor]]:
    """For each batch, how many maps it had, and a function of what went into a layer and came out of it."""
    found: list[tuple[int, Tensor]] = []
    hook = layer.register_forward_hook(lambda _, x, y: found.append((len(y), of(x[0], y))))
    try:
        for start in range(0, len(calibration), BATCH):
            frames(torch.from_numpy(calibration[start : start + BATCH]))
    finally:
        hook.remove()
    return found
