"""Everything that an evaluation says, as data: figures with intervals, classes, confusion, calibration, curves,
worst mistakes.

Plain numbers and words only, all of which go into JSON; nan (undefined) is null there. scoring.py makes them.
"""

from dataclasses import dataclass
from typing import Any

from foveal.report.figure import Figure, as_json, plain

Numbers = tuple[float, ...]


@dataclass(frozen=True)
class Class:
    """How one class fares against all others."""

    name: str
    images: int  # how many have it
    threshold: float | None  # from which probability on it is given; None: the most probable class wins
    figures: dict[str, Figure]  # precision, recall, F1, AP, AUC
    counts: tuple[int, int, int, int]  # hit, false, missed, passed
    recall: Numbers  # corners of the precision–recall staircase
    precision: Numbers
    false_rate: Numbers  # corners of the ROC line
    true_rate: Numbers


@dataclass(frozen=True)
class Reliability:
    """One side of the calibration: ECE, the mean negative log-likelihood, and the bins."""

    error: float
    loss: float
    count: Numbers
    confidence: Numbers
    right: Numbers


@dataclass(frozen=True)
class Calibration:
    before: Reliability
    temperature: float | None  # fitted on the validation images; None: there were none
    after: Reliability | None


@dataclass(frozen=True)
class Mistake:
    """A wrong answer.

    Its confidence is the probability of what was wrongly predicted, or 1 − the probability of what was missed.
    """

    index: int  # place among the images that were evaluated
    file: str
    truth: tuple[str, ...]
    predicted: tuple[str, ...]
    about: str  # the class that is wrongly there, or wrongly not
    missed: bool  # several labels only: it should have been predicted
    confidence: float


@dataclass(frozen=True)
class Scores:
    split: str
    multi_label: bool
    images: int
    decision: str  # how a probability becomes an answer, and on which images that was chosen
    interval: str  # how the intervals were made
    figures: dict[str, Figure]
    classes: tuple[Class, ...]
    confusion: tuple[tuple[int, ...], ...] | None  # one label: one row per true class, one column per predicted class
    calibration: Calibration
    wrong: int  # images with a mistake
    mistakes: tuple[Mistake, ...]  # the most confident ones, worst first

    def to_dict(self) -> dict[str, Any]:
        """Nothing but dicts, lists, words and numbers; nan becomes None."""
        content: dict[str, Any] = plain(self)
        return content

    def to_json(self) -> str:
        return as_json(self)
