"""How good a gauge is: the mean absolute error, and the share of the variance that it explains."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from foveal.atomic import write_atomic
from foveal.errors import FovealError
from foveal.options import Options, option
from foveal.tasks.model import Model
from foveal.tasks.task import Evaluation
from toy_task.data import SPLITS, read
from toy_task.predict import values_of


@dataclass(frozen=True)
class EvaluateOptions(Options):
    data: str | None = option(None, "a folder with values.csv (default: what it was trained on)", metavar="PATH")
    split: str = option("test", "which images", SPLITS)


class GaugeEvaluation(Evaluation):
    def __init__(self, split: str, models: dict[str, dict[str, float]]) -> None:
        self.split, self.models = split, models
        self.figures = next(iter(models.values()))

    def summary(self) -> str:
        head = [f"| {self.split} | {' | '.join(self.figures)} |", "|---" * (len(self.figures) + 1) + "|"]
        return "\n".join(
            head
            + [
                f"| {name} | {' | '.join(f'{value:.4f}' for value in row.values())} |"
                for name, row in self.models.items()
            ]
        )

    def write(self, folder: str | Path) -> list[Path]:
        folder = Path(folder)
        write_atomic(folder / "report.md", (self.summary() + "\n").encode())
        write_atomic(folder / "figures.json", json.dumps(self.models, indent=1).encode())
        return [folder / "report.md", folder / "figures.json"]


def evaluate(models: Sequence[Model], options: EvaluateOptions, progress: Any) -> GaugeEvaluation:
    data = options.data or models[0].card.recipe.get("data")
    if not data:
        raise FovealError(f"{models[0].name}: expected data to evaluate it on, got a model that names none; add --data")
    readings = read(str(data))
    rows = readings.rows(options.split)
    truth, found = readings.values[rows], {}
    for model in progress(models, len(models), "evaluating"):
        error = values_of(model)(readings.images(rows, model.card.size)) - truth
        spread = max(float(np.square(truth - truth.mean()).sum()), 1e-12)
        found[model.name] = {"mae": float(np.abs(error).mean()), "r2": 1 - float(np.square(error).sum()) / spread}
    return GaugeEvaluation(options.split, found)
