"""Several runs as one table: mean and spread of every figure over folds and seeds."""

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from foveal.app.grid import Grid
from foveal.explain.judge import judge
from foveal.explain.predicted import Predicted, read_predicted
from foveal.models.store import FILE, read_file
from foveal.whole import write_whole

TESTED = "Every run is tested on pictures that chose nothing."
CHOSEN = "There are no labelled test pictures: these are the validation pictures, which chose the epoch, so the figures flatter."


def summarise(folders: Sequence[Path], out: Path) -> str:
    """Judge every run on its test split, or without one on val; write summary.md, .csv, .tex and .json, and return the table."""
    predicted = [{split: _predicted(folder, split) for split in ("val", "test")} for folder in folders]
    tested = all(run["test"] is not None for run in predicted)
    rows = [_figures(folder, run, "test" if tested else "val") for folder, run in zip(folders, predicted, strict=True)]
    names = list(rows[0])
    values = np.array([[row[name] for name in names] for row in rows])
    means = [_row(name, column) for name, column in zip(names, values.T, strict=True)]
    grid = Grid(["figure", "mean", "spread", "lowest", "highest"], means)
    runs = Grid(["run", *names], [[folder.name, *map(_shown, row)] for folder, row in zip(folders, values.tolist(), strict=True)])
    facts = json.loads((folders[0] / "result.json").read_text(encoding="utf-8"))
    origin = " · ".join(f"{key} {value}" for key, value in facts["origin"].items())
    title = f"# {facts['model']} ({facts['weights']:,} weights) on {facts['data']['name']}, {len(folders)} runs\n\n{origin}\n\n"
    says = f"Mean over runs; spread is the standard deviation over runs. {TESTED if tested else CHOSEN}\n\n"
    known = [[value if math.isfinite(value) else None for value in row] for row in values.tolist()]  # JSON has no nan
    content = {
        "facts": facts,
        "split": "test" if tested else "val",
        "runs": [one.name for one in folders],
        "figures": names,
        "values": known,
    }
    write_whole(out / "summary.md", (title + says + grid.markdown() + "\n" + runs.markdown()).encode())
    write_whole(out / "summary.csv", runs.csv().encode())
    write_whole(out / "summary.tex", grid.latex().encode())
    write_whole(out / "summary.json", json.dumps(content).encode())
    return grid.markdown() + ("" if tested else f"\n{CHOSEN}\n")


def _predicted(folder: Path, split: str) -> Predicted | None:
    """The labelled pictures of a split, None if there is none."""
    file = folder / f"predictions-{split}.csv"
    if not file.exists():
        return None
    _, card = read_file(folder / FILE)
    found = read_predicted(file, card.many)
    return found if found.files else None


def _figures(folder: Path, predicted: dict[str, Predicted | None], split: str) -> dict[str, float]:
    _, card = read_file(folder / FILE)
    judged, val = predicted[split], predicted["val"]
    assert judged is not None
    chosen_on = None if val is None or split == "val" else (val.truth, val.logits)
    verdict = judge(judged.truth, judged.logits, card.classes, card.many, judged.files, split, validation=chosen_on, resamples=0)
    figures = {name: float(figure.value) for name, figure in verdict.figures.items()}
    for one in verdict.classes:
        figures |= {f"F1 {one.name}": float(one.figures["F1"].value), f"AP {one.name}": float(one.figures["AP"].value)}
    return figures


def _row(name: str, values: NDArray[np.float64]) -> list[str]:
    known = values[np.isfinite(values)]
    if not len(known):
        return [name, "–", "–", "–", "–"]
    spread = known.std(ddof=1) if len(known) > 1 else math.nan
    return [name, *map(_shown, (known.mean(), spread, known.min(), known.max()))]


def _shown(value: float) -> str:
    return f"{value:.4f}" if math.isfinite(value) else "–"
