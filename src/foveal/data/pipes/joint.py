"""Where one pipe ends and the next begins: rings across the axis at a regular pitch, z = phase + k·pitch.

They are no finding.
"""

from dataclasses import dataclass

import numpy as np

from foveal.data.pipes.camera import View
from foveal.data.pipes.layer import Canvas
from foveal.data.pipes.noise import line


@dataclass(frozen=True)
class Joints:
    """The rings and how they look."""

    pitch: float
    phase: float  # depth of the first ring
    gap: float  # width of the dark line, in radii
    band: float  # width of the mortar or socket beside it
    tone: float  # how much lighter (or darker) the band is
    ragged: float  # how much of it is missing or dirty

    def near(self, least: float, most: float) -> list[float]:
        """The depths of the rings between two depths."""
        first = np.ceil((least - self.phase) / self.pitch)
        return [float(z) for z in self.phase + self.pitch * np.arange(first, first + 40) if least <= z <= most]

    def lay(self, view: View, canvas: Canvas, random: np.random.Generator) -> None:
        """Draw them all on the wall."""
        depth = view.depth
        turns = (depth - np.float32(self.phase)) * np.float32(1 / self.pitch)
        number = np.rint(turns)
        beside = (turns - number) * np.float32(self.pitch)  # distance past the ring
        pixel = depth * depth * np.float32(1 / view.pixels)  # how long a pixel is here
        broken = line(view.angle * np.float32(9) + 37 * number, random.uniform(0, 4096)) * np.float32(self.ragged)
        near = depth < 14
        width = self.gap * (1 + 0.5 * broken)
        dark = np.clip((width - np.abs(beside)) / pixel + 0.5, 0, 1) * np.minimum(1, 2.5 * self.gap / pixel) * near
        canvas.albedo *= 1 - np.float32(0.78) * dark * np.clip(1 - 0.5 * broken, 0.2, 1)
        if self.band > 0:
            rim = np.clip(
                (self.band * (1 + 0.4 * broken) - np.abs(beside - self.band)) / pixel + 0.5, 0, 1
            ) * np.minimum(1, 2 * self.band / pixel)
            canvas.albedo *= 1 + np.float32(self.tone) * rim * near * np.clip(1 + broken, 0, 1.6)


def draw_joints(random: np.random.Generator, smooth: bool) -> Joints:
    """Joints of some pipe: neat in plastic, often mortared or dirty in concrete and clay."""
    gap = random.uniform(0.008, 0.022)
    band = float(random.choice([0.0, 1.0])) * random.uniform(0.02, 0.09)
    tone = random.uniform(0.1, 0.4) * (1 if random.random() < 0.75 else -1)
    pitch = random.uniform(1.6, 5.0)
    return Joints(
        pitch, random.uniform(0.9, 0.9 + min(pitch, 1.6)), gap, band, tone, 0.1 if smooth else random.uniform(0.2, 0.9)
    )
