"""What was measured of label maps when they were read: pixels of each label, and every finding's area and length.

finding  a component of one label, without specks: the smallest, which make up the last 20th of a label's pixels in
         an image, say nothing of the size of what is found
area     its pixels
side     √area
length   the diagonal of its box
thin     area < length² / 8: a straight line eight times as long as it is wide, a ring, a crack
"""

import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from foveal.data.label_maps import LabelMap, Maps
from foveal.progress import Progress, silent
from foveal.runtime.components import BACKGROUND, UNLABELLED, components

THIN = 8.0
KEPT = 0.95  # of the pixels of a label in an image, which are no specks
QUANTILES = (0.1, 0.5, 0.9)

Item = TypeVar("Item")
Made = TypeVar("Made")


@dataclass(frozen=True, eq=False)
class Measured:
    """Of N label maps with M findings."""

    sizes: NDArray[np.int32]  # (N, 2) height and width
    areas: NDArray[np.int64]  # (N, K + 2) pixels of background, of each class, without a label
    image: NDArray[np.int64]  # (M,) the label map of each finding, in their order
    label: NDArray[np.int64]  # (M,) 1…K
    area: NDArray[np.int64]  # (M,) pixels
    length: NDArray[np.float32]  # (M,) pixels

    @property
    def thin(self) -> NDArray[np.bool_]:
        """(M,) which findings are small beside the square of their length."""
        return np.asarray(self.area * THIN < self.length.astype(np.float64) ** 2)

    def of(self, indices: NDArray[np.integer] | None) -> "Measured":
        """The same of some of the label maps, in this order."""
        if indices is None:
            return self
        place = np.full(len(self.sizes), -1, np.int64)
        place[indices] = np.arange(len(indices))
        kept = place[self.image] >= 0
        order = np.argsort(place[self.image[kept]], kind="stable")
        findings = np.flatnonzero(kept)[order]
        image, label, area = (values[findings] for values in (place[self.image], self.label, self.area))
        return Measured(self.sizes[indices], self.areas[indices], image, label, area, self.length[findings])

    def properties(self) -> dict[str, object]:
        """What a recipe chooses its options by: numbers alone, of these label maps."""
        count, classes = len(self.sizes), self.areas.shape[1] - 2
        labelled = self.areas[:, :-1].sum()
        found = self.areas[:, 1:-1] > 0
        per_class = [self.label == label for label in range(1, classes + 1)]
        return {
            "images": count,
            "height": _middle(self.sizes[:, 0]),
            "width": _middle(self.sizes[:, 1]),
            "smallest_side": int(self.sizes.min()) if count else 0,
            "largest_side": int(self.sizes.max()) if count else 0,
            "sizes": len(np.unique(self.sizes, axis=0)),
            "empty": _share(~np.asarray(found.any(1))),
            "images_with": found.sum(0).tolist(),
            "background_area": float(self.areas[:, 0].sum() / max(labelled, 1)),
            "class_areas": (self.areas[:, 1:-1].sum(0) / max(labelled, 1)).tolist(),
            "unlabelled_area": float(self.areas[:, -1].sum() / max(self.areas.sum(), 1)),
            "findings": len(self.area),
            "side": _quantiles(np.sqrt(self.area)),
            "sides": [_quantiles(np.sqrt(self.area[chosen]))[1] for chosen in per_class],
            "thin": _share(self.thin),
            "thins": [_share(self.thin[chosen]) for chosen in per_class],
        }


@dataclass(frozen=True, eq=False)
class Findings:
    """M findings of one label map."""

    value: NDArray[np.int64]  # (M,) label or code
    area: NDArray[np.int64]  # (M,) pixels
    length: NDArray[np.float64]  # (M,) pixels

    def __len__(self) -> int:
        return len(self.value)


def findings(label_map: NDArray[np.integer], nothing: tuple[int, ...] = (BACKGROUND, UNLABELLED)) -> Findings:
    """Of a map of labels, or of codes, (H, W), without specks."""
    found = components(label_map, nothing)
    order = np.lexsort((-found.area, found.value))
    value, area = found.value[order], found.area[order]
    before = np.cumsum(area) - area  # pixels of all that come first
    whole = np.bincount(value, area, minlength=1)[value]
    kept = np.sort(order[before - before[np.searchsorted(value, value)] < KEPT * whole])
    return Findings(found.value[kept], found.area[kept], found.length()[kept])


def joined(sizes: Sequence[tuple[int, int]], areas: Sequence[NDArray[np.int64]], found: Sequence[Findings]) -> Measured:
    """What was measured one label map at a time, joined."""
    image = np.repeat(np.arange(len(found)), [len(one) for one in found])
    return Measured(
        np.array(sizes, np.int32).reshape(-1, 2),
        np.array(areas, np.int64),
        image.astype(np.int64),
        np.concatenate([np.zeros(0, np.int64), *(one.value for one in found)]),
        np.concatenate([np.zeros(0, np.int64), *(one.area for one in found)]),
        np.concatenate([np.zeros(0), *(one.length for one in found)]).astype(np.float32),
    )


def measure(maps: Maps, classes: int, progress: Progress = silent) -> Measured:
    """Every label map once."""

    def one(index: int) -> tuple[tuple[int, int], NDArray[np.int64], Findings]:
        label_map = maps.label_map(index)
        height, width = label_map.shape
        return (height, width), areas_of(label_map, classes), findings(label_map)

    done = list(in_threads(one, range(len(maps)), "measuring label maps", progress))
    return joined([size for size, _, _ in done], [area for _, area, _ in done], [found for _, _, found in done])


def areas_of(label_map: LabelMap, classes: int) -> NDArray[np.int64]:
    """(K + 2,) pixels of background, of each class, without a label."""
    counts = np.bincount(label_map.reshape(-1), minlength=256)
    return np.append(counts[: classes + 1], counts[255]).astype(np.int64)


def in_threads(make: Callable[[Item], Made], items: Sequence[Item], what: str, progress: Progress) -> Iterable[Made]:
    """make(item) of all items, in their order: decoders let go of Python's lock."""
    # Threads that silence warnings at the same time would leave them silent for good.
    with warnings.catch_warnings(), ThreadPoolExecutor(os.cpu_count()) as threads:
        warnings.simplefilter("ignore")  # what matters of a file is raised as BadImage
        try:
            yield from progress(threads.map(make, items), len(items), what)
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            raise


def _middle(values: NDArray[np.integer]) -> int:
    return int(np.median(values)) if len(values) else 0


def _share(values: NDArray[np.bool_]) -> float:
    return float(values.mean()) if len(values) else 0.0


def _quantiles(values: NDArray[np.float64]) -> list[float]:
    return [round(float(value), 2) for value in np.quantile(values, QUANTILES)] if len(values) else [0.0] * 3
