"""The data of a run of translation: sentences read, cut into subwords once,
and fed to Lightning in batches of tokens.
"""

from functools import cached_property

import numpy as np
import pytorch_lightning as pl
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset

from foveal.data.parallel import Parallel
from foveal.data.token_batches import TextBatch, TokenBatches, TokenPairs, collate
from foveal.runtime.vocabulary import Vocabulary
from foveal.tasks.translate.recipe import TranslateRecipe


class Batched(Dataset[TextBatch]):
    """Indices of some pairs → their batch."""

    def __init__(self, pairs: TokenPairs) -> None:
        self.pairs = pairs

    def __getitem__(self, indices: NDArray[np.int64]) -> TextBatch:
        return collate(self.pairs[indices])


class TranslateData(pl.LightningDataModule):
    def __init__(
        self,
        data: Parallel,
        recipe: TranslateRecipe,
        source: Vocabulary,
        target: Vocabulary,
        positions: int | None = None,
    ) -> None:
        """positions: of tokens that the model has learned; None: any number."""
        super().__init__()
        self.limit = recipe.tokens if positions is None else min(recipe.tokens, positions)
        self.data, self.recipe, self.source, self.target = data, recipe, source, target

    @cached_property
    def encoded(self) -> dict[str, TokenPairs]:
        return {
            split: TokenPairs.encoded(self.data.splits[split], self.source, self.target) for split in ("train", "val")
        }

    @cached_property
    def order(self) -> TokenBatches:
        """The training split's batches."""
        return self._batches("train", shuffle=True)

    def summary(self) -> list[str]:
        """The training split's batches, and what the validation loss leaves out; a line each."""
        left = self._batches("val", shuffle=False).left_out
        missed = (
            f"{left} pairs of val have more than {self.limit - 1:,} tokens: the loss leaves them out, BLEU does not"
        )
        return [self.order.summary(), *([missed] if left else [])]

    def _batches(self, split: str, shuffle: bool) -> TokenBatches:
        pairs = self.encoded[split]
        rank, world = (0, 1) if self.trainer is None else (self.trainer.global_rank, self.trainer.world_size)
        # A sentence longer than a whole batch would stop the run, and one longer than its positions would train
        # stretched ones: they are left out, and counted in the summary.
        return TokenBatches(
            pairs.source.lengths,
            pairs.target.lengths,
            self.recipe.tokens,
            seed=self.recipe.seed,
            max_length=self.limit - 1,
            shuffle=shuffle,
            rank=rank,
            world=world,
        )

    def train_dataloader(self) -> "DataLoader[TextBatch]":
        return self._loader("train", self._batches("train", shuffle=True))

    def val_dataloader(self) -> "DataLoader[TextBatch]":
        return self._loader("val", self._batches("val", shuffle=False))

    def _loader(self, split: str, order: TokenBatches) -> "DataLoader[TextBatch]":
        return DataLoader(
            Batched(self.encoded[split]), sampler=order, batch_size=None, pin_memory=torch.cuda.is_available()
        )
