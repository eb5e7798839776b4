"""Masks and attention maps as pictures, for a notebook: small, in one file, and loaded only when something is drawn.

    value in [0, 1] → a shade between paper and ink;   cell (i, j) → a square of whole pixels

Rows are queries and go down, columns are keys and go right. The command line draws larger pages (`foveal show`,
`foveal explain`).
"""

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from foveal.errors import expect

if TYPE_CHECKING:
    from PIL.Image import Image

PAPER, INK = (245, 246, 242), (41, 42, 89)
LONGEST = 320  # pixels of the longer side, unless there are more cells than that
EDGE = 6  # pixels around the map and beside its labels


def picture(matrix: Tensor, row_labels: Sequence[object] = (), column_labels: Sequence[object] = ()) -> "Image":
    """A map (N, M) of values from 0 to 1 as an image, with a word for each row and column where there are some."""
    from PIL import Image, ImageDraw, ImageFont

    expect(matrix.dim() == 2, "a map to draw", "(N, M)", tuple(matrix.shape))
    rows, columns = matrix.shape
    for name, labels, size in (("row_labels", row_labels, rows), ("column_labels", column_labels, columns)):
        expect(len(labels) in (0, size), name, f"one for each of {size}", len(labels))
    font = ImageFont.load_default()
    words = [str(word) for word in row_labels], [str(word) for word in column_labels]
    left, above = (max((int(font.getlength(word)) + EDGE for word in some), default=0) for some in words)
    least = 12 if left or above else 1  # pixels of a cell: a label must be read
    cell = max(LONGEST // max(rows, columns, 1), least)
    width, height = max(columns, 1) * cell, max(rows, 1) * cell
    page = Image.new("RGB", (left + width + 2 * EDGE, above + height + 2 * EDGE), "white")
    page.paste(_shaded(matrix).resize((width, height), Image.Resampling.NEAREST), (left + EDGE, above + EDGE))
    draw = ImageDraw.Draw(page)
    for i, word in enumerate(words[0]):
        draw.text((EDGE, above + EDGE + i * cell + cell // 2), word, fill=INK, font=font, anchor="lm")
    for j, word in enumerate(words[1]):  # upright text, turned to the left
        turned = Image.new("RGB", (above, 12), "white")
        ImageDraw.Draw(turned).text((0, 6), word, fill=INK, font=font, anchor="lm")
        page.paste(turned.rotate(90, expand=True), (left + EDGE + j * cell + cell // 2 - 6, EDGE))
    return page


def png(image: "Image") -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def _shaded(matrix: Tensor) -> "Image":
    """One pixel for each cell; an empty map is one pixel of paper, and what is not finite has the colour of nothing."""
    from PIL import Image

    if not matrix.numel():
        return Image.new("RGB", (1, 1), PAPER)
    share = torch.nan_to_num(matrix.detach().float().cpu(), 0.0, 1.0, 0.0).clamp(0, 1)[..., None]
    paper, ink = torch.tensor(PAPER), torch.tensor(INK)
    return Image.fromarray((paper + (ink - paper) * share).round().to(torch.uint8).numpy(), "RGB")
