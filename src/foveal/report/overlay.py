"""Heat over a photo: a map's cells as colours on the dimmed image,
and the sheet that shows what a model found and where it looked.

    cell value in [0, 1] → colour of rising lightness, laid the thicker the larger the value

A cell stays a square: a map of 4 × 4 numbers knows nothing finer, and does not pretend to.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageColor, ImageDraw

from foveal.report.picture import EDGE, INK, LINE, PAPER, SOFT, ascii_of, font

Array = NDArray[np.float64]
Pixels = NDArray[np.uint8]
# from nothing to most, ever lighter
HEAT = (
    "#10082e",
    "#47107a",
    "#8a226a",
    "#c93a50",
    "#f0703a",
    "#fbb040",
    "#fcf6b8",
)
FOUND = (201, 58, 80)
BIG, SMALL, GAP, LIST = 330, 200, 26, 330  # sides of panels, what is between them, the width of the list
READABLE = 46  # pixels of a cell that carries its number
LISTED = 12  # classes
ACROSS = 6  # small panels beside each other


@dataclass(frozen=True, eq=False)
class Panel:
    """One map to lay over the photo; its values are shown as shares of `top`."""

    title: str
    values: Array
    top: float


@dataclass(frozen=True, eq=False)
class Sheet:
    title: str
    caption: str
    photo: Pixels  # (h, w, 3)
    # class, probability, whether it counts as found; as they are listed
    probabilities: Sequence[tuple[str, float, bool]]
    large: Sequence[Panel]
    small: Sequence[Sequence[Panel]]  # a row for each layer
    legend: str


def heat(values: Array) -> Pixels:
    """(…) in [0, 1] → (…, 3), straight lines between the anchors."""
    anchors = np.array([ImageColor.getrgb(colour) for colour in HEAT], np.float64)
    places = np.linspace(0, 1, len(anchors))
    return (
        np.stack([np.interp(values, places, anchors[:, channel]) for channel in range(3)], -1).round().astype(np.uint8)
    )


def overlay(photo: Pixels, values: Array, side: int) -> Image.Image:
    """The photo in a square of `side` pixels, dimmed, under its map (rows, columns) of values in [0, 1]."""
    grey = np.asarray(Image.fromarray(photo).resize((side, side), Image.Resampling.BILINEAR).convert("L"), np.float64)
    rows = np.arange(side) * values.shape[0] // side
    columns = np.arange(side) * values.shape[1] // side
    spread = np.clip(values, 0, 1)[rows][:, columns][..., None]  # (side, side, 1)
    thick = 0.22 + 0.48 * spread
    light = 40 + 0.62 * grey[..., None]  # dimmed, but never so far that dark walls go under
    mixed = (1 - thick) * light + thick * heat(spread[..., 0])
    edge = np.zeros((side, side), bool)
    edge[1:] |= (np.diff(rows) > 0)[:, None]
    edge[:, 1:] |= np.diff(columns) > 0
    mixed[edge] = 0.8 * mixed[edge] + 0.2 * 255 * 0.6
    return Image.fromarray(mixed.round().clip(0, 255).astype(np.uint8))


def draw(sheet: Sheet) -> Image.Image:
    """The sheet: photo, list and large maps above, a row of small maps for each layer below."""
    every = [panel for row in sheet.small for panel in row]
    layers = [every] if len(every) <= ACROSS else sheet.small  # a few stand in one line
    lines = [row[start : start + ACROSS] for row in layers for start in range(0, len(row), ACROSS)]
    across = max(map(len, lines), default=0)
    wide = max((1 + len(sheet.large)) * (BIG + GAP) + LIST, across * (SMALL + GAP) - GAP) + 2 * EDGE
    top, line = EDGE + 78, SMALL + 46
    image = Image.new("RGB", (wide, top + 30 + BIG + 30 + len(lines) * line + 62 + EDGE), PAPER)
    pen = ImageDraw.Draw(image)
    pen.text((EDGE, EDGE + 26), shortened(sheet.title, wide - 2 * EDGE, 30), INK, font(30), anchor="ls")
    pen.text((EDGE, EDGE + 54), shortened(sheet.caption, wide - 2 * EDGE, 16), SOFT, font(16), anchor="ls")
    photo = Image.fromarray(sheet.photo).resize((BIG, BIG), Image.Resampling.BILINEAR)
    _placed(image, photo, "the image", EDGE, top)
    for number, panel in enumerate(sheet.large, 1):
        _placed(image, _numbered(sheet.photo, panel), panel.title, EDGE + number * (BIG + GAP), top)
    _list(image, sheet.probabilities, EDGE + (1 + len(sheet.large)) * (BIG + GAP), top)
    y = top + 30 + BIG + 30
    for row in lines:
        for number, panel in enumerate(row):
            drawn = overlay(sheet.photo, panel.values / (panel.top or 1), SMALL)
            _placed(image, drawn, panel.title, EDGE + number * (SMALL + GAP), y, 16)
        y += line
    _legend(image, sheet.legend, y + 30)
    return image


def _placed(image: Image.Image, drawn: Image.Image, title: str, x: int, y: int, size: int = 18) -> None:
    pen = ImageDraw.Draw(image)
    pen.text((x, y + 20), shortened(title, drawn.width, size), INK, font(size), anchor="ls")
    image.paste(drawn, (x, y + 30))
    pen.rectangle((x - 1, y + 29, x + drawn.width, y + 30 + drawn.height), outline=LINE)


def _numbered(photo: Pixels, panel: Panel) -> Image.Image:
    """The overlay with each cell's share in percent, where there is room."""
    drawn = overlay(photo, panel.values / (panel.top or 1), BIG)
    rows, columns = panel.values.shape
    if BIG // max(rows, columns) < READABLE:
        return drawn
    pen = ImageDraw.Draw(drawn)
    for (row, column), value in np.ndenumerate(panel.values):
        place = (column + 0.5) * BIG / columns, (row + 0.5) * BIG / rows
        pen.text(place, f"{100 * value:.0f}%", PAPER, font(17), anchor="mm", stroke_width=2, stroke_fill=(20, 16, 34))
    return drawn


