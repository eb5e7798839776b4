"""Label maps as files have them: grey, palette or colour pixels, each of which means a class.

    code   what a pixel says: its grey value or its number in the palette; a colour as red·65536 + green·256 + blue
    label  what that means: 0 background, k + 1 the k-th class, 255 nobody knows

`open_codes` gives the codes of a file as they are; a Table says what they mean; FileMaps gives label maps by both.
"""

import os
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from foveal.data.source import Names
from foveal.runtime.components import BACKGROUND
from foveal.runtime.image import LARGEST, BadImage, kind_of

LabelMap = NDArray[np.uint8]  # (H, W)
Palette = NDArray[np.uint8]  # (n, 3)
MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "I", "I;16", "I;16B")
NAMED = 5  # codes that a reason names
ON_ITS_SIDE = (5, 6, 7, 8)  # values of the EXIF tag that turn height into width
ORIENTATION = 0x0112
MAY_BE_TURNED = ("JPEG", "MPO", "PNG", "TIFF", "WEBP")


class Maps(Protocol):
    """Where label maps come from: files, findings that are drawn, or a renderer."""

    def __len__(self) -> int: ...
    def file(self, index: int) -> str: ...
    def label_map(self, index: int) -> LabelMap: ...


@dataclass(frozen=True, eq=False)
class Codes:
    """The pixels of one file, as they are."""

    values: NDArray[np.integer]  # (H, W)
    colour: bool  # whether they are colours
    palette: Palette | None = None


def open_codes(path: str) -> Codes:
    """Raises BadImage for what is no map of labels."""
    kind, width, height = kind_of(path)
    if width * height > LARGEST:
        raise BadImage(path, f"is too large: expected at most {LARGEST:,} pixels, got {width}×{height}")
    kept_as, _, mode = kind.partition(" ")
    if mode not in MODES:
        raise BadImage(path, f"has {mode} pixels; expected a grey, palette or colour PNG")
    try:
        with Image.open(path, formats=("JPEG",) if kept_as == "MPO" else (kept_as,)) as image:
            image.load()
            colours = image.getpalette("RGB") if mode in ("P", "PA") else None
            pixels = np.array(image)
    except Exception as error:  # noqa: BLE001 — a damaged file can make a decoder raise anything
        raise BadImage(path, f"damaged: {error or type(error).__name__}") from None
    if mode in ("LA", "PA"):
        pixels = pixels[..., 0]
    if mode in ("RGB", "RGBA"):
        return Codes(packed(pixels), True)
    values = pixels.astype(np.uint8) if mode == "1" else pixels
    if values.dtype != np.uint8:  # 16 bits, of which 8 are used
        if values.size and not 0 <= int(values.min()) <= int(values.max()) <= 255:
            raise BadImage(path, f"has values from {values.min()} to {values.max()}; expected labels from 0 to 255")
        values = values.astype(np.uint8)
    return Codes(values, False, None if colours is None else np.array(colours, np.uint8).reshape(-1, 3))


def packed(colours: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Colours (…, 3 or 4) → codes (…)."""
    red, green, blue = (colours[..., place].astype(np.int32) for place in range(3))
    return red << 16 | green << 8 | blue


def size_of(path: str) -> tuple[int, int]:
    """Height and width of an image as a person looks at it; of its pixels nothing is decoded. Raises BadImage."""
    kind, width, height = kind_of(path)
    format_ = kind.partition(" ")[0]
    if format_ not in MAY_BE_TURNED:
        return height, width
    try:
        with Image.open(path, formats=(format_,)) as image:
            turned = image.getexif().get(ORIENTATION, 1) in ON_ITS_SIDE
    except Exception:  # noqa: BLE001 — a broken EXIF block says nothing, and the pixels are there
        turned = False
    return (width, height) if turned else (height, width)


@dataclass(frozen=True, eq=False)
class Table:
    """What codes mean."""

    grey: NDArray[np.int16]  # (256,) the label of each value; −1 where it has none
    colours: NDArray[np.int32]  # (n,) in their order
    colour_labels: NDArray[np.uint8]  # (n,)

    def labels(self, codes: NDArray[np.integer], colour: bool) -> NDArray[np.int16]:
        """The label of each code; −1 where it has none."""
        if not colour:
            return np.asarray(self.grey[codes])
        if not len(self.colours):
            return np.full(codes.shape, -1, np.int16)
        place = np.minimum(np.searchsorted(self.colours, codes), len(self.colours) - 1)
        return np.where(self.colours[place] == codes, self.colour_labels[place].astype(np.int16), np.int16(-1))


def unknown_codes(codes: NDArray[np.integer], colour: bool) -> str:
    """Why a map cannot be read whose codes mean nothing."""
    listed = [named_code(code, colour) for code in codes[:NAMED].tolist()] + ["…"] * (len(codes) > NAMED)
    return f"has {'the colours' if colour else 'the values'} {', '.join(listed)}, which no class has"


def named_code(code: int, colour: bool) -> str:
    return f"({code >> 16}, {code >> 8 & 255}, {code & 255})" if colour else str(code)


@dataclass(frozen=True, eq=False)
class FileMaps:
    """Label maps in files: map i is root / names[i]; without a name it is empty, of the size sizes[i]."""

    root: str
    names: Names
    table: Table
    sizes: NDArray[np.int32]  # (N, 2) height and width

    def __len__(self) -> int:
        return len(self.names)

    def file(self, index: int) -> str:
        return self.names[index]

    def label_map(self, index: int) -> LabelMap:
        name = self.names[index]
        height, width = self.sizes[index].tolist()
        if not name:
            return np.full((height, width), BACKGROUND, np.uint8)
        path = os.path.join(self.root, name)  # noqa: PTH118 — once for each image of a training run
        codes = open_codes(path)
        if codes.values.shape != (height, width):
            raise BadImage(path, unlike_image(codes.values.shape, (height, width)))
        labels = self.table.labels(codes.values, codes.colour)
        if (labels < 0).any():
            raise BadImage(path, unknown_codes(np.unique(codes.values[labels < 0]), codes.colour))
        return labels.astype(np.uint8)


def unlike_image(size: tuple[int, ...], wanted: tuple[int, int]) -> str:
    """Why a map does not fit its image."""
    (height, width), (high, wide) = size, wanted
    turned = ", as if one of them were turned" if (height, width) == (wide, high) else ""
    scaled = height != high and width != wide and abs(height - high * width / wide) <= 1
    how = turned or (", the same shape in another size" if scaled else "")
    return f"is {width}×{height}, but its image {wide}×{high}{how}"
