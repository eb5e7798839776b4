"""A table of measurements: each row holds ours beside theirs, the ratio,
and the bar that it must meet where there is one.
"""

import argparse
import contextlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from foveal.atomic import write_atomic
from foveal.deploy.measure.clock import Job, Timing, interleaved
from foveal.deploy.measure.origin import origin
from foveal.options import Options
from foveal.report.table import Table, write_tables

WARM_UP = 3
ROUNDS, LONGEST = 11, 16384  # by default
MOST_ROUNDS = 10_000
RUNTIMES = ("onnxruntime", "torch", "compile", "script")
OPPOSITES = {"faster": "slower", "less": "more"}  # how a ratio below 1 is read


@dataclass(frozen=True)
class Row:
    what: str
    ours: str
    theirs: str
    ratio: float | None
    meaning: str  # how to read the ratio
    bar: str = ""  # the bar, in words
    met: bool | None = None

    def ratio_in_words(self) -> str:
        """2.00 × faster than theirs; 0.5 reads 2.00 × slower than theirs."""
        if self.ratio is None:
            return ""
        word = next((word for word in self.meaning.split() if word in OPPOSITES), None)
        if word is None or not 0 < self.ratio < 1:
            return f"{self.ratio:.2f} {self.meaning}"
        return f"{1 / self.ratio:.2f} {self.meaning.replace(word, OPPOSITES[word])}"


@dataclass
class Bench:
    """Collects rows, prints each as soon as it is there, and writes them with their origin."""

    name: str
    device: str
    threads: int
    rounds: int
    longest: int
    asked: argparse.Namespace | None = None  # what was typed
    options: Options = field(default_factory=Options)  # of the task that brings it
    rows: list[Row] = field(default_factory=list)
    timings: dict[str, dict[str, Timing]] = field(default_factory=dict)
    picture: str = ""  # an SVG that goes with the table
    stem: str = ""  # of its files, where the bench's name would not say what was measured

    def time(self, what: str, jobs: Mapping[str, Job], rounds: int | None = None) -> dict[str, Timing]:
        taken = interleaved(jobs, rounds=rounds or self.rounds, warm_up=WARM_UP, device=self.device)
        self.timings[what] = taken
        return taken

    def slower(
        self,
        what: str,
        ours: Job,
        theirs: Mapping[str, Job],
        *,
        at_most: float | None = None,
        rounds: int | None = None,
    ) -> None:
        """Ours as a multiple of the fastest of theirs."""
        taken = self.time(what, {"ours": ours, **theirs}, rounds)
        best = min(theirs, key=lambda name: taken[name].median)
        ratio = taken["ours"].median / taken[best].median
        bar = "" if at_most is None else f"at most {at_most:g}"
        met = None if at_most is None else ratio <= at_most
        self.add(
            Row(what, _time(taken["ours"]), f"{best} {_time(taken[best])}", ratio, "× the time of theirs", bar, met)
        )

    def faster(
        self,
        what: str,
        ours: Job,
        theirs: Mapping[str, Job],
        *,
        at_least: float | None = None,
        rounds: int | None = None,
    ) -> None:
        """How often ours fits into the fastest of theirs."""
        taken = self.time(what, {"ours": ours, **theirs}, rounds)
        best = min(theirs, key=lambda name: taken[name].median)
        ratio = taken[best].median / taken["ours"].median
        bar = "" if at_least is None else f"at least {at_least:g}"
        met = None if at_least is None else ratio >= at_least
        self.add(
            Row(what, _time(taken["ours"]), f"{best} {_time(taken[best])}", ratio, "× faster than theirs", bar, met)
        )

    def smaller(self, what: str, ours: int, theirs: tuple[str, int], *, at_least: float | None = None) -> None:
        """How much less memory ours needs."""
        name, most = theirs
        ratio = most / max(ours, 1)
        bar = "" if at_least is None else f"at least {at_least:g}"
        met = None if at_least is None else ratio >= at_least
        self.add(Row(what, _bytes(ours), f"{name} {_bytes(most)}", ratio, "× less memory", bar, met))

    def add(self, row: Row) -> None:
        self.rows.append(row)
        outcome = "" if row.met is None else f"  ({row.bar}: {'met' if row.met else 'NOT MET'})"
        words = " · ".join(part for part in (row.ours, row.theirs, row.ratio_in_words()) if part)
        with contextlib.suppress(OSError):  # nobody reads on: measure all the same, and write
            print(f"{row.what}: {words}{outcome}", flush=True)

    def write(self, folder: Path) -> None:
        facts = origin(self.device, self.threads)
        machine = facts.get("gpu", facts["machine"])
        stem = f"{self.stem or self.name}-{re.sub('[^a-z0-9]+', '-', machine.lower()).strip('-')}"
        # A quick look does not take the place of the full run.
        stem += f"-{self.rounds}-rounds" if self.rounds != ROUNDS else ""
        stem += f"-to-{self.longest}" if self.longest != LONGEST else ""
        write_tables(folder, stem, [_table(self.rows)], f"foveal bench {self.name}", self._method(), facts)
        seconds = {
            what: {name: asdict(timing) for name, timing in taken.items()} for what, taken in self.timings.items()
        }
        content = {"origin": facts, "warm_up": WARM_UP, "rows": [asdict(row) for row in self.rows], "seconds": seconds}
        write_atomic(folder / f"{stem}.json", (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())
        if self.picture:
            write_atomic(folder / f"{stem}.svg", self.picture.encode())
        else:
            (folder / f"{stem}.svg").unlink(missing_ok=True)  # of an earlier run
        with contextlib.suppress(OSError):
            print(f"written: {folder / stem}.md, .csv, .tex and .json{' and .svg' if self.picture else ''}")

    def _method(self) -> str:
        return (
            f"Candidates take turns: {WARM_UP} rounds of warm-up, then {self.rounds} rounds (fewer where the .json "
            "says so). Times are the median, with the 10th and 90th percentile in brackets. On a GPU the device "
            "alone is timed, on a CPU the whole call."
        )


def _table(rows: list[Row]) -> Table:
    cells = []
    for row in rows:
        bar = "" if row.met is None else f"{row.bar}: {'met' if row.met else 'NOT MET'}"
        cells.append([row.what, row.ours, row.theirs, row.ratio_in_words(), bar])
    return Table(["what", "ours", "theirs", "ratio", "bar"], cells, words=5)


def _time(timing: Timing) -> str:
    factor, unit = (1e3, "ms") if timing.median >= 1e-3 else (1e6, "µs")
    median, p10, p90 = (_digits(value * factor) for value in (timing.median, timing.p10, timing.p90))
    return f"{median} {unit} ({p10}–{p90})"


def _digits(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.3f}"


def _bytes(count: int) -> str:
    return f"{count / 2**20:.1f} MiB"
