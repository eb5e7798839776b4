"""The table of an ablation of classifiers: what each variant costs and scores, and how far that is from the first."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from foveal.deploy.measure.cost import flops, parameters
from foveal.report.table import UNDEFINED, Table
from foveal.tasks.classify.ablate_time import time_columns
from foveal.tasks.classify.compare import difference, headline, pooled
from foveal.tasks.classify.finish import predictions
from foveal.tasks.classify.predictions import read_predicted
from foveal.tasks.classify.recipe import ClassifyRecipe
from foveal.tasks.classify.training import build
from foveal.training.sweep import PlannedRun


def table_of(
    table: str, variants: Mapping[str, Sequence[PlannedRun]], data: Any, precisions: Sequence[str] = ()
) -> Table:
    """variants: name → its runs over folds and seeds; the first is what the others are compared with.

    precisions: of the files that are timed on this machine.
    """
    tests = {name: _tested(runs, data.multi_label) for name, runs in variants.items()}
    base = next(iter(variants))
    groups = _groups(next(iter(tests[base].values())).files, data)
    times = time_columns(variants, precisions)
    rows = []
    for name, runs in variants.items():
        cost = _cost(runs[0].recipe, len(data.classes))
        against = _against(base, name, tests, data.multi_label, groups)
        taken = [cells[name] for cells in times.values()]
        rows.append([name, *cost, *_figures(tests[name], data.multi_label), against, *taken])
    accuracy = [] if data.multi_label else ["accuracy"]
    head = [table, "parameters", "GFLOP", "score", "spread", *accuracy, f"against {base} (95 %)", *times]
    return Table(head, rows, title=table)


def _tested(runs: Sequence[Any], multi_label: bool) -> dict[int, Any]:
    """seed → the tests of its folds as one."""
    seeds: dict[int, list[Any]] = {}
    for one in runs:
        seeds.setdefault(one.recipe.seed, []).append(read_predicted(one.folder / predictions("test"), multi_label))
    return {seed: pooled(tests) for seed, tests in seeds.items()}


def _figures(tests: Mapping[int, Any], multi_label: bool) -> list[str]:
    scores = np.array([float(headline(test, multi_label)(None)) for test in tests.values()])
    right = (
        []
        if multi_label
        else [f"{100 * np.mean([np.mean(test.logits.argmax(1) == test.truth) for test in tests.values()]):.1f}"]
    )
    return [f"{100 * scores.mean():.1f}", f"{100 * scores.std(ddof=1):.1f}" if len(scores) > 1 else UNDEFINED, *right]


def _against(
    base: str, name: str, tests: Mapping[str, Mapping[int, Any]], multi_label: bool, groups: NDArray[np.int64] | None
) -> str:
    if name == base:
        return UNDEFINED
    found = difference(tests[base], tests[name], multi_label, groups)
    return f"{100 * found.value:+.1f} ({100 * found.low:+.1f} to {100 * found.high:+.1f})"


def _cost(recipe: ClassifyRecipe, classes: int) -> list[str]:
    # What it costs is of its shape: a run's weights may be thrown away.
    model = build(recipe, classes, fresh=False, check_cells=False).eval()
    return [f"{parameters(model):,}", f"{flops(model, torch.zeros(1, 3, recipe.size, recipe.size)) / 1e9:.3f}"]


def _groups(files: Sequence[str], source: Any) -> NDArray[np.int64] | None:
    if source.group is None:
        return None
    place = {source.file(index): index for index in range(len(source))}
    return np.array([source.group[place[file]] for file in files])
