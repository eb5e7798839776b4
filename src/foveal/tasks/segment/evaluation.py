"""What an evaluation found, of one segmenter or of several side by side: its tables, and the report that it writes."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foveal.data.segments import SegmentSource
from foveal.errors import printable
from foveal.metrics.difference import paired_difference
from foveal.report.figure import beside, difference_in_words, with_interval
from foveal.report.table import UNDEFINED, Table, write_tables
from foveal.tasks.segment import report_tables as table
from foveal.tasks.segment.card import SegmentCard
from foveal.tasks.segment.predicted import Predicted
from foveal.tasks.segment.report import write_report
from foveal.tasks.segment.report_html import Shown
from foveal.tasks.segment.scores import DECIDES, Scores
from foveal.tasks.segment.scoring import headline
from foveal.tasks.task import Evaluation


@dataclass(frozen=True, eq=False)
class Evaluated:
    """One model: what it predicted, and what that is worth."""

    name: str
    card: SegmentCard
    predicted: Predicted
    rows: NDArray[np.int64]  # of its images in the source
    scores: Scores


@dataclass(frozen=True, eq=False, repr=False)
class SegmentEvaluation(Evaluation):
    source: SegmentSource
    split: str
    models: tuple[Evaluated, ...]  # the first one has the report; the others are compared with it
    facts: dict[str, Any]
    notes: tuple[str, ...] = ()
    resamples: int = 1000
    figures: dict[str, float] = field(init=False)

    def __post_init__(self) -> None:
        figures = self.scores.figures | {table.FOUND_FROM: self.scores.found_from}
        object.__setattr__(self, "figures", {name: one.value for name, one in figures.items()})

    @property
    def scores(self) -> Scores:
        return self.models[0].scores

    def summary(self) -> str:
        alone = len(self.models) == 1
        tables = [table.figures(self.scores) if alone else self._comparison(), table.classes(self.scores, table.SHORT)]
        above = [*self.notes, *([""] if self.notes else [])]
        return "\n".join([*above, *(one.markdown() for one in tables), f"Intervals: {self.scores.interval}."])

    def write(self, folder: str | Path) -> list[Path]:
        folder = Path(folder)
        first = self.models[0]
        title = f"{first.card.model} on {printable(self.source.name)}"
        facts = self.facts | ({"notes": list(self.notes)} if self.notes else {})
        files = write_report(first.scores, folder, title=title, facts=facts, images=self._shown)
        if len(self.models) > 1:
            caption = f"{first.scores.images:,} images of the split {self.split}; {first.scores.interval}."
            names = " and ".join(one.name for one in self.models)
            title, origin = f"{names} on {printable(self.source.name)}", self.facts["origin"]
            files += write_tables(folder, "comparison", [self._comparison()], title, caption, origin)
        return files

    def _shown(self, place: int) -> Shown:
        first = self.models[0]
        row = int(first.rows[place])
        return self.source.image(row), self.source.label_map(row), first.predicted.maps.label_map(place)

    def _comparison(self) -> Table:
        """One column per model, and how far the figure that decides is from the first one's."""
        first, *others = self.models
        every = [table.all_figures(one.scores) for one in self.models]
        written = table.units(first.scores)
        rows = [[name, *(with_interval(one[name], written[name]) for one in every)] for name in every[0]]
        against = [self._against(first, one) for one in others]
        return beside([one.name for one in self.models], rows, f"{DECIDES}, points,", against, "figure")

    def _against(self, first: Evaluated, other: Evaluated) -> str:
        if not self.resamples or first.predicted.files != other.predicted.files:
            return UNDEFINED
        groups = None if self.source.group is None else self.source.group[first.rows]
        pair = headline(first.predicted.confusions), headline(other.predicted.confusions)
        found = paired_difference([pair], len(first.predicted), groups, self.resamples)
        return difference_in_words(found.value, found.low, found.high)
