"""Segmentation as a LightningModule: windows of images and label maps, and a sum of losses."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from foveal.data.augment import Variation, blurred, hidden, lit, other_text
from foveal.data.augment import bernoulli as drawn
from foveal.data.image_input import ImageInput
from foveal.data.segments import SegmentSource
from foveal.data.windows import UNLABELLED, shown
from foveal.errors import expect
from foveal.losses.segmentation import soft_cross_entropy
from foveal.metrics.segmentation import confusion, measure
from foveal.models.image_model import channels_last
from foveal.models.segmenting import learn
from foveal.tasks.segment.card import SegmentCard
from foveal.tasks.segment.data import Samples, drawn_as_often
from foveal.tasks.segment.drawn import Drawing
from foveal.tasks.segment.graph import Maps, padded
from foveal.tasks.segment.loss import SegmentLoss
from foveal.tasks.segment.recipe import SegmentRecipe
from foveal.tasks.segment.teachers import Teachers, shown_cells
from foveal.training.diverged import expect_finite
from foveal.training.gather import gathered
from foveal.training.module import TaskModule
from foveal.training.recipe import FULL
from foveal.training.schedule import cosine


class SegmentModule(TaskModule):
    unit = "windows"
    recordable = True

    def __init__(
        self,
        model: nn.Module,
        recipe: SegmentRecipe,
        card: SegmentCard,
        source: SegmentSource,
        train: NDArray[np.int64],
        steps: int,
        teachers: Teachers | None = None,
    ) -> None:
        """card: of the model as it will be kept; train: the images of the training split; steps: of the whole run."""
        super().__init__(channels_last(model), recipe)
        self.card, self.steps, self.teachers = card, steps, teachers
        # samples are shrunk as they are opened, before windows are cut or maps made of them
        self.opened_card = replace(card, zoom=max(card.zoom, 1.0))
        self.classes = len(card.classes)
        self.drawing = Drawing(recipe, self.opened_card.zoom)
        self.input = ImageInput(card.mean, card.std)
        often = drawn_as_often(source.areas[train], recipe.found or 0.0)
        self.loss = SegmentLoss(recipe, source, train, often)
        self.validated: list[tuple[Tensor, Tensor]] = []

    def amount(self, batch: Samples) -> int:
        return len(batch.samples)

    def training_step(self, batch: Samples, batch_idx: int) -> Tensor:
        images, labels = self.windows(batch)
        given = [images, labels]
        if self.loss.has_skeletons:
            given.append(self.loss.tubes(labels))
        if self.teachers is not None:
            given.append(self.teachers(images, int(self.model.stride)))
        loss = self.recorded_loss(*given)
        self.log(
            "loss", loss.detach(), prog_bar=True, on_step=False, on_epoch=True, batch_size=len(labels), sync_dist=True
        )
        return loss

    def forward(self, images: Tensor, labels: Tensor, *given: Tensor) -> Tensor:
        """The loss of a step. given: the tubes of its labels, where they count, and what teachers say of the images."""
        learned = learn(self.model, self.normalised(images))
        loss: Tensor = self.loss(learned, labels, given[0] if self.loss.has_skeletons else None)
        if self.teachers is not None:
            logits = shown_cells(learned.logits, images, int(self.model.stride))
            taught = soft_cross_entropy(logits, given[-1], self.loss.weight)
            loss = self.recipe.label_weight * loss + taught
        return loss

    def obstacle(self, processes: int) -> str | None:
        if self.recipe.precision not in FULL:
            return f"in --precision {self.recipe.precision} it is not tried"
        if self.recipe.boundary_loss:
            return "the CPU takes part in the loss (--boundary-loss)"
        if self.card.family == "maskformer":
            return "the CPU takes part in the loss (matching)"
        return super().obstacle(processes)

    def on_fit_start(self) -> None:
        super().on_fit_start()
        if self.teachers is not None:
            self.teachers.to(self.device)

    @torch.no_grad()
    def windows(self, batch: Samples) -> tuple[Tensor, Tensor]:
        """Windows (B, 3, S, S) in 0…1 and their labels (B, S, S), drawn from the step's seed."""
        images, labels = [], []
        for sample, index in zip(batch.samples, batch.index.tolist(), strict=True):
            image, label = shown(sample, self.drawing.window(sample.labels, index), self.recipe.size)
            images.append(image)
            labels.append(label)
        expect(len(images) > 0, "a batch", "at least one image that can be read", "none")
        frames, truth = self.drawing.pasted(torch.stack(images), torch.stack(labels))
        return varied(frames.to(self.device), truth.to(self.device), self.drawing.variation)

    def normalised(self, images: Tensor) -> Tensor:
        normalised: Tensor = self.input(images)
        return padded(normalised, self.card.multiple).contiguous(memory_format=torch.channels_last)

    def maps(self) -> Maps:
        """Of images as they are opened."""
        return Maps(self.evaluated, self.opened_card).to(self.device)

    def on_validation_epoch_start(self) -> None:
        self.validated = []

    def validation_step(self, batch: Samples, batch_idx: int) -> None:
        maps = self.maps()
        for sample, index in zip(batch.samples, batch.index.tolist(), strict=True):
            frames, labels = sample.image[None].to(self.device), sample.labels[None].to(self.device)
            logits = maps.seen(frames)
            counts = confusion(labels[0].cpu().numpy(), logits.argmax(1)[0].cpu().numpy(), self.classes - 1)
            loss = F.cross_entropy(logits.float(), labels.long(), ignore_index=UNLABELLED, reduction="sum")
            known = (labels != UNLABELLED).sum()
            row = torch.cat([torch.tensor([index]), torch.from_numpy(counts).flatten()]).double()
            self.validated.append((row, torch.stack([loss.cpu(), known.cpu()]).double()))

    def on_validation_epoch_end(self) -> None:
        rows, losses = gathered(
            self, *(torch.stack(parts).to(self.device) for parts in zip(*self.validated, strict=True))
        )
        self.validated = []
        counts = rows[:, 1:].sum(0).cpu().numpy().reshape(self.classes, self.classes).astype(np.int64)
        total, pixels = losses.sum(0).tolist()
        loss = total / max(pixels, 1)
        expect_finite(bool(np.isfinite(loss)))
        self.log("val_loss", loss, sync_dist=True)
        self.log("val_score", float(np.nan_to_num(measure(counts[None])(None)["mIoU"])), prog_bar=True, sync_dist=True)

    def groups(self) -> list[dict[str, Any]]:
        """The weights as AdamW takes them."""
        return self.as_groups(self.weights(lambda name: self.recipe.backbone_lr if is_backbone(name) else 1.0))

    def configure_optimizers(self) -> Any:
        warmup = round(self.recipe.warmup * self.steps)
        return self.adamw(self.groups(), lambda step: cosine(step, self.steps, warmup), self.recipe.lr)


def is_backbone(name: str) -> bool:
    """Whether a weight of this name belongs to what sees pixels, and may begin with what it learned elsewhere: Φ, a
    backbone, or the encoder of transformers' SegFormer.
    """
    return name.startswith(("phi.", "backbone.", "net.segformer."))


def varied(images: Tensor, labels: Tensor, v: Variation | None) -> tuple[Tensor, Tensor]:
    """Windows (B, 3, S, S) and labels (B, S, S) in another light, focus and noise, some parts hidden."""
    if v is None:
        return images, labels
    if v.text:  # a corner of another window may show a finding: its labels come along
        both = other_text(torch.cat([images, labels[:, None].to(images)], 1), v.text)
        images, labels = both[:, :-1], both[:, -1].long()
    images = lit(images, v)
    if v.blur:
        from kornia.filters import get_gaussian_kernel1d

        images = blurred(images, get_gaussian_kernel1d(7, v.blur).to(images))
    if v.noise:
        images = images + v.noise * drawn(images, 1 / 3) * torch.randn_like(images)
    if v.hidden:
        images = hidden(images, v.hide, v.hidden)
    return images.clamp(0.0, 1.0), labels
