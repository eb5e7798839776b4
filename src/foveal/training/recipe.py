"""A recipe: everything that configures a training run.

What every task has stands here; a task's own recipe extends it.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from foveal.errors import expect, reading
from foveal.file_names import expanded
from foveal.options import Options, option
from foveal.runtime.packaged import IMAGENET, is_file

PRECISIONS = ("32", "tf32", "16", "bf16")
FULL = ("32", "tf32")  # the others are mixed: weights in 32 bits, most products in 16


@dataclass(frozen=True)
class Recipe(Options):
    makes_folds: ClassVar[str] = ""  # advice to who has data without folds: which option makes them
    # how names of models begin, before the first - → fields of their config in runs of before → as they are called now
    renamed_config: ClassVar[dict[str, dict[str, str]]] = {}

    data: str = option("", "the data: a path, or a name that foveal makes data for", metavar="PATH")
    model: str = option(
        "", "the model: a preset, or a model file whose build and weights to begin with", metavar="NAME"
    )
    config: dict[str, Any] = option(  # noqa: RUF009 — it is a field
        {}, "fields of the model's config that differ from the preset, as YAML; none: all are the preset's"
    )
    init_from: str | None = option(
        None,
        "a trained model whose weights to begin with, wherever shapes agree; none: random weights",
        metavar="MODEL",
    )
    epochs: int = option(30, "epochs: how often the training split is seen", least=1)
    accumulate: int = option(1, "batches whose gradients are added before each step of the optimizer", least=1)
    lr: float = option(1e-3, "largest learning rate", least=0)
    weight_decay: float = option(0.0, "weight decay of AdamW, on matrices only", least=0)
    clip: float = option(0.0, "largest norm of the gradient; 0 clips nothing", least=0)
    ema: float = option(
        0.0,
        "decay of the moving average of the weights, which is then what is evaluated and kept; 0: none",
        least=0,
        below=1,
    )
    average: int = option(1, "keep the mean of the weights of the last N epochs; 1: of one epoch", least=1)
    checkpoint: str = option(
        "last", "which epoch is kept with --average 1: the best by the validation score, or the last", ("best", "last")
    )
    checkpointing: bool = option(
        False, "gradient checkpointing: compute each block again in the backward pass, for less memory and more time"
    )
    cuda_graphs: bool = option(True, "on a GPU, record a training step as a CUDA graph and replay it")
    precision: str = option("32", "precision of the arithmetic; tf32, 16 and bf16 are for GPUs", PRECISIONS)
    patience: int = option(0, "stop after N epochs without a better validation figure; 0: never", least=0)
    seed: int = option(0, "seed of weights, order and augmentation", least=0)

    def check_folds(self, chosen: bool) -> None:
        """Raise a FovealError where the recipe asks for folds and none is chosen. chosen: a sweep goes over them."""

    def check_weights(self) -> None:
        """Raise a FovealError where weights to begin with are known to be missing: before anything is read."""

    def earlier(self, folder: Path | None = None) -> "dict[str, Recipe]":
        """Runs on the same data that must have ended before this one begins, such as those of its teachers: the folder
        of each, inside of this run's, and its recipe. folder: this run's; what was begun in it keeps its recipe.
        """
        return {}

    def from_anywhere(self) -> Self:
        """With absolute paths: what a run keeps of its recipe holds in another folder, too."""
        expect(bool(self.data), "--data", "a path", "none")  # a task with data of its own has their name as default
        init_from = None if self.init_from is None else located_weights(self.init_from)
        model = located(self.model) if is_file(self.model) else self.model
        return self.changed(data=located(self.data), model=model, init_from=init_from)


def located(name: str) -> str:
    """A path that exists, as an absolute path, so that it is found from any folder; any other name as it is."""
    path = expanded(name)
    with reading(path):
        return str(path.resolve()) if path.exists() else name


def located_weights(name: str) -> str:
    """The same of weights to begin with: imagenet means ImageNet's, also beside a folder of images of that name."""
    return name if name == IMAGENET else located(name)
