"""One image file → (H, W, 3) uint8 RGB, whatever it was saved as; or BadImage, which says in one line why not.

Turned as its EXIF says; what is see-through lies over black; 16-bit greys come down by their full range, 65535 → 255; of several frames the first.
"""

import os
import stat
import warnings
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, JpegImagePlugin, UnidentifiedImageError

from foveal.errors import FovealError, expect_integer

Pixels = NDArray[np.uint8]
LARGEST = 100_000_000  # pixels: beyond this a file is a mistake or an attack
SUFFIXES = (  # of files that are taken for images
    ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".bmp", ".tif", ".tiff", ".webp", ".gif", ".ppm", ".pgm", ".pbm", ".pnm", ".jp2", ".avif",
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
Box = tuple[float, float, float, float]


class BadImage(FovealError):  # noqa: N818 — it reads as what it is
    """This file gives no image; `reason` says why."""

    def __init__(self, path: str, reason: str) -> None:
        self.path, self.reason = str(path), " ".join(reason.split())
        super().__init__(f"{' '.join(self.path.split())}: {self.reason}")

    def __reduce__(self) -> tuple[type["BadImage"], tuple[str, str]]:
        return BadImage, (self.path, self.reason)  # it crosses from worker processes


def open_image(path: str | os.PathLike[str], size: int | None = None) -> Pixels:
    """The pixels of the file; with `size`, resized to exactly size × size, and decoded no finer than that needs."""
    name = os.fspath(path)
    if size is not None:
        expect_integer(size, "size of an image")
    try:
        with _opened(name) as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what matters is raised as BadImage
            image, box = _decoded(file, name, size)
            return _pixels(image, box, size, name)
    except BadImage:
        raise
    except Image.DecompressionBombError:
        raise BadImage(name, _too_large()) from None
    except MemoryError:
        raise BadImage(name, "there is not enough memory for its pixels") from None
    except Exception as error:  # noqa: BLE001 — a damaged file can make a decoder raise anything
        raise BadImage(name, f"damaged: {error or type(error).__name__}") from None


def from_pillow(image: Image.Image, size: int | None = None) -> Pixels:
    """The same of an image that Pillow has opened already. Raises BadImage."""
    try:
        return _pixels(image, None, size, str(getattr(image, "filename", "") or "an image"))
    except BadImage:
        raise
    except Exception as error:  # noqa: BLE001 — as above
        raise BadImage("an image", f"damaged: {error or type(error).__name__}") from None


def _pixels(image: Image.Image, box: Box | None, size: int | None, name: str) -> Pixels:
    turn = _turn(image)
    image = _in_colour(image, name)
    if size is not None and image.size != (size, size):
        image = image.resize((size, size), Image.Resampling.BILINEAR, box)
    if turn is not None:
        image = image.transpose(turn)
    return np.array(image, dtype=np.uint8)  # a copy: it can be written to, and the file can go


def kind_of(path: str | os.PathLike[str]) -> tuple[str, int, int]:
    """What the head of the file says: such as "JPEG RGB", and the width and height in pixels before any turn. Raises BadImage."""
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


def _decoded(file: BinaryIO, name: str, size: int | None) -> tuple[Image.Image, Box | None]:
    """The image, and the part of it that shows something: an eighth of 1201 pixels is 150.1 of 151."""
    image = _identified(file, name)
    drafted = None
    if size is not None:
        drafted = image.draft(None, (size, size))  # a JPEG is decoded at 1/2, 1/4 or 1/8, never below size
    if image.width * image.height > LARGEST:
        raise BadImage(name, f"{_too_large()}, got {image.width}×{image.height}")
    image.load()
    return image, drafted[1] if drafted else None


def _identified(file: BinaryIO, name: str) -> Image.Image:
    jpeg = file.read(3) == b"\xff\xd8\xff"
    file.seek(0)
    try:
        # Pillow's own opener refuses by the full size; a JPEG is asked for a part of it
        return JpegImagePlugin.JpegImageFile(file) if jpeg else Image.open(file)
    except UnidentifiedImageError:
        raise BadImage(name, "is not an image, or of a kind that Pillow does not know") from None


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
        clear = image.convert("RGBA")
        black = Image.new("RGBA", clear.size, (0, 0, 0, 255))
        return Image.alpha_composite(black, clear).convert("RGB")
    return image.convert("RGB")


def _from_sixteen_bits(image: Image.Image, name: str) -> Image.Image:
    values = np.asarray(image).astype(np.int64)
    if values.min() < 0 or values.max() > 65535:
        raise BadImage(name, f"has grey values from {values.min()} to {values.max()}; expected 0 to 65535; save it with 8 or 16 bits")
    return Image.fromarray(((values * 255 + 32767) // 65535).astype(np.uint8))
