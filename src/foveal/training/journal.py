"""What a run writes while it goes: a row for each epoch, the weights to keep, and a checkpoint to go on from.

All whole or not at all.
"""

import csv
import io
import math
import sys
import time
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Checkpoint, EarlyStopping, RichProgressBar
from pytorch_lightning.plugins import TorchCheckpointIO
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import nn

from foveal.atomic import write_atomic
from foveal.errors import FovealError, expect
from foveal.file_names import utf8_name
from foveal.training.rehearsal import Pace

LOG, CHECKPOINT, WEIGHTS = "log.csv", "last.ckpt", "weights.safetensors"
TRAIL = "weights-{}.safetensors"  # of the last epochs


class Journal(Checkpoint):
    """At the end of each epoch: one row in log.csv, weights.safetensors if it is the best so far, then last.ckpt.

    The checkpoint comes last: a run that dies between two of them does the epoch again, and comes to the same files. A
    Checkpoint to Lightning, which calls these after all others: what they have counted in this epoch must be in the
    file.
    """

    def __init__(
        self,
        folder: Path,
        checkpoint: str,
        watched: tuple[str, str],
        verbose: bool = True,
        trail: int = 1,
        name: str = "",
        pace: Pace | None = None,
        later: float = 0.0,
    ) -> None:
        """checkpoint: which epoch's weights are kept, the "best" by the watched figure, or the "last". watched: that
        figure, and its better end, "min" or "max". verbose: a line per epoch on stderr. trail: keep the weights of the
        last N epochs, to be averaged. name: of this stage of a run of several, pace: how long its epochs take beside
        each other, later: seconds that will pass after the last.
        """
        self.name, self.rehearsed, self.later = name, pace or Pace(), later
        self.first = 0  # the epoch that this process has begun with
        self.folder, self.checkpoint, self.watched, self.verbose = folder, checkpoint, watched, verbose
        self.trail = trail if trail > 1 else 0
        self.best, self.best_loss, self.best_epoch, self.rows = -math.inf, 0.0, -1, list[dict[str, Any]]()
        self.began = self.ended = self.trained = self.waited = 0.0
        self.amount = 0

    @property
    def kept_epoch(self) -> int:
        """Whose weights are kept, counted from 1: the chosen epoch, or the last of those that are averaged."""
        return len(self.rows) if self.trail else self.best_epoch + 1

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "best_loss": self.best_loss, "best_epoch": self.best_epoch, "rows": self.rows}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best, self.best_loss, self.best_epoch, self.rows = (
            state[name] for name in ("best", "best_loss", "best_epoch", "rows")
        )

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        # A run that had stopped early and then died has nothing left to train; Lightning does not remember that it had
        # stopped.
        patient = [one for one in trainer.callbacks if isinstance(one, EarlyStopping)]  # type: ignore[attr-defined]
        trainer.should_stop = any(one.wait_count >= one.patience for one in patient)
        self.first = trainer.current_epoch

    def on_train_epoch_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        self.began = self.ended = time.perf_counter()
        self.trained, self.waited, self.amount = 0.0, 0.0, 0

    def on_train_batch_start(self, trainer: pl.Trainer, module: pl.LightningModule, batch: Any, batch_idx: int) -> None:
        # since the last step nothing was done but to wait for this batch
        self.waited += time.perf_counter() - self.ended

    def on_train_batch_end(
        self, trainer: pl.Trainer, module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self.ended = time.perf_counter()
        self.trained = self.ended - self.began
        self.amount += module.amount(batch) * trainer.world_size  # type: ignore[operator]

    def on_train_epoch_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
        figure, better = self.watched
        logged = ", ".join(metrics) or "nothing"
        expect(figure in metrics, "the module", f"it to log {figure}, which the best epoch goes by", logged)
        score, seconds = metrics[figure] * (1 if better == "max" else -1), time.perf_counter() - self.began
        if trainer.is_global_zero:
            self._note(trainer, module, metrics, score, seconds)
        trainer.save_checkpoint(self.folder / CHECKPOINT)  # every process takes part in that, the first one writes
        if self.verbose and trainer.is_global_zero:
            # Not every epoch has every figure; a loss that is NaN is what a person must see.
            missing = {name for name in module.occasional if math.isnan(metrics.get(name, math.nan))}  # type: ignore[union-attr]
            known = {name: f"{value:.4f}" for name, value in metrics.items() if name not in missing}
            facts = " · ".join(f"{name} {value}" for name, value in (known | self.pace(trainer, module, 1.0)).items())
            of = f" of {self.name}" if self.name else ""
            line = f"epoch {trainer.current_epoch + 1} of {trainer.max_epochs}{of} · {facts}"
            print(line, file=sys.stderr, flush=True)

    def pace(self, trainer: pl.Trainer, module: pl.LightningModule, share: float) -> dict[str, str]:
        """How fast the run goes, and how long it will still go, all of its later stages counted, after this share of
        an epoch.

        What validation takes is known from the last epoch. Epochs whose batches come again take less time than those
        before them: as much less as in the rehearsal.
        """
        seconds = time.perf_counter() - self.began
        speed = self.amount / max(self.trained, 1e-9)
        done, last = trainer.current_epoch - self.first, (trainer.max_epochs or 0) - self.first
        factor = seconds / max(share * self.rehearsed.epoch(done), 1e-9)  # of the time that the rehearsal took
        if self.rows:
            row = self.rows[-1]
            factor = max(factor, row["seconds"] / max(self.rehearsed.epoch(row["epoch"] - 1 - self.first), 1e-9))
        left = max(0.0, factor * self.rehearsed.epochs(last, done) - seconds)
        return {f"{module.unit}/s": f"{speed:,.0f}", "left": duration(left + self.later)}

    def _note(
        self, trainer: pl.Trainer, module: pl.LightningModule, metrics: dict[str, float], score: float, seconds: float
    ) -> None:
        """The epoch's row, and its weights if they are the best so far."""
        loss = metrics.get("val_loss", 0.0)  # breaks a tie between epochs of the same score
        if self.checkpoint == "last" or (score, -loss) > (self.best, -self.best_loss):
            self.best, self.best_loss, self.best_epoch = score, loss, trainer.current_epoch
            if not self.trail:
                write_atomic(self.folder / WEIGHTS, weights(module))
        if self.trail:
            write_atomic(self.folder / TRAIL.format(trainer.current_epoch % self.trail), weights(module))
        lr = trainer.optimizers[0].param_groups[0]["lr"]
        row = {"epoch": trainer.current_epoch + 1, **{name: round(value, 6) for name, value in metrics.items()}}
        speed = {
            f"{module.unit}_per_second": round(self.amount / max(self.trained, 1e-9), 1),
            "waiting": round(self.waited / max(self.trained, 1e-9), 4),
        }
        self.rows.append(row | {"lr": f"{lr:.3g}", "seconds": round(seconds, 2)} | speed)
        self._write_log()

    def load_kept(self, model: nn.Module, trail: int) -> None:
        """Put the kept weights into the model: those of the chosen epoch, or the mean of the last epochs,
        in double precision.
        """
        files = (
            [file for place in range(trail) if (file := self.folder / TRAIL.format(place)).exists()]
            if trail > 1
            else []
        )
        files = files or [self.folder / WEIGHTS]
        expect(files[0].exists(), f"the run in {self.folder}", f"weights that it kept, such as {files[0].name}", "none")
        parts = [_tensors(file) for file in files]
        if len(parts) == 1:
            model.load_state_dict(parts[0])
            return
        means = {name: torch.stack([part[name].double() for part in parts]).mean(0) for name in parts[0]}
        model.load_state_dict({name: mean.to(parts[0][name].dtype) for name, mean in means.items()})

    def _write_log(self) -> None:
        text = io.StringIO()
        table = csv.DictWriter(text, list(self.rows[-1]), lineterminator="\n", extrasaction="ignore")
        table.writeheader()
        table.writerows(self.rows)
        write_atomic(self.folder / LOG, text.getvalue().encode())


def _tensors(file: Path) -> dict[str, torch.Tensor]:
    try:
        with utf8_name(file) as name:
            return dict(load_file(name))
    except SafetensorError as error:
        raise FovealError(
            f"{file}: expected the weights that the run kept, got a damaged file ({error}); begin the run anew"
        ) from None


class Bar(RichProgressBar):
    """Lightning's bar of an epoch on a terminal, with the pace of the run instead of a version's number."""

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self.journal = journal

    def get_metrics(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> dict[str, Any]:
        items = super().get_metrics(trainer, pl_module)
        items.pop("v_num", None)
        share = trainer.fit_loop.epoch_loop.batch_progress.current.ready / max(1, trainer.num_training_batches)
        pace = self.journal.pace(trainer, pl_module, share) if self.journal.trained else {}
        return items | pace | ({"run": self.journal.name} if self.journal.name else {})


class AtomicCheckpoint(TorchCheckpointIO):
    """Lightning's checkpoints, written whole or not at all, and read as plain values and tensors only."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        content = io.BytesIO()
        torch.save(checkpoint, content)
        write_atomic(Path(path), content.getvalue())

    def load_checkpoint(self, path: Any, *_: Any, **__: Any) -> dict[str, Any]:
        try:
            checkpoint: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # noqa: BLE001 — a damaged file can make the reader raise anything
            reason = " ".join(f"{type(error).__name__} {error}".split())[:100]
            raise FovealError(
                f"{path}: expected a checkpoint, got a damaged file ({reason}); remove it to begin this run anew"
            ) from None
        sound = isinstance(checkpoint, dict) and {"pytorch-lightning_version", "state_dict", "epoch"} <= set(checkpoint)
        expect(sound, str(path), "a checkpoint of this run", "something else", "remove it to begin this run anew")
        return checkpoint


def duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 600 else f"{seconds / 60:.0f} min"


def weights(module: pl.LightningModule) -> bytes:
    """The weights that would be kept now, as safetensors."""
    state = module.evaluated.state_dict()  # type: ignore[union-attr]
    return save({name: tensor.detach().cpu().contiguous() for name, tensor in state.items()})
