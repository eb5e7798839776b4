"""Whether images lie in one way: whether they have an up and a down, or at least a grain.

    shared part of a difference D_n over N images:   r = (‖mean_n D_n‖² / mean_n ‖D_n‖² − 1/N) / (1 − 1/N)
    up and down:  D = x − x turned upside down;      grain:  D = x − xᵀ,  or  s = log(mean |∂x/∂u| / mean |∂x/∂v|)

    an up and down:  r > max(0.05, 3 √2/N);      a grain: the same of it,  or  |mean s| > max(0.5, 3/√N) deviations

Symbols: x a thumbnail of 16 × 16 grey values, of mean 0 and deviation 1; u along a row, v along a column. Where images
    may lie in any way, D points anywhere and r is 0, give or take √2/N; where each has its sky above, a part of D is
    that of all. A grain shows in s as well: |mean s| beside the deviation of s.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from foveal.data.source import Source
from foveal.runtime.image import BadImage

IMAGES, FEWEST = 128, 16  # that are looked at; below, nothing is said
SIDE = 16
SHARED, GRAIN = 0.05, 0.5  # r and |mean s| / deviation of s, above which images lie in one way
SURE = 3  # deviations of what chance gives


class Direction(NamedTuple):
    images: int
    upright: float  # r of up and down
    grain: float  # r of rows and columns
    slope: float  # |mean s| / deviation of s

    @property
    def least(self) -> float:
        """What r must be above."""
        return float(max(SHARED, SURE * 2**0.5 / self.images))

    @property
    def has_up(self) -> bool:
        return self.upright > self.least

    @property
    def has_grain(self) -> bool:
        return self.grain > self.least or self.slope > max(GRAIN, SURE / self.images**0.5)


def direction(source: Source, indices: NDArray[np.integer]) -> Direction | None:
    """Of these images, one of each group: the same view twice would look like a direction. None: too few say it."""
    if source.group is not None:
        indices = indices[np.unique(source.group[indices], return_index=True)[1]]
    picked = indices[np.linspace(0, len(indices) - 1, min(IMAGES, len(indices))).astype(np.int64)]
    thumbnails, slopes = [], []
    for index in picked.tolist():
        try:
            grey = np.asarray(Image.fromarray(source.image(index)).convert("L"), np.float32)
        except BadImage:
            continue
        if min(grey.shape) < 2 or grey.std() == 0:
            continue
        small = Image.fromarray(grey.astype(np.uint8)).resize((SIDE, SIDE), Image.Resampling.BOX)
        x = np.asarray(small, np.float64)
        thumbnails.append((x - x.mean()) / max(x.std(), 1e-6))
        along, down = (float(np.abs(np.diff(grey, axis=axis)).mean()) for axis in (1, 0))
        slopes.append(np.log((along + 1e-3) / (down + 1e-3)))
    if len(thumbnails) < FEWEST:
        return None
    x, s = np.stack(thumbnails), np.array(slopes)
    slope = abs(s.mean()) / max(s.std(), 1e-6)
    return Direction(len(x), shared(x - x[:, ::-1]), shared(x - x.transpose(0, 2, 1)), float(slope))


def shared(differences: NDArray[np.float64]) -> float:
    """r of differences (N, …)."""
    count = len(differences)
    each = differences.reshape(count, -1)
    size = float(np.square(each).sum(1).mean())
    return (float(np.square(each.mean(0)).sum()) / size - 1 / count) / (1 - 1 / count) if size else 0.0
