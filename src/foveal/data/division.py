"""Which images of a set train, select and test."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foveal.data.source import Source
from foveal.data.splits import SPLITS
from foveal.errors import expect


@dataclass(frozen=True, eq=False)
class Splits:
    """Which images train, select and test; those that cannot be read are in none."""

    train: NDArray[np.int64]
    val: NDArray[np.int64]
    test: NDArray[np.int64]


def splits_of(source: Source, fold: int | None) -> Splits:
    """The splits as they are written down: nothing is opened."""
    parts = []
    for name in SPLITS:
        indices = source.indices(name, fold)
        parts.append(indices if name == "test" else indices[source.known(indices)])
    do = "add images, or name their splits in a column split"
    return filled(source, Splits(*parts), "at least one image with a label", f"none of its {len(source)}", do)


def filled(source: Source, splits: Splits, expected: str, got: str, do: str = "") -> Splits:
    for name, part in (("train", splits.train), ("val", splits.val)):
        expect(len(part) > 0, f"{source.name}, split {name}", expected, got, do)
    return splits
