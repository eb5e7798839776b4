"""Boxes of an image that a model is never given: painted grey, in training and ever after.

Burnt-in text would give the answer away.

pixels[y0·S : y1·S, x0·S : x1·S] = 128,   a box being [x0, y0, x1, y1] in shares of the side S
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from foveal.errors import expect, is_number, short_repr

GREY = 128


def paint(pixels: NDArray[np.uint8], boxes: Iterable[Sequence[float]]) -> None:
    """Paint boxes grey: (…, S, S, 3), in place."""
    side = pixels.shape[-2]
    for box in boxes:
        expect_box(box)
        x0, y0, x1, y1 = (round(share * side) for share in box)
        pixels[..., y0:y1, x0:x1, :] = GREY


def blank_mask(side: int, boxes: Iterable[Sequence[float]]) -> NDArray[np.bool_]:
    """(S, S): where `paint` paints."""
    pixels = np.zeros((side, side, 3), np.uint8)
    paint(pixels, boxes)
    return np.asarray(pixels[..., 0] == GREY)


def expect_box(box: object) -> None:
    numbers = isinstance(box, (list, tuple)) and len(box) == 4 and all(map(is_number, box))
    fits = numbers and 0 <= box[0] < box[2] <= 1 and 0 <= box[1] < box[3] <= 1  # type: ignore[index]
    expect(fits, "--blank", "boxes [x0, y0, x1, y1] in shares of the image, from 0 to 1", short_repr(box))
