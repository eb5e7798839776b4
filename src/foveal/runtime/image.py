"""One image file → (H, W, 3) uint8 RGB, whatever it was saved as; or BadImage, which says in one line why not.

Turned as its EXIF says; what is see-through lies over black; 16-bit greys come down by their full range, 65535 → 255;
of several frames the first.
"""

import functools
import os
import stat
import threading
import warnings
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, JpegImagePlugin, UnidentifiedImageError

from foveal.errors import FovealError, expect_integer

Pixels = NDArray[np.uint8]
LARGEST = 100_000_000  # pixels: beyond this a file is a mistake or an attack
LARGE = 16_000_000  # pixels: images beyond this are decoded one at a time, since each takes up to ten bytes per pixel
# Bytes that Pillow asks for at a time. Blocks beyond 32 MiB go back to the system when they are freed; its own 16 MiB
# stay with the thread that asked: four images of 100 million pixels took 2.0 GB in two threads, and take 1.2 GB.
BLOCK = 64 << 20
BAND = 4_000_000  # pixels that are laid over black at a time
# What is read, whatever a file is called. Pillow knows more, and some of it is run: it starts Ghostscript for
# PostScript.
FORMATS = ("AVIF", "BMP", "DIB", "GIF", "JPEG", "JPEG2000", "MPO", "PNG", "PPM", "TIFF", "WEBP")
SUFFIXES = (  # of files that are taken for images
    ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".bmp", ".tif", ".tiff", ".webp", ".gif",
    ".ppm", ".pgm", ".pbm", ".pnm", ".jp2", ".avif",
)  # fmt: skip
ORIENTATION = 0x0112  # the EXIF tag, and what its values ask for
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
ON_ITS_SIDE = tuple(TURNS[orientation] for orientation in (5, 6, 7, 8))  # height becomes width
Box = tuple[float, float, float, float]


class Frame(NamedTuple):
    """An image as a model takes it, and its size as a person looks at it."""

    pixels: Pixels  # (h, w, 3), or (size, size, 3)
    height: int
    width: int


_one_large_image = threading.Lock()


class BadImage(FovealError):  # noqa: N818 — it reads as what it is
    """This file gives no image; `reason` says why."""

    def __init__(self, path: str, reason: str) -> None:
        self.path, self.reason = str(path), " ".join(reason.split())
        super().__init__(f"{' '.join(self.path.split())}: {self.reason}")

    def __reduce__(self) -> tuple[type["BadImage"], tuple[str, str]]:
        return BadImage, (self.path, self.reason)  # it crosses from worker processes


def open_image(path: str | os.PathLike[str], size: int | None = None) -> Pixels:
    """The pixels of the file; with `size`, resized to exactly size × size, and decoded no finer than that needs."""
    return open_frame(path, size).pixels


def open_frame(path: str | os.PathLike[str], size: int | None = None) -> Frame:
    """The same, with the height and width that the image has without resizing."""
    name = os.fspath(path)
    if size is not None:
        expect_integer(size, "size of an image")
    try:
        with _opened(name) as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what matters is raised as BadImage
            image, box, whole = _sized(file, name, size)
            if image.width * image.height <= LARGE:
                return _frame(image, box, whole, size, name)
            with _one_large_image:
                # Pillow documents it, and exports it untyped.
                Image.core.set_block_size(BLOCK)  # type: ignore[attr-defined]
                try:
                    return _frame(image, box, whole, size, name)
                finally:
                    image.close()  # gives its pixels back before the next one begins
    except BadImage:
        raise
    except Image.DecompressionBombError:
        raise BadImage(name, _too_large()) from None
    except MemoryError:
        raise BadImage(name, "there is not enough memory for its pixels") from None
    except Exception as error:  # noqa: BLE001 — a damaged file can make a decoder raise anything
        raise BadImage(name, f"damaged: {error or type(error).__name__}") from None


def from_pillow(image: Image.Image, size: int | None = None) -> Frame:
    """The same of an image that Pillow has opened already. Raises BadImage."""
    try:
        return _frame(image, None, image.size, size, str(getattr(image, "filename", "") or "an image"))
    except BadImage:
        raise
    except Exception as error:  # noqa: BLE001 — as above
        raise BadImage("an image", f"damaged: {error or type(error).__name__}") from None


def _frame(image: Image.Image, box: Box | None, whole: tuple[int, int], size: int | None, name: str) -> Frame:
    """box: the part of a drafted image that shows something; whole: width and height in the file."""
    image.load()
    turn = _turn(image)
    image = _in_colour(image, name)
    if size is not None and image.size != (size, size):
        image = image.resize((size, size), Image.Resampling.BILINEAR, box)
    if turn is not None:
        image = image.transpose(turn)
    width, height = whole[::-1] if turn in ON_ITS_SIDE else whole
    # a copy: it can be written to, and the file can go
    return Frame(np.array(image, dtype=np.uint8), height, width)


