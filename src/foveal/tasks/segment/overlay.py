"""A label map as a person looks at it: each class in its colour, the same in every file, over the image or alone.

    colour_k = the colour that is furthest, in Oklab, from black, white, grey and all colours before it
    over the image: a veil of the colour, and around each finding a line of the full colour
    shrunk by n: the image's mean of n × n pixels, the largest label of n × n pixels: nothing thin disappears

Paper: Björn Ottosson (2020). A perceptual color space for image processing.
    https://bottosson.github.io/posts/oklab
"""

import functools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from foveal.report.overlay import shortened
from foveal.report.picture import INK, LINE, PAPER, SOFT, font, png
from foveal.runtime.distance import within

Bytes = NDArray[np.uint8]

LABELS = 256
STEP = 17  # between the values of a colour that are tried
DARKEST, LIGHTEST = 0.55, 0.92  # lightness of a colour that can be seen over dark images, and over bright ones
SHORTEST, LONGEST = 480, 1600  # sides in pixels of what is drawn
VEIL = 0.4
SIZE, SWATCH, GAP, READABLE = 18, 16, 10, 320  # of the legend, in pixels; the last is its least width


@functools.cache
def palette() -> Bytes:
    """(256, 3): the colour of each label. 0 is black, 255 white."""
    levels = np.linspace(0, 1, 256 // STEP + 1)
    tried = np.stack(np.meshgrid(levels, levels, levels, indexing="ij"), -1).reshape(-1, 3)
    places = _oklab(tried)
    seen = (places[:, 0] >= DARKEST) & (places[:, 0] <= LIGHTEST)
    tried, places = tried[seen], places[seen]
    colours = np.zeros((LABELS, 3))
    colours[-1] = 1
    nearest = np.linalg.norm(places[:, None] - _oklab(np.array([[0.0] * 3, [0.5] * 3, [1.0] * 3])), axis=-1).min(1)
    for label in range(1, LABELS - 1):
        best = int(nearest.argmax())
        colours[label] = tried[best]
        nearest = np.minimum(nearest, np.linalg.norm(places - places[best], axis=1))
    return np.round(255 * colours).astype(np.uint8)


def _oklab(colours: NDArray[np.float64]) -> NDArray[np.float64]:
    """sRGB in 0…1 (n, 3) → lightness and two axes of hue (n, 3)."""
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    cones = linear @ np.array(
        [[0.4122214708, 0.2119034982, 0.0883024619],
         [0.5363325363, 0.6806995451, 0.2817188376],
         [0.0514459929, 0.1073969566, 0.6299787005]]
    )  # fmt: skip
    return np.asarray(
        np.cbrt(cones) @ np.array(
            [[0.2104542553, 1.9779984951, 0.0259040371],
             [0.7936177850, -2.4285922050, 0.7827717662],
             [-0.0040720468, 0.4505937099, -0.8086757660]]
        )
    )  # fmt: skip


def palette_png(label_map: Bytes) -> bytes:
    """A label map (H, W) as a PNG whose pixels are the labels."""
    image = Image.fromarray(label_map)
    image.putpalette(palette().tobytes())
    return png(image)


def overlay(pixels: Bytes, label_map: Bytes, words: Sequence[tuple[int, str]]) -> Image.Image:
    """The image (H, W, 3) under its label map (H, W), and a legend below. words: of a label in the legend."""
    drawn = Image.fromarray(veiled(*at_sight(pixels, label_map)))
    legend = _legend(words or [(0, "nothing found")], max(drawn.width, READABLE))
    image = Image.new("RGB", (legend.width, drawn.height + legend.height), PAPER)
    image.paste(drawn, (0, 0))
    image.paste(legend, (0, drawn.height))
    return image


def veiled(pixels: Bytes, label_map: Bytes) -> Bytes:
    """The image with every finding under a veil of its colour, and a line around it: what is thin stays to be seen."""
    mixed = pixels.copy()
    found = label_map > 0
    veil = (1 - VEIL) * pixels[found] + VEIL * palette()[label_map[found]].astype(np.float32)
    mixed[found] = np.round(veil)
    radius = max(1.5, max(found.shape) / 700)
    for label in np.unique(label_map[found]).tolist():
        mixed[within(label_map == label, radius) & ~found] = palette()[label]
    return mixed


def at_sight(pixels: Bytes, label_map: Bytes) -> tuple[Bytes, Bytes]:
    """Both shrunk or enlarged by a whole number to a size that is seen on a screen."""
    side = max(label_map.shape)
    if side <= LONGEST:
        times = max(1, SHORTEST // side)
        return pixels.repeat(times, 0).repeat(times, 1), label_map.repeat(times, 0).repeat(times, 1)
    times = -(-side // LONGEST)
    height, width = label_map.shape
    wide = np.pad(label_map, ((0, -height % times), (0, -width % times)))
    largest = wide.reshape(len(wide) // times, times, -1, times).max((1, 3))
    return np.asarray(Image.fromarray(pixels).reduce(times)), largest


def _legend(words: Sequence[tuple[int, str]], width: int) -> Image.Image:
    """As many beside each other as there is room for."""
    room = width - 2 * GAP
    places, x, y = [], 0, 0
    for label, text in words:
        text = shortened(text, room - SWATCH - GAP, SIZE)
        wide = SWATCH + GAP + round(font(SIZE).getlength(text))
        if x and x + wide > room:
            x, y = 0, y + SIZE + GAP
        places.append((label, text, x, y))
        x += wide + 2 * GAP
    image = Image.new("RGB", (width, y + SIZE + 2 * GAP), PAPER)
    pen = ImageDraw.Draw(image)
    for label, text, x, y in places:
        left, middle = GAP + x, GAP + y + SIZE // 2
        if label:
            box = (left, middle - SWATCH // 2, left + SWATCH, middle + SWATCH // 2)
            pen.rectangle(box, fill=tuple(palette()[label].tolist()), outline=LINE)
            left += SWATCH + GAP
        pen.text((left, middle), text, INK if label else SOFT, font(SIZE), anchor="lm")
    return image
