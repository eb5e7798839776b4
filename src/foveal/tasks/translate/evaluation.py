"""An evaluation of translators: its figures, and the report as Markdown, CSV, LaTeX, JSON, translations and a picture."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from foveal.atomic import write_atomic
from foveal.data.parallel import Parallel
from foveal.metrics.bleu import LengthBin, Score
from foveal.report.plot import curve
from foveal.report.table import Table
from foveal.runtime.decode.search import Search
from foveal.tasks.task import Evaluation
from foveal.tasks.translate.card import TranslateCard
from foveal.tasks.translate.result import (
    FIGURES,
    latex_comment,
    origin_line,
    plain_scores,
    translations_file,
    translations_table,
    with_columns,
)

FEWEST = 20  # sentences of a point of the curve: BLEU of fewer says little


class Evaluated(NamedTuple):
    """One model on the data."""

    card: TranslateCard
    search: Search
    translations: list[str]
    scores: dict[str, Score]
    lengths: list[LengthBin]


class TranslateEvaluation(Evaluation):
    def __init__(self, data: Parallel, split: str, models: dict[str, Evaluated], origin: Mapping[str, str], notes: Sequence[str]) -> None:
        """models: by name, the first one first."""
        self.data, self.split, self.models, self.origin, self.notes = data, split, models, dict(origin), list(notes)
        self.first = next(iter(models.values()))
        self.figures = {name: score.value for name, score in self.first.scores.items()}

    @property
    def title(self) -> str:
        ways = [f"beam {one.search.beam}, length penalty {one.search.length_penalty:g}" for one in self.models.values()]
        sentences = len(self.data.splits[self.split])
        return f"{' and '.join(self.models)} on {self.data.name}, {self.split}, {sentences} sentences, {' and '.join(dict.fromkeys(ways))}"

    def summary(self) -> str:
        signature = f"BLEU: {self.first.scores['bleu'].signature}"
        notes = "".join(f"\n{note}\n" for note in (signature, *self.notes))
        return f"{self.data.summary()}\n\n{self.scores().markdown()}{notes}\n{self.lengths().markdown()}"

    def write(self, folder: Path) -> list[Path]:
        origin = origin_line(self.origin)
        text = f"# {self.title}\n\n{origin}\n\n{self.summary()}"
        write_atomic(folder / "evaluation.md", text.encode())
        write_atomic(folder / "evaluation.json", json.dumps(self.facts(), indent=1).encode())
        write_atomic(folder / "evaluation.csv", self.rows().csv().encode())
        notes = latex_comment(self.title, origin, *self.notes)
        write_atomic(folder / "evaluation.tex", (notes + self.scores().latex() + "\n" + self.lengths().latex()).encode())
        pairs = self.data.splits[self.split]
        files = [folder / "evaluation.md"]
        for number, one in enumerate(self.models.values(), 1):
            file = folder / translations_file(self.split if number == 1 else f"{self.split}-{number}")
            write_atomic(file, translations_table(pairs, one.translations).encode())
            files.append(file)
        picture = folder / "bleu-by-length.svg"
        write_atomic(picture, drawn({name: one.lengths for name, one in self.models.items()}).encode())
        return [*files, picture]

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
        rows = [[title, *(_interval(one.scores[name]) for one in self.models.values())] for name, title in FIGURES.items()]
        return Table(["", *self.models], rows)

    def lengths(self) -> Table:
        """BLEU, one row per range of lengths."""
        bins = list(zip(*(one.lengths for one in self.models.values()), strict=True))
        rows = [[some[0].which, str(some[0].sentences), *(f"{one.bleu:.1f}" for one in some)] for some in bins]
        return Table(["words of the source", "sentences", *self.models], rows)

    def rows(self) -> Table:
        """One row per model and figure, each with its origin."""
        rows = [
            [name, FIGURES[figure], f"{score.value:.4f}", _number(score.low), _number(score.high), score.signature]
            for name, one in self.models.items()
            for figure, score in one.scores.items()
        ]
        table = Table(["model", "figure", "value", "low", "high", "signature"], rows, words=2)
        return with_columns(table, {"data": self.data.name, "split": self.split} | self.origin)


def drawn(lengths: Mapping[str, Sequence[LengthBin]]) -> str:
    """BLEU over the length of the source, one line per model."""
    fewest = min(FEWEST, max(row.sentences for rows in lengths.values() for row in rows))
    points = {name: [(round(row.words, 1), row.bleu) for row in rows if row.sentences >= fewest] for name, rows in lengths.items()}
    return curve(points, "words of the source", "BLEU", linear=True)


def _interval(score: Score) -> str:
    return f"{score.value:.2f}" + ("" if score.low is None else f" ({score.low:.2f} to {score.high:.2f})")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
