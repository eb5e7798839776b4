"""What the stages of a trained segmenter take, beside what every task's models take."""

from dataclasses import dataclass

from foveal.data.splits import SPLITS
from foveal.errors import expect
from foveal.options import Options, option

PRECISIONS = ("fp32", "fp16", "int8")
ANNOTATIONS = ("none", "coco", "labelme")


@dataclass(frozen=True)
class PredictOptions(Options):
    tile: int = option(
        1024,
        "side of the tiles that a larger image is seen in, in pixels as the model sees them; 0: as a whole",
        least=0,
    )
    overlap: int = option(128, "pixels by which tiles overlap", least=0)
    smallest: int = option(0, "pixels of a finding; smaller ones are left out; 0: all are kept", least=0)
    batch: int = option(1, "images of one size that are seen together; 1 answers a live list at once", least=1)
    annotations: str = option(
        "none",
        "outlines of all findings in the folder --out, too: coco.json, or a file of LabelMe's per image",
        ANNOTATIONS,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        fits = self.tile == 0 or 2 * self.overlap <= self.tile
        expect(fits, "--overlap", f"at most half of the tile's {self.tile} pixels", self.overlap)


@dataclass(frozen=True)
class EvaluateOptions(Options):
    data: str | None = option(
        None, "images and label maps to evaluate on; none: those that the model was trained with", metavar="PATH"
    )
    fold_column: str | None = option(
        None, "the column of the csv whose values are the folds; none: the training's", metavar="COLUMN"
    )
    split: str | None = option(
        None, "the split to evaluate on; none: test, or val where no test image has a label map", SPLITS
    )
    fold: int | None = option(None, "of data with folds, the one that is the test split; none: the training's", least=0)
    resamples: int = option(1000, "resamples of the bootstrap for 95 % intervals; 0: no intervals", least=0)
    bad: str = option(
        "refuse", "label maps that cannot be used: the set is refused, or they are left out", ("refuse", "leave_out")
    )


@dataclass(frozen=True)
class ExplainOptions(Options):
    layer: str = option(
        "mean", "which attention of a class query is drawn: all of it, or the first look", ("mean", "first")
    )


@dataclass(frozen=True)
class ExportOptions(Options):
    precision: str = option("fp32", "precision of the weights and the arithmetic", PRECISIONS)
    probabilities: bool = option(False, "the file gives the probability of every class at every pixel, too")
    anyway: bool = option(False, "write an int8 file even where it is no faster than float32")
