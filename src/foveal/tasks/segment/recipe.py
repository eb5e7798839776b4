"""A recipe: every option of training a segmenter. What is `None` here is chosen by what the data are: choose.py."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from foveal.errors import expect
from foveal.options import option
from foveal.runtime.packaged import IMAGENET
from foveal.tasks.segment.card import ZOOMS
from foveal.training.taught import TEACHER, TaughtRecipe

RECIPES = Path(__file__).parent / "recipes"
AUGMENTATIONS = (
    "none",
    "light",
    "lamp",
    "mild",
    "pipe",
    "crop",
    "surface",
    "turns",
    "free",
    "grain",
    "upright",
    "strong",
)


@dataclass(frozen=True)
class SegmentRecipe(TaughtRecipe):
    recipes: ClassVar[Path] = RECIPES
    same: ClassVar[tuple[str, ...]] = ("data", "fold_column", "fold", "bad")
    otherwise_same: ClassVar[tuple[str, ...]] = ("size", "zoom", "precision", "cuda_graphs")
    before: ClassVar[dict[str, Any]] = {"offsets": False}
    makes_folds: ClassVar[str] = "--fold-column names a column that makes them"

    data: str = option(
        "pipes",
        "images and label maps: a folder of both, a csv with columns file and mask, COCO, VOC, YOLO, LabelMe or CVAT, "
        "or pipes:N for N rendered ones",
        metavar="PATH",
    )
    teacher_recipe: str = option(
        TEACHER,
        "the recipe of these teachers, a shipped one or a YAML file; data, folds, --bad and seed are the pupil's, and "
        "so are size and zoom where it names none; a shipped one has the pupil's augmentation",
        metavar="NAME_OR_FILE",
    )
    model: str = option(
        "icam-seg", "the model: a preset, or a model file whose build and weights to begin with", metavar="NAME"
    )
    init_from: str | None = option(
        None,
        "a trained model whose weights to begin with, wherever shapes agree, or imagenet for the models that have such "
        "weights; none: random weights",
        metavar="MODEL",
    )
    backbone_lr: float = option(
        1.0, "share of the learning rate for what sees pixels: Φ of an icam-seg, or a model's backbone", least=1e-3
    )
    epochs: int | None = option(  # type: ignore[assignment]
        None,
        "epochs: how often the training split is seen; none: as many as make a good number of steps of these data",
        least=1,
    )
    weight_decay: float = option(0.02, "weight decay of AdamW, on matrices only", least=0)
    clip: float = option(1.0, "largest norm of the gradient; 0 clips nothing", least=0)
    lr: float = option(3e-3, "largest learning rate", least=0)
    ema: float = option(
        0.998,
        "decay of the moving average of the weights, which is then what is evaluated and kept; 0: none",
        least=0,
        below=1,
    )
    checkpoint: str = option(
        "last", "which epoch is kept with --average 1: the best by the validation score, or the last", ("best", "last")
    )
    batch: int = option(8, "windows per batch", least=1)
    size: int | None = option(
        None, "side in pixels of the windows that are learned from; none: chosen by the sides of the images", least=32
    )
    zoom: float | None = option(
        None,
        f"what the images' sides are multiplied by before the model sees them, one of "
        f"{', '.join(f'{zoom:g}' for zoom in ZOOMS)}; none: chosen by the sides of images and findings",
        least=0,
    )
    warmup: float = option(0.05, "share of the run in which the learning rate rises", least=0, below=1)
    augment: str | None = option(
        None,
        "how strongly images are augmented: labels move with what moves, also with the corners of other windows that "
        "strong shows, and stay under what is hidden; left out: free, which turns them in any way, grain, which leaves "
        "rows and columns apart, or upright, which leaves up and down as they are, by how the images lie; none: as "
        "they are",
        AUGMENTATIONS,
    )
    found: float | None = option(
        None,
        "share of the windows of a batch that come from images with a finding; none: what the data have, but at least "
        "two thirds",
        least=0,
    )
    paste: float | None = option(
        None,
        "copy-paste: share of the windows without findings that get some of other windows, turned as --augment allows "
        "and scaled, and a quarter of it of those with findings; none: half where at least a quarter of the images are "
        "empty",
        least=0,
    )
    balance: str = option(
        "none", "rare classes count more in the cross-entropy, by 1/√ of their share (weights)", ("none", "weights")
    )
    label_smoothing: float = option(0.02, "label smoothing ε of the cross-entropy", least=0, below=1)
    focal: float = option(0.0, "γ of the focal loss in place of the cross-entropy; 0: the cross-entropy", least=0)
    ohem: float = option(
        0.0,
        "online hard example mining: share of the pixels, those of the largest cross-entropy, that count in it; 0: all",
        least=0,
    )
    dice: float = option(1.0, "weight of the Dice loss of the classes that are there", least=0)
    skeleton: float | None = option(
        None,
        "weight of the skeleton recall of thin classes; none: 1 where half of the findings of a class are thin",
        least=0,
    )
    cldice: float = option(
        0.0, "weight of soft clDice of the classes whose findings are thin, or of all where none are", least=0
    )
    boundary_loss: float = option(
        0.0,
        "weight of the boundary loss: each pixel's probability by its distance to the edge of the class, which takes "
        "the CPU's time",
        least=0,
    )
    boundary: float = option(0.5, "weight of the boundary head, of models that have one", least=0)
    presence: float = option(0.5, "weight of the presence gate, of models that have one", least=0)
    deep: float = option(0.4, "weight of each map of deep supervision, of models that have them", least=0)
    offsets: bool = option(
        True,
        "after training, move the logits of each class by what makes the label maps of the validation split the best",
    )
    bad: str = option(
        "refuse",
        "what is done with label maps that are missing, broken, of another size than their image or of unknown labels: "
        "the set is refused, or they are left out (leave_out)",
        ("refuse", "leave_out"),
    )
    fold_column: str | None = option(
        None, "the column of the csv whose values are the folds, such as a campaign; none: fold", metavar="COLUMN"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        known = self.zoom is None or self.zoom in ZOOMS
        expect(known, "--zoom", f"one of {', '.join(f'{zoom:g}' for zoom in ZOOMS)}", self.zoom)
        for name in ("found", "paste", "ohem"):
            share = getattr(self, name)
            expect(share is None or share <= 1, f"--{name}", "a share from 0 to 1", share)
        one = not (self.focal and self.ohem)
        expect(one, "--ohem", "0 beside --focal", f"{self.ohem:g}", "choose one of them")

    def given_way(self, own: Mapping[str, Any]) -> dict[str, Any]:
        """How images may vary is a matter of the data."""
        return {"augment": self.augment}

    def check_weights(self) -> None:
        for recipe in (*self.earlier().values(), self):
            if recipe.init_from == IMAGENET:
                from foveal.models.imagenet import expect_package

                expect_package(str(recipe.config.get("backbone", recipe.model)))

    def check_folds(self, chosen: bool) -> None:
        asked = self.fold_column is None or self.fold is not None or chosen
        expect(asked, "--fold-column", "--folds or --fold beside it, which say what to test on", "neither")
