"""An evaluation of translators: its figures, and the report as Markdown, CSV, LaTeX, JSON,
translations and a picture.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from foveal.atomic import write_atomic
from foveal.data.parallel import Parallel
from foveal.metrics.bleu import LengthBin, Score
from foveal.report.plot import curve
from foveal.report.table import Table, write_tables
from foveal.runtime.decode.search import Search
from foveal.tasks.task import Evaluation
from foveal.tasks.translate.card import TranslateCard
from foveal.tasks.translate.result import FIGURES, plain_scores, signature_note, translations_file, translations_table

FEWEST = 20  # sentences of a point of the curve: BLEU of fewer says little


class Evaluated(NamedTuple):
    """One model on the data."""

    card: TranslateCard
    search: Search
    translations: list[str]
    scores: dict[str, Score]
    lengths: list[LengthBin]


class TranslateEvaluation(Evaluation):
    def __init__(
        self, data: Parallel, split: str, models: dict[str, Evaluated], origin: Mapping[str, str], notes: Sequence[str]
    ) -> None:
        """models: by name, the first one first."""
        self.data, self.split, self.models, self.origin, self.notes = data, split, models, dict(origin), list(notes)
        self.first = next(iter(models.values()))
        self.figures = {name: score.value for name, score in self.first.scores.items()}

    @property
    def title(self) -> str:
        return f"{' and '.join(self.models)} on {self.data.name}"

    @property
    def caption(self) -> str:
        """Split, number of sentences, search, signature, and what a reader should know."""
        ways = [f"beam {one.search.beam}, length penalty {one.search.length_penalty:g}" for one in self.models.values()]
        what = f"split {self.split}, {len(self.data.splits[self.split])} sentences, {' and '.join(dict.fromkeys(ways))}"
        return "; ".join([what, signature_note(self.first.scores["bleu"].signature), *self.notes])

    def summary(self) -> str:
        tables = "\n".join(table.markdown() for table in (self.scores(), self.lengths()))
        return f"{self.data.summary()}\n{self.title}, {self.caption}\n\n{tables}"

    def write(self, folder: str | Path) -> list[Path]:
        folder = Path(folder)
        files = write_tables(
            folder, "evaluation", [self.scores(), self.lengths()], self.title, self.caption, self.origin
        )
        write_atomic(folder / "evaluation.json", json.dumps(self.facts(), indent=1).encode())
        pairs = self.data.splits[self.split]
        for number, one in enumerate(self.models.values(), 1):
            file = folder / translations_file(self.split if number == 1 else f"{self.split}-{number}")
            write_atomic(file, translations_table(pairs, one.translations).encode())
            files.append(file)
        picture = folder / "bleu-by-length.svg"
        write_atomic(picture, drawn({name: one.lengths for name, one in self.models.items()}).encode())
        return [*files, folder / "evaluation.json", picture]

    def facts(self) -> dict[str, Any]:
        models = {
            name: {
                "model": one.card.model,
                "beam": one.search.beam,
                "length_penalty": one.search.length_penalty,
                "scores": plain_scores(one.scores),
                "by_length": [row._asdict() for row in one.lengths],
            }
            for name, one in self.models.items()
        }
        shared = {"data": self.data.facts(), "split": self.split, "notes": self.notes, "origin": self.origin}
        return shared | {"models": models}

    def scores(self) -> Table:
        """One row per figure, one column per model."""
        rows = [
            [title, *(_interval(one.scores[name]) for one in self.models.values())] for name, title in FIGURES.items()
        ]
        return Table(["figure", *self.models], rows)

    def lengths(self) -> Table:
        """BLEU, one row per range of lengths."""
        bins = list(zip(*(one.lengths for one in self.models.values()), strict=True))
        rows = [[some[0].which, str(some[0].sentences), *(f"{one.bleu:.1f}" for one in some)] for some in bins]
        return Table(["words of the source", "sentences", *self.models], rows, title="BLEU by the length of the source")


def drawn(lengths: Mapping[str, Sequence[LengthBin]]) -> str:
    """BLEU over the length of the source, one line per model."""
    fewest = min(FEWEST, max(row.sentences for rows in lengths.values() for row in rows))
    points = {
        name: [(round(row.words, 1), row.bleu) for row in rows if row.sentences >= fewest]
        for name, rows in lengths.items()
    }
    return curve(points, "words of the source", "BLEU", linear=True)


def _interval(score: Score) -> str:
    return f"{score.value:.2f}" + ("" if score.low is None else f" ({score.low:.2f} to {score.high:.2f})")
