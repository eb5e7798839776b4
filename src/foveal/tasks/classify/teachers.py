"""Teachers: trained models whose answers a smaller, or a single, one learns (Hinton et al., 2015).

    soft = mean over teachers of softmax(teacher(x));   L = w · L_true − Σ_k soft_k log softmax(pupil(x))_k

Symbols: x the image as the pupil sees it, varied in the same way; w how much the true labels count beside that. Of
several labels: sigmoid and the two-sided cross-entropy of each class.

A teacher may know finer classes than its pupil, each within one of the pupil's, such as eight families of findings
where the pupil knows normal and defect:

    soft_k ∝ Σ_(f in k) softmax(teacher(x))_f · share of f in k

The share stands where the teacher was trained as if all its classes were equally frequent; else the probabilities are
added. A teacher that was trained on images of another size sees the pupil's at that size; one whose images were
normalised by another mean and deviation sees them so:

    x_t = (σ/σ_t) x + (μ − μ_t)/σ_t

Symbols: x = (u − μ)/σ the pupil's image, of mean μ and deviation σ; μ_t, σ_t the teacher's.
Paper, if recipe.teachers or recipe.num_teachers: Geoffrey Hinton, Oriol Vinyals, Jeff Dean (2015). Distilling the
    knowledge in a neural network. arXiv:1503.02531.
Paper, if recipe.teachers or recipe.num_teachers: Lucas Beyer, Xiaohua Zhai, Amélie Royer, Larisa Markeeva, Rohan Anil,
    Alexander Kolesnikov (2022). Knowledge distillation: a good teacher is patient and consistent. CVPR.
    arXiv:2106.05237.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from foveal.data.division import splits_of
from foveal.data.source import Source
from foveal.errors import expect
from foveal.models.image_model import channels_last, fold_batch_norms
from foveal.models.store import load_model
from foveal.tasks.classify.card import ClassifyCard
from foveal.training.cuda_graph import CudaGraph
from foveal.training.taught import digest

if TYPE_CHECKING:
    from foveal.models.efficientnet_lite import EfficientNetLite


class Teachers:
    """Several models as one, which owns them: it freezes them, and folds their BatchNorms (`to`).

    No module of the pupil: what they weigh is in no checkpoint.
    """

    def __init__(
        self,
        models: Sequence[nn.Module],
        multi_label: bool,
        coarser: "Sequence[Tensor | None] | None" = None,
        views: "Sequence[View] | None" = None,
    ) -> None:
        """coarser: for each model None, or (finer classes, C), what its classes count for in the pupil's. views: the
        images that it takes; by default the pupil's.
        """
        self.models, self.multi_label = [model.eval().requires_grad_(False) for model in models], multi_label
        self.coarser = list(coarser or [None] * len(self.models))
        self.views = list(views or [View()] * len(self.models))
        self.affine = {view: view.affine() for view in self.views}
        self.cuda_graphs: tuple[CudaGraph, Tensor, Tensor] | None = None

    def to(self, device: torch.device, sample: Tensor | None) -> None:
        """sample: a batch as all will be, on a GPU where a graph of them all can be recorded."""
        for model in self.models:
            channels_last(fold_batch_norms(model).to(device))
        self.coarser = [None if matrix is None else matrix.to(device) for matrix in self.coarser]
        self.affine = {view: (scale.to(device), shift.to(device)) for view, (scale, shift) in self.affine.items()}
        if sample is not None:
            self.cuda_graphs = self._record(sample.contiguous(memory_format=torch.channels_last))

    @torch.no_grad()
    def __call__(self, images: Tensor) -> Tensor:
        """Normalised images (B, 3, h, w) → probabilities (B, C)."""
        if self.cuda_graphs is None or self.cuda_graphs[1].shape != images.shape:
            return self._answer(images)
        recording, given, answer = self.cuda_graphs
        given.copy_(images)
        recording.replay()
        return answer

    @torch.no_grad()
    def answer_and_see(self, images: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The probabilities, and of each teacher, which is an EfficientNet-Lite, what its head sees, (B, F)."""
        features: list[Tensor] = []
        return self._answer(images, features), features

    def _answer(self, images: Tensor, features: list[Tensor] | None = None) -> Tensor:
        """features: where to put what the heads see."""
        seen = {view: view(images, *self.affine[view]) for view in self.views}
        answers = []
        for model, view in zip(self.models, self.views, strict=True):
            if features is None:
                answers.append(model(seen[view]).float())
            else:
                lite = cast("EfficientNetLite", model)
                features.append(lite.see(seen[view]))
                answers.append(lite.answer(features[-1]).float())
        probabilities = [logits.sigmoid() if self.multi_label else logits.softmax(1) for logits in answers]
        pairs = zip(probabilities, self.coarser, strict=True)
        coarse = [probability if matrix is None else normalised(probability @ matrix) for probability, matrix in pairs]
        return torch.stack(coarse).mean(0)

    @torch.no_grad()
    def _record(self, given: Tensor) -> tuple[CudaGraph, Tensor, Tensor]:
        answers: list[Tensor] = []
        recording = CudaGraph(lambda: answers.append(self._answer(given)))
        return recording, given, answers[-1]


