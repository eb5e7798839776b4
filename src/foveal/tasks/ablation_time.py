"""What the variants of an ablation take on this machine: one image on one thread, all exported files in turns.

    change = median of a variant / median of the first one − 1

The file of a variant is that of its first run, with its proof, beside the run's folder; where it cannot be had, such as
an int8 one that is too far from its model, that of the next run. A variant that has none in a precision has no time in
it, and a line says why.
"""

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from foveal.deploy.measure.clock import Timing, interleaved
from foveal.errors import FovealError
from foveal.report.table import UNDEFINED
from foveal.runtime.onnx_names import EXPORTED, INPUT
from foveal.runtime.onnx_session import opened
from foveal.runtime.packaged import FILE
from foveal.tasks.load import load
from foveal.training.sweep import PlannedRun

ROUNDS, WARM_UP = 101, 5  # variants differ by a few per cent
CALLED = {"fp32": "float32", "int8": "int8"}
METHOD = (
    "ms: time per image of the exported file, of the first run whose file is within its precision's limits, batch 1, "
    "one thread, onnxruntime; "
    f"all files take turns, {WARM_UP} rounds of warm-up and {ROUNDS} that count; the median, with the 10th and "
    "90th percentile in brackets. change: against the first row."
)


def time_columns(
    runs: Mapping[str, Sequence[PlannedRun]], precisions: Sequence[str], side: int
) -> dict[str, dict[str, str]]:
    """Head of a column → its cell for each variant. runs: name of a variant → its runs; side: of the image."""
    found = {f"{name} {one}": first_file(name, some, one) for name, some in runs.items() for one in precisions}
    contents = {name: file.read_bytes() for name, file in found.items() if file}
    # What is opened first, after files were exported here, is a tenth slower than its like: it is opened twice, and not
    # timed the first time.
    untimed = [opened(content) for content in list(contents.values())[:1]]
    sessions = {name: opened(content) for name, content in contents.items()}
    if not untimed:
        return {head: dict.fromkeys(runs, UNDEFINED) for one in precisions for head in _heads(one)}
    frame = {INPUT: np.random.default_rng(0).integers(0, 256, (1, side, side, 3), np.uint8)}
    jobs = {name: partial(session.run, None, frame) for name, session in sessions.items()}
    taken = interleaved(jobs, rounds=ROUNDS, warm_up=WARM_UP)
    columns: dict[str, dict[str, str]] = {}
    base = next(iter(runs))
    for precision in precisions:
        times = {name: taken.get(f"{name} {precision}") for name in runs}
        first, (ms, change) = times[base], _heads(precision)
        columns[ms] = {name: UNDEFINED if one is None else _cell(one) for name, one in times.items()}
        columns[change] = {
            name: UNDEFINED
            if one is None or first is None or name == base
            else f"{100 * (one.median / first.median - 1):+.0f} %"
            for name, one in times.items()
        }
    return columns


def first_file(name: str, runs: Sequence[PlannedRun], precision: str) -> Path | None:
    """Of the first of a variant's runs that has one."""
    reason = ""
    for run in runs:
        try:
            return exported(run, precision)
        except FovealError as error:
            reason = reason or str(error)
    print(f"{name} in {CALLED[precision]} is not timed: {reason}", file=sys.stderr, flush=True)
    return None


def exported(run: PlannedRun, precision: str) -> Path:
    """The file of a run in this precision. One that is there, and not older than its model, is not made again."""
    file = run.folder.with_name(f"{run.folder.name}-{CALLED[precision]}{EXPORTED}")
    if not file.exists() or file.stat().st_mtime < (run.folder / FILE).stat().st_mtime:
        # An int8 file that is no faster is a result, too.
        load(run.folder, device="cpu").export(file, precision=precision, anyway=True)
    return file


def _heads(precision: str) -> tuple[str, str]:
    return f"{CALLED[precision]} ms", f"{CALLED[precision]} change"


def _cell(one: Timing) -> str:
    median, p10, p90 = (1e3 * part for part in (one.median, one.p10, one.p90))
    return f"{median:.2f} ({p10:.2f}–{p90:.2f})"
