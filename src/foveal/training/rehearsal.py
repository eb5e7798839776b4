"""How long a run will take, measured before it begins: a few steps of it, with its own model, data and machine.

    run = Σ_epochs (batches · s + validation) + p · validation,   validation = (batches of validation) · v

Symbols: s seconds from the end of one training step to the end of the next, with the wait for its batch; v seconds per
batch of validation; p validations that the end of a run takes as long as, when the kept model predicts the splits. The
first step is left out: it warms up. Where batches come again, and take less time then, s is another in those epochs:
two short epochs are tried, the second of the same batches as the first.
"""

import time
from dataclasses import dataclass
from typing import Any

import pytorch_lightning as pl
import torch

STEPS, VALIDATED = 3, 2  # batches that are tried
# What makes a trainer short: it writes nothing, and shows nothing.
SHORT: dict[str, Any] = {
    "max_epochs": 1,
    "limit_train_batches": STEPS,
    "limit_val_batches": VALIDATED,
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
}


@dataclass(frozen=True)
class Pace:
    """Seconds of a run's epochs, which are counted from where this process begins: it has kept no batch yet.

    Of a run that was not rehearsed all epochs count as one: they take as long as each other.
    """

    new: float = 1.0  # an epoch of batches that were not seen before
    again: float = 1.0  # one whose batches come again
    novel: int | None = None  # after how many epochs they do; None: never
    end: float = 0.0  # what the run takes after its last epoch

    def epoch(self, number: int) -> float:
        return self.new if self.novel is None or number < self.novel else self.again

    def epochs(self, count: int, done: int = 0) -> float:
        """Of so many, without those that are done."""
        return sum(self.epoch(number) for number in range(done, count))


class Clock(pl.Callback):
    """Reads the time at the end of each step, and around validation."""

    def __init__(self) -> None:
        self.epochs: list[list[float]] = []  # the ends of their steps, after their beginning
        self.batches = self.validations = 0  # of a whole epoch
        self.validated: list[float] = []  # seconds per batch of validation, after each epoch

    def epoch(self, number: int = 0) -> float:
        """Seconds of a whole epoch that is like the one tried at this place."""
        first, *others = self.epochs[number]
        step = (others[-1] - others[0]) / (len(others) - 1) if len(others) > 1 else others[0] - first
        return step * self.batches + self.validation(number)

    def validation(self, number: int = 0) -> float:
        """Seconds of a whole validation, after that epoch."""
        return self.validated[number] * self.validations

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        self.batches = len(trainer.train_dataloader or ())

    def on_train_epoch_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        self.epochs.append([_now(module)])

    def on_train_batch_end(self, trainer: pl.Trainer, module: pl.LightningModule, *_: Any) -> None:
        self.epochs[-1].append(_now(module))

    def on_validation_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        self.validated.append(_now(module))

    def on_validation_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        loaders: Any = trainer.val_dataloaders
        self.validations = len(loaders)
        self.validated[-1] = (_now(module) - self.validated[-1]) / max(1, min(VALIDATED, self.validations))


def _now(module: pl.LightningModule) -> float:
    if module.device.type == "cuda":
        torch.cuda.synchronize(module.device)
    return time.perf_counter()
