"""How large a model sees the pixels of an image: as they are, shrunk by a whole number, or enlarged.

    shrunk by n: the mean of n × n pixels, at the right and the lower end of those that are there, repeated
    enlarged by n: bilinear

No torch here: the exported graph does the same to images (graph.py), to a few roundings.
"""

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]


def shrunk(image: Bytes, labels: Bytes, times: int) -> tuple[Bytes, Bytes]:
    """An image (H, W, 3) and its label map (H, W), of ⌈H/n⌉ × ⌈W/n⌉ pixels: of labels, the one in the middle."""
    height, width = labels.shape
    missing = ((0, -height % times), (0, -width % times))
    wide = np.pad(image, (*missing, (0, 0)), mode="edge")
    rows, columns = wide.shape[0] // times, wide.shape[1] // times
    mean = wide.reshape(rows, times, columns, times, 3).mean((1, 3))
    middle = np.pad(labels, missing, mode="edge")[times // 2 :: times, times // 2 :: times]
    return np.round(mean).astype(np.uint8), middle.copy()
