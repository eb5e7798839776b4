"""An image beside it under its label maps, as small as a page shows it.

A label map is shrunk so that nothing is lost: a pixel shows the class of which most of its pixels are, of those where
something is found.
"""

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from foveal.data.label_maps import LabelMap
from foveal.runtime.components import BACKGROUND, UNLABELLED
from foveal.tasks.segment.overlay import veiled

Pixels = NDArray[np.uint8]  # (H, W, 3)


def side_by_side(photo: Pixels, maps: tuple[LabelMap, ...], side: int) -> tuple[Pixels, ...]:
    """The photo, and it under each of the maps, with a longest side of at most `side`; what is small is enlarged."""
    height, width = photo.shape[:2]
    times = side / max(height, width)
    times = float(int(times)) if times >= 1 else times
    height, width = (max(1, round(times * length)) for length in (height, width))
    small = np.array(Image.fromarray(photo).resize((width, height), Image.Resampling.BILINEAR))
    return (small, *(veiled(small, resized(one, height, width)) for one in maps))


def resized(labels: LabelMap, height: int, width: int) -> LabelMap:
    rows, columns = (np.arange(new) * old // new for new, old in zip((height, width), labels.shape, strict=True))
    shown = labels[rows][:, columns]
    shown[shown != UNLABELLED] = BACKGROUND
    most = np.zeros((height, width), np.int64)
    for label in np.unique(labels).tolist():
        if label not in (BACKGROUND, UNLABELLED):
            counts = np.add.reduceat(np.add.reduceat((labels == label).astype(np.int64), rows, 0), columns, 1)
            shown[counts > most] = label
            most = np.maximum(most, counts)
    return np.asarray(shown)