@dataclass(frozen=True)
class View:
    """A pupil's images as a teacher takes them."""

    size: int | None = None  # None: the pupil's
    scale: tuple[float, ...] = ()  # of each colour; none: normalised as the pupil's
    shift: tuple[float, ...] = ()

    @classmethod
    def of(
        cls,
        size: int,
        mean: Sequence[float],
        std: Sequence[float],
        own_size: int,
        own_mean: Sequence[float],
        own_std: Sequence[float],
    ) -> "View":
        """From a pupil's images to a teacher's own."""
        other = None if own_size == size else own_size
        if (tuple(mean), tuple(std)) == (tuple(own_mean), tuple(own_std)):
            return cls(other)
        scale = tuple(here / there for here, there in zip(std, own_std, strict=True))
        shift = tuple((here - there) / by for here, there, by in zip(mean, own_mean, own_std, strict=True))
        return cls(other, scale, shift)

    def affine(self) -> tuple[Tensor, Tensor]:
        """scale and shift, (3, 1, 1) each, or empty: they go to a device with the models."""
        return torch.tensor(self.scale)[:, None, None], torch.tensor(self.shift)[:, None, None]

    def __call__(self, images: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        images = images if self.size is None else resized(images, self.size)
        return images * scale + shift if self.scale else images


def resized(images: Tensor, size: int) -> Tensor:
    """Every pixel counts, as where images are read."""
    smaller = F.interpolate(images, (size, size), mode="bilinear", antialias=True, align_corners=False)
    return smaller.contiguous(memory_format=torch.channels_last)


def normalised(probability: Tensor) -> Tensor:
    return probability / probability.sum(1, keepdim=True)


@dataclass(frozen=True)
class Wanted:
    """What a teacher must share with its pupil: else it answers another question, or has seen what is tested."""

    source: Source
    size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    fold: int | None
    blank: list[list[float]]
    finer: Callable[[str | None], Source]  # the same set with the labels of another column


def read_teachers(files: Mapping[str, Path], wanted: Wanted) -> tuple[Teachers, dict[str, str]]:
    """The models of these files or run folders, and the digest of each by its name."""
    models, coarser, views, digests = [], [], [], {}
    for name, path in files.items():
        model, card = load_model(path, ClassifyCard)
        own = wanted.source if card.classes == wanted.source.classes else wanted.finer(card.recipe.get("label"))
        _check(name, card, own, wanted)
        models.append(model)
        coarser.append(None if own is wanted.source else _coarser(name, card, own, wanted))
        views.append(View.of(wanted.size, wanted.mean, wanted.std, card.size, card.mean, card.std))
        digests[name] = digest(path)
    return Teachers(models, wanted.source.multi_label, coarser, views), digests


def _coarser(path: str, card: ClassifyCard, own: Source, wanted: Wanted) -> Tensor:
    """(finer classes, C): the share of each in the class of the pupil's in which it lies."""
    pupils = wanted.source
    expect(
        not (own.multi_label or pupils.multi_label),
        f"the teacher {path}",
        f"the pupil's classes, {pupils.classes}",
        card.classes,
    )
    # a row without a label of one kind is in one set only
    place = {pupils.file(index): index for index in range(len(pupils))}
    pairs = [(index, place[file]) for index in range(len(own)) if (file := own.file(index)) in place]
    mine, theirs = (
        (np.array(part, np.int64) for part in zip(*pairs, strict=True)) if pairs else (np.empty(0, np.int64),) * 2
    )
    for what, of_own, of_pupils in (("split", own.split, pupils.split), ("fold", own.fold, pupils.fold)):
        same = of_own is of_pupils is None or (
            of_own is not None and of_pupils is not None and np.array_equal(of_own[mine], of_pupils[theirs])
        )
        expect(bool(same), f"the teacher {path}", f"the pupil's {what} of every image", "another")
    both = own.known(mine) & pupils.known(theirs)
    together = np.zeros((len(own.classes), len(pupils.classes)))
    np.add.at(together, (own.labels[mine[both]], pupils.labels[theirs[both]]), 1)
    lies = together > 0
    for name, row in zip(own.classes, lies, strict=True):
        expect(
            row.sum() < 2,
            f"the teacher {path}",
            "classes that each lie within one of the pupil's",
            f"{name}, which lies in several",
        )
    if card.recipe.get("balance", "none") == "none":
        return torch.from_numpy(lies).float()
    trained = splits_of(own, wanted.fold).train
    counts = lies * own.counts(trained)[:, None]
    return torch.from_numpy(counts / counts.sum(0).clip(min=1)).float()


def _check(path: str, card: ClassifyCard, own: Source, wanted: Wanted) -> None:
    for what, asked, found in (
        ("classes", own.classes, card.classes),
        ("kind of label", own.multi_label, card.multi_label),
        ("images, labels and folds", own.fingerprint(), card.data.get("fingerprint")),
        ("fold", wanted.fold, card.recipe.get("fold")),
        ("blank boxes", wanted.blank, card.blank),
    ):
        expect(found == asked, f"the teacher {path}", f"the pupil's {what}, {asked}", found)
