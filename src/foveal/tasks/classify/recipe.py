"""A recipe: every option of training a classifier, from flags, from a YAML file,
or from one of the recipes that are shipped.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from foveal.errors import FovealError, expect
from foveal.options import option
from foveal.runtime.blank import expect_box
from foveal.runtime.packaged import IMAGENET
from foveal.tasks.classify.card import OLD_RECIPE
from foveal.training.taught import TEACHER, TaughtRecipe

RECIPES = Path(__file__).parent / "recipes"
AUGMENTATIONS = ("none", "light", "lamp", "mild", "pipe", "crop", "surface", "turns", "strong")
HINTS = ("none", "teachers", "pooled", IMAGENET)
LARGER = "efficientnet-lite0"  # whose maps are learned by --hints imagenet
BALANCES = ("none", "weights", "margin", "sampling")


@dataclass(frozen=True)
class ClassifyRecipe(TaughtRecipe):
    recipes: ClassVar[Path] = RECIPES
    same: ClassVar[tuple[str, ...]] = ("data", "label", "fold_column", "fold", "blank")
    renamed: ClassVar[dict[str, str]] = OLD_RECIPE
    makes_folds = "--fold-column names a column that makes them"

    data: str = option(
        "pipes",
        "the images: a folder of class folders, a labels.csv or its folder, Sewer-ML's folder, or pipes:N for N "
        "rendered ones",
        metavar="PATH",
    )
    model: str = option(
        "icam-31k",
        "the model: a preset, or a model file, such as a pruned one, whose build and weights to begin with",
        metavar="NAME",
    )
    init_from: str | None = option(
        None,
        "a trained model whose weights to begin with, wherever shapes agree, or imagenet for the models that have such "
        "weights; none: random weights",
        metavar="MODEL",
    )
    epochs: int = option(90, "epochs: how often the training split is seen", least=1)
    weight_decay: float = option(0.01, "weight decay of AdamW, on matrices only", least=0)
    clip: float = option(1.0, "largest norm of the gradient; 0 clips nothing", least=0)
    ema: float = option(
        0.99,
        "decay of the moving average of the weights, which is then what is evaluated and kept; 0: none",
        least=0,
        below=1,
    )
    checkpoint: str = option(
        "best", "which epoch is kept with --average 1: the best by the validation score, or the last", ("best", "last")
    )

    label_smoothing: float = option(0.1, "label smoothing ε", least=0, below=1)
    label: str | None = option(
        None,
        "the column of labels.csv that holds the classes, or several 0/1 columns as a,b,c; none: label, or all 0/1 "
        "columns",
        metavar="COLUMN",
    )
    teacher_recipe: str = option(
        TEACHER,
        "the recipe of these teachers, a shipped one or a YAML file; data, folds, boxes and seed are the pupil's, and "
        "so is the size where it names none; a shipped one has the pupil's augmentation, and at least its size",
        metavar="NAME_OR_FILE",
    )
    views: int = option(
        0,
        "augmented views of each image, which come again when all have been seen: what does not learn, such as a "
        "teacher, sees each once; 0: new ones in every epoch",
        least=0,
    )
    hints: str = option(
        "none",
        "whose feature maps an ICAM learns beside all that: its teachers', these as means and maxima (pooled), those "
        "of EfficientNet-Lite0 with ImageNet's weights, or none",
        HINTS,
    )
    hint_weight: float = option(1.0, "weight of the hints in the loss", least=0)
    size: int = option(224, "side of the images in pixels", least=16)
    batch: int = option(32, "images per batch", least=1)
    backbone_lr: float = option(
        1.0,
        "share of the learning rate for what sees pixels: ICAM's Φ, and of other models all but the last layer; 0 "
        "freezes it, BatchNorms included",
        least=0,
    )
    warmup: float = option(0.05, "share of the run in which the learning rate rises", least=0, below=1)
    balance: str = option(
        "none", "rare classes count more in the loss (weights), get a wider margin, or are sampled more often", BALANCES
    )
    margin: float = option(
        1.0,
        "strength of --balance margin: 1 treats all classes as equally frequent, more favours rare ones further",
        least=0,
    )
    mixup: float = option(0.0, "α of mixup; 0: none", least=0)
    cutmix: float = option(
        0.0, "share of the images that get a window of another one, their labels mixed by area", least=0
    )
    augment: str = option("pipe", "how strongly images are augmented", AUGMENTATIONS)
    fold_column: str | None = option(
        None, "the column of labels.csv whose values are the folds, such as a campaign; none: fold", metavar="COLUMN"
    )
    blank: list[list[float]] = option(  # noqa: RUF009 — it is a field
        [], "boxes [x0, y0, x1, y1] in shares of the image that are painted grey, such as burnt-in text; none: no box"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for box in self.blank:
            expect_box(box)
        one = not (self.mixup and self.cutmix)
        expect(one, "--cutmix", "0 beside --mixup", f"{self.cutmix:g}", "choose one of them")
        expect(self.cutmix <= 1, "--cutmix", "a share of the images, at most 1", f"{self.cutmix:g}")
        fits = self.margin == 1 or self.balance == "margin"
        expect(
            fits,
            "--margin",
            f"1 beside --balance {self.balance}",
            f"{self.margin:g}",
            "choose --margin 1 or --balance margin",
        )
        fits = self.hint_weight == 1 or self.hints != "none"
        expect(fits, "--hint-weight", "1 beside --hints none", f"{self.hint_weight:g}")

    def check_folds(self, chosen: bool) -> None:
        asked = self.fold_column is None or self.fold is not None or chosen
        expect(asked, "--fold-column", "--folds or --fold beside it, which say what to test on", "neither")

    def given_way(self, own: Mapping[str, Any]) -> dict[str, Any]:
        """How images may vary, and how large they must be to show what is asked, is a matter of the data."""
        return {"augment": self.augment, "size": max(self.size, int(own.get("size", 0)))}

    def check_weights(self) -> None:
        fits = self.hints not in ("teachers", "pooled") or self.taught()
        expect(fits, f"--hints {self.hints}", "--num-teachers or --teachers beside it", "none", "add --hints none")
        wanted = [recipe.model for recipe in (*self.earlier().values(), self) if recipe.init_from == IMAGENET]
        for model in [*wanted, *([LARGER] if self.hints == IMAGENET else [])]:
            from foveal.models.imagenet import expect_package

            try:
                expect_package(model)
            except FovealError as error:
                other = ", or choose --recipe small-pipes, which begins with weights in the package"
                raise FovealError(f"{error}{other if self.num_teachers else ''}") from None
