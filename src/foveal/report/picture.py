"""A matrix as a picture in a PNG file. For the terminal see app/command/show.py.

    value in [0, 1] → colour, by anchors of falling lightness;   cell (i, j) → a square of whole pixels

Rows are queries and go down, columns are keys and go right. Several matrices stand side by side, one panel per head.
"""

import io
import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageColor, ImageDraw, ImageFont

from foveal.atomic import write_atomic
from foveal.errors import expect

Matrix = NDArray[np.float64]

PAPER, INK, SOFT, LINE = (255, 255, 255), (32, 36, 52), (112, 118, 134), (206, 210, 218)
# from nothing to all, ever darker
AMOUNT = (
    "#f5f6f2",
    "#cee5da",
    "#8cc8b8",
    "#4aa3a4",
    "#2c7995",
    "#2a4f7f",
    "#292a59",
)
SIGNED = ("#7a2d18", "#ce7444", "#f0cdb0", "#f7f6f2", "#b7d6dc", "#4889a6", "#183e68")  # from minus over zero to plus

EDGE = 28  # white around everything
AXIS = 20  # the strip that carries an axis
ROW = 7  # panels beside each other
CALM = 0.78  # the colour of a yes


@dataclass(frozen=True, eq=False)
class Picture:
    """What to draw: matrices with values in [0, 1], and the words around them."""

    panels: Sequence[Matrix]  # each (N, M)
    title: str
    caption: str = ""
    labels: tuple[str, ...] = ()  # one for each panel
    rows: str = "queries"
    columns: str = "keys"
    low: str = "0"  # what 0 and 1 stand for
    high: str = "1"
    signed: bool = False  # 0.5 stands for zero

    def __post_init__(self) -> None:
        expect(len(self.panels) > 0, "a picture's panels", "at least one", "none")
        for panel in self.panels:
            expect(panel.ndim == 2 and panel.size > 0, "a picture's panel", "(N, M), not empty", panel.shape)
            inside = bool(((panel >= 0) & (panel <= 1)).all())  # false for what is no number, too
            expect(inside, "a picture's values", "numbers in [0, 1]", f"{panel.min():g} … {panel.max():g}")
        expect(
            len(self.labels) in (0, len(self.panels)),
            "a picture's labels",
            f"{len(self.panels)}, one per panel",
            len(self.labels),
        )

    @property
    def largest(self) -> tuple[int, int]:
        """The height and the width that every panel fits in, in cells."""
        return max(panel.shape[0] for panel in self.panels), max(panel.shape[1] for panel in self.panels)

    @property
    def binary(self) -> bool:
        return all(bool(np.isin(panel, (0, 1)).all()) for panel in self.panels)

    @property
    def shown(self) -> list[Matrix]:
        """The panels as they are coloured: yes and no need not shout."""
        return [panel * CALM for panel in self.panels] if self.binary else list(self.panels)


