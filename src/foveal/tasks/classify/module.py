"""Classification as a LightningModule: one label per image or several."""

import copy
from collections.abc import Iterator
from typing import Any, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from foveal.data.batches import Batch
from foveal.data.image_input import ImageInput
from foveal.errors import expect
from foveal.losses.classification import (
    class_weights,
    classification_loss,
    distillation_loss,
    log_prior,
    mean_usable,
)
from foveal.metrics.classification import average_precision, balanced_accuracy, mean
from foveal.models.efficientnet_lite import EfficientNetLite
from foveal.models.image_model import channels_last, fold_batch_norms
from foveal.runtime.answers import decide, probabilities
from foveal.tasks.classify.hints import Hinted, Summarised
from foveal.tasks.classify.kept import Kept
from foveal.tasks.classify.logit_adjustment import adjust_logits
from foveal.tasks.classify.parts import blocks_of, is_backbone, record
from foveal.tasks.classify.recipe import ClassifyRecipe
from foveal.tasks.classify.teachers import Teachers
from foveal.tasks.classify.views import Views
from foveal.training.diverged import expect_finite
from foveal.training.gather import gathered
from foveal.training.module import TaskModule
from foveal.training.recipe import FULL
from foveal.training.schedule import cosine

ROOM = 2 * 2**30  # bytes of augmented images that are kept in memory


