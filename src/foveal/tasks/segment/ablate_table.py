"""The table of an ablation of segmenters: what each variant finds, how far from the first one, and what it takes.

What a run found in its test split is counted once, and kept beside the run's folder as long as its model and the data
are the same.
"""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from foveal.atomic import write_atomic
from foveal.data.segments import SegmentSource
from foveal.metrics.difference import Headline
from foveal.progress import silent
from foveal.report.table import UNDEFINED, Table
from foveal.tasks.ablation_time import time_columns
from foveal.tasks.evaluated_on import expect_unchanged, split_of
from foveal.tasks.load import load
from foveal.tasks.over_seeds import by_seed, difference, groups_of, mean_and_spread, order_of_names, points
from foveal.tasks.segment.evaluate import predict_split
from foveal.tasks.segment.options import EvaluateOptions
from foveal.tasks.segment.scores import DECIDES
from foveal.tasks.segment.scoring import headline
from foveal.training.run_folder import read_result
from foveal.training.sweep import PlannedRun
from foveal.training.taught import digest


@dataclass(frozen=True, eq=False)
class Counted:
    """What a build found in the images of a split."""

    files: tuple[str, ...]
    confusions: NDArray[np.int64]  # (N, K + 1, K + 1)


def table_of(
    title: str, variants: Mapping[str, Sequence[PlannedRun]], data: SegmentSource, precisions: Sequence[str]
) -> Table:
    """variants: name → its runs over folds and seeds; the first is what the others are compared with.

    precisions: of the files that are timed on this machine.
    """
    base = next(iter(variants))
    splits = list(dict.fromkeys(_split(run, data) for run in variants[base]))
    tests = {
        name: by_seed(runs, lambda run: counted(run, data, _split(run, data)), pooled)
        for name, runs in variants.items()
    }
    groups = groups_of(next(iter(tests[base].values())).files, data)
    side = int(load(variants[base][0].folder, device="cpu").card.size)  # type: ignore[attr-defined]
    times = time_columns(variants, precisions, side)
    rows = []
    for name, runs in variants.items():
        results = [read_result(run.folder) for run in runs]
        scores = mean_and_spread(float(_headline(test)(None)) for test in tests[name].values())
        found = UNDEFINED if name == base else points(difference(tests[base], tests[name], _headline, groups))
        taken = [cells[name] for cells in times.values()]
        seconds = f"{np.mean([result['seconds'] for result in results]):.0f}"
        rows.append([name, f"{results[0]['parameters']:,}", *scores, found, *taken, seconds])
    score = f"{DECIDES}, {' and '.join(splits)}"
    head = [title, "parameters", score, "spread", f"against {base} (95 %)", *times, "training s"]
    return Table(head, rows, title=title)


def counted(run: PlannedRun, data: SegmentSource, split: str) -> Counted:
    """What the run's model finds in a split. It is not asked again for the same model and data."""
    kept, model = run.folder.with_name(f"{run.folder.name}-{split}.npz"), digest(run.folder)
    if kept.exists():
        with np.load(kept) as parts:
            if (str(parts["data"]), str(parts["model"])) == (data.fingerprint(), model):
                return Counted(tuple(parts["files"].tolist()), parts["confusions"])
    opened = load(run.folder, device="cpu")
    expect_unchanged(data, EvaluateOptions(), opened.card, run.recipe.fold_column)
    predicted, _, _ = predict_split(opened, data, split, run.recipe.fold, silent)
    asked = {"data": np.array(data.fingerprint()), "model": np.array(model)}
    _keep(kept, **asked, files=np.array(predicted.files), confusions=predicted.confusions)
    return Counted(predicted.files, predicted.confusions)


def pooled(tests: Sequence[Counted]) -> Counted:
    """The tests of several folds as one, in the order of the files' names."""
    files, order = [file for test in tests for file in test.files], order_of_names(tests)
    confusions = np.concatenate([test.confusions for test in tests])
    return Counted(tuple(files[place] for place in order), confusions[order])


def _split(run: PlannedRun, data: SegmentSource) -> str:
    return split_of(data, None, run.recipe.fold, "nothing")[0]


def _headline(test: Counted) -> Headline:
    return headline(test.confusions)


def _keep(file: Path, **arrays: NDArray[np.generic]) -> None:
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)  # type: ignore[arg-type]
    write_atomic(file, content.getvalue())