def kind_of(path: str | os.PathLike[str]) -> tuple[str, int, int]:
    """What the head of the file says: such as "JPEG RGB", and the width and height in pixels before any turn.

    Raises BadImage.
    """
    name = os.fspath(path)
    try:
        with _opened(name) as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            image = _identified(file, name)
            return f"{image.format} {image.mode}", image.width, image.height
    except BadImage:
        raise
    except Image.DecompressionBombError:
        raise BadImage(name, _too_large()) from None
    except Exception as error:  # noqa: BLE001 — as above
        raise BadImage(name, f"damaged: {error or type(error).__name__}") from None


def _opened(name: str) -> BinaryIO:
    try:
        facts = os.stat(name)  # noqa: PTH116 — called once for each image of a training run
        if stat.S_ISDIR(facts.st_mode):
            raise BadImage(name, "is a folder, no image")
        if not stat.S_ISREG(facts.st_mode):
            raise BadImage(name, "is no plain file")  # to open a pipe would wait for ever
        if facts.st_size == 0:
            raise BadImage(name, "is empty (0 bytes)")
        return open(name, "rb")  # noqa: PTH123 — closed by the caller
    except BadImage:
        raise
    except FileNotFoundError:
        raise BadImage(name, "no such file") from None
    except PermissionError:
        raise BadImage(name, "may not be read (permission denied)") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise BadImage(name, f"cannot be opened ({getattr(error, 'strerror', None) or error})") from None


def _sized(file: BinaryIO, name: str, size: int | None) -> tuple[Image.Image, Box | None, tuple[int, int]]:
    """The image, not decoded yet, the part of it that shows something: an eighth of 1201 pixels is 150.1 of 151;
    and its width and height in the file.
    """
    image = _identified(file, name)
    whole, drafted = image.size, None
    if size is not None:
        drafted = image.draft(None, (size, size))  # a JPEG is decoded at 1/2, 1/4 or 1/8, never below size
    if image.width * image.height > LARGEST:
        raise BadImage(name, f"{_too_large()}, got {image.width}×{image.height}")
    return image, drafted[1] if drafted else None, whole


def _identified(file: BinaryIO, name: str) -> Image.Image:
    jpeg = file.read(3) == b"\xff\xd8\xff"
    file.seek(0)
    try:
        # Pillow's own opener refuses by the full size; a JPEG is asked for a part of it
        return JpegImagePlugin.JpegImageFile(file) if jpeg else Image.open(file, formats=_formats())
    except UnidentifiedImageError:
        raise BadImage(name, "is not an image, or of a kind that is not read") from None


@functools.cache
def _formats() -> tuple[str, ...]:
    """Those that this Pillow can read."""
    Image.init()
    return tuple(name for name in FORMATS if name in Image.OPEN)


def _too_large() -> str:
    return f"is too large: expected at most {LARGEST // 1_000_000} million pixels"


def _turn(image: Image.Image) -> Image.Transpose | None:
    try:
        return TURNS.get(image.getexif().get(ORIENTATION, 1))
    except Exception:  # noqa: BLE001 — a broken EXIF block says nothing, and the pixels are there
        return None


def _in_colour(image: Image.Image, name: str) -> Image.Image:
    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    if image.mode == "F":
        raise BadImage(name, "has floating-point pixels, whose range nobody knows; save it with 8 or 16 bits")
    if image.mode.startswith("I"):
        return _from_sixteen_bits(image, name).convert("RGB")
    if image.mode in ("LA", "PA", "RGBA", "La", "RGBa") or "transparency" in image.info:
        return _over_black(image)
    return image.convert("RGB")


def _over_black(image: Image.Image) -> Image.Image:
    """Band by band: a whole image in four copies would take sixteen bytes per pixel."""
    over, rows = Image.new("RGB", image.size), max(1, BAND // image.width)
    for top in range(0, image.height, rows):
        clear = image.crop((0, top, image.width, min(top + rows, image.height))).convert("RGBA")
        black = Image.new("RGBA", clear.size, (0, 0, 0, 255))
        over.paste(Image.alpha_composite(black, clear).convert("RGB"), (0, top))
    return over


def _from_sixteen_bits(image: Image.Image, name: str) -> Image.Image:
    values = np.asarray(image)
    if values.min() < 0 or values.max() > 65535:
        raise BadImage(
            name,
            f"has grey values from {values.min()} to {values.max()}; expected 0 to 65535; save it with 8 or 16 bits",
        )
    scaled = values.astype(np.uint32)  # in place: a large image is there once
    scaled *= 255
    scaled += 32767
    scaled //= 65535
    return Image.fromarray(scaled.astype(np.uint8))
