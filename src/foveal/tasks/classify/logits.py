"""A model's logits for images of a set, in batches; what cannot be read is named, and left out."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from foveal.data.batches import Batches, loader
from foveal.data.order import Order
from foveal.data.pack import Progress, silent, why
from foveal.data.source import Source
from foveal.device import choose
from foveal.runtime.card import Card


@torch.inference_mode()
def logits_of(
    model: nn.Module,
    card: Card,
    source: Source,
    indices: Sequence[int] | NDArray[np.int64],
    *,
    batch: int = 64,
    device: str = "auto",
    progress: Progress = silent,
) -> tuple[NDArray[np.int64], NDArray[np.float64], list[tuple[str, str]]]:
    """(indices that could be read, their logits (N, C), the others with their reasons)."""
    place = choose(device)
    model = model.to(place).eval()
    mean, std = (torch.tensor(values, device=place)[:, None, None] for values in (card.mean, card.std))
    blank = tuple(map(tuple, card.recipe.get("blank", ())))
    rows, logits, bad = [], [], []
    order = Order(np.asarray(indices), batch, shuffle=False)
    for part in progress(loader(Batches(source, card.size, blank=blank), order), len(order), "judging batches"):
        images = (part.images.to(place).float() / 255.0 - mean) / std
        logits.append(model(images).double().cpu()[part.good])
        rows.append(part.index[part.good])
        unread = [why(source, int(index), card.size) for index in part.index[~part.good]]
        bad += [(one.file, one.reason) for one in unread]
    return torch.cat(rows).numpy(), torch.cat(logits).numpy(), bad
