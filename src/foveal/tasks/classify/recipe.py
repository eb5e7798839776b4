"""A recipe: every option of training a classifier, from flags, from a YAML file,
or from one of the recipes that are shipped.
"""

import glob
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from foveal.errors import FovealError, expect, short_repr
from foveal.file_names import expanded
from foveal.options import option, read_options
from foveal.runtime.blank import expect_box
from foveal.runtime.packaged import IMAGENET
from foveal.tasks.classify.card import OLD_RECIPE
from foveal.training.recipe import Recipe, located
from foveal.training.run_folder import kept_recipe

RECIPES = Path(__file__).parent / "recipes"
TEACHER = "teacher"
# What a teacher that is trained first has of its pupil: always, and where its own recipe says nothing.
SAME = ("data", "label", "fold_column", "fold", "blank")
OTHERWISE_SAME = ("size", "precision", "cuda_graphs")
AUGMENTATIONS = ("none", "light", "lamp", "mild", "pipe", "crop", "surface", "turns", "strong")
HINTS = ("none", "teachers", "pooled", IMAGENET)
LARGER = "efficientnet-lite0"  # whose maps are learned by --hints imagenet
BALANCES = ("none", "weights", "margin", "sampling")


@dataclass(frozen=True)
class ClassifyRecipe(Recipe):
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
    teachers: str | None = option(
        None,
        "trained models whose probabilities to learn: a pattern of files or run folders, {fold} standing for the "
        "fold; none: labels alone",
        metavar="PATTERN",
    )
    num_teachers: int = option(
        0, "how many teachers are trained first, each a run of its own in OUT/teachers; 0: none", least=0, below=100
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
    label_weight: float = option(0.2, "weight of the labels in the loss beside the teachers' probabilities", least=0)
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
    fold: int | None = option(
        None, "cross-validation: this fold tests, and the next one validates; none: the splits of the data", least=0
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
        alone = not self.num_teachers or self.teachers is None
        do = "add --num-teachers 0, or leave --teachers out"
        expect(alone, "--num-teachers", "0 beside --teachers, which are trained already", self.num_teachers, do)
        fits = self.hint_weight == 1 or self.hints != "none"
        expect(fits, "--hint-weight", "1 beside --hints none", f"{self.hint_weight:g}")
        used = self.num_teachers > 0 or self.teacher_recipe == TEACHER
        needed = "--num-teachers beside it, which says how many are trained"
        expect(used, "--teacher-recipe", needed, "--num-teachers 0")

    def check_folds(self, chosen: bool) -> None:
        asked = self.fold_column is None or self.fold is not None or chosen
        expect(asked, "--fold-column", "--folds or --fold beside it, which say what to test on", "neither")

    def taught(self) -> bool:
        """Whether it has teachers."""
        return self.num_teachers > 0 or self.teachers is not None

    def earlier(self, folder: Path | None = None) -> dict[str, Recipe]:
        """The teachers. No two pupils of a sweep over seeds share one, so that their spread is not too small.

        A teacher that was begun in this folder keeps its recipe: the shipped one may be another since. Who has changed
        a file of their own is told so instead.
        """
        seeds = range(self.seed * self.num_teachers, (self.seed + 1) * self.num_teachers)
        changeable = not self._shipped() and expanded(self.teacher_recipe).exists()
        found: dict[str, Recipe] = {}
        for seed in seeds:
            name = f"teachers/seed{seed}"
            kept = None if folder is None or changeable else self._kept(folder / name, seed)
            found[name] = kept or self._planned(seed)
        return found

    def _shipped(self) -> bool:
        return (RECIPES / f"{self.teacher_recipe}.yaml").exists()  # also beside a file or a folder of that name

    def _kept(self, folder: Path, seed: int) -> Recipe | None:
        """What the teacher in this folder was begun with, if it was; an error where it cannot be this pupil's."""
        kept = kept_recipe(type(self), folder)
        if kept is None:
            return None
        shared = {name: getattr(self, name) for name in SAME}
        for name, value in (shared | {"data": located(self.data), "seed": seed, "num_teachers": 0}).items():
            wanted, got = f"a teacher of this pupil, with {name} {short_repr(value)}", getattr(kept, name)
            expect(got == value, f"the run in {folder}", wanted, short_repr(got), "choose another --out")
        return kept

    def _planned(self, seed: int) -> Recipe:
        """As the teachers' recipe says."""
        own = read_options(self.teacher_recipe, type(self), RECIPES)
        what = f"the recipe {self.teacher_recipe} of the teachers"
        more = own.get("num_teachers")
        expect(not more, what, "one without teachers that are trained first", f"num_teachers: {more}")
        shared = {name: getattr(self, name) for name in SAME}
        for name in SAME:
            fits = own.get(name, shared[name]) == shared[name]
            expect(fits, what, f"the pupil's {name}, {short_repr(shared[name])}", own.get(name), "leave it out")
        # How images may vary, and how large they must be to show what is asked, is a matter of the data: a shipped
        # recipe, which cannot know them, gives way to the pupil.
        varied: dict[str, Any] = {}
        if self._shipped():
            varied = {"augment": self.augment, "size": max(self.size, int(own.get("size", 0)))}
        fields = {name: getattr(self, name) for name in OTHERWISE_SAME} | own | varied | shared | {"seed": seed}
        try:
            return type(self)(**fields)
        except FovealError as error:
            raise FovealError(f"{what}: {error}") from None

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

    def from_anywhere(self) -> Self:
        teachers = self.teachers
        if teachers is not None and not expanded(teachers).is_absolute():  # a pattern, in a folder whose name is none
            teachers = f"{glob.escape(str(Path.cwd())).replace('{', '[{]')}/{teachers}"
        elif teachers is not None:
            teachers = str(expanded(teachers))
        teacher_recipe = self.teacher_recipe if self._shipped() else located(self.teacher_recipe)
        return super().from_anywhere().changed(teachers=teachers, teacher_recipe=teacher_recipe)
