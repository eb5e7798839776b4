"""From light to a file: haze, tone curve, vignette, blur, sensor noise, and the blocks of JPEG."""

import io
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from foveal.data.pipes.camera import Map, View
from foveal.data.pipes.lamp import Lamp
from foveal.data.pipes.layer import Canvas, Colour, plain
from foveal.data.pipes.noise import field

LEVELS = 1024


@dataclass(frozen=True)
class Lens:
    """What the camera does to the picture."""

    balance: Colour  # gain of red, green and blue
    target: float  # mean light that the camera exposes for
    gamma: float
    vignette: float
    blur: float  # radius as a share of the picture's edge
    noise: float  # deviation, in grey levels of 255
    quality: int  # of JPEG

    def gain(self, canvas: Canvas) -> float:
        """How much the camera brightens this picture; a glance at every seventh pixel is enough."""
        mean = (canvas.albedo[1, ::7, ::7] * canvas.light[::7, ::7]).mean()
        return float(np.clip(self.target / max(float(mean), 0.01), 0.5, 2.5))

    def develop(self, canvas: Canvas, view: View, lamp: Lamp) -> Image.Image:
        """The picture as the sensor has it, before anything is written over it."""
        colour = canvas.albedo * canvas.light
        colour += canvas.gloss
        if max(lamp.haze) > 0:
            mist = 1 - np.exp(view.depth * np.float32(-1 / lamp.thick))
            colour += mist * (plain(lamp.haze) - colour)
        line = np.linspace(-1, 1, view.size, dtype=np.float32)
        colour *= plain(self.balance) * (1 - np.float32(self.vignette / 2) * (line * line + (line * line)[:, None]))
        curve = self._curve()
        index = np.clip(colour * np.float32(LEVELS / 2), 0, LEVELS - 1).astype(np.int16)
        picture = Image.fromarray(np.ascontiguousarray(curve.take(index).transpose(1, 2, 0)))
        radius = self.blur * view.size
        return picture.filter(ImageFilter.BoxBlur(radius)) if radius > 0.1 else picture

    def _curve(self) -> NDArray[np.uint8]:
        """Light 0..2 to grey levels: a power, and a shoulder where the sensor fills up."""
        light = np.arange(LEVELS) * (2 / LEVELS)
        bent = light**self.gamma
        return np.asarray(np.rint(255 * bent / (1 + bent**8) ** 0.125), np.uint8)

    def expose(self, picture: Image.Image, random: np.random.Generator) -> Image.Image:
        """Add the sensor's noise, partly the same in all three colours, partly not."""
        size = picture.width
        if self.noise < 0.3:
            return picture
        row, count = _speckle(), 3 * size * size
        start = 3 * int(random.integers(0, max((len(row) - count) // 3, len(row) // 6)))
        cut = row[start : start + count] if start + count <= len(row) else np.resize(row[start:], count)
        noisy = cut.reshape(size, size, 3) * np.float32(self.noise)
        noisy += np.asarray(picture)
        return Image.fromarray(np.clip(noisy, 0, 255, out=noisy).astype(np.uint8))

    def compress(self, picture: Image.Image) -> NDArray[np.uint8]:
        """Through JPEG and back, (S, S, 3)."""
        with io.BytesIO() as held:
            picture.save(held, "JPEG", quality=self.quality)
            with Image.open(held) as back:
                return np.array(back.convert("RGB"))


@lru_cache(maxsize=1)
def _speckle() -> Map:
    """One long row of noise of deviation 1, in threes: partly the same in red, green and blue, partly not."""
    row = field("white")
    return np.asarray(0.6 * np.resize(row, 3 * len(row)) + 0.8 * np.repeat(row[::-1], 3), np.float32)


def draw_lens(random: np.random.Generator) -> Lens:
    """Some camera: most are a little blue and a little soft."""
    warm = random.normal(-0.01, 0.04)
    green = random.normal(-0.01, 0.015) + (0.04 if random.random() < 0.15 else 0)
    return Lens(
        target=random.uniform(0.50, 0.72),
        balance=(1 + warm, 1 + green, 1.12 - warm),
        gamma=random.uniform(0.68, 1.02),
        vignette=random.uniform(0, 0.5) if random.random() < 0.5 else 0.0,
        blur=random.uniform(0.0, 0.0025) if random.random() < 0.9 else random.uniform(0.003, 0.007),
        noise=random.uniform(0.5, 4.0),
        quality=int(random.integers(35, 92)),
    )
