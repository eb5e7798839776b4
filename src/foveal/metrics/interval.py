"""How sure a figure is: the percentile bootstrap.

    draw N images of N, with replacement; measure; a thousand times.   interval = the 2.5th to the 97.5th percentile

Nothing is copied: a draw is a vector of counts, and the measure takes it as weights. Images that belong together
(frames of one pipe) are drawn together: with `groups`, G groups of G are drawn, each whole (cluster bootstrap). A
value that is undefined in a draw is left out of that figure's percentiles; one that is undefined in every draw has the
interval (nan, nan).

Paper: Efron, Bootstrap Methods: Another Look at the Jackknife, Annals of Statistics 1979
"""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from foveal.errors import expect, expect_integer
from foveal.metrics.ranking import Array

Interval = tuple[Array, Array]
AT_ONCE = 400_000  # weights in memory at a time: a few arrays of that size stay in the cache


def bootstrap(
    measure: Callable[[Array], Mapping[str, Array]],
    count: int,
    *,
    resamples: int = 1000,
    seed: int = 0,
    groups: NDArray[np.integer] | None = None,
    level: float = 0.95,
) -> dict[str, Interval]:
    """(low, high) of every figure that `measure` names.

    It is called with weights (R, N) and answers with arrays (R, …).
    """
    expect_integer(count, "the number of images")
    expect_integer(resamples, "resamples")
    expect(0 < level < 1, "the level of an interval", "a share between 0 and 1", level)
    drawn: dict[str, list[Array]] = {}
    draw, random = _units(count, groups), np.random.default_rng(seed)
    rows = max(1, AT_ONCE // count)
    for start in range(0, resamples, rows):
        weight = np.stack([draw(random) for _ in range(min(rows, resamples - start))])
        for name, values in measure(weight).items():
            drawn.setdefault(name, []).append(np.asarray(values))
    tail = (1 - level) / 2
    return {name: _percentiles(np.concatenate(values), tail) for name, values in drawn.items()}


def _units(count: int, groups: NDArray[np.integer] | None) -> Callable[[np.random.Generator], Array]:
    """A function that draws one vector of weights."""
    unit = np.arange(count) if groups is None else np.unique(groups, return_inverse=True)[1].reshape(-1)
    expect(unit.shape == (count,), "groups", f"({count},), one group per image", f"the shape {unit.shape}")
    units = int(unit.max()) + 1

    def draw(random: np.random.Generator) -> Array:
        times = np.bincount(random.integers(units, size=units), minlength=units)
        return times[unit].astype(np.float64)

    return draw


def _percentiles(values: Array, tail: float) -> Interval:
    """values (R, …) → two arrays (…)."""
    flat = np.sort(values.reshape(len(values), -1), axis=0)  # nan goes last
    known = (~np.isnan(flat)).sum(0)
    ends = [
        np.array([_at(column[:size], share) for column, size in zip(flat.T, known, strict=True)])
        for share in (tail, 1 - tail)
    ]
    return ends[0].reshape(values.shape[1:]), ends[1].reshape(values.shape[1:])


def _at(ordered: Array, share: float) -> float:
    return float(np.quantile(ordered, share)) if len(ordered) else float("nan")
