"""Rows of all processes of a distributed run, each of which may hold another number of them: padded to the longest, gathered, cut again."""

import pytorch_lightning as pl
import torch
from torch import Tensor


def gathered(task: pl.LightningModule, *columns: Tensor) -> tuple[Tensor, ...]:
    """Columns (n, …) of this process → (Σn, …) of all of them, the same in every process. Every process must call it."""
    if task.trainer.world_size == 1:
        return columns
    counts = _all(task, torch.tensor([len(columns[0])]))[:, 0]
    there = torch.arange(int(counts.max()), device=counts.device) < counts[:, None]  # (processes, longest)
    whole = []
    for column in columns:
        padded = column.new_zeros(there.shape[1], *column.shape[1:])
        padded[: len(column)] = column
        whole.append(_all(task, padded)[there])
    return tuple(whole)


def _all(task: pl.LightningModule, part: Tensor) -> Tensor:
    """Tensors of one shape from every process, stacked."""
    part = part.to(task.device).contiguous()
    parts = [torch.empty_like(part) for _ in range(task.trainer.world_size)]
    torch.distributed.all_gather(parts, part)
    return torch.stack(parts)
