"""Classification as a LightningModule: one label or several, with everything random in a step drawn from the seed and the step's number.

A step therefore needs nothing but weights, optimiser and number: a run that goes on from a checkpoint is the run that was never stopped.
"""

from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from foveal.data.augment import augmentation, mixed
from foveal.data.batches import Batch
from foveal.errors import expect
from foveal.metrics.classification import average_precision, balanced_accuracy, mean
from foveal.options import WHOLE
from foveal.tasks.classify.recipe import ClassifyRecipe
from foveal.tasks.classify.teachers import Teachers
from foveal.train.average import Average
from foveal.train.diverged import expect_finite
from foveal.train.gather import gathered
from foveal.train.schedule import cosine


class Classify(pl.LightningModule):
    prior: Tensor | None
    shift: Tensor | None
    unit = "pictures"

    def __init__(
        self,
        model: nn.Module,
        recipe: ClassifyRecipe,
        *,
        classes: int,
        multi_label: bool,
        steps: int,
        counts: NDArray[np.int64],
        pictures: int,
        mean: tuple[float, ...],
        std: tuple[float, ...],
        teachers: Teachers | None = None,
    ) -> None:
        """steps: of the whole run. counts (C,): pictures of each class in the training split, pictures: all in it."""
        super().__init__()
        self.model: nn.Module = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.recipe, self.classes, self.multi_label, self.steps = recipe, classes, multi_label, steps
        self.average = Average(model, recipe.ema) if recipe.ema else None
        self.augment = augmentation(recipe.augment)
        self.register_buffer("class_weight", class_weight(counts) if recipe.balance == "weights" else None, persistent=False)
        self.register_buffer("prior", log_prior(counts, multi_label, pictures) if recipe.balance == "margin" else None, persistent=False)
        self.register_buffer("shift", None if self.prior is None else (1 - recipe.margin) * self.prior, persistent=False)
        self.register_buffer("mean", torch.tensor(mean)[:, None, None], persistent=False)
        self.register_buffer("std", torch.tensor(std)[:, None, None], persistent=False)
        self.teachers = teachers
        self.resident: Tensor | None = None  # all pictures, where they lie on the device
        self.seen: list[tuple[Tensor, Tensor, Tensor]] = []

    @property
    def evaluated(self) -> nn.Module:
        """The model that is validated and kept: the average where there is one."""
        return self.model if self.average is None else self.average.module

    def amount(self, batch: Batch) -> int:
        return len(batch.index)

    def pictures(self, batch: Batch) -> Tensor:
        """(B, 3, S, S) in 0…1."""
        images = batch.images if self.resident is None else self.resident[batch.index].permute(0, 3, 1, 2)
        return images.float() / 255.0

    def normalised(self, images: Tensor) -> Tensor:
        scaled: Tensor = (images - self.mean) / self.std  # type: ignore[operator]
        return scaled.contiguous(memory_format=torch.channels_last)

    def on_fit_start(self) -> None:
        feeds = self.trainer.datamodule  # type: ignore[attr-defined]
        self.resident = feeds.on_device(self.device)
        size, sample = self.recipe.size, None
        if self.device.type == "cuda" and self.recipe.precision in WHOLE and self.trainer.world_size == 1:
            sample = torch.randn(min(self.recipe.batch, len(feeds.splits.train)), 3, size, size, device=self.device)
            graph(self.model, sample)
        if self.teachers is not None:
            self.teachers.to(self.device, sample)

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        torch.manual_seed(int(np.random.SeedSequence([self.recipe.seed, self.global_step, self.global_rank]).generate_state(1)[0]))

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        with torch.no_grad(), torch.autocast(self.device.type, enabled=False):
            images = self.augment(self.pictures(batch))
            targets = batch.labels if self.multi_label else F.one_hot(batch.labels, self.classes).float()
            if self.recipe.mixup:
                images, targets = mixed(images, targets, self.recipe.mixup)
            images = self.normalised(images)
        logits = self.model(images)
        loss = self.loss(logits, targets, batch.good)
        if self.teachers is not None:
            loss = self.recipe.truth * loss + agreement(logits, self.teachers(images), self.multi_label, batch.good)
        self.log("loss", loss.detach(), prog_bar=True, on_step=False, on_epoch=True, batch_size=len(batch.index), sync_dist=True)
        return loss

    def loss(self, logits: Tensor, targets: Tensor, good: Tensor) -> Tensor:
        """Cross-entropy with smoothed targets, the mean over the pictures that could be read.

        balance "weights": a picture counts as much as its class weighs; of several labels, a class does where it is present. Smoothing
        is left out of that, or the share that it gives to a rare class would outweigh the true one.
        balance "margin": what is trained is logits + log of each class's share (Menon et al., 2021), so that the logits themselves
        answer as if all classes were equally frequent. Weights lose that once every training picture is learned; a margin stays.
        Labels are smoothed towards the shares then: towards equal parts, a class rarer than the smoothing would be named in every picture.
        """
        logits, smooth = logits.float(), self.recipe.smoothing
        rest: Tensor | float = 1 / 2 if self.multi_label else 1 / self.classes  # where the smoothed part of a label goes
        if self.prior is not None:
            logits = logits + self.prior
            rest = self.prior.sigmoid() if self.multi_label else self.prior.exp()
        if self.multi_label:
            aims = targets * (1 - smooth) + smooth * rest
            each = F.binary_cross_entropy_with_logits(logits, aims, reduction="none")
            if self.class_weight is not None:
                each = each * torch.where(targets > 0.5, self.class_weight, 1.0)  # type: ignore[arg-type]
            each = each.mean(1)
        else:
            aims = targets * (1 - smooth) + smooth * rest
            each = -(aims * logits.log_softmax(1)).sum(1)
            if self.class_weight is not None:
                each = each * (targets @ self.class_weight)  # type: ignore[operator]
        return mean_of(each, good)

    def optimizer_step(self, *arguments: Any, **named: Any) -> None:
        super().optimizer_step(*arguments, **named)
        if self.average is not None:
            self.average.update(self.model, self.global_step - 1)  # the step has been counted

    def on_validation_epoch_start(self) -> None:
        self.seen = []

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        good = batch.good
        self.seen.append((self.logits(batch)[good], batch.labels[good], batch.index[good]))

    def on_validation_epoch_end(self) -> None:
        logits, labels, index = gathered(self, *(torch.cat(parts) for parts in zip(*self.seen, strict=True)))
        self.seen = []
        expect(len(index) > 0, "the split val", "at least one picture that can be read", "none")
        order = index.argsort()  # one process or many: the same rows in the same order
        logits, labels = logits[order], labels[order]
        targets = labels if self.multi_label else F.one_hot(labels, self.classes).float()
        good = torch.ones(len(logits), device=logits.device)
        self.log("val_loss", self.loss(logits, targets, good), sync_dist=True)
        shifted = logits if self.shift is None else logits + self.shift  # as the kept model will answer: see tilt.py
        self.log("val_score", self.score(shifted, labels), prog_bar=True, sync_dist=True)

    def logits(self, batch: Batch) -> Tensor:
        """(B, C) of the model that is judged; a process may have no picture of the last batch."""
        if not len(batch.index):
            return torch.zeros(0, self.classes, device=self.device)
        said: Tensor = self.evaluated(self.normalised(self.pictures(batch)))
        return said.float()

    def score(self, logits: Tensor, labels: Tensor) -> float:
        """What the best epoch is chosen by: mean average precision of several labels, balanced accuracy of one."""
        expect_finite(bool(logits.isfinite().all()))
        truth, probability = labels.cpu().numpy(), (logits.sigmoid() if self.multi_label else logits.softmax(1)).cpu().numpy()
        if self.multi_label:
            return float(np.nan_to_num(mean(average_precision(truth.astype(np.int64), probability))))
        return float(np.nan_to_num(balanced_accuracy(truth, probability.argmax(1), self.classes)))

    def predict_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> tuple[Tensor, Tensor]:
        """(logits, index in the source) of the pictures that could be read."""
        return self.logits(batch)[batch.good].cpu(), batch.index[batch.good].cpu()

    def configure_optimizers(self) -> Any:
        groups: dict[tuple[float, float], list[nn.Parameter]] = {}
        for name, parameter in self.model.named_parameters():
            decay = self.recipe.decay if parameter.dim() > 1 else 0.0  # none on biases and scales
            share = self.recipe.backbone if is_backbone(name) else 1.0
            groups.setdefault((share, decay), []).append(parameter)
        listed = [{"params": params, "weight_decay": decay, "lr": self.recipe.lr * share} for (share, decay), params in groups.items()]
        fused = (
            self.device.type == "cuda" and self.recipe.precision in WHOLE
        )  # in mixed precision, Lightning clips no gradient of a fused one
        optimizer = torch.optim.AdamW(listed, lr=self.recipe.lr, fused=fused)
        warmup = round(self.recipe.warmup * self.steps)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: cosine(step, self.steps, warmup))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def is_backbone(name: str) -> bool:
    """Whether a weight of this name belongs to what sees pixels: ICAM's Φ, or all of a peer but its last layer."""
    return name.startswith("phi.") or (name.startswith("net.") and not name.startswith("net.classifier"))


