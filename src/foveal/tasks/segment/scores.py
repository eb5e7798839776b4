"""Everything that an evaluation of a segmenter says, as data: figures with intervals, classes, confusion of pixels,
sizes of what is found, worst images.

Plain numbers and words only, all of which go into JSON; nan (undefined) is null there. scoring.py makes them.
"""

from dataclasses import dataclass

from foveal.report.figure import Figure, as_json

DECIDES = "mIoU of findings"  # the figure by which models are compared


@dataclass(frozen=True)
class Class:
    """How one class fares."""

    name: str
    thin: bool  # whether most of its findings are
    images: int  # how many show it
    findings: int
    pixels: int
    figures: dict[str, Figure]


@dataclass(frozen=True)
class Size:
    """Findings whose side, the root of their area, is in a range."""

    start: int  # in pixels
    stop: int | None  # None: without end
    findings: int
    half: int  # of which at least half of the pixels were found
    tenth: int  # of which at least a tenth was


@dataclass(frozen=True)
class Worst:
    """An image where much is wrong. iou: of its pixels that are, or were taken for, a finding; the right ones."""

    index: int  # place among the images that were evaluated
    file: str
    iou: float
    wrong: float  # share of its labelled pixels
    missed: tuple[tuple[str, float], ...]  # (class, side in pixels) of findings that were, the largest first
    extra: tuple[tuple[str, int], ...]  # (class, pixels) of what most of is wrongly there, the most first


@dataclass(frozen=True)
class Scores:
    split: str
    images: int
    with_findings: int  # images
    interval: str  # how the intervals were made
    figures: dict[str, Figure]  # shares
    found_from: Figure  # side in pixels, from which on most findings are found
    classes: tuple[Class, ...]
    names: tuple[str, ...]  # of the rows of the confusion
    confusion: tuple[tuple[int, ...], ...]  # pixels: one row per true class, one column per predicted class
    sizes: tuple[Size, ...]
    imperfect: int  # images with a wrong pixel
    worst: tuple[Worst, ...]

    def to_json(self) -> str:
        return as_json(self)
