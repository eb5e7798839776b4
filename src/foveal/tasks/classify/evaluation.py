"""What an evaluation found, of one classifier or of several side by side: its tables, and the report that it writes."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foveal.data.source import Source
from foveal.errors import printable
from foveal.report.figure import beside, difference_in_words, with_interval
from foveal.report.table import UNDEFINED, Table, write_tables
from foveal.tasks.classify.card import ClassifyCard
from foveal.tasks.classify.compare import difference, score_name
from foveal.tasks.classify.predictions import Predicted
from foveal.tasks.classify.report import write_report
from foveal.tasks.classify.report_tables import figures as table_of_figures
from foveal.tasks.classify.scores import Scores
from foveal.tasks.task import Evaluation

THUMBNAIL = 224  # pixels of an image in the report
Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Evaluated:
    """One model: what it predicted, and what that is worth."""

    name: str
    card: ClassifyCard
    predicted: Predicted
    rows: Indices  # of its images in the source
    scores: Scores


@dataclass(frozen=True, eq=False, repr=False)
class ClassifyEvaluation(Evaluation):
    source: Source
    split: str
    models: tuple[Evaluated, ...]  # the first one has the report; the others are compared with it
    facts: dict[str, Any]
    notes: tuple[str, ...] = ()
    resamples: int = 1000
    figures: dict[str, float] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "figures", {name: one.value for name, one in self.scores.figures.items()})

    @property
    def scores(self) -> Scores:
        return self.models[0].scores

    def summary(self) -> str:
        tables = [table_of_figures(self.scores)] if len(self.models) == 1 else self._comparison()
        above = [*self.notes, *([""] if self.notes else [])]
        return "\n".join([*above, *(table.markdown() for table in tables), f"Intervals: {self.scores.interval}."])

    def write(self, folder: str | Path) -> list[Path]:
        folder = Path(folder)
        first = self.models[0]
        title = f"{first.card.model} on {printable(self.source.name)}"
        facts = self.facts | ({"notes": list(self.notes)} if self.notes else {})
        thumbnail = lambda place: self.source.image(int(first.rows[place]), THUMBNAIL)  # noqa: E731 — one line is clearer here
        files = write_report(first.scores, folder, title=title, facts=facts, images=thumbnail)
        if len(self.models) > 1:
            caption = f"{first.scores.images:,} images of the split {self.split}; {first.scores.interval}."
            names = " and ".join(one.name for one in self.models)
            files += write_tables(
                folder,
                "comparison",
                self._comparison(),
                f"{names} on {printable(self.source.name)}",
                caption,
                self.facts["origin"],
            )
        return files

    def _comparison(self) -> list[Table]:
        """One column per model, and how far the figure that decides is from the first one's."""
        first, *others = self.models
        rows = [
            [name, *(with_interval(one.scores.figures[name]) for one in self.models)] for name in first.scores.figures
        ]
        against = [self._against(first, one) for one in others]
        return [beside([one.name for one in self.models], rows, score_name(self.source.multi_label), against)]

    def _against(self, first: Evaluated, other: Evaluated) -> str:
        if not self.resamples or first.predicted.files != other.predicted.files:
            return UNDEFINED
        groups = None if self.source.group is None else self.source.group[first.rows]
        found = difference({0: first.predicted}, {0: other.predicted}, self.source.multi_label, groups, self.resamples)
        return difference_in_words(found.value, found.low, found.high)
