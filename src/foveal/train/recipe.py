"""A recipe: every setting of a training run, from flags, a YAML file, or one of the recipes that are shipped."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Recipe:
    data: str = "pipes"  # a name or a path: class folders, a csv, Sewer-ML, or pipes
    label: str | None = None  # the column of labels.csv that is the label
    model: str = "icam-31k"  # a preset, a peer, or a model file to go on from
    settings: dict[str, Any] = field(default_factory=dict)  # fields of the model's config that differ, such as first: static
    start: str | None = None  # a model file whose weights to begin with, wherever shapes agree
    size: int = 224  # side of the pictures in pixels
    epochs: int = 90
    batch: int = 32
    lr: float = 1e-3
    decay: float = 0.01  # weight decay
    warmup: float = 0.05  # share of the run
    smoothing: float = 0.1  # of labels
    balance: str = "none"  # rare classes: "none", "weights" in the loss, or "sampling" more often
    ema: float = 0.99  # decay of the weights' moving average, which is what is kept; 0: none
    mixup: float = 0.0  # α of mixup; 0: none
    augment: str = "pipe"  # "none", "light", "pipe" or "strong"
    keep: str = "best"  # the weights of the "best" epoch by the validation score, or of the "last"
    patience: int = 0  # stop after so many epochs without a better validation score; 0: never
    clip: float = 1.0  # largest norm of the gradient; 0: any
    precision: str = "32"  # "32", "16" or "bf16"
    seed: int = 0
    fold: int | None = None  # this fold tests and the next one selects; None: the set's own splits
    blank: tuple[tuple[float, float, float, float], ...] = ()  # boxes (x0, y0, x1, y1) in shares of the picture, painted grey
