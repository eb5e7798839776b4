"""Several runs as one table: mean and spread of every figure over folds and seeds."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from foveal.app.grid import Grid
from foveal.explain.judge import judge
from foveal.explain.predicted import read_predicted
from foveal.models.store import FILE, read_file
from foveal.whole import write_whole

COLUMNS = 6  # figures in the table on the screen; the csv has all of them


def summarise(folders: Sequence[Path], out: Path) -> str:
    """Judge every run on its test split; write summary.md, .csv, .tex and .json, and return the table."""
    rows = [_figures(folder) for folder in folders]
    names = list(rows[0])
    values = np.array([[row[name] for name in names] for row in rows])
    grid = Grid(["figure", "mean", "spread", "lowest", "highest"], [_row(name, column) for name, column in zip(names, values.T, strict=True)])
    runs = Grid(["run", *names], [[folder.name, *(f"{value:.4f}" for value in row)] for folder, row in zip(folders, values, strict=True)])
    facts = json.loads((folders[0] / "result.json").read_text(encoding="utf-8"))
    origin = " · ".join(f"{key} {value}" for key, value in facts["origin"].items())
    title = f"# {facts['model']} ({facts['weights']:,} weights) on {facts['data']['name']}, {len(folders)} runs\n\n{origin}\n\n"
    says = "Mean over runs; spread is the standard deviation over runs. Every run is tested on pictures that chose nothing.\n\n"
    write_whole(out / "summary.md", (title + says + grid.markdown() + "\n" + runs.markdown()).encode())
    write_whole(out / "summary.csv", runs.csv().encode())
    write_whole(out / "summary.tex", grid.latex().encode())
    write_whole(out / "summary.json", json.dumps({"facts": facts, "runs": [f.name for f in folders], "figures": names, "values": values.tolist()}).encode())
    return grid.markdown()


def _figures(folder: Path) -> dict[str, float]:
    _, card = read_file(folder / FILE)
    test, val = (read_predicted(folder / f"predictions-{split}.csv", card.many) for split in ("test", "val"))
    verdict = judge(test.truth, test.logits, card.classes, card.many, test.files, "test", validation=(val.truth, val.logits), resamples=0)
    figures = {name: float(figure.value) for name, figure in verdict.figures.items()}
    for one in verdict.classes:
        figures |= {f"F1 {one.name}": float(one.figures["F1"].value), f"AP {one.name}": float(one.figures["AP"].value)}
    return figures


def _row(name: str, values: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> list[str]:
    known = values[np.isfinite(values)]
    if not len(known):
        return [name, "–", "–", "–", "–"]
    spread = known.std(ddof=1) if len(known) > 1 else 0.0
    return [name, *(f"{value:.4f}" for value in (known.mean(), spread, known.min(), known.max()))]
