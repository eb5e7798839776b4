"""Teachers: trained models whose answers a smaller, or a single, one learns (Hinton et al., 2015).

    soft = mean over teachers of softmax(teacher(x));   L = w · L_true − Σ_k soft_k log softmax(pupil(x))_k

Symbols: x the picture as the pupil sees it, varied in the same way; w how much the true labels count beside that. Of several labels: sigmoid
and the two-sided cross-entropy of each class.
Paper: Geoffrey Hinton, Oriol Vinyals, Jeff Dean (2015). Distilling the knowledge in a neural network. arXiv:1503.02531. The same view for both:
Lucas Beyer et al. (2022). Knowledge distillation: a good teacher is patient and consistent. CVPR.
"""

import glob
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from foveal.errors import expect
from foveal.models.card import Card
from foveal.models.packaged import FILE
from foveal.models.store import load_model, model_file

PLACE = "{fold}"


class Teachers:
    """Several models as one. No module of the pupil: what they weigh is in no checkpoint."""

    def __init__(self, models: Sequence[nn.Module], many: bool) -> None:
        self.models, self.many = [model.eval().requires_grad_(False) for model in models], many
        self.recorded: tuple[torch.cuda.CUDAGraph, Tensor, Tensor] | None = None

    def to(self, device: torch.device, sample: Tensor | None) -> None:
        """sample: a batch as all will be, on a GPU where a graph of them all can be recorded."""
        for model in self.models:
            model.to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        if sample is not None:
            self.recorded = self._record(sample.contiguous(memory_format=torch.channels_last))

    @torch.no_grad()
    def __call__(self, images: Tensor) -> Tensor:
        """Normalised images (B, 3, h, w) → probabilities (B, C)."""
        if self.recorded is None or self.recorded[1].shape != images.shape:
            return self._answer(images)
        graph, given, answer = self.recorded
        given.copy_(images)
        graph.replay()
        return answer

    def _answer(self, images: Tensor) -> Tensor:
        answers = [model(images).float() for model in self.models]
        chances = [logits.sigmoid() if self.many else logits.softmax(1) for logits in answers]
        return torch.stack(chances).mean(0)

    @torch.no_grad()
    def _record(self, given: Tensor) -> tuple[torch.cuda.CUDAGraph, Tensor, Tensor]:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._answer(given)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            answer = self._answer(given)
        return graph, given, answer


@dataclass(frozen=True)
class Wanted:
    """What a teacher must share with its pupil: else it answers another question, or has seen what is tested."""

    classes: tuple[str, ...]
    many: bool
    size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    fingerprint: str  # of pictures, labels and folds
    fold: int | None
    blank: list[list[float]]


def load_teachers(pattern: str, wanted: Wanted, folder: Path) -> tuple[Teachers, dict[str, str]]:
    """The models of all files and run folders that the pattern meets, where {fold} stands for the fold, and the digest of each file.

    folder: the pupil's own. Runs beside it are no teachers: which of them have ended would depend on the hour.
    """
    fold = wanted.fold
    expect(fold is not None or PLACE not in pattern, "the setting teachers", f"a pattern without {PLACE} where no fold is given", pattern)
    expect(fold is None or PLACE in pattern, "the setting teachers", f"{PLACE} in it, or a teacher has seen what is tested", pattern)
    met = sorted(glob.glob(pattern.replace(PLACE, str(fold))))  # noqa: PTH207 — a pattern may begin anywhere
    paths = [path for path in met if path.endswith(".safetensors") or (Path(path) / FILE).is_file()]  # a run's log lies beside it
    expect(bool(paths), "the setting teachers", "a pattern of model files or run folders", f"{pattern}, which meets none")
    models, digests = [], {}
    for path in paths:
        beside = Path(path).resolve().parent == folder.resolve().parent
        expect(not beside, "the setting teachers", "runs in another folder than the pupil's", path, "give another --out")
        model, card = load_model(path)
        _check(path, card, wanted)
        models.append(model)
        digests[path] = hashlib.sha256(model_file(path).read_bytes()).hexdigest()[:16]
    return Teachers(models, wanted.many), digests


def _check(path: str, card: Card, wanted: Wanted) -> None:
    for what, asked, found in (
        ("classes", wanted.classes, card.classes),
        ("kind of label", wanted.many, card.many),
        ("size", wanted.size, card.size),
        ("mean", wanted.mean, card.mean),
        ("std", wanted.std, card.std),
        ("pictures, labels and folds", wanted.fingerprint, card.data.get("fingerprint")),
        ("fold", wanted.fold, card.recipe.get("fold")),
        ("blank boxes", wanted.blank, card.recipe.get("blank", [])),
    ):
        expect(found == asked, f"the teacher {path}", f"the pupil's {what}, {asked}", found)
