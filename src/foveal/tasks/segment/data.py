"""The data of a run: images and label maps as they are; whoever learns from windows of them cuts these himself."""

from typing import Any, NamedTuple

import numpy as np
import pytorch_lightning as pl
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from foveal.data.division import Splits, filled, splits_of
from foveal.data.order import Order
from foveal.data.segments import SegmentSource
from foveal.data.windows import Labelled
from foveal.progress import Progress, silent
from foveal.runtime.image import BadImage
from foveal.tasks.segment.recipe import SegmentRecipe
from foveal.tasks.segment.zoom import shrunk
from foveal.training.sweep import cores

ROOM = 4 * 2**30  # bytes of images and label maps that are kept in memory
POINTS = 64  # pixels of each class of an image that a window may be laid on


class Samples(NamedTuple):
    """Some images with their label maps, and where they stand in the source."""

    samples: list[Labelled]
    index: Tensor  # type: ignore[assignment]


class SegmentData(pl.LightningDataModule):
    def __init__(
        self,
        source: SegmentSource,
        recipe: SegmentRecipe,
        splits: Splits | None = None,
        workers: int | None = None,
        progress: Progress = silent,
    ) -> None:
        super().__init__()
        self.source, self.recipe = source, recipe
        self.opened = Opened(source, recipe.zoom or 1.0)
        splits = splits or splits_of(source, recipe.fold)
        chosen = np.concatenate([splits.train, splits.val])
        self.fits = 4 * self.opened.pixels(chosen) <= ROOM
        if self.fits:
            self.opened.keep(chosen, progress)
        bad = list(self.opened.bad)
        kept = Splits(splits.train[~np.isin(splits.train, bad)], splits.val[~np.isin(splits.val, bad)], splits.test)
        self.splits = filled(source, kept, "at least one image that can be read", "none")
        self.workers = workers if workers is not None else 0 if self.fits else max(1, cores() - 1)

    @property
    def steps(self) -> int:
        """Of the optimizer in one epoch."""
        return -(-len(self._train_order()) // self.recipe.accumulate)

    def train_dataloader(self) -> DataLoader[Any]:
        return self._loader(self._train_order())

    def val_dataloader(self) -> DataLoader[Any]:
        return self._loader(self._in_order(self.splits.val))

    def transfer_batch_to_device(self, batch: Samples, device: torch.device, dataloader_idx: int) -> Samples:
        """Images stay where they are kept: what windows show of them is moved, which is less."""
        return batch

    def _train_order(self) -> Order:
        train, rank, world = self.splits.train, *self._place()
        weight = drawn_as_often(self.source.areas[train], self.recipe.found or 0.0)
        return Order(train, self.recipe.batch, seed=self.recipe.seed, weight=weight, rank=rank, world=world)

    def _in_order(self, indices: NDArray[np.int64]) -> Order:
        rank, world = self._place()
        return Order(indices, 1, shuffle=False, rank=rank, world=world)

    def _place(self) -> tuple[int, int]:
        """Which process this is, and of how many."""
        return (0, 1) if self.trainer is None else (self.trainer.global_rank, self.trainer.world_size)

    def _loader(self, order: Order) -> DataLoader[Any]:
        return DataLoader(
            self.opened,
            sampler=order,  # each of its items is a whole batch
            batch_size=None,
            num_workers=self.workers,
            persistent_workers=self.workers > 0,
            collate_fn=lambda one: one,
        )


class Opened(Dataset[Samples]):
    """Item = a batch, asked for by its indices: out of memory, or read as it is asked for."""

    def __init__(self, source: SegmentSource, zoom: float) -> None:
        self.source, self.zoom = source, zoom
        self.kept: dict[int, Labelled] = {}
        self.bad: dict[int, str] = {}  # of images that could not be read: why

    def pixels(self, indices: NDArray[np.int64]) -> float:
        """Of these images, as they are opened."""
        return float(self.source.areas[indices].sum()) * min(self.zoom, 1.0) ** 2

    def keep(self, indices: NDArray[np.int64], progress: Progress) -> None:
        for index in progress(iter(indices.tolist()), len(indices), "opening images"):
            try:
                self.kept[index] = self.read(index)
            except BadImage as bad:
                self.bad[index] = bad.reason

    def read(self, index: int) -> Labelled:
        image, labels = self.source.image(index), self.source.label_map(index)
        if self.zoom < 1:
            image, labels = shrunk(image, labels, round(1 / self.zoom))
        return Labelled(torch.from_numpy(np.ascontiguousarray(image)), torch.from_numpy(np.ascontiguousarray(labels)))

    def __getitem__(self, indices: NDArray[np.int64]) -> Samples:
        samples, good = [], []
        for index in indices.tolist():
            if index in self.kept:
                samples.append(self.kept[index])
            else:
                try:
                    samples.append(self.read(index))
                except BadImage as bad:
                    self.bad[index] = bad.reason
                    continue
            good.append(index)
        return Samples(samples, torch.tensor(good, dtype=torch.int64))


def drawn_as_often(areas: NDArray[np.int64], found: float) -> NDArray[np.float64] | None:
    """(N,): how often each image is drawn, so that a share of them, `found`, has a finding, and rare classes come up
    more often, by 1/√ of how many images show them. areas (N, K + 2); None: each once.
    """
    shows = areas[:, 1:-1] > 0
    any_, classes = shows.any(1), shows.sum(0)
    if not any_.any() or (found <= any_.mean() and len(classes) == 1):
        return None
    rare = np.where(shows, 1 / np.sqrt(np.maximum(classes, 1)), 0.0).max(1)
    weight = np.where(any_, rare / rare.sum(), 0.0)
    share = max(found, float(any_.mean()))
    if any_.all():
        return weight
    return np.asarray(share * weight + (1 - share) * ~any_ / (~any_).sum())