def draw(picture: Picture) -> Image.Image:
    """The picture with title, axes and legend."""
    count, (height, width) = len(picture.panels), picture.largest
    side = 480 if count == 1 else 300 if count <= 4 else 210
    cell = max(1, min(side // max(height, width), 44))
    across = min(count, ROW)
    left, top, gap, foot = 46, 62 if picture.labels else 34, 34, 36
    box = (left + width * cell, top + height * cell)  # one panel with its captions
    whole = max(across * box[0] + (across - 1) * gap, 420)
    head = _heading(picture, whole)
    size = (whole + 2 * EDGE, head.height + math.ceil(count / across) * (box[1] + gap) + foot + EDGE)
    image = Image.new("RGB", size, PAPER)
    image.paste(head, (EDGE, EDGE))
    for index, panel in enumerate(picture.shown):
        x = EDGE + (index % across) * (box[0] + gap) + left
        y = EDGE + head.height + (index // across) * (box[1] + gap) + top
        _framed(image, cells(panel, cell, picture.signed), x, y)
        image.paste(_axis(picture.columns, panel.shape[1], cell), (x, y - AXIS - 3))
        image.paste(_axis(picture.rows, panel.shape[0], cell).transpose(Image.Transpose.ROTATE_270), (x - AXIS - 3, y))
        if picture.labels:
            label = _shortened(picture.labels[index], width * cell + gap, 16)
            ImageDraw.Draw(image).text((x, y - 38), label, INK, font(16), anchor="ls")
    _legend(image, picture, EDGE + left, image.height - EDGE - 14)
    return image


def sheet(groups: dict[str, list[Picture]], title: str, side: int = 218, across: int = 7) -> Image.Image:
    """A contact sheet: every picture small, under the heading of its group."""
    gap, name, heading = 30, 34, 58
    rows = sum(math.ceil(len(pictures) / across) for pictures in groups.values())
    size = (across * (side + gap) - gap + 2 * EDGE, 2 * EDGE + 60 + len(groups) * heading + rows * (side + name + gap))
    image = Image.new("RGB", size, PAPER)
    pen = ImageDraw.Draw(image)
    pen.text((EDGE, EDGE), ascii_of(title), INK, font(34), anchor="lt")
    y = EDGE + 60
    for group, pictures in groups.items():
        pen.text((EDGE, y + 30), ascii_of(group), SOFT, font(20), anchor="ls")
        pen.line((EDGE, y + 40, size[0] - EDGE, y + 40), LINE)
        y += heading
        for index, picture in enumerate(pictures):
            x = EDGE + index % across * (side + gap)
            if index and index % across == 0:
                y += side + name + gap
            tile = _tile(picture, side)
            image.paste(tile, (x, y + name))
            pen.text((x, y + 20), _shortened(picture.title, side, 18), INK, font(18), anchor="ls")
        y += side + name + gap
    return image


def cells(matrix: Matrix, cell: int, signed: bool = False) -> Image.Image:
    """The matrix alone, each cell `cell` pixels; a thin grid where cells are large enough to carry one."""
    pixels = colours(matrix, signed).repeat(cell, 0).repeat(cell, 1)
    if cell >= 8:
        pixels[cell - 1 :: cell] = PAPER
        pixels[:, cell - 1 :: cell] = PAPER
    return Image.fromarray(pixels)


def colours(values: Matrix, signed: bool = False) -> NDArray[np.uint8]:
    """(N, M) in [0, 1] → (N, M, 3), straight lines between the anchors."""
    anchors = np.array([ImageColor.getrgb(colour) for colour in (SIGNED if signed else AMOUNT)], dtype=np.float64)
    places = np.linspace(0, 1, len(anchors))
    return (
        np.stack([np.interp(values, places, anchors[:, channel]) for channel in range(3)], -1).round().astype(np.uint8)
    )


def save(image: Image.Image, path: Path) -> None:
    """Write a PNG, whole or not at all."""
    write_atomic(path, png(image))


def png(image: Image.Image) -> bytes:
    content = io.BytesIO()
    image.save(content, format="PNG", optimize=True)
    return content.getvalue()


def font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)


def ascii_of(text: str) -> str:
    """The font that comes with Pillow draws ASCII only."""
    signs = {
        "×": "x",
        "−": "-",
        "–": "-",
        "—": "-",
        "≤": "<=",
        "≥": ">=",
        "·": ".",
        "…": "...",
        "′": "'",
        "√": "sqrt ",
        "∞": "inf",
    }
    plain = "".join(signs.get(letter, letter) for letter in text)
    return unicodedata.normalize("NFKD", plain).encode("ascii", "ignore").decode()


def _heading(picture: Picture, width: int) -> Image.Image:
    lines = _wrapped(picture.caption, width, 17)
    image = Image.new("RGB", (width, 44 + 24 * len(lines) + (16 if lines else 8)), PAPER)
    pen = ImageDraw.Draw(image)
    pen.text((0, 28), ascii_of(picture.title), INK, font(32), anchor="ls")
    for number, line in enumerate(lines):
        pen.text((0, 60 + 24 * number), line, SOFT, font(17), anchor="ls")
    return image


def _framed(image: Image.Image, drawn: Image.Image, x: int, y: int) -> None:
    image.paste(drawn, (x, y))
    ImageDraw.Draw(image).rectangle((x - 1, y - 1, x + drawn.width, y + drawn.height), outline=LINE)


def _axis(name: str, count: int, cell: int) -> Image.Image:
    """The strip over `count` cells: the first number, the name with an arrow, the last number.

    Turned by 90° it stands at the side.
    """
    length = count * cell
    image = Image.new("RGB", (length, AXIS), PAPER)
    pen = ImageDraw.Draw(image)
    word, last, middle = ascii_of(name), str(count - 1), AXIS // 2
    wide = round(pen.textlength(word, font(15)))
    start = max((length - wide - 26) // 2, 0)
    pen.text((start, middle), word, SOFT, font(15), anchor="lm")
    tip = start + wide + 24
    pen.line((tip - 16, middle + 1, tip, middle + 1), SOFT)
    pen.polygon([(tip + 2, middle + 1), (tip - 4, middle - 2), (tip - 4, middle + 4)], SOFT)
    if start > pen.textlength(last, font(15)) + 8:
        pen.text((0, middle), "0", SOFT, font(15), anchor="lm")
        pen.text((length - 1, middle), last, SOFT, font(15), anchor="rm")
    return image


def _legend(image: Image.Image, picture: Picture, x: int, y: int) -> None:
    pen = ImageDraw.Draw(image)
    if picture.binary:
        for value, word in ((CALM, picture.high), (0.0, picture.low)):
            colour = tuple(int(part) for part in colours(np.array([[value]]), picture.signed)[0, 0])
            pen.rectangle((x, y - 7, x + 14, y + 7), fill=colour, outline=LINE)
            pen.text((x + 24, y), ascii_of(word), SOFT, font(16), anchor="lm")
            x += 24 + round(pen.textlength(ascii_of(word), font(16))) + 28
        return
    pen.text((x, y), ascii_of(picture.low), SOFT, font(16), anchor="lm")
    x += round(pen.textlength(ascii_of(picture.low), font(16))) + 10
    bar = cells(np.linspace(0, 1, 160)[None], 1, picture.signed).resize((160, 12))
    image.paste(bar, (x, y - 6))
    pen.rectangle((x - 1, y - 7, x + 160, y + 6), outline=LINE)
    pen.text((x + 172, y), ascii_of(picture.high), SOFT, font(16), anchor="lm")


def _tile(picture: Picture, side: int) -> Image.Image:
    """The panels alone, in a square of that side: one, or four of many."""
    count = len(picture.panels)
    chosen = [picture.shown[count * part // 4] for part in range(4)] if count >= 4 else picture.shown[:1]
    across = math.isqrt(len(chosen))
    room = (side - 2 - 8 * (across - 1)) // across  # for one panel
    height, width = picture.largest
    cell, step = max(1, room // max(height, width)), math.ceil(max(height, width) / room)
    image = Image.new("RGB", (side, side), PAPER)
    for index, panel in enumerate(chosen):
        x, y = index % across * (width // step * cell + 8), index // across * (height // step * cell + 8)
        _framed(image, cells(shrunk(panel, step), cell, picture.signed), x + 1, y + 1)
    return image


def shrunk(matrix: Matrix, step: int) -> Matrix:
    """Means over squares of `step` cells; the last ones may be smaller."""
    rows, columns = (np.arange(0, length, step) for length in matrix.shape)
    sums = np.add.reduceat(np.add.reduceat(matrix, rows, 0), columns, 1)
    sizes = np.add.reduceat(np.add.reduceat(np.ones_like(matrix), rows, 0), columns, 1)
    return np.asarray(sums / sizes)


def _wrapped(text: str, width: int, size: int) -> list[str]:
    lines: list[str] = []
    for word in ascii_of(text).split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and font(size).getlength(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def _shortened(text: str, width: int, size: int) -> str:
    short = ascii_of(text)
    while short and font(size).getlength(short + "...") > width:
        short = short[:-1]
    return short if short == ascii_of(text) else short + "..."
