"""Translation as a LightningModule: the Transformer's loss, optimiser and schedule.

    L = −Σ_t [(1 − ε) log P(y_t | y_<t, X) + ε/V Σ_w log P(w | y_<t, X)] / T

Symbols: ε the label smoothing, V tokens of the vocabulary, T tokens of the batch, ends included. Padding is never
computed, unless a step is recorded as a CUDA graph. With `r_drop` a term is added: losses/token_loss.py.
"""

import dataclasses
import math
import sys
from typing import Any

import torch
from torch import Tensor, nn

from foveal.data.token_batches import TextBatch, bucketed
from foveal.losses.token_loss import token_loss
from foveal.metrics.bleu import translation_scores
from foveal.models.torch_engine import TorchEngine
from foveal.runtime.decode.batched import decode_all, max_positions, truncated
from foveal.runtime.decode.search import Search
from foveal.runtime.vocabulary import PAD, Vocabulary
from foveal.tasks.translate.recipe import TranslateRecipe
from foveal.training.diverged import expect_finite
from foveal.training.gather import gathered
from foveal.training.module import TaskModule
from foveal.training.schedule import root

BATCH = {"cpu": 64, "cuda": 512}  # sentences that are translated together


def translate(
    model: Any, vocabularies: tuple[Vocabulary, Vocabulary], lines: list[str], search: Search, batch: int | None = None
) -> list[str]:
    """The best translation of each line, however long it is: of one for which there are not enough positions,
    the beginning is read.
    """
    source, target = vocabularies
    sources, limit = source.encode(lines), max_positions(vars(model.config))
    if limit is not None and (cut := sum(len(tokens) >= limit for tokens in sources)):
        warning = f"{cut} sentences of {len(lines)} have more than {limit - 1:,} tokens, of which the first are read"
        print(warning, file=sys.stderr, flush=True)
    batch = batch or BATCH.get(next(model.parameters()).device.type, 64)
    search = dataclasses.replace(search, max_positions=limit)
    found = decode_all(TorchEngine(model), truncated(sources, limit), search, batch)
    return target.decode([one[0].tokens for one in found])


class TranslateModule(TaskModule):
    unit = "tokens"
    occasional = ("val_bleu",)
    recordable = True

    def __init__(self, model: nn.Module, recipe: TranslateRecipe) -> None:
        super().__init__(model, recipe)
        self.losses: list[tuple[Tensor, int]] = []  # of validation: each batch's, and its tokens

    def obstacle(self, processes: int) -> str | None:
        if not self.model.recordable:
            return f"{self.recipe.model} reads numbers, or draws them on the CPU"
        if self.recipe.precision == "16":  # before its gradient is computed
            return "in --precision 16 the loss is scaled by a number that changes"
        return super().obstacle(processes)

    def amount(self, batch: TextBatch) -> int:
        return len(batch.places)

    def training_step(self, batch: TextBatch, batch_idx: int) -> Tensor:
        if self.cuda_graphs is not None:
            loss = self.recorded_loss(*bucketed(batch, self.recipe.tokens, max_positions(vars(self.model.config))))
        else:
            loss = self.loss(self.model, batch, self.recipe.label_smoothing, self.recipe.r_drop)
        if (
            self.trainer.world_size > 1
        ):  # the mean over the tokens of all processes, whose parts of a batch have not equally many
            (tokens,) = gathered(self, torch.tensor([float(len(batch.places))], device=self.device))
            loss = loss * len(batch.places) * self.trainer.world_size / tokens.sum()
        count = len(batch.places)
        self.log("loss", loss.detach(), prog_bar=True, on_step=False, on_epoch=True, batch_size=count, sync_dist=True)
        return loss

    def loss(self, model: Any, batch: TextBatch, label_smoothing: float, r_drop: float = 0.0) -> Tensor:
        """The mean over tokens."""
        hidden = self.hidden(model, batch.source, batch.target_in, 2 if r_drop else 1).index_select(1, batch.places)
        tokens, tables = batch.target_out.flatten().index_select(0, batch.places), model.tables
        return token_loss(hidden, tables.of_output, tokens, label_smoothing, tables.bias, r_drop=r_drop)

    def forward(self, source: Tensor, target_in: Tensor, target_out: Tensor) -> Tensor:
        """The loss of a bucketed batch, whose padding is computed, too, and does not count."""
        recipe, tables, tokens = self.recipe, self.model.tables, target_out.flatten()
        hidden = self.hidden(self.model, source, target_in, 2 if recipe.r_drop else 1)
        smoothing, counts = recipe.label_smoothing, tokens != PAD
        return token_loss(hidden, tables.of_output, tokens, smoothing, tables.bias, counts=counts, r_drop=recipe.r_drop)

    def hidden(self, model: Any, source: Tensor, target: Tensor, passes: int) -> Tensor:
        """The decoder's output for each token, (P, B·N, C): pass after pass, each with a dropout of its own."""
        source, target = source.repeat(passes, 1), target.repeat(passes, 1)
        output: Tensor = model.decode(target, model.encode(source))
        return output.reshape(passes, -1, output.shape[2])

    def on_validation_epoch_start(self) -> None:
        self.losses = []

    def validation_step(self, batch: TextBatch, batch_idx: int) -> None:
        if len(batch.places):  # a process may have no pair of the last batch
            self.losses.append((self.loss(self.evaluated, batch, 0.0), len(batch.places)))

    def on_validation_epoch_end(self) -> None:
        counts = torch.tensor([float(count) for _, count in self.losses], device=self.device)
        losses = torch.stack([loss.float() for loss, _ in self.losses]) if self.losses else counts
        losses, counts = gathered(self, losses, counts)
        loss = float((losses.double() * counts).sum() / counts.sum())
        expect_finite(math.isfinite(loss))
        self.log("val_loss", loss, prog_bar=True, sync_dist=True)
        if self.recipe.bleu_every and self.trainer.state.fn == "fit":  # at the end all splits are translated
            due = (self.trainer.current_epoch + 1) % self.recipe.bleu_every == 0
            self.log("val_bleu", self.bleu() if due else float("nan"), sync_dist=True)

    def bleu(self) -> float:
        """Of the validation split, by greedy search: quick enough to follow while training."""
        data = self.trainer.datamodule  # type: ignore[attr-defined]
        pairs = data.data.splits["val"]
        translations = translate(self.evaluated, (data.source, data.target), pairs.source, Search(beam=1))
        return translation_scores(translations, pairs.target, resamples=0)["bleu"].value

    def configure_optimizers(self) -> Any:
        recipe = self.recipe
        lr = recipe.lr or (self.model.config.width * recipe.warmup) ** -0.5
        groups = [
            {
                "params": [weight for weight in self.model.parameters() if weight.dim() > 1],
                "weight_decay": recipe.weight_decay,
            },
            {"params": [weight for weight in self.model.parameters() if weight.dim() <= 1], "weight_decay": 0.0},
        ]
        return self.adamw(groups, lambda step: root(step, recipe.warmup), lr, betas=(0.9, 0.98), eps=1e-9)
