"""A recipe: every setting of a training run on pictures, from flags, from a YAML file, or from one of the recipes that are shipped."""

import glob
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from foveal.data.pack import expect_box
from foveal.data.read import located
from foveal.options import PRECISIONS, Options, option
from foveal.runtime.packaged import is_file


@dataclass(frozen=True)
class ClassifyRecipe(Options):
    task: ClassVar[str] = "classify"
    data: str = option("pipes", "a name or a path: class folders, a csv, Sewer-ML, or pipes")
    label: str | None = option(None, "the column of labels.csv that is the label")
    model: str = option("icam-31k", "a preset or a peer; or a model's file, such as a pruned one, whose build and weights to begin with")
    settings: dict[str, Any] = option({}, "fields of the model's config that differ, as YAML: '{first: static}'")  # noqa: RUF009 — it is a field
    start: str | None = option(
        None, "a model whose weights to begin with, wherever shapes agree: a file, a run's folder, icam-pipes or icam-fast-pipes"
    )
    teachers: str | None = option(None, "trained models whose answers to learn: a pattern of files or run folders, {fold} for the fold")
    truth: float = option(0.2, "weight of the true labels beside the teachers' answers", least=0)
    size: int = option(224, "side of the pictures in pixels", least=16)
    epochs: int = option(90, "how often the training split is seen", least=1)
    batch: int = option(32, "pictures in a step", least=1)
    lr: float = option(1e-3, "largest learning rate of AdamW", least=0)
    backbone: float = option(1.0, "share of the learning rate for what sees pixels: ICAM's Φ, a peer's all but the last layer", least=0)
    decay: float = option(0.01, "weight decay", least=0)
    warmup: float = option(0.05, "share of the run in which the learning rate rises", least=0, below=1)
    smoothing: float = option(0.1, "of labels", least=0, below=1)
    balance: str = option(
        "none",
        "rare classes count more in the loss, keep a wider margin, or are drawn more often",
        ("none", "weights", "margin", "sampling"),
    )
    margin: float = option(
        1.0, "of balance margin: 1 takes all classes as equally frequent; more, rare ones as more frequent still", least=0
    )
    ema: float = option(0.99, "decay of the weights' moving average, which is what is judged and kept; 0: none", least=0, below=1)
    mixup: float = option(0.0, "α of mixup; 0: none", least=0)
    augment: str = option("pipe", "how pictures are varied", ("none", "light", "lamp", "mild", "pipe", "strong"))
    keep: str = option("best", "the weights of the best epoch by the validation score, or of the last", ("best", "last"))
    patience: int = option(0, "stop after so many epochs without a better validation score; 0: never", least=0)
    clip: float = option(1.0, "largest norm of the gradient; 0: any", least=0)
    precision: str = option("32", "of the arithmetic", PRECISIONS)
    seed: int = option(0, "of weights, order and augmentation", least=0)
    by: str | None = option(None, "the column of labels.csv whose values are the folds, such as a campaign")
    fold: int | None = option(None, "this fold tests and the next one selects; not given: the set's own splits", least=0)
    blank: list[list[float]] = option([], "boxes [x0, y0, x1, y1] in shares of the picture that are painted grey, such as burnt-in text")  # noqa: RUF009

    def __post_init__(self) -> None:
        super().__post_init__()
        for box in self.blank:
            expect_box(box)

    def from_anywhere(self) -> "ClassifyRecipe":
        """With whole paths: what a run keeps of its recipe holds in another folder, too."""
        start = None if self.start is None else located(self.start)
        teachers = self.teachers
        if teachers is not None and not Path(teachers).expanduser().is_absolute():  # a pattern, in a folder whose name is none
            teachers = f"{glob.escape(str(Path.cwd())).replace('{', '[{]')}/{teachers}"
        elif teachers is not None:
            teachers = str(Path(teachers).expanduser())
        model = located(self.model) if is_file(self.model) else self.model
        return self.changed(data=located(self.data), model=model, start=start, teachers=teachers)