def _list(image: Image.Image, probabilities: Sequence[tuple[str, float, bool]], x: int, y: int) -> None:
    """Every class with its probability as a bar."""
    pen = ImageDraw.Draw(image)
    pen.text(
        (x, y + 20),
        "found" if any(found for *_, found in probabilities) else "nothing found; probabilities",
        INK,
        font(18),
        anchor="ls",
    )
    step = min(36, (BIG + 4) // max(min(len(probabilities), LISTED), 1))
    for number, (name, probability, found) in enumerate(probabilities[:LISTED]):
        middle = y + 30 + number * step + step // 2
        pen.text((x, middle), shortened(name, 165, 16), INK if found else SOFT, font(16), anchor="lm")
        pen.rectangle((x + 172, middle - 6, x + 272, middle + 6), fill=(240, 241, 244))
        pen.rectangle(
            (x + 172, middle - 6, x + 172 + round(100 * probability), middle + 6),
            fill=FOUND if found else (176, 181, 194),
        )
        pen.text((x + 282, middle), f"{probability:.2f}", INK if found else SOFT, font(16), anchor="lm")
    if len(probabilities) > LISTED:
        pen.text(
            (x, y + 30 + LISTED * step + 8),
            f"and {len(probabilities) - LISTED} more, all below",
            SOFT,
            font(14),
            anchor="lm",
        )


def _legend(image: Image.Image, words: str, y: int) -> None:
    bar = Image.fromarray(heat(np.linspace(0, 1, 180)[None])).resize((180, 12))
    image.paste(bar, (EDGE, y - 6))
    pen = ImageDraw.Draw(image)
    pen.rectangle((EDGE - 1, y - 7, EDGE + 180, y + 6), outline=LINE)
    pen.text((EDGE + 192, y), shortened(words, image.width - 2 * EDGE - 192, 15), SOFT, font(15), anchor="lm")


def shortened(text: str, width: int, size: int) -> str:
    """As much of a text as fits, in the letters that the font has."""
    short = ascii_of(text)
    if font(size).getlength(short) <= width:
        return short
    while short and font(size).getlength(short + "...") > width:
        short = short[:-1]
    return short + "..."
