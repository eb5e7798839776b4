"""Noise that every texture is cut from: a few periodic fields with spectrum |f|^-p,
made once a process and only looked up after that.

A field has mean 0 and deviation 1, is EDGE wide and repeats without a seam, so that a wall can be papered with it
around the pipe. Values are rounded to 1/256: the same on every machine whatever its last bits.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from foveal.data.pipes.camera import Map, Values

EDGE = 512
# name: (power of the spectrum, lowest frequency, highest frequency, stretch around the pipe, stretch along it)
FIELDS = {
    "cloud": (1.6, 1.0, 60.0, 1.0, 1.0),
    "grain": (0.4, 10.0, 256.0, 1.0, 1.0),
    "pebble": (0.2, 14.0, 40.0, 1.0, 1.0),
    "along": (0.7, 2.0, 256.0, 1.0, 9.0),
    "white": (-0.5, 1.0, 400.0, 1.0, 1.0),
    "around": (0.8, 2.0, 256.0, 9.0, 1.0),
}


# packed stones, 16 cells apart: how high each point of a stone is, and each stone's own tone
STONES = ("stone", "tint")


@lru_cache(maxsize=len(FIELDS) + len(STONES))
def field(name: str) -> Map:
    """One field, (EDGE · EDGE,), rows around the pipe."""
    if name in STONES:
        return _stones()[STONES.index(name)]
    power, low, high, around, along = FIELDS[name]
    random = np.random.default_rng([271828, list(FIELDS).index(name)])
    frequency = np.fft.fftfreq(EDGE, 1 / EDGE)
    radius = np.hypot(frequency[:, None] * around, frequency[None, : EDGE // 2 + 1] * along)
    keep = (radius >= low) & (radius <= high)
    spectrum = np.where(keep, np.maximum(radius, 1e-3) ** (-power - 0.5), 0.0)
    made = np.fft.irfft2(np.fft.rfft2(random.standard_normal((EDGE, EDGE))) * spectrum, (EDGE, EDGE))
    return _kept(made)


def _kept(made: NDArray[np.float64]) -> Map:
    made = np.clip((made - made.mean()) / made.std(), -3.5, 3.5)
    return np.asarray(np.rint(made * 256) / 256, np.float32).ravel()


@lru_cache(maxsize=1)
def _stones() -> tuple[Map, Map]:
    """Each stone is what lies nearest to one point of a shaken grid; it is as high as it is far from the next stone."""
    random = np.random.default_rng([271828, 100])
    pitch = 16
    shaken = random.uniform(0.05, 0.95, (2, EDGE // pitch, EDGE // pitch)) * pitch
    weight, tone = random.uniform(0.75, 1.3, shaken.shape[1:]), random.uniform(-1, 1, shaken.shape[1:])
    row, column = np.meshgrid(np.arange(EDGE), np.arange(EDGE), indexing="ij")
    first, second, tint = np.full(row.shape, 99.0), np.full(row.shape, 99.0), np.zeros(row.shape)
    for down in (-1, 0, 1):
        for right in (-1, 0, 1):
            cell = (row // pitch + down) % (EDGE // pitch), (column // pitch + right) % (EDGE // pitch)
            x, y = column % pitch - right * pitch - shaken[1][cell], row % pitch - down * pitch - shaken[0][cell]
            away = np.sqrt(x * x + y * y) * weight[cell]
            nearer = away < first
            second = np.where(nearer, first, np.minimum(second, away))
            tint = np.where(nearer, tone[cell], tint)
            first = np.where(nearer, away, first)
    return _kept(np.sqrt(np.minimum((second - first) / 9, 1))), _kept(tint)


@lru_cache(maxsize=1)
def wander() -> Map:
    """A wandering line (4096,): where a crack goes, how a rim is broken."""
    random = np.random.default_rng(314159)
    frequency = np.arange(2049.0)
    spectrum = np.where((frequency >= 8) & (frequency < 900), np.maximum(frequency, 1) ** -1.1, 0)
    made = np.fft.irfft(np.fft.rfft(random.standard_normal(4096)) * spectrum, 4096)
    return np.asarray(np.rint(np.clip(made / made.std(), -3, 3) * 256) / 256, np.float32)


def sample(name: str, around: Values, along: Values, smooth: bool = False) -> Map:
    """A field's value at (around, along), in cells of the field; `smooth` blends the four nearest."""
    values = field(name)
    if not smooth:
        index = around.astype(np.int32)
        index &= EDGE - 1
        index *= EDGE
        index |= along.astype(np.int32) & (EDGE - 1)
        return values.take(index, mode="clip")  # every index is in range; this spares the check
    row, column = np.floor(around), np.floor(along)
    down, right = around - row, along - column
    row0, column0 = row.astype(np.int32) & (EDGE - 1), column.astype(np.int32) & (EDGE - 1)
    row1, column1 = ((row0 + 1) & (EDGE - 1)) * EDGE, (column0 + 1) & (EDGE - 1)
    row0 *= EDGE
    upper = values.take(row0 + column0)
    upper += right * (values.take(row0 + column1) - upper)
    lower = values.take(row1 + column0)
    lower += right * (values.take(row1 + column1) - lower)
    return np.asarray(upper + down * (lower - upper))


def line(at: Values, start: float) -> Map:
    """The wandering line at `at` (in cells), begun at `start`, blended between cells."""
    position = np.asarray(at, np.float32) + np.float32(start)
    cell = np.floor(position)
    index = cell.astype(np.int32)
    values = wander()
    left = values.take(index & 4095)
    return np.asarray(left + (position - cell) * (values.take((index + 1) & 4095) - left))
