"""Whose feature maps a pupil learns, and where: those of a larger model, frozen, in the cells of ICAM's tokens.

losses/hints.py has the equation. The larger model is no module of the pupil's: what it weighs is in no checkpoint.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from foveal.errors import FovealError, expect
from foveal.losses.hints import Hints
from foveal.models.efficientnet_lite import EfficientNetLite
from foveal.models.features import gives_maps
from foveal.models.icam import Icam
from foveal.models.image_model import channels_last, fold_batch_norms
from foveal.models.imagenet import begin_with_imagenet
from foveal.models.store import normalisation
from foveal.models.zoo import create
from foveal.tasks.classify.recipe import LARGER
from foveal.tasks.classify.teachers import Teachers, View

if TYPE_CHECKING:
    from foveal.models.features import GivesMaps

COARSE = 8  # the least stride of a map that is learned: finer ones are edges, which Φ finds by itself


class Larger:
    """A frozen model, the images that it takes, and its coarse maps."""

    def __init__(self, model: nn.Module, view: View) -> None:
        expect(gives_maps(model), "--hints", "a model that gives feature maps", type(model).__name__)
        self.model, self.view, self.affine = model.eval().requires_grad_(False), view, view.affine()
        gives = cast("GivesMaps", model)
        self.chosen = [place for place, stride in enumerate(gives.strides) if stride >= COARSE]
        self.widths = [gives.widths[place] for place in self.chosen]

    def to(self, device: torch.device) -> None:
        channels_last(fold_batch_norms(self.model).to(device))
        self.affine = (self.affine[0].to(device), self.affine[1].to(device))

    @torch.no_grad()
    def __call__(self, images: Tensor) -> list[Tensor]:
        """The pupil's normalised images → maps."""
        maps = cast("GivesMaps", self.model).features(self.view(images, *self.affine))
        return [maps[place] for place in self.chosen]


class Hinted(nn.Module):
    """How far an ICAM's cells are from what larger models' maps say."""

    def __init__(self, pupil: nn.Module, larger: Sequence[Larger]) -> None:
        super().__init__()
        if not isinstance(pupil, Icam):
            raise FovealError(f"--hints: expected an ICAM, whose cells learn them, got {type(pupil).__name__}")
        self.larger = list(larger)
        self.loss = Hints(pupil.norm.normalized_shape[0], [width for one in larger for width in one.widths])

    def bring(self, device: torch.device) -> None:
        """The larger models to the pupil's device."""
        for one in self.larger:
            one.to(device)

    def forward(self, grid: Tensor, images: Tensor) -> Tensor:
        """ICAM's cells (B, h, w, C) and the images that it saw → (B,)."""
        loss: Tensor = self.loss(grid.permute(0, 3, 1, 2), [one for larger in self.larger for one in larger(images)])
        return loss


class Summarised(nn.Module):
    """How far all that an ICAM has gathered is from the features that the heads of its teachers see: maps of one cell.

    Half of the loss of hints: a guess without looking costs ½ beside a cross-entropy of about 1.
    """

    def __init__(self, pupil: nn.Module, teachers: Teachers) -> None:
        super().__init__()
        if not isinstance(pupil, Icam):
            raise FovealError(f"--hints: expected an ICAM, which learns them, got {type(pupil).__name__}")
        self.widths = []
        for model in teachers.models:
            if not isinstance(model, EfficientNetLite):
                raise FovealError(
                    f"--hints pooled: expected EfficientNet-Lites as teachers, got {type(model).__name__}"
                )
            self.widths.append(model.seen_width)
        # queries and pools differ in scale
        self.norm, self.loss = nn.BatchNorm1d(pupil.summary_width), Hints(pupil.summary_width, self.widths)

    def forward(self, summary: Tensor, features: Sequence[Tensor]) -> Tensor:
        """(B, W), and (B, F) of each teacher → (B,)."""
        expect(len(summary) > 1, "--hints pooled", "2 images or more at once", 1, "raise --batch")
        wanted = [one[:, :, None, None] for one in features]
        loss: Tensor = self.loss(self.norm(summary)[:, :, None, None], wanted)
        return loss / 2


def hints_of(kind: str, pupil: nn.Module, size: int, teachers: Teachers | None) -> Hinted | Summarised | None:
    """kind: "none", "teachers", "pooled" or "imagenet". size: of the pupil's images."""
    if kind == "none":
        return None
    if kind in ("teachers", "pooled"):
        if teachers is None:
            raise FovealError("hints: expected teachers beside them, got none")
        if kind == "pooled":
            return Summarised(pupil, teachers)
        return Hinted(pupil, [Larger(*pair) for pair in zip(teachers.models, teachers.views, strict=True)])
    model = create(LARGER, classes=1000)
    begin_with_imagenet(model, LARGER)
    return Hinted(pupil, [Larger(model, View.of(size, *normalisation(pupil), size, *normalisation(model)))])
