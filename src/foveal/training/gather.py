"""Rows of all processes of a distributed run, each of which may hold another number of them: torchmetrics pads,
gathers and cuts them again.
"""

import pytorch_lightning as pl
import torch
from torch import Tensor
from torchmetrics.utilities.distributed import gather_all_tensors


def gathered(module: pl.LightningModule, *columns: Tensor) -> tuple[Tensor, ...]:
    """Columns (n, …) of this process → (Σn, …) of all of them, the same in every process.

    Every process must call it.
    """
    if module.trainer.world_size == 1:
        return columns
    return tuple(torch.cat(gather_all_tensors(column.to(module.device).contiguous())) for column in columns)
