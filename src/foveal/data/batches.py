"""Batches for torch: images by index, out of a pack or decoded as they are asked for."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from foveal.data.order import Order
from foveal.data.pack import Pack
from foveal.data.source import Source
from foveal.runtime.blank import paint
from foveal.runtime.image import BadImage


class Batch(NamedTuple):
    images: Tensor  # (B, 3, S, S) uint8; empty where the images already lie on the device
    labels: Tensor  # (B,) int64, or (B, C) float32
    index: Tensor  # type: ignore[assignment]  # (B,) int64, in the source; a batch is not searched as tuples are
    good: Tensor  # (B,) bool: could be read


class Batches(Dataset[Batch]):
    """Item = a batch, asked for by its indices."""

    def __init__(
        self,
        source: Source,
        size: int,
        packed: Pack | None = None,
        resident: bool = False,
        blank: tuple[tuple[float, ...], ...] = (),
    ) -> None:
        """resident: the pixels are on the device already, and a batch brings indices and labels only. blank:
        boxes painted grey.
        """
        self.source, self.size, self.packed, self.resident, self.blank = source, size, packed, resident, blank

    def __getitem__(self, indices: NDArray[np.int64]) -> Batch:
        labels = torch.from_numpy(self.source.labels[indices])
        labels = labels.float() if self.source.multi_label else labels.long()
        index = torch.from_numpy(np.ascontiguousarray(indices))
        if self.resident:
            return Batch(torch.empty(0, dtype=torch.uint8), labels, index, torch.ones(len(indices), dtype=torch.bool))
        if self.packed is not None:
            pixels, good = self.packed.pixels[indices], self.packed.good[indices]
        else:
            pixels, good = self._decode(indices)
            if good.any():  # a good one stands in for the bad: at no weight, but BatchNorm and mixup see no black image
                pixels[~good], labels[~good] = pixels[good.argmax()], labels[good.argmax()].clone()
        return Batch(torch.from_numpy(pixels).permute(0, 3, 1, 2), labels, index, torch.from_numpy(good))

    def _decode(self, indices: Sequence[int] | NDArray[np.int64]) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        pixels = np.zeros((len(indices), self.size, self.size, 3), np.uint8)
        good = np.zeros(len(indices), bool)
        for place, index in enumerate(indices):
            try:
                pixels[place] = self.source.image(int(index), self.size)
                good[place] = True
            except BadImage:
                continue  # the trainer gives it no weight, and lists it at the end
        paint(pixels, self.blank)
        return pixels, good


def loader(batches: Batches, order: Order, workers: int = 0, pinned: bool = False) -> "DataLoader[Batch]":
    return DataLoader(
        batches,
        sampler=order,  # each of its items is a whole batch
        batch_size=None,
        num_workers=workers,
        pin_memory=pinned,
        persistent_workers=workers > 0,
        prefetch_factor=4 if workers else None,
    )
