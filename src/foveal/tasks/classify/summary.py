"""Several runs as one table: mean and spread of every figure over folds and seeds.

A fold may be one campaign, and that may hold one class only. So beside the figures of each run stand those of all test images of a seed
taken together, each decided by the run whose fold it is in. Decisions can be counted together; the scores of different models cannot be
ranked against each other, so that AP and AUC are those of each run.
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
from foveal.errors import reading
from foveal.metrics.calibration import apply, calibration_error
from foveal.metrics.classification import Labels, decide, measure
from foveal.models.store import read_file
from foveal.report.table import Table
from foveal.runtime.packaged import FILE
from foveal.tasks.classify.evaluate import evaluate
from foveal.tasks.classify.evaluation import Evaluation
from foveal.tasks.classify.finish import RESULT, predictions
from foveal.tasks.classify.predictions import Predicted, read_predicted

TESTED = "Every run is tested on images that chose nothing."
CHOSEN = "There are no labelled test images: these are the validation images, which chose the epoch, so the figures flatter."
RANKED = ("mAP", "ROC AUC")  # figures that compare scores

Figures = dict[str, float]


@dataclass(frozen=True, eq=False)
class Evaluated:
    """One run: what it found in the images that are judged, and what that is worth."""

    folder: Path
    facts: dict[str, Any]  # its result
    predicted: Predicted
    multi_label: bool
    verdict: Evaluation

    @property
    def name(self) -> str:
        """Of the folder; and of the fold, where it has one of its own."""
        names, fold = self.facts["data"].get("fold_names"), self.facts.get("fold")
        return f"{self.folder.name} ({names[fold]})" if names and fold is not None else self.folder.name

    @property
    def figures(self) -> Figures:
        figures = {name: float(figure.value) for name, figure in self.verdict.figures.items()}
        for one in self.verdict.classes:
            figures |= {f"F1 {one.name}": float(one.figures["F1"].value), f"AP {one.name}": float(one.figures["AP"].value)}
        return figures

    @property
    def probability(self) -> NDArray[np.float64]:
        return apply(self.predicted.logits, self.multi_label)

    @property
    def decided(self) -> Labels:
        cuts = np.array([one.threshold for one in self.verdict.classes]) if self.multi_label else None
        return decide(self.probability, self.multi_label, cuts)


def summarise(folders: Sequence[Path], out: Path) -> str:
    """Judge every run on its test split, or without one on val; write summary.md, .csv, .tex and .json, and return the table."""
    predicted = [{split: _predicted(folder, split) for split in ("val", "test")} for folder in folders]
    tested = all(run["test"] is not None for run in predicted)
    runs = [_judged(folder, run, "test" if tested else "val") for folder, run in zip(folders, predicted, strict=True)]
    names = list(runs[0].figures)
    values = np.array([[run.figures[name] for name in names] for run in runs])
    each = Table(["run", *names], [[run.name, *map(_shown, row)] for run, row in zip(runs, values.tolist(), strict=True)])
    means, facts = _means(names, values), runs[0].facts
    title = f"# {facts['model']} ({facts['weights']:,} weights) on {facts['data']['name']}, {len(folders)} runs\n\n"
    title += " · ".join(f"{key} {value}" for key, value in facts["origin"].items()) + "\n\n"
    says = f"Mean over runs; spread is the standard deviation over runs. {TESTED if tested else CHOSEN}\n\n"
    content = {
        "facts": facts,
        "split": "test" if tested else "val",
        "runs": [one.name for one in folders],
        "figures": names,
        "values": _plain(values),
    }
    tables, latex = [means.markdown()], means.latex()
    if tested and (seeds := _by_seed(runs)):
        together, at = [_together(one) for one in seeds.values()], list(seeds)
        shared = list(together[0])
        pooled = np.array([[one[name] for name in shared] for one in together])
        content["pooled"] = {"seeds": at, "figures": shared, "values": _plain(pooled)}
        tables.append(f"\n{_of_all(seeds)}\n\n{_means(shared, pooled).markdown()}")
        latex += f"\n% {_of_all(seeds)}\n{_means(shared, pooled).latex()}"
    text = "".join(tables)
    write_atomic(out / "summary.md", (title + says + text + "\n" + each.markdown()).encode())
    write_atomic(out / "summary.csv", each.csv().encode())
    write_atomic(out / "summary.tex", latex.encode())
    write_atomic(out / "summary.json", json.dumps(content).encode())
    return text + ("" if tested else f"\n{CHOSEN}\n")


def _predicted(folder: Path, split: str) -> Predicted | None:
    """The labelled images of a split, None if there is none."""
    file = folder / predictions(split)
    if not file.exists():
        return None
    _, card = read_file(folder / FILE)
    found = read_predicted(file, card.multi_label)
    return found if found.files else None


def _judged(folder: Path, predicted: dict[str, Predicted | None], split: str) -> Evaluated:
    _, card = read_file(folder / FILE)
    with reading(folder / RESULT):
        facts = json.loads((folder / RESULT).read_text(encoding="utf-8"))
    evaluated, val = predicted[split], predicted["val"]
    assert evaluated is not None
    chosen_on = None if val is None or split == "val" else (val.truth, val.logits)
    verdict = evaluate(evaluated, split, validation=chosen_on, resamples=0)
    return Evaluated(folder, facts, evaluated, card.multi_label, verdict)


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
        np.concatenate(parts) for parts in zip(*((run.predicted.truth, run.decided, run.probability) for run in runs), strict=True)
    )
    found = measure(truth, decided, probability)(None)
    figures = {name: float(value) for name, value in found.items() if value.ndim == 0 and name not in RANKED}
    figures["ECE"] = float(calibration_error(truth, probability))
    for place, one in enumerate(runs[0].verdict.classes):
        figures |= {f"{name} {one.name}": float(found[name][place]) for name in ("precision", "recall", "F1")}
    return figures


def _of_all(seeds: dict[int, list[Evaluated]]) -> str:
    runs = next(iter(seeds.values()))
    images = sum(len(run.predicted.files) for run in runs)
    over = f"mean and spread over {len(seeds)} seeds" if len(seeds) > 1 else "one seed"
    return f"All {images} test images of {len(runs)} folds taken together, {over}; AP and AUC would rank scores of different models:"


def _means(names: Sequence[str], values: NDArray[np.float64]) -> Table:
    return Table(["figure", "mean", "spread", "lowest", "highest"], [_row(name, one) for name, one in zip(names, values.T, strict=True)])


def _row(name: str, values: NDArray[np.float64]) -> list[str]:
    known = values[np.isfinite(values)]
    if not len(known):
        return [name, "–", "–", "–", "–"]
    spread = known.std(ddof=1) if len(known) > 1 else math.nan
    return [name, *map(_shown, (known.mean(), spread, known.min(), known.max()))]


def _shown(value: float) -> str:
    return f"{value:.4f}" if math.isfinite(value) else "–"


def _plain(values: NDArray[np.float64]) -> list[list[float | None]]:
    """Rows for JSON, which has no nan."""
    return [[value if math.isfinite(value) else None for value in row] for row in values.tolist()]
