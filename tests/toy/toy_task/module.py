"""Training a gauge: the squared error, and what a run leaves behind."""

import json
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from foveal.atomic import write_atomic
from foveal.data.order import Order
from foveal.models.store import begin_with, describe, save_model
from foveal.models.zoo import create
from foveal.runtime.packaged import FILE
from foveal.training.diverged import expect_finite
from foveal.training.harness import Training
from foveal.training.journal import Journal
from foveal.training.module import TaskModule
from foveal.training.run_folder import RESULT
from foveal.training.schedule import cosine
from toy_task.card import GaugeCard
from toy_task.data import Readings
from toy_task.recipe import GaugeRecipe


class GaugeModule(TaskModule):
    unit = "images"
    recordable = True

    def amount(self, batch: Any) -> int:
        return len(batch[0])

    def forward(self, images: Tensor, values: Tensor) -> Tensor:
        """The loss of tensors, which a GPU records as a CUDA graph."""
        return (self.model(images) - values).square().mean()

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        loss = self.recorded_loss(*batch)
        self.log("loss", loss.detach(), on_step=False, on_epoch=True, batch_size=len(batch[0]))
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        images, values = batch
        loss = (self.evaluated(images) - values).square().mean()
        expect_finite(bool(loss.isfinite()))
        self.log("val_loss", loss, batch_size=len(batch[0]))

    def configure_optimizers(self) -> Any:
        steps = int(self.trainer.estimated_stepping_batches)
        groups = [{"params": list(self.model.parameters()), "weight_decay": self.recipe.weight_decay}]
        return self.adamw(groups, lambda step: cosine(step, steps, 0), self.recipe.lr)


class GaugeData(pl.LightningDataModule):
    def __init__(self, readings: Readings, recipe: GaugeRecipe, size: int) -> None:
        super().__init__()
        self.readings, self.recipe, self.size = readings, recipe, size

    def train_dataloader(self) -> DataLoader[Any]:
        return self._loader("train")

    def val_dataloader(self) -> DataLoader[Any]:
        return self._loader("val")

    def _loader(self, split: str) -> DataLoader[Any]:
        rows = self.readings.rows(split)
        images = torch.from_numpy(self.readings.images(rows, self.size)).permute(0, 3, 1, 2).float() / 255
        values = torch.from_numpy(self.readings.values[rows])
        # The order is a function of seed and epoch alone: a run that is resumed sees what it would have seen.
        order = Order(
            torch.arange(len(rows)).numpy(), self.recipe.batch, seed=self.recipe.seed, shuffle=split == "train"
        )
        return DataLoader(TensorDataset(images, values), sampler=order, batch_size=None)


class GaugeTraining(Training):
    watched = ("val_loss", "min")

    def __init__(self, recipe: GaugeRecipe, readings: Readings) -> None:
        network = create(recipe.model, **recipe.config)
        if recipe.init_from is not None:
            begin_with(network, recipe.init_from)
        self.recipe, self.readings = recipe, readings
        self.module = GaugeModule(network, recipe)
        self.data = GaugeData(readings, recipe, network.config.image)  # type: ignore[union-attr,arg-type]

    def finish(self, trainer: pl.Trainer, journal: Journal, folder: Path, origin: dict[str, Any]) -> dict[str, Any]:
        network = self.module.evaluated
        loss = float(trainer.validate(self.module, self.data.val_dataloader(), verbose=False)[0]["val_loss"])
        result = {
            "model": self.recipe.model,
            "epoch": journal.kept_epoch,
            "figure": "val_loss",
            "val_loss": loss,
            "seconds": sum(row["seconds"] for row in journal.rows),
        }
        family, config = describe(network)
        card = GaugeCard(
            task="gauge",
            model=self.recipe.model,
            family=family,
            config=config,
            size=config["image"],
            unit=self.recipe.unit,
            data=self.readings.facts(),
            metrics={"val_mse": loss},
            recipe=json.loads(json.dumps(vars(self.recipe))),
            origin=origin,
        )
        save_model(network, folder / FILE, card)
        write_atomic(folder / RESULT, json.dumps(result, indent=1).encode())
        return result