def agreement(logits: Tensor, soft: Tensor, multi_label: bool, good: Tensor) -> Tensor:
    """Cross-entropy with the teachers' probabilities, the mean over the pictures that could be read."""
    logits = logits.float()
    if multi_label:
        each = F.binary_cross_entropy_with_logits(logits, soft, reduction="none").mean(1)
    else:
        each = -(soft * logits.log_softmax(1)).sum(1)
    return mean_of(each, good)


def mean_of(each: Tensor, good: Tensor) -> Tensor:
    """The mean over the pictures that could be read."""
    share = good.float()
    return (each * share).sum() / share.sum().clamp(min=1.0)


def class_weight(counts: NDArray[np.int64]) -> Tensor:
    """(C,): pictures a class on average / pictures of this class, so that all classes weigh the same in sum; 1 for one that has none."""
    held = counts > 0
    return torch.from_numpy(np.where(held, counts.sum() / (max(1, held.sum()) * np.maximum(counts, 1)), 1.0)).float()


def log_prior(counts: NDArray[np.int64], multi_label: bool, pictures: int) -> Tensor:
    """(C,): log of each class's share of the pictures; of several labels, log odds."""
    share = (counts + 1.0) / (pictures + 2.0 if multi_label else pictures + len(counts))  # one more of each: none is impossible
    return torch.from_numpy(np.log(share) - (np.log1p(-share) if multi_label else 0.0)).float()


def graph(model: nn.Module, sample: Tensor) -> None:
    """Record the forward and the backward pass as CUDA graphs, so that a step is two launches instead of hundreds.

    The warm-up moves BatchNorm's statistics: they are put back, or a run that goes on would differ from one that was never stopped.
    """
    kept = {name: buffer.clone() for name, buffer in model.named_buffers()}
    sample = sample.contiguous(memory_format=torch.channels_last)
    model.train()
    torch.cuda.make_graphed_callables(model, (sample,))
    with torch.no_grad():
        for name, buffer in model.named_buffers():
            buffer.copy_(kept[name])
        for parameter in model.parameters():
            parameter.grad = None
