"""Translation as a LightningModule: the Transformer's loss, optimiser and schedule, with everything random in a step drawn from the seed and its number.

    L = −Σ_t [(1 − ε) log P(y_t | y_<t, X) + ε/V Σ_w log P(w | y_<t, X)] / T

Symbols: ε the smoothing, V words of the vocabulary, T words of the batch, ends included. Words of no sentence, the padding, are never computed,
unless a step is recorded. With `agreement` a term is added: objective/word_loss.py.
"""

import dataclasses
import math
import sys
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from foveal.data.token_batches import TextBatch, settled
from foveal.losses.token_loss import token_loss
from foveal.metrics.bleu import translation_scores
from foveal.models.torch_engine import TorchEngine
from foveal.options import WHOLE
from foveal.runtime.decode.batched import beginnings, decode_all, positions
from foveal.runtime.decode.search import Search
from foveal.runtime.vocabulary import PAD, Vocabulary
from foveal.tasks.translate.recipe import TranslateRecipe
from foveal.train.cuda_graph import GraphedLoss
from foveal.train.diverged import expect_finite
from foveal.train.gather import gathered
from foveal.train.schedule import root

BATCH = {"cpu": 64, "cuda": 512}  # sentences that are translated together


def translate(
    model: Any, vocabularies: tuple[Vocabulary, Vocabulary], lines: list[str], search: Search, batch: int | None = None
) -> list[str]:
    """The best translation of each line, however long it is: of one for which there are not enough positions, the beginning is read."""
    source, target = vocabularies
    sources, most = source.encode(lines), positions(vars(model.config))
    if most is not None and (cut := sum(len(pieces) >= most for pieces in sources)):
        print(
            f"{cut} sentences of {len(lines)} have more than {most - 1:,} pieces, of which the first are read", file=sys.stderr, flush=True
        )
    found = decode_all(
        TorchEngine(model),
        beginnings(sources, most),
        dataclasses.replace(search, room=most),
        batch or BATCH.get(next(model.parameters()).device.type, 64),
    )
    return target.decode([one[0].words for one in found])


def records(recipe: TranslateRecipe, model: Any, device: str, processes: int) -> bool:
    """Whether a run's steps are recorded: train/recorded.py.

    Not in 16 bits, where the loss is scaled before its gradient is computed, by a number that changes; not with checkpointing, where a layer has a
    random state of its own.
    """
    fits = recipe.precision != "16" and not recipe.checkpointing and device == "cuda" and processes == 1
    return bool(recipe.cuda_graphs and model.recordable and fits)


