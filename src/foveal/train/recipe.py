"""A recipe: every setting of a training run on pictures, from flags, from a YAML file, or from one of the recipes that are shipped."""

import glob
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from foveal.data.pack import expect_box
from foveal.data.read import located
from foveal.models.packaged import is_file
from foveal.train.settings import PRECISIONS, Settings, setting


@dataclass(frozen=True)
class Recipe(Settings):
    task: ClassVar[str] = "classify"
    data: str = setting("pipes", "a name or a path: class folders, a csv, Sewer-ML, or pipes")
    label: str | None = setting(None, "the column of labels.csv that is the label")
    model: str = setting("icam-31k", "a preset or a peer; or a model's file, such as a pruned one, whose build and weights to begin with")
    settings: dict[str, Any] = setting({}, "fields of the model's config that differ, as YAML: '{first: static}'")  # noqa: RUF009 — it is a field
    start: str | None = setting(
        None, "a model whose weights to begin with, wherever shapes agree: a file, a run's folder, icam-pipes or icam-fast-pipes"
    )
    teachers: str | None = setting(None, "trained models whose answers to learn: a pattern of files or run folders, {fold} for the fold")
    truth: float = setting(0.2, "weight of the true labels beside the teachers' answers", least=0)
    size: int = setting(224, "side of the pictures in pixels", least=16)
    epochs: int = setting(90, "how often the training split is seen", least=1)
    batch: int = setting(32, "pictures in a step", least=1)
    lr: float = setting(1e-3, "largest learning rate of AdamW", least=0)
    backbone: float = setting(1.0, "share of the learning rate for what sees pixels: ICAM's Φ, a peer's all but the last layer", least=0)
    decay: float = setting(0.01, "weight decay", least=0)
    warmup: float = setting(0.05, "share of the run in which the learning rate rises", least=0, below=1)
    smoothing: float = setting(0.1, "of labels", least=0, below=1)
    balance: str = setting(
        "none",
        "rare classes count more in the loss, keep a wider margin, or are drawn more often",
        ("none", "weights", "margin", "sampling"),
    )
    margin: float = setting(
        1.0, "of balance margin: 1 takes all classes as equally frequent; more, rare ones as more frequent still", least=0
    )
    ema: float = setting(0.99, "decay of the weights' moving average, which is what is judged and kept; 0: none", least=0, below=1)
    mixup: float = setting(0.0, "α of mixup; 0: none", least=0)
    augment: str = setting("pipe", "how pictures are varied", ("none", "light", "lamp", "mild", "pipe", "strong"))
    keep: str = setting("best", "the weights of the best epoch by the validation score, or of the last", ("best", "last"))
    patience: int = setting(0, "stop after so many epochs without a better validation score; 0: never", least=0)
    clip: float = setting(1.0, "largest norm of the gradient; 0: any", least=0)
    precision: str = setting("32", "of the arithmetic", PRECISIONS)
    seed: int = setting(0, "of weights, order and augmentation", least=0)
    by: str | None = setting(None, "the column of labels.csv whose values are the folds, such as a campaign")
    fold: int | None = setting(None, "this fold tests and the next one selects; not given: the set's own splits", least=0)
    blank: list[list[float]] = setting([], "boxes [x0, y0, x1, y1] in shares of the picture that are painted grey, such as burnt-in text")  # noqa: RUF009

    def __post_init__(self) -> None:
        super().__post_init__()
        for box in self.blank:
            expect_box(box)

    def from_anywhere(self) -> "Recipe":
        """With whole paths: what a run keeps of its recipe holds in another folder, too."""
        start = None if self.start is None else located(self.start)
        teachers = self.teachers
        if teachers is not None and not Path(teachers).expanduser().is_absolute():  # a pattern, in a folder whose name is none
            teachers = f"{glob.escape(str(Path.cwd())).replace('{', '[{]')}/{teachers}"
        elif teachers is not None:
            teachers = str(Path(teachers).expanduser())
        model = located(self.model) if is_file(self.model) else self.model
        return self.changed(data=located(self.data), model=model, start=start, teachers=teachers)
