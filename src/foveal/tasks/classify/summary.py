"""Several runs as one table: mean and spread of every figure over folds and seeds.

A fold may be one campaign, and that may hold one class only. So beside the figures of each run stand those of all test
images of a seed taken together, each predicted by the run whose fold it is in. Decisions can be counted together; the
scores of different models cannot be ranked against each other, so that AP and AUC are those of each run.
"""

import json
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
from foveal.report.means import by_seed, four_digits, means, of_all_folds, plain_rows, run_name, seeds_of, title_of
from foveal.report.table import Table, write_tables
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
class EvaluatedRun:
    """One run: what it predicted for the images that are evaluated, and what that is worth."""

    folder: Path
    facts: dict[str, Any]  # its result
    predicted: Predicted
    multi_label: bool
    scores: Scores

    @property
    def name(self) -> str:
        return run_name(self.folder, self.facts)

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
    each = [[run.name, *map(four_digits, row)] for run, row in zip(runs, values.tolist(), strict=True)]
    tables = [means(names, values, f"Mean and spread over {len(runs)} runs")]
    content: dict[str, Any] = {
        "facts": facts,
        "split": split,
        "runs": [one.name for one in folders],
        "figures": names,
        "values": plain_rows(values),
    }
    if tested and (seeds := by_seed(runs)):
        together = [_together(one) for one in seeds.values()]
        shared = list(together[0])
        pooled = np.array([[one[name] for name in shared] for one in together])
        content["pooled"] = {"seeds": list(seeds), "figures": shared, "values": plain_rows(pooled)}
        folds = next(iter(seeds.values()))
        of_all = of_all_folds(sum(len(run.predicted.files) for run in folds), len(folds), len(seeds))
        tables.append(means(shared, pooled, f"{of_all}; AP and AUC would rank scores of different models"))
    title = title_of(facts, len(folders))
    caption = (
        f"Split {split}, seeds {seeds_of(runs)}. Mean over runs; spread is the standard deviation over runs. "
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


def _evaluated(folder: Path, predicted: dict[str, Predicted | None], split: str) -> EvaluatedRun:
    evaluated, val = predicted[split], predicted["val"]
    assert evaluated is not None
    chosen_on = None if val is None or split == "val" else (val.truth, val.logits)
    scores = score(evaluated, split, validation=chosen_on, resamples=0)
    return EvaluatedRun(folder, read_result(folder), evaluated, _card(folder).multi_label, scores)


def _together(runs: Sequence[EvaluatedRun]) -> Figures:
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