class Translate(pl.LightningModule):
    unit = "tokens"

    def __init__(self, model: nn.Module, recipe: TranslateRecipe) -> None:
        super().__init__()
        self.model: Any = model
        self.recipe = recipe
        self.seen: list[tuple[Tensor, int]] = []
        self.cuda_graphs: GraphedLoss | None = None

    @property
    def evaluated(self) -> nn.Module:
        """The model whose weights are kept."""
        model: nn.Module = self.model
        return model

    def on_train_start(self) -> None:
        on = records(self.recipe, self.model, self.device.type, self.trainer.world_size)
        self.cuda_graphs = GraphedLoss(self) if on else None

    def on_train_end(self) -> None:
        self.cuda_graphs = None  # it holds weights, gradients and memory of a GPU

    def amount(self, batch: TextBatch) -> int:
        return len(batch.places)

    def on_train_batch_start(self, batch: TextBatch, batch_idx: int) -> None:
        # Not of the step, which several batches may share.
        number = self.trainer.fit_loop.epoch_loop.total_batch_idx
        torch.manual_seed(int(np.random.SeedSequence([self.recipe.seed, number, self.global_rank]).generate_state(1)[0]))

    def training_step(self, batch: TextBatch, batch_idx: int) -> Tensor:
        if self.cuda_graphs is not None:
            loss = self.cuda_graphs(*settled(batch, self.recipe.tokens, positions(vars(self.model.config))))
        else:
            loss = self.loss(batch, self.recipe.smoothing, self.recipe.agreement)
        if self.trainer.world_size > 1:  # the mean over the words of all processes, whose parts of a batch have not equally many
            (words,) = gathered(self, torch.tensor([float(len(batch.places))], device=self.device))
            loss = loss * len(batch.places) * self.trainer.world_size / words.sum()
        self.log("loss", loss.detach(), prog_bar=True, on_step=False, on_epoch=True, batch_size=len(batch.places), sync_dist=True)
        return loss

    def loss(self, batch: TextBatch, smoothing: float, agreement: float = 0.0) -> Tensor:
        """The mean over words."""
        hidden = self.hidden(batch.source, batch.target_in, 2 if agreement else 1).index_select(1, batch.places)
        words, tables = batch.target_out.flatten().index_select(0, batch.places), self.model.tables
        return token_loss(hidden, tables.of_output, words, smoothing, tables.bias, agreement=agreement)

    def forward(self, source: Tensor, target_in: Tensor, target_out: Tensor) -> Tensor:
        """The loss of a settled batch, whose padding is computed, too, and does not count."""
        recipe, tables, words = self.recipe, self.model.tables, target_out.flatten()
        hidden = self.hidden(source, target_in, 2 if recipe.agreement else 1)
        return token_loss(hidden, tables.of_output, words, recipe.smoothing, tables.bias, counts=words != PAD, agreement=recipe.agreement)

    def hidden(self, source: Tensor, target: Tensor, passes: int) -> Tensor:
        """What the decoder says of each word, (P, B·N, C): pass after pass, each with other things dropped."""
        source, target = source.repeat(passes, 1), target.repeat(passes, 1)
        said: Tensor = self.model.decode(target, self.model.encode(source))
        return said.reshape(passes, -1, said.shape[2])

    def on_validation_epoch_start(self) -> None:
        self.seen = []

    def validation_step(self, batch: TextBatch, batch_idx: int) -> None:
        if len(batch.places):  # a process may have no pair of the last batch
            self.seen.append((self.loss(batch, 0.0), len(batch.places)))

    def on_validation_epoch_end(self) -> None:
        counts = torch.tensor([float(count) for _, count in self.seen], device=self.device)
        losses = torch.stack([loss.float() for loss, _ in self.seen]) if self.seen else counts
        losses, counts = gathered(self, losses, counts)
        loss = float((losses.double() * counts).sum() / counts.sum())
        expect_finite(math.isfinite(loss))
        self.log("val_loss", loss, prog_bar=True, sync_dist=True)
        if self.recipe.bleu and not self.trainer.sanity_checking:
            due = (self.trainer.current_epoch + 1) % self.recipe.bleu == 0
            self.log("val_bleu", self.bleu() if due else float("nan"), sync_dist=True)

    def bleu(self) -> float:
        """Of the validation split, by greedy search: quick enough to look at while training."""
        feeds = self.trainer.datamodule  # type: ignore[attr-defined]
        pairs = feeds.data.splits["val"]
        said = translate(self.model, (feeds.source, feeds.target), pairs.source, Search(beam=1))
        return translation_scores(said, pairs.target, draws=0)["bleu"].value

    def configure_optimizers(self) -> Any:
        recipe = self.recipe
        lr = recipe.lr or (self.model.config.width * recipe.warmup) ** -0.5
        groups = [
            {"params": [weight for weight in self.model.parameters() if weight.dim() > 1], "weight_decay": recipe.decay},
            {"params": [weight for weight in self.model.parameters() if weight.dim() <= 1], "weight_decay": 0.0},
        ]
        fused = self.device.type == "cuda" and recipe.precision in WHOLE  # in mixed precision, Lightning clips no gradient of a fused one
        optimizer = torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.98), eps=1e-9, fused=fused)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: root(step, recipe.warmup))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}
