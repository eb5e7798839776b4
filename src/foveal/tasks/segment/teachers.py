"""Teachers of a segmenter: trained models whose maps a smaller one learns beside the labels (Hinton et al., 2015).

    t_i = mean over teachers of softmax(teacher(x)_i);   L = w · L_true − Σ_i ω_i Σ_k t_ik log softmax(pupil(x)_i)_k

Symbols: i a cell of the pupil's map, x the window as the pupil sees it; w how much the labels count beside that; ω_i
    the mean weight of what the teachers see there, by the class weights of the labels' loss. The sum is divided by that
    of its weights.

A teacher sees the same window, normalised as it has learned; where its cells are of another size, its probabilities are
read between them.
Paper, if recipe.teachers or recipe.num_teachers: Geoffrey Hinton, Oriol Vinyals, Jeff Dean (2015). Distilling the
    knowledge in a neural network. arXiv:1503.02531.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from foveal.data.image_input import ImageInput
from foveal.data.segments import SegmentSource
from foveal.errors import expect
from foveal.models.image_model import channels_last, fold_batch_norms
from foveal.models.store import load_model, normalisation
from foveal.tasks.segment.card import BACKGROUND, SegmentCard
from foveal.tasks.segment.graph import padded
from foveal.tasks.segment.recipe import SegmentRecipe
from foveal.training.taught import digest


class Teacher(NamedTuple):
    model: nn.Module
    input: ImageInput  # how its images are normalised

    @classmethod
    def of(cls, model: nn.Module, mean: tuple[float, ...], std: tuple[float, ...]) -> "Teacher":
        return cls(model.eval().requires_grad_(False), ImageInput(mean, std))


class Teachers:
    """Several models as one, which owns them: it freezes them, and folds their BatchNorms (`to`).

    They speak without the offsets of their cards, as the pupil's own logits are moved after it has learned. No module
    of the pupil: what they weigh is in no checkpoint.
    """

    def __init__(self, teachers: Sequence[Teacher]) -> None:
        self.teachers = list(teachers)

    def to(self, device: torch.device) -> None:
        for teacher in self.teachers:
            channels_last(fold_batch_norms(teacher.model).to(device))
            teacher.input.to(device)

    @torch.no_grad()
    def __call__(self, images: Tensor, stride: int) -> Tensor:
        """Images (B, 3, H, W) in 0…1 → probabilities (B, K + 1, ⌈H/stride⌉, ⌈W/stride⌉)."""
        return torch.stack([self._answer(one, images, stride) for one in self.teachers]).mean(0)

    def _answer(self, teacher: Teacher, images: Tensor, stride: int) -> Tensor:
        multiple, own = int(teacher.model.multiple), int(teacher.model.stride)  # type: ignore[arg-type]
        seen = padded(teacher.input(images), multiple).contiguous(memory_format=torch.channels_last)
        probability = teacher.model(seen).float().softmax(1)
        if own != stride:
            size = [-(-side // stride) for side in seen.shape[2:]]
            probability = F.interpolate(probability, size=size, mode="bilinear", antialias=own < stride)
        return shown_cells(probability, images, stride)


def shown_cells(logits: Tensor, images: Tensor, stride: int) -> Tensor:
    """Without the cells that show nothing but what was padded. images: before."""
    height, width = (-(-side // stride) for side in images.shape[2:])
    return logits[:, :, :height, :width]


def read_teachers(
    files: Mapping[str, Path], recipe: SegmentRecipe, source: SegmentSource
) -> tuple[Teachers, dict[str, str]]:
    """The models of these files or run folders, and the digest of each by its name; an error where one answers another
    question than its pupil, or has seen what is tested.
    """
    teachers, digests = [], {}
    for name, path in files.items():
        model, card = load_model(path, SegmentCard)
        for what, wanted, found in (
            ("classes", (BACKGROUND, *source.classes), card.classes),
            ("images and label maps", source.fingerprint(), card.data.get("fingerprint")),
            ("fold", recipe.fold, card.recipe.get("fold")),
            ("zoom", recipe.zoom, card.zoom),
        ):
            expect(found == wanted, f"the teacher {name}", f"the pupil's {what}, {wanted}", found)
        teachers.append(Teacher.of(model, card.mean, card.std))
        digests[name] = digest(path)
    return Teachers(teachers), digests


def stand_in(model: nn.Module) -> Teacher:
    """A model as a teacher will be, untrained: a step with it takes as long."""
    return Teacher.of(model, *normalisation(model))
