"""What the stages of a trained classifier take, beside what every task's models take."""

from dataclasses import dataclass

from foveal.data.splits import SPLITS
from foveal.errors import expect
from foveal.options import Options, option

PRECISIONS = ("fp32", "fp16", "int8")
FILLS = ("mean", "blur")
LARGEST_SEED = 100_000


@dataclass(frozen=True)
class PredictOptions(Options):
    threshold: float | None = option(
        None,
        "probability from which on a class counts as found, of several labels or two classes; none: the model's own "
        "thresholds",
        least=0,
    )
    batch: int = option(16, "images per batch; 1 answers a live list at once", least=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        expect(
            self.threshold is None or self.threshold <= 1, "--threshold", "a probability from 0 to 1", self.threshold
        )


@dataclass(frozen=True)
class EvaluateOptions(Options):
    data: str | None = option(
        None, "images to evaluate on; none: those that the model was trained with", metavar="PATH"
    )
    label: str | None = option(
        None, "the column of labels.csv that holds the classes; none: the training's", metavar="COLUMN"
    )
    fold_column: str | None = option(
        None, "the column of labels.csv whose values are the folds; none: the training's", metavar="COLUMN"
    )
    split: str | None = option(
        None, "the split to evaluate on; none: test, or val where no test image has a label", SPLITS
    )
    fold: int | None = option(None, "of data with folds, the one that is the test split; none: the training's", least=0)
    threshold_metric: str | None = option(
        None,
        "choose thresholds anew on the validation split, for the best of this metric; none: the model's own",
        metavar='F1|F2|"balanced accuracy"',
    )
    resamples: int = option(1000, "resamples of the bootstrap for 95 % intervals; 0: no intervals", least=0)
    batch: int = option(64, "images per batch", least=1)


@dataclass(frozen=True)
class ExplainOptions(Options):
    faithful: int | None = option(
        None,
        "measure on N images how far the maps explain the answers: rendered pipes, or images of --data; none: explain "
        "one image",
        least=1,
    )
    data: str | None = option(
        None, "images of one's own to measure faithfulness on, by deletion only; none: rendered pipes", metavar="PATH"
    )
    label: str | None = option(
        None, "the column of the labels.csv of --data that holds the classes; none: the training's", metavar="COLUMN"
    )
    seed: int = option(
        0,
        "which images are rendered or drawn for the measure, and in which random orders cells are hidden",
        least=0,
        below=LARGEST_SEED + 1,
    )
    fill: str = option(
        "mean", "what hidden cells show in the measure: the image's mean colour, or the image blurred", FILLS
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        expect(
            self.data is None or self.faithful is not None,
            "--data",
            "--faithful beside it, which says how many images",
            "none",
        )


@dataclass(frozen=True)
class ExportOptions(Options):
    precision: str = option("fp32", "precision of the weights and the arithmetic", PRECISIONS)
    anyway: bool = option(False, "write an int8 file even where it is no faster than float32")
