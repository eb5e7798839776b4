"""Several runs as one table: mean and spread of every figure over folds and seeds.

A fold may be one campaign, and that may hold one class only. So beside the figures of each run stand those of all test
images of a seed taken together, each predicted by the run whose fold it is in. Decisions can be counted together; the
scores of different models cannot be ranked against each other, so that AP and AUC are those of each run.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foveal.atomic import write_atomic
from foveal.metrics.calibration import calibration_error
from foveal.metrics.classification import Labels, measure
from foveal.models.store import read_text
from foveal.report.table import UNDEFINED, Table, write_tables
from foveal.runtime.answers import decide, probabilities
from foveal.runtime.card import read_card
from foveal.runtime.packaged import FILE
from foveal.tasks.classify.card import ClassifyCard
from foveal.tasks.classify.finish import predictions
from foveal.tasks.classify.predictions import Predicted, read_predicted
from foveal.tasks.classify.scores import Scores
from foveal.tasks.classify.scoring import score
from foveal.training.run_folder import read_result

TESTED = "Every run is tested on images that chose nothing."
CHOSEN = (
    "There are no labelled test images: these are the validation images, which chose the epoch, so the figures flatter."
)
RANKED = ("mAP", "ROC AUC")  # figures that compare scores

Figures = dict[str, float]


@dataclass(frozen=True, eq=False)
class Evaluated:
    """One run: what it predicted for the images that are evaluated, and what that is worth."""

    folder: Path
    facts: dict[str, Any]  # its result
    predicted: Predicted
    multi_label: bool
    scores: Scores

    @property
    def name(self) -> str:
        """Of the folder; and of the fold, where it has one of its own."""
        names, fold = self.facts["data"].get("fold_names"), self.facts.get("fold")
        return f"{self.folder.name} ({names[fold]})" if names and fold is not None else self.folder.name

    @property
    def figures(self) -> Figures:
        figures = {name: float(figure.value) for name, figure in self.scores.figures.items()}
        for one in self.scores.classes:
            figures |= {
                f"F1 {one.name}": float(one.figures["F1"].value),
                f"AP {one.name}": float(one.figures["AP"].value),
            }
        return figures

    @property
    def probability(self) -> NDArray[np.float64]:
        return probabilities(self.predicted.logits, self.multi_label)

    @property
    def decided(self) -> Labels:
        cuts = np.array([one.threshold for one in self.scores.classes]) if self.multi_label else None
        return decide(self.probability, self.multi_label, cuts)


def summarise(folders: Sequence[Path], out: Path) -> str:
    """Evaluate every run on its test split, or without one on val.

    Write summary.md, .csv, .tex and .json, and return the tables.
    """
    predicted = [{split: _predicted(folder, split) for split in ("val", "test")} for folder in folders]
    tested = all(run["test"] is not None for run in predicted)
    split = "test" if tested else "val"
    runs = [_evaluated(folder, run, split) for folder, run in zip(folders, predicted, strict=True)]
    names, facts = list(runs[0].figures), runs[0].facts
    values = np.array([[run.figures[name] for name in names] for run in runs])
    each = [[run.name, *map(_written, row)] for run, row in zip(runs, values.tolist(), strict=True)]
    tables = [_means(names, values, f"Mean and spread over {len(runs)} runs")]
    content: dict[str, Any] = {
        "facts": facts,
        "split": split,
        "runs": [one.name for one in folders],
        "figures": names,
        "values": _plain(values),
    }
    if tested and (seeds := _by_seed(runs)):
        together = [_together(one) for one in seeds.values()]
        shared = list(together[0])
        pooled = np.array([[one[name] for name in shared] for one in together])
        content["pooled"] = {"seeds": list(seeds), "figures": shared, "values": _plain(pooled)}
        tables.append(_means(shared, pooled, _of_all(seeds)))
    title = f"{facts['model']} ({facts['parameters']:,} parameters) on {facts['data']['name']}, {len(folders)} runs"
    over = ", ".join(str(seed) for seed in sorted({run.facts["seed"] for run in runs}))
    caption = (
        f"Split {split}, seeds {over}. Mean over runs; spread is the standard deviation over runs. "
        f"{TESTED if tested else CHOSEN}"
    )
    write_tables(out, "summary", [*tables, Table(["run", *names], each, title="Runs")], title, caption, facts["origin"])
    write_atomic(out / "summary.json", json.dumps(content).encode())
    text = "\n".join(f"{table.title}\n\n{table.markdown()}" for table in tables)
    return text + ("" if tested else f"\n{CHOSEN}\n")


def _predicted(folder: Path, split: str) -> Predicted | None:
    """The labelled images of a split, None if there is none."""
    file = folder / predictions(split)
    if not file.exists():
        return None
    found = read_predicted(file, _card(folder).multi_label)
    return found if found.files else None


def _card(folder: Path) -> ClassifyCard:
    return read_card(read_text(folder / FILE), str(folder / FILE), ClassifyCard)


def _evaluated(folder: Path, predicted: dict[str, Predicted | None], split: str) -> Evaluated:
    evaluated, val = predicted[split], predicted["val"]
    assert evaluated is not None
    chosen_on = None if val is None or split == "val" else (val.truth, val.logits)
    scores = score(evaluated, split, validation=chosen_on, resamples=0)
    return Evaluated(folder, read_result(folder), evaluated, _card(folder).multi_label, scores)


def _by_seed(runs: Sequence[Evaluated]) -> dict[int, list[Evaluated]]:
    """The runs of each seed, where they are folds; nothing where there are not several."""
    seeds: dict[int, list[Evaluated]] = {}
    for run in runs:
        if run.facts.get("fold") is not None:
            seeds.setdefault(run.facts["seed"], []).append(run)
    return seeds if any(len(folds) > 1 for folds in seeds.values()) else {}


def _together(runs: Sequence[Evaluated]) -> Figures:
    """The decisions of several runs, each on its own images, as if one had made them all."""
    truth, decided, probability = (
        np.concatenate(parts)
        for parts in zip(*((run.predicted.truth, run.decided, run.probability) for run in runs), strict=True)
    )
    found = measure(truth, decided, probability)(None)
    figures = {name: float(value) for name, value in found.items() if value.ndim == 0 and name not in RANKED}
    figures["ECE"] = float(calibration_error(truth, probability))
    for place, one in enumerate(runs[0].scores.classes):
        figures |= {f"{name} {one.name}": float(found[name][place]) for name in ("precision", "recall", "F1")}
    return figures


def _of_all(seeds: dict[int, list[Evaluated]]) -> str:
    runs = next(iter(seeds.values()))
    images = sum(len(run.predicted.files) for run in runs)
    over = f"mean and spread over {len(seeds)} seeds" if len(seeds) > 1 else "one seed"
    return (
        f"All {images} test images of {len(runs)} folds taken together, {over}; "
        "AP and AUC would rank scores of different models"
    )


def _means(names: Sequence[str], values: NDArray[np.float64], title: str) -> Table:
    rows = [_row(name, one) for name, one in zip(names, values.T, strict=True)]
    return Table(["figure", "mean", "spread", "lowest", "highest"], rows, title=title)


def _row(name: str, values: NDArray[np.float64]) -> list[str]:
    known = values[np.isfinite(values)]
    if not len(known):
        return [name, *[UNDEFINED] * 4]
    spread = known.std(ddof=1) if len(known) > 1 else math.nan
    return [name, *map(_written, (known.mean(), spread, known.min(), known.max()))]


def _written(value: float) -> str:
    return f"{value:.4f}" if math.isfinite(value) else UNDEFINED


def _plain(values: NDArray[np.float64]) -> list[list[float | None]]:
    """Rows for JSON, which has no nan."""
    return [[value if math.isfinite(value) else None for value in row] for row in values.tolist()]
