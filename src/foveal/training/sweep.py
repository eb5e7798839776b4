"""Several folds and several seeds by one call: each a run in a process of its own, some side by side,
and a line says what is under way.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from foveal.atomic import write_atomic
from foveal.child import PARENT
from foveal.errors import FovealError, expect
from foveal.training.diverged import DIVERGED
from foveal.training.recipe import Recipe
from foveal.training.run_folder import RECIPE, finished, is_empty, outcome, read_result

OUTCOME = "diverged.txt"  # in the folder of a run that has: remove it to have the run done again
# seconds until the first line of a log, how much rarer they become, and the longest silence
FIRST, FACTOR, RAREST = (10.0, 1.5, 120.0)


@dataclass(frozen=True)
class PlannedRun:
    task: str
    recipe: Any  # of the task's kind
    folder: Path


@dataclass
class Status:
    """Which runs are under way, each with the last line that it printed about its epochs."""

    total: int
    done: int = 0
    lines: dict[str, str] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def line(self) -> str:
        with self.lock:
            running = "; ".join(f"{name}: {line}" for name, line in sorted(self.lines.items()))
            return f"{self.done} of {self.total} runs done; {running or 'none under way'}"


def plan(
    task: str, recipe: Recipe, folder: Path, folds: Sequence[int | None], seeds: Sequence[int]
) -> Iterator[PlannedRun]:
    for fold in folds:
        for seed in seeds:
            name = f"seed{seed}" if fold is None else f"fold{fold}-seed{seed}"
            changes = {"seed": seed} if fold is None else {"fold": fold, "seed": seed}
            yield PlannedRun(task, recipe.changed(**changes), folder / name)


def expect_sweep_folder(folder: Path, resume: bool, runs: Sequence[PlannedRun] = ()) -> None:
    """Raise a FovealError unless this folder is new, empty, or that of the same sweep:
    somebody else's files are left alone.
    """
    expect(
        folder.is_dir() or not folder.exists(),
        f"the folder {folder}",
        "a new or empty one",
        "a file",
        "choose another --out",
    )
    if is_empty(folder):
        return
    expect(
        resume,
        f"the folder {folder}",
        "a new or empty one",
        "one with files in it",
        "add --resume, or choose another --out",
    )
    begun = any(
        (run.folder / RECIPE).exists() or run.folder.with_name(f"{run.folder.name}.yaml").exists() for run in runs
    )
    expect(not runs or begun, f"the folder {folder}", "the runs of this sweep", "other files", "choose another --out")


def run_all(runs: Sequence[PlannedRun], flags: Sequence[str], jobs: int, *, diverging: bool = False) -> None:
    """Every run in a process of its own, `jobs` at a time.

    One that has ended before is not done again; one that fails is named.

    diverging: a run whose numbers become NaN is an outcome, not a failure: `diverged` knows it, and it is not done
    again.
    """
    # raises for a folder of another recipe
    waiting = [run for run in runs if finished(run.recipe, run.folder, resume=True) is None]
    if diverging:
        waiting = [run for run in waiting if not diverged(run)]
    status = Status(len(runs), len(runs) - len(waiting))
    running: set[subprocess.Popen[str]] = set()
    pool, over = ThreadPoolExecutor(jobs), threading.Event()
    threading.Thread(target=_report, args=(status, over), daemon=True).start()
    try:
        problems = list(pool.map(lambda run: _one(run, flags, jobs, running, status), waiting))
    except BaseException:  # Ctrl-C: no further run is begun, and those under way are stopped
        pool.shutdown(wait=False, cancel_futures=True)
        for process in list(running):
            process.terminate()  # a job in the background, and so its children, ignore SIGINT
        raise
    finally:
        over.set()
        pool.shutdown()
    failed = [
        f"{run.folder.name}: {line}"
        for run, line in zip(waiting, problems, strict=True)
        if line and not (diverging and diverged(run))
    ]
    if failed:
        raise FovealError(
            f"{len(failed)} of {len(runs)} runs failed; {failed[0]}; the others are kept: continue with --resume"
        )


def diverged(run: PlannedRun) -> bool:
    """Whether the run, of this recipe, has ended because its numbers became NaN or infinite:
    with the same seed they would again.
    """
    return (run.folder / OUTCOME).exists() and finished(run.recipe, run.folder, resume=True) is None


def _one(
    run: PlannedRun, flags: Sequence[str], jobs: int, running: "set[subprocess.Popen[str]]", status: Status
) -> str:
    """What went wrong, in a line; nothing if all went well."""
    name = run.folder.name
    recipe, log = run.folder.with_name(f"{name}.yaml"), run.folder.with_name(f"{name}.txt")
    write_atomic(recipe, run.recipe.text().encode())
    command = [
        sys.executable,
        "-m",
        "foveal",
        "train",
        run.task,
        "--recipe",
        str(recipe),
        "--out",
        str(run.folder),
        "--resume",
        *flags,
    ]
    environment = os.environ | {"OMP_NUM_THREADS": str(threads(jobs)), PARENT: str(os.getpid())}
    errors: list[str] = []
    with status.lock:
        status.lines[name] = "starting"
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", env=environment
    ) as process:
        running.add(process)
        output: list[str] = []
        assert process.stdout is not None
        assert process.stderr is not None
        reader = threading.Thread(target=output.extend, args=(process.stdout,), daemon=True)
        reader.start()
        for line in process.stderr:
            errors.append(line)
            if line.startswith("epoch "):
                with status.lock:
                    status.lines[name] = _pace(line)
        process.wait()
        reader.join()
        running.discard(process)
    write_atomic(log, ("".join(errors) + "".join(output)).encode())
    with status.lock:
        status.lines.pop(name, None)
        status.done += 1
    if process.returncode == 0:
        _say(outcome(name, read_result(run.folder)))
        recipe.unlink(missing_ok=True)
        return ""
    if any(DIVERGED in line for line in errors):
        write_atomic(run.folder / OUTCOME, f"{DIVERGED}\n".encode())
    return ("".join(errors).strip().splitlines() or [f"exit status {process.returncode}"])[-1]


def threads(jobs: int) -> int:
    """Of each of N runs side by side: no more than there are cores, or than the caller allows.

    A run's origin names how many it had, since sums in another order differ in their last bits.
    """
    allowed = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(cores() // jobs, int(allowed) if allowed.isdecimal() and int(allowed) else cores()))


def cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _pace(line: str) -> str:
    """Of a line that an epoch prints: the epoch and the time left."""
    parts = [part.strip() for part in line.split("·")]
    left = next((part for part in parts if part.startswith("left")), "")
    return f"{parts[0]}, {left.removeprefix('left ')} left" if left else parts[0]


def _report(status: Status, over: threading.Event) -> None:
    """A line that is written over on a terminal, and a line now and then in a log, until it is over."""
    terminal, wait, last = sys.stderr.isatty(), FIRST, time.monotonic()
    while not over.wait(1.0 if terminal else 0.5):
        if terminal:
            columns = os.get_terminal_size(sys.stderr.fileno()).columns
            print(f"\r\x1b[2K{status.line()[: columns - 1]}", end="", file=sys.stderr, flush=True)
        elif time.monotonic() - last >= wait:
            _say(status.line())
            wait, last = min(wait * FACTOR, RAREST), time.monotonic()


def _say(line: str) -> None:
    start = "\r\x1b[2K" if sys.stderr.isatty() else ""
    print(f"{start}{line}", file=sys.stderr, flush=True)
