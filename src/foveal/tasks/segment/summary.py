"""Several runs as one table: mean and spread of every figure over folds and seeds.

Each run's model is tested here, on its test split. A fold may be one campaign, which may lack a class. So beside the
figures of each run stand those of all test images of a seed taken together, each predicted by the run whose fold it is
in. Pixels can be counted together; the scores of different models cannot be ranked against each other, so that AUROC
is that of each run.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from foveal.atomic import write_atomic
from foveal.data.segments import SegmentSource
from foveal.progress import Progress
from foveal.report.figure import percent, pixels
from foveal.report.means import Written, by_seed, means, of_all_folds, plain_rows, run_name, seeds_of, title_of
from foveal.report.table import Table, write_tables
from foveal.tasks.evaluated_on import fold_column_of, fold_of, labelled
from foveal.tasks.segment.card import SegmentCard
from foveal.tasks.segment.choose import thin_classes
from foveal.tasks.segment.evaluate import predict_split, source_of
from foveal.tasks.segment.options import EvaluateOptions
from foveal.tasks.segment.predicted import Predicted, joined
from foveal.tasks.segment.report_tables import FOUND_FROM
from foveal.tasks.segment.scores import Scores
from foveal.tasks.segment.scoring import score
from foveal.training.run_folder import read_result

if TYPE_CHECKING:
    from foveal.tasks.model import Model

TESTED = "Every run is tested on images that chose nothing."
CHOSEN = (
    "There are no test images with label maps: these are the validation images, which chose the epoch, so the figures "
    "flatter."
)
RANKED = "AUROC of any finding"  # the figure that compares scores
OF_A_CLASS = ("IoU", "F1 within 2 px")

Figures = dict[str, float]


@dataclass(frozen=True, eq=False)
class Opened:
    """A run that is to be evaluated."""

    folder: Path
    model: "Model"
    source: SegmentSource
    fold: int | None

    def has(self, split: str) -> bool:
        return len(labelled(self.source, split, self.fold)) > 0


@dataclass(frozen=True, eq=False)
class EvaluatedRun:
    folder: Path
    facts: dict[str, Any]  # its result
    predicted: Predicted
    thin: list[int]
    split: str

    @property
    def name(self) -> str:
        return run_name(self.folder, self.facts)

    @property
    def figures(self) -> Figures:
        return figures_of(score(self.predicted, self.split, thin_classes=self.thin, resamples=0))


def summarise(folders: Sequence[Path], out: Path, progress: Progress | None = None) -> str:
    """Test every run on its test split, or without one on val.

    Write summary.md, .csv, .tex and .json, and return the tables.
    """
    from foveal.report.progress import progress as shown

    progress = progress or shown
    opened = _opened(folders, progress)
    has_test = all(one.has("test") for one in opened)
    runs = [_evaluated(one, "test" if has_test else "val", progress) for one in opened]
    every = [run.figures for run in runs]
    names, facts = list(every[0]), runs[0].facts
    values = np.array([[one[name] for name in names] for one in every])
    tables = [means(names, values, f"Mean and spread over {len(runs)} runs", written(names))]
    content: dict[str, Any] = {
        "facts": facts,
        "split": runs[0].split,
        "runs": [one.name for one in folders],
        "figures": names,
        "values": plain_rows(values),
    }
    if has_test and (seeds := by_seed(runs)):
        together = [_together(one) for one in seeds.values()]
        shared = list(together[0])
        pooled = np.array([[one[name] for name in shared] for one in together])
        content["pooled"] = {"seeds": list(seeds), "figures": shared, "values": plain_rows(pooled)}
        folds = next(iter(seeds.values()))
        of_all = of_all_folds(sum(len(run.predicted) for run in folds), len(folds), len(seeds))
        title = f"{of_all}; AUROC would rank scores of different models"
        tables.append(means(shared, pooled, title, written(shared)))
    title = title_of(facts, len(folders))
    caption = (
        f"Split {runs[0].split}, seeds {seeds_of(runs)}. Mean over runs; spread is the standard deviation over runs. "
        f"{TESTED if has_test else CHOSEN}"
    )
    each = Table(["run", *names], [_row(run.name, one) for run, one in zip(runs, every, strict=True)], title="Runs")
    write_tables(out, "summary", [*tables, each], title, caption, facts["origin"])
    write_atomic(out / "summary.json", json.dumps(content).encode())
    text = "\n".join(f"{table.title}\n\n{table.markdown()}" for table in tables)
    return text + ("" if has_test else f"\n{CHOSEN}\n")


def written(names: Sequence[str]) -> dict[str, Written]:
    return {name: pixels if name == FOUND_FROM else percent for name in names}


def _row(name: str, figures: Figures) -> list[str]:
    how = written(list(figures))
    return [name, *(how[figure](value) for figure, value in figures.items())]


def figures_of(scores: Scores) -> Figures:
    """Those of the whole, and of each class its own."""
    figures = {f"{name}, %": one.value for name, one in scores.figures.items()} | {FOUND_FROM: scores.found_from.value}
    for one in scores.classes:
        figures |= {f"{name} {one.name}, %": one.figures[name].value for name in OF_A_CLASS}
    return figures


def _opened(folders: Sequence[Path], progress: Progress) -> list[Opened]:
    """The models, and their data: runs of a sweep have the same, which is read once."""
    from foveal.tasks.load import load

    options, sources = EvaluateOptions(), {}
    opened = []
    for folder in folders:
        model = load(folder)
        card = cast("SegmentCard", model.card)
        column = fold_column_of(options, card)
        key = tuple(card.recipe.get(name) for name in ("data", "fold_column", "bad"))
        if key not in sources:
            sources[key] = source_of(options, card, column, "refuse", progress)
        source: SegmentSource = sources[key]
        opened.append(Opened(folder, model, source, fold_of(source, options, card, column)))
    return opened


def _evaluated(one: Opened, split: str, progress: Progress) -> EvaluatedRun:
    predicted, _, _ = predict_split(one.model, one.source, split, one.fold, progress)
    return EvaluatedRun(one.folder, read_result(one.folder), predicted, thin_classes(one.source.properties()), split)


def _together(runs: Sequence[EvaluatedRun]) -> Figures:
    """What several models predicted, each for its own images, as if one had predicted it all."""
    predicted = joined([run.predicted for run in runs])
    figures = figures_of(score(predicted, runs[0].split, thin_classes=runs[0].thin, resamples=0))
    return {name: value for name, value in figures.items() if not name.startswith(RANKED)}
