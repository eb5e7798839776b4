"""Several folds and several seeds by one call: each a run of its own, some side by side, and a table of mean and spread at the end."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foveal.atomic import write_atomic
from foveal.errors import FovealError
from foveal.options import Options
from foveal.tasks.classify.data import cores
from foveal.tasks.classify.finish import RESULT
from foveal.train.diverged import DIVERGED
from foveal.train.run import finished

OUTCOME = "diverged.txt"  # in the folder of a run that has: remove it to have the run done again


@dataclass(frozen=True)
class Run:
    recipe: Any  # of any task: its Settings
    folder: Path


def plan(recipe: Options, folder: Path, folds: Sequence[int | None], seeds: Sequence[int]) -> Iterator[Run]:
    for fold in folds:
        for seed in seeds:
            name = f"seed{seed}" if fold is None else f"fold{fold}-seed{seed}"
            changes = {"seed": seed} if fold is None else {"fold": fold, "seed": seed}
            yield Run(recipe.changed(**changes), folder / name)


def run_all(runs: Sequence[Run], flags: Sequence[str], jobs: int, *, diverging: bool = False) -> None:
    """Every run in a process of its own, `jobs` at a time. One that has ended before is not done again; one that fails is named.

    diverging: a run whose numbers become NaN is an outcome, not a failure: `diverged` tells it, and it is not done again.
    """
    open_ = [run for run in runs if finished(run.recipe, run.folder, resume=True) is None]  # raises for a folder of another recipe
    if diverging:
        open_ = [run for run in open_ if not diverged(run)]
    running: set[subprocess.Popen[str]] = set()
    pool = ThreadPoolExecutor(jobs)
    try:
        said = list(pool.map(lambda run: _one(run, flags, jobs, running), open_))
    except BaseException:  # Ctrl-C: no further run is begun, and those under way are told
        pool.shutdown(wait=False, cancel_futures=True)
        for process in list(running):
            process.send_signal(signal.SIGINT)
        raise
    finally:
        pool.shutdown()
    failed = [f"{run.folder.name}: {words}" for run, words in zip(open_, said, strict=True) if words and not (diverging and diverged(run))]
    if failed:
        raise FovealError(f"{len(failed)} of {len(runs)} runs failed; {failed[0]}; the others are kept: go on with --resume")


def diverged(run: Run) -> bool:
    """Whether the run, of this recipe, has ended because its numbers became NaN or infinite: with the same seed they would again."""
    return (run.folder / OUTCOME).exists() and finished(run.recipe, run.folder, resume=True) is None


def _one(run: Run, flags: Sequence[str], jobs: int, running: "set[subprocess.Popen[str]]") -> str:
    """What went wrong, in a line; nothing if all went well."""
    recipe = run.folder.with_suffix(".yaml")
    write_atomic(recipe, run.recipe.text().encode())
    command = [
        sys.executable,
        "-m",
        "foveal",
        "train",
        run.recipe.task,
        "--recipe",
        str(recipe),
        "--out",
        str(run.folder),
        "--resume",
        *flags,
    ]
    environment = os.environ | {"OMP_NUM_THREADS": str(threads(jobs))}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as process:
        running.add(process)
        output, errors = process.communicate()
        running.discard(process)
    write_atomic(run.folder.with_suffix(".txt"), (errors + output).encode())
    if process.returncode == 0:
        print(f"{run.folder.name}: {_short(run.folder)}", file=sys.stderr, flush=True)
        recipe.unlink(missing_ok=True)
        return ""
    if DIVERGED in errors:
        write_atomic(run.folder / OUTCOME, f"{DIVERGED}\n".encode())
    return (errors.strip().splitlines() or [f"exit status {process.returncode}"])[-1]


def threads(jobs: int) -> int:
    """Of each of so many runs side by side: no more than there are cores, or than the caller allows. A run's origin tells how many it had,
    since sums in another order differ in their last bits."""
    allowed = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(cores() // jobs, int(allowed) if allowed.isdecimal() and int(allowed) else cores()))


def _short(folder: Path) -> str:
    result = json.loads((folder / RESULT).read_text(encoding="utf-8"))
    return f"validation score {result['val_score']:.4f} at epoch {result['epoch']}, {result['seconds']:.0f} s"
