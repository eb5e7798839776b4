"""The tests of a build over its seeds: their mean and spread, and how far they are from those of another build.

    Δ = mean over seeds of figure(B) − figure(A), its interval as metrics/difference.py has it

Each image is tested once for each seed: the tests of several folds are one test of all images.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from foveal.errors import expect
from foveal.metrics.difference import Difference, Headline, paired_difference
from foveal.report.table import UNDEFINED

if TYPE_CHECKING:
    from foveal.data.source import Source
    from foveal.training.sweep import PlannedRun


class Tested(Protocol):
    """What a build found in some images."""

    @property
    def files(self) -> tuple[str, ...]: ...


One = TypeVar("One", bound=Tested)


def by_seed(
    runs: "Sequence[PlannedRun]", read: "Callable[[PlannedRun], One]", pooled: Callable[[list[One]], One]
) -> dict[int, One]:
    """seed → the tests of its folds as one."""
    seeds: dict[int, list[One]] = {}
    for run in runs:
        seeds.setdefault(run.recipe.seed, []).append(read(run))
    return {seed: pooled(tests) for seed, tests in seeds.items()}


def order_of_names(tests: Sequence[Tested]) -> NDArray[np.int64]:
    """Where each image of several tests stands in the order of all files' names; an error where one comes twice."""
    files = [file for test in tests for file in test.files]
    expect(len(set(files)) == len(files), "the runs' tests", "every image once", "some twice")
    return np.argsort(np.array(files))


def difference(
    base: Mapping[int, One],
    other: Mapping[int, One],
    headline: Callable[[One], Headline],
    groups: NDArray[np.integer] | None = None,
    resamples: int = 2000,
) -> Difference:
    """B − A, both given as seed → test. groups (N,): which images belong together, in the order of the tests' files."""
    seeds = sorted(set(base) & set(other))
    expect(bool(seeds), "the seeds of two builds", "some in common", "none")
    for seed in seeds:
        same, do = base[seed].files == other[seed].files, "compare runs on the same data"
        expect(same, "two builds", "the same test images", "others", do)
    pairs = [(headline(base[seed]), headline(other[seed])) for seed in seeds]
    return paired_difference(pairs, len(base[seeds[0]].files), groups, resamples)


def groups_of(files: Sequence[str], source: "Source") -> NDArray[np.int64] | None:
    """Which of these images belong together."""
    if source.group is None:
        return None
    place = {source.file(index): index for index in range(len(source))}
    return np.array([source.group[place[file]] for file in files])


def mean_and_spread(scores: Iterable[float]) -> list[str]:
    """Cells of a table: the mean × 100 over seeds, and their standard deviation."""
    values: NDArray[Any] = np.array(list(scores))
    return [f"{100 * values.mean():.1f}", f"{100 * values.std(ddof=1):.1f}" if len(values) > 1 else UNDEFINED]


def points(found: Difference) -> str:
    """A cell: a difference × 100 with its interval."""
    return f"{100 * found.value:+.1f} ({100 * found.low:+.1f} to {100 * found.high:+.1f})"
