"""How far a figure of one model is from that of another, on the same images, with its interval.

Δ = mean over pairs of figure(B) − figure(A)
interval: images that belong together are drawn with replacement, for A and B alike
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foveal.metrics.interval import bootstrap
from foveal.metrics.ranking import Array

Headline = Callable[[Array | None], Array]  # the figure that decides, as a function of the images' weights


@dataclass(frozen=True)
class Difference:
    value: float
    low: float
    high: float


def paired_difference(
    pairs: Sequence[tuple[Headline, Headline]],
    count: int,
    groups: NDArray[np.integer] | None = None,
    resamples: int = 2000,
) -> Difference:
    """B − A of pairs (A, B), such as one for each seed, all on the same images: count of them."""

    def measure(weight: Array | None) -> dict[str, Array]:
        return {"difference": np.mean([other(weight) - base(weight) for base, other in pairs], axis=0)}

    low, high = bootstrap(measure, count, resamples=resamples, groups=groups)["difference"]
    return Difference(float(measure(None)["difference"]), float(low), float(high))
