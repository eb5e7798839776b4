"""The table of an ablation of classifiers: what each variant costs and scores, and how far that is from the first."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from foveal.deploy.measure.cost import flops, parameters
from foveal.report.table import UNDEFINED, Table
from foveal.tasks.ablation_time import time_columns
from foveal.tasks.classify.compare import difference, headline, pooled
from foveal.tasks.classify.finish import predictions
from foveal.tasks.classify.predictions import Predicted, read_predicted
from foveal.tasks.classify.recipe import ClassifyRecipe
from foveal.tasks.classify.training import build
from foveal.tasks.over_seeds import by_seed, groups_of, mean_and_spread, points
from foveal.training.sweep import PlannedRun


def table_of(
    table: str, variants: Mapping[str, Sequence[PlannedRun]], data: Any, precisions: Sequence[str] = ()
) -> Table:
    """variants: name → its runs over folds and seeds; the first is what the others are compared with.

    precisions: of the files that are timed on this machine.
    """
    multi_label = data.multi_label

    def read(run: PlannedRun) -> Predicted:
        return read_predicted(run.folder / predictions("test"), multi_label)

    tests = {name: by_seed(runs, read, pooled) for name, runs in variants.items()}
    base = next(iter(variants))
    groups = groups_of(next(iter(tests[base].values())).files, data)
    times = time_columns(variants, precisions, variants[base][0].recipe.size)
    rows = []
    for name, runs in variants.items():
        cost = _cost(runs[0].recipe, len(data.classes))
        against = UNDEFINED if name == base else points(difference(tests[base], tests[name], multi_label, groups))
        taken = [cells[name] for cells in times.values()]
        rows.append([name, *cost, *_figures(tests[name], multi_label), against, *taken])
    accuracy = [] if multi_label else ["accuracy"]
    head = [table, "parameters", "GFLOP", "score", "spread", *accuracy, f"against {base} (95 %)", *times]
    return Table(head, rows, title=table)


def _figures(tests: Mapping[int, Predicted], multi_label: bool) -> list[str]:
    scores = mean_and_spread(float(headline(test, multi_label)(None)) for test in tests.values())
    if multi_label:
        return scores
    right = np.mean([np.mean(test.logits.argmax(1) == test.truth) for test in tests.values()])
    return [*scores, f"{100 * right:.1f}"]


def _cost(recipe: ClassifyRecipe, classes: int) -> list[str]:
    # What it costs is of its shape: a run's weights may be thrown away.
    model = build(recipe, classes, fresh=False, check_cells=False).eval()
    return [f"{parameters(model):,}", f"{flops(model, torch.zeros(1, 3, recipe.size, recipe.size)) / 1e9:.3f}"]
