"""The data of a run: read, decoded once where it fits, cut into splits, and fed to Lightning in batches."""

import gc
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pytorch_lightning as pl
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader

from foveal.data.batches import Batch, Batches, loader
from foveal.data.division import Splits, filled, splits_of
from foveal.data.order import Order, rarity
from foveal.data.pack import Bad, Pack, pack, why
from foveal.data.source import Source
from foveal.progress import Progress, silent
from foveal.runtime.blank import paint
from foveal.tasks.classify.recipe import ClassifyRecipe
from foveal.training.sweep import cores

ROOM = 4 * 2**30  # bytes of images that are kept in memory
Kind = tuple[int, tuple[tuple[float, ...], ...]]  # size, and the boxes that are painted grey
# Of each source the packs that were made, the one used last at the end: a run of several stages opens its images once
# per kind, as long as all kinds together fit into ROOM.
PACKS: "WeakKeyDictionary[Source, dict[Kind, Pack]]" = WeakKeyDictionary()


class ClassifyData(pl.LightningDataModule):
    def __init__(
        self,
        source: Source,
        recipe: ClassifyRecipe,
        splits: Splits | None = None,
        workers: int | None = None,
        progress: Progress = silent,
    ) -> None:
        super().__init__()
        self.source, self.recipe = source, recipe
        splits = splits or splits_of(source, recipe.fold)
        self.packed = self._pack(progress)
        self.workers = workers if workers is not None else 0 if self.packed is not None else max(1, cores() - 1)
        keep = (lambda part: part) if self.packed is None else self.packed.keep
        kept = Splits(keep(splits.train), keep(splits.val), keep(splits.test))
        self.splits = filled(source, kept, "at least one image that can be read", "none")
        self.resident = False  # whether the images lie on the device
        self.unread: set[int] = set()  # of images that are decoded as they come: those that could not be

    @property
    def bad(self) -> tuple[Bad, ...]:
        """What could not be read, as far as it was tried."""
        if self.packed is not None:
            return self.packed.bad
        return tuple(why(self.source, index, self.recipe.size) for index in sorted(self.unread))

    def on_before_batch_transfer(self, batch: Batch, dataloader_idx: int) -> Batch:
        self.unread.update(batch.index[~batch.good].tolist())
        return batch

    def state_dict(self) -> dict[str, Any]:
        return {"unread": sorted(self.unread)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.unread.update(state_dict["unread"])

    def _pack(self, progress: Progress) -> Pack | None:
        size = self.recipe.size
        needed = len(self.source) * size * size * 3
        if needed > ROOM:
            return None
        kind = (size, tuple(map(tuple, self.recipe.blank)))
        packs = PACKS.setdefault(self.source, {})
        packed = packs.pop(kind, None)
        if packed is None:
            _make_room(needed)
            packed = pack(self.source, size, progress)
            paint(packed.pixels, self.recipe.blank)
        packs[kind] = packed
        return packed

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """(C,): images of each class in the training split."""
        labels = self.source.labels[self.splits.train]
        return (
            labels.sum(0).astype(np.int64)
            if self.source.multi_label
            else np.bincount(labels, minlength=len(self.source.classes))
        )

    @cached_property
    def steps(self) -> int:
        """Of the optimizer in one epoch."""
        return -(-len(self._train_order()) // self.recipe.accumulate)

    def on_device(self, device: torch.device) -> torch.Tensor | None:
        """All images, where they fit into a quarter of the device's free memory: a step then waits for nothing."""
        if (
            self.packed is None
            or device.type != "cuda"
            or self.packed.pixels.nbytes > torch.cuda.mem_get_info(device)[0] // 4
        ):
            return None
        self.resident = True
        return torch.from_numpy(self.packed.pixels).to(device)

    def train_dataloader(self) -> "DataLoader[Batch]":
        return self._loader(self._train_order())

    def val_dataloader(self) -> "DataLoader[Batch]":
        return self._loader(self._in_order(self.splits.val))

    def predict_dataloader(self) -> list["DataLoader[Batch]"]:
        """The splits that a run predicts at its end: val, and test where there is one."""
        parts = [self.splits.val, self.splits.test]
        return [self._loader(self._in_order(part)) for part in parts if len(part)]

    def _train_order(self) -> Order:
        recipe, train = self.recipe, self.splits.train
        weight = rarity(self.source.labels[train], self.source.multi_label) if recipe.balance == "sampling" else None
        rank, world = self._place()
        return Order(train, recipe.batch, seed=recipe.seed, weight=weight, period=recipe.views, rank=rank, world=world)

    def _in_order(self, indices: NDArray[np.int64]) -> Order:
        rank, world = self._place()
        return Order(indices, max(64, self.recipe.batch), shuffle=False, rank=rank, world=world)

    def _place(self) -> tuple[int, int]:
        """Which process this is, and of how many."""
        return (0, 1) if self.trainer is None else (self.trainer.global_rank, self.trainer.world_size)

    def _loader(self, order: Order) -> "DataLoader[Batch]":
        batches = Batches(
            self.source, self.recipe.size, self.packed, self.resident, tuple(map(tuple, self.recipe.blank))
        )
        return loader(batches, order, self.workers, pinned=torch.cuda.is_available() and not self.resident)


def _make_room(needed: int) -> None:
    """Forget packs, of each source the one used longest ago first, until another of this many bytes fits in."""
    forgotten = False
    for packs in list(PACKS.values()):
        while packs and needed + sum(one.pixels.nbytes for each in PACKS.values() for one in each.values()) > ROOM:
            del packs[next(iter(packs))]
            forgotten = True
    if forgotten:
        gc.collect()  # a trainer and its module hold each other, and the pack of a stage that has ended
