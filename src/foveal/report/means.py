"""Several runs as one table: mean and spread of every figure over seeds and folds."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from foveal.report.table import UNDEFINED, Table

Written = Callable[[float], str]


class Run(Protocol):
    @property
    def facts(self) -> dict[str, Any]:
        """Its result."""


AnyRun = TypeVar("AnyRun", bound=Run)


def four_digits(value: float) -> str:
    return f"{value:.4f}" if math.isfinite(value) else UNDEFINED


def means(
    names: Sequence[str], values: NDArray[np.float64], title: str, written: Mapping[str, Written] | None = None
) -> Table:
    """values (runs, figures); undefined ones are left out. written: how those figures are written that are no share."""
    rows = [_row(name, one, (written or {}).get(name, four_digits)) for name, one in zip(names, values.T, strict=True)]
    return Table(["figure", "mean", "spread", "lowest", "highest"], rows, title=title)


def _row(name: str, values: NDArray[np.float64], written: Written) -> list[str]:
    known = values[np.isfinite(values)]
    if not len(known):
        return [name, *[UNDEFINED] * 4]
    spread = known.std(ddof=1) if len(known) > 1 else math.nan
    return [name, *map(written, (known.mean(), spread, known.min(), known.max()))]


def plain_rows(values: NDArray[np.float64]) -> list[list[float | None]]:
    """Rows for JSON, which has no nan."""
    return [[value if math.isfinite(value) else None for value in row] for row in values.tolist()]


def run_name(folder: Path, facts: Mapping[str, Any]) -> str:
    """Of the folder; and of the fold, where it has one of its own."""
    names, fold = facts["data"].get("fold_names"), facts.get("fold")
    return f"{folder.name} ({names[fold]})" if names and fold is not None else folder.name


def by_seed(runs: Sequence[AnyRun]) -> dict[int, list[AnyRun]]:
    """The runs of each seed, where they are folds; nothing where there are not several."""
    seeds: dict[int, list[AnyRun]] = {}
    for run in runs:
        if run.facts.get("fold") is not None:
            seeds.setdefault(run.facts["seed"], []).append(run)
    return seeds if any(len(folds) > 1 for folds in seeds.values()) else {}


def of_all_folds(images: int, folds: int, seeds: int) -> str:
    """What the figures are of that the folds of a seed have together."""
    over = f"mean and spread over {seeds} seeds" if seeds > 1 else "one seed"
    return f"All {images} test images of {folds} folds taken together, {over}"


def title_of(facts: Mapping[str, Any], runs: int) -> str:
    return f"{facts['model']} ({facts['parameters']:,} parameters) on {facts['data']['name']}, {runs} runs"


def seeds_of(runs: Sequence[Run]) -> str:
    return ", ".join(str(seed) for seed in sorted({run.facts["seed"] for run in runs}))