class ClassifyModule(TaskModule):
    class_weight: Tensor | None
    prior: Tensor | None
    shift: Tensor | None
    unit = "images"
    recordable = True

    def __init__(
        self,
        model: nn.Module,
        recipe: ClassifyRecipe,
        *,
        classes: int,
        multi_label: bool,
        steps: int,
        counts: NDArray[np.int64],
        images: int,
        mean: tuple[float, ...],
        std: tuple[float, ...],
        teachers: Teachers | None = None,
        hints: Hinted | Summarised | None = None,
    ) -> None:
        """steps: of the optimizer in the whole run. counts (C,): images of each class in the training split,
        images: all in it.
        """
        super().__init__(channels_last(model), recipe)
        self.classes, self.multi_label, self.steps = classes, multi_label, steps
        self.views, self.input = Views(recipe, classes, multi_label), ImageInput(mean, std)
        self.register_buffer(
            "class_weight", class_weights(counts) if recipe.balance == "weights" else None, persistent=False
        )
        self.register_buffer(
            "prior", log_prior(counts, multi_label, images) if recipe.balance == "margin" else None, persistent=False
        )
        self.register_buffer(
            "shift", None if self.prior is None else (1 - recipe.margin) * self.prior, persistent=False
        )
        self.teachers, self.hints = teachers, hints
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad_(not self.frozen(name))
        learns = any(parameter.requires_grad for parameter in self.model.parameters())
        expect(learns, "--backbone-lr", "above 0 for a model whose last layer is not known by its name", 0)
        self.train()  # Lightning leaves every part in the mode in which it finds it
        self.kept = Kept(recipe.views > 0)
        self.plan_memory(recipe.views * images)
        self.folded: list[Any] | None = None  # in a list it is no module of this one's, and in no checkpoint
        self.resident: Tensor | None = None  # all images, where they lie on the device
        self.sample: Tensor | None = None  # images as recorded steps take them, while a run begins
        self.validated: list[tuple[Tensor, Tensor, Tensor]] = []

    def blocks(self) -> Iterator[nn.Module]:
        return blocks_of(self.model)

    def plan_memory(self, views: int) -> None:
        """What there is room for, of so many views of all images together: their pixels, where anything sees them
        again, and numbers of what does not learn.
        """
        numbers = self.classes
        if self.only_head:
            numbers = self.model.seen_width
        elif isinstance(self.hints, Summarised):
            numbers += sum(self.hints.widths)
        self.room = not self.only_head and 3 * views * self.recipe.size**2 <= ROOM
        self.room_for_numbers = 4 * views * numbers <= ROOM

    def frozen(self, name: str) -> bool:
        """Whether a weight of this name stays as it is: no gradient is computed for it."""
        return self.recipe.backbone_lr == 0 and is_backbone(self.model, name)

    def train(self, mode: bool = True) -> Self:
        """What is frozen works as in evaluation: its BatchNorms keep their statistics, and nothing is dropped there."""
        super().train(mode)
        for name, module in self.model.named_modules():
            if name and self.frozen(f"{name}."):
                module.training = False
        return self

    def amount(self, batch: Batch) -> int:
        return len(batch.index)

    def images(self, batch: Batch) -> Tensor:
        """(B, 3, S, S) in 0…1."""
        return self.input.scaled(
            batch.images if self.resident is None else self.resident[batch.index].permute(0, 3, 1, 2)
        )

    def normalised(self, images: Tensor) -> Tensor:
        normalised: Tensor = self.input(images)
        return normalised.contiguous(memory_format=torch.channels_last)

    def on_train_end(self) -> None:
        super().on_train_end()
        self.kept.clear()
        self.kept.keeps = False  # what is predicted from here on is predicted once

    def on_fit_start(self) -> None:
        self.resident = self.trainer.datamodule.on_device(self.device)  # type: ignore[attr-defined]
        super().on_fit_start()
        if self.teachers is not None:
            self.teachers.to(self.device, self.sample)
        self.sample = None
        if isinstance(self.hints, Hinted):
            self.hints.bring(self.device)

    def obstacle(self, processes: int) -> str | None:
        if self.recipe.precision not in FULL:
            return f"in --precision {self.recipe.precision} it is not tried"
        if self.recipe.accumulate > 1:  # they lie in the recording's own memory, which the next replay writes over
            return "gradients of several batches are added (--accumulate)"
        if self.hints is not None:  # which are not the model's answer
            return "the model learns hints (--hints)"
        if self.only_head:
            return "nothing but the last layer learns (--backbone-lr 0)"
        return super().obstacle(processes)

    def record(self) -> None:
        """The model's passes alone: images are augmented, and the loss computed, as they are without."""
        size = self.recipe.size
        batch = min(self.recipe.batch, len(self.trainer.datamodule.splits.train))  # type: ignore[attr-defined]
        self.sample = torch.randn(batch, 3, size, size, device=self.device)
        self.train()  # but for what is frozen
        record(self.model, self.sample)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        if self.only_head:
            seen, targets = self.kept("seen", self.view, lambda: self.seen(batch), keep=self.room_for_numbers)
            return self.logged(self.loss(self.model.answer(seen), targets, batch.good), batch)
        images, targets = self.augmented(batch)
        soft, features = self.kept("taught", self.view, lambda: self.taught(images), keep=self.room_for_numbers)
        images = self.views.mirrored(images)
        hint: Tensor | None = None
        if self.hints is None:
            logits = self.model(images)
        elif isinstance(self.hints, Summarised):
            logits, summary = self.model.answer_and_summary(images)
            hint = self.hints(summary, features)
        else:
            logits, grid = self.model.answer_and_grid(images)
            hint = self.hints(grid, images)
        loss = self.loss(logits, targets, batch.good)
        if soft is not None:
            taught = distillation_loss(logits, soft, batch.good, multi_label=self.multi_label)
            loss = self.recipe.label_weight * loss + taught
        if hint is not None:
            loss = loss + self.recipe.hint_weight * mean_usable(hint, batch.good)
        return self.logged(loss, batch)

    def taught(self, images: Tensor) -> tuple[Tensor | None, list[Tensor]]:
        """What the teachers answer, and the features that their heads see where the pupil learns these, too."""
        if self.teachers is None:
            return None, []
        if isinstance(self.hints, Summarised):
            return self.teachers.answer_and_see(images)
        return self.teachers(images).clone(), []  # recorded, it is written over by the next

    @torch.no_grad()
    def augmented(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Images as the model takes them, and their targets."""
        with torch.autocast(self.device.type, enabled=False):
            if not self.recipe.views:
                images, targets = self.views(self.images(batch), batch.labels)
                return self.normalised(images), targets
            draw = lambda: self.views.draw(self.images(batch), batch.labels, self.seed_of(self.view()))  # noqa: E731
            pixels, targets = self.kept("view", self.view, draw, keep=self.room)
            return self.normalised(self.input.scaled(pixels)), targets

    def view(self) -> int:
        """The number of this batch's view: with --views it comes again, of the same images."""
        return self.number() % int(self.recipe.views * self.trainer.num_training_batches)

    @property
    def only_head(self) -> bool:
        """Whether nothing learns but what answers, so that what it sees of a view can be kept."""
        alone = self.teachers is None and self.hints is None
        return alone and self.recipe.backbone_lr == 0 and isinstance(self.model, EfficientNetLite)

    def seen(self, batch: Batch) -> tuple[Tensor, Tensor]:
        images, targets = self.augmented(batch)
        return self.see(images), targets

    @torch.no_grad()
    def see(self, images: Tensor) -> Tensor:
        """What the head sees of all that is frozen: by a copy without BatchNorms, which takes 0.7 of the time."""
        if self.folded is None:  # a copy of blocks that are computed again would call those of the model
            own = self.recipe.checkpointing
            folded = self.model if own else channels_last(fold_batch_norms(copy.deepcopy(self.model).eval()))
            self.folded = [folded]
        seen: Tensor = self.folded[0].see(images)
        return seen

    def logged(self, loss: Tensor, batch: Batch) -> Tensor:
        self.log(
            "loss",
            loss.detach(),
            prog_bar=True,
            on_step=False,
            on_epoch=True,
            batch_size=len(batch.index),
            sync_dist=True,
        )
        return loss

    def loss(self, logits: Tensor, targets: Tensor, usable: Tensor) -> Tensor:
        smoothing, weight, prior = self.recipe.label_smoothing, self.class_weight, self.prior
        return classification_loss(
            logits, targets, usable, multi_label=self.multi_label, smoothing=smoothing, class_weight=weight, prior=prior
        )  # fmt: skip

    def on_validation_epoch_start(self) -> None:
        self.validated = []

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        good = batch.good
        self.validated.append((self.logits(batch)[good], batch.labels[good], batch.index[good]))

    def on_validation_epoch_end(self) -> None:
        logits, labels, index = gathered(self, *(torch.cat(parts) for parts in zip(*self.validated, strict=True)))
        self.validated = []
        expect(len(index) > 0, "the split val", "at least one image that can be read", "none")
        order = index.argsort()  # one process or many: the same rows in the same order
        logits, labels = logits[order], labels[order]
        targets = labels if self.multi_label else F.one_hot(labels, self.classes).float()
        usable = torch.ones(len(logits), device=logits.device)
        self.log("val_loss", self.loss(logits, targets, usable), sync_dist=True)
        # as the kept model will answer: logit_adjustment.py
        shifted = logits if self.shift is None else logits + self.shift
        self.log("val_score", self.score(shifted, labels), prog_bar=True, sync_dist=True)

    def adjust(self) -> None:
        """Once it is trained: what is scored, kept and teaches others has the shift in its last layer."""
        if self.shift is not None and self.recipe.margin != 1:
            adjust_logits(self.evaluated, self.shift)

    def logits(self, batch: Batch) -> Tensor:
        """(B, C) of the model that is evaluated; a process may have no image of the last batch."""
        if not len(batch.index):
            return torch.zeros(0, self.classes, device=self.device)
        if self.only_head:
            batch_of = lambda: batch.index.cpu().numpy().tobytes()  # noqa: E731 — a key, where one is needed
            seen = self.kept("evaluated", batch_of, lambda: self.see(self.normalised(self.images(batch))))
            return cast("Tensor", self.evaluated.answer(seen).float())
        logits: Tensor = self.evaluated(self.normalised(self.images(batch)))
        return logits.float()

    def score(self, logits: Tensor, labels: Tensor) -> float:
        """What the best epoch is chosen by: mean average precision of several labels, balanced accuracy of one."""
        expect_finite(bool(logits.isfinite().all()))
        truth, probability = labels.cpu().numpy(), probabilities(logits.cpu().numpy(), self.multi_label)
        if self.multi_label:
            return float(np.nan_to_num(mean(average_precision(truth.astype(np.int64), probability))))
        return float(np.nan_to_num(balanced_accuracy(truth, decide(probability, multi_label=False), self.classes)))

    def predict_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> tuple[Tensor, Tensor]:
        """(logits, index in the source) of the images that could be read."""
        return self.logits(batch)[batch.good].cpu(), batch.index[batch.good].cpu()

    def groups(self) -> list[dict[str, Any]]:
        """The weights as AdamW takes them."""
        weights = self.weights(lambda name: self.recipe.backbone_lr if is_backbone(self.model, name) else 1.0)
        if self.hints is not None:
            weights.setdefault((1.0, 0.0), []).extend(self.hints.parameters())
        return self.as_groups(weights)

    def configure_optimizers(self) -> Any:
        warmup = round(self.recipe.warmup * self.steps)
        return self.adamw(self.groups(), lambda step: cosine(step, self.steps, warmup), self.recipe.lr)
