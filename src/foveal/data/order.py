"""In which order a set is seen: a function of seed and epoch alone,
so that a run that was killed goes on as if it had not been.

Every process of a distributed run takes its own slice of each batch.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from foveal.errors import expect, expect_integer


class Order:
    """Batches of indices, one epoch at a time: a sampler for torch's DataLoader with batch_size=None."""

    def __init__(
        self,
        indices: NDArray[np.int64],
        batch: int,
        *,
        seed: int = 0,
        shuffle: bool = True,
        weight: NDArray[np.float64] | None = None,
        period: int = 0,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        """weight (N,): how often each is drawn, with replacement, instead of once. period: after so many epochs their
        batches come again; 0: never. rank, world: which process this is, and of how many.
        """
        expect_integer(batch, "batch")
        expect(len(indices) > 0, "the split", "at least one image that can be read", "none")
        self.indices, self.batch, self.seed, self.shuffle, self.weight = indices, batch, seed, shuffle, weight
        self.period, self.rank, self.world, self.epoch = period, rank, world, 0

    def set_epoch(self, epoch: int) -> None:
        """Lightning calls this before each epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        # In training every batch has the same size (a CUDA graph and BatchNorm want that): what is left over has its
        # turn in another epoch; of a short period some may have none.
        return max(1, len(self.indices) // self.batch) if self.shuffle else -(-len(self.indices) // self.batch)

    def __iter__(self) -> Iterator[NDArray[np.int64]]:
        indices = self._permuted() if self.shuffle else self.indices
        for start in range(0, len(self) * self.batch, self.batch):
            part = indices[start : start + self.batch]
            if self.shuffle:  # in training every process has as many as the others
                part = part[: max(1, len(part) // self.world) * self.world]
            yield part[self.rank :: self.world]

    def _permuted(self) -> NDArray[np.int64]:
        draw = np.random.default_rng([self.seed, self.epoch % self.period if self.period else self.epoch])
        if self.weight is None:
            return draw.permutation(self.indices)
        return draw.choice(self.indices, len(self.indices), p=self.weight / self.weight.sum())


def rarity(labels: NDArray[np.integer], multi_label: bool) -> NDArray[np.float64]:
    """How often to draw each image so that rare classes are seen as often as common ones.

    One label: 1/count of its class. Several: the largest 1/count of its classes, where to have none is a class, too.
    """
    if not multi_label:
        return np.asarray(1.0 / np.bincount(labels)[labels])
    present = np.column_stack([labels == 1, ~(labels == 1).any(1)])
    return np.asarray(np.where(present, 1.0 / np.maximum(present.sum(0), 1), 0.0).max(1))
