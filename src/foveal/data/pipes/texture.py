"""What the wall is made of: a base colour roughened by noise of several octaves,
and ribs or bricks where the pipe has them.

Detail finer than a pixel is faded out with depth, so that the far pipe does not glitter.
"""

from dataclasses import dataclass

import numpy as np

from foveal.data.pipes.camera import Map, View
from foveal.data.pipes.layer import Colour, plain
from foveal.data.pipes.noise import EDGE, sample

CELL = 2 * np.pi / EDGE  # one cell of a noise field on the wall, in radii


@dataclass(frozen=True)
class Material:
    """How a wall looks under white light."""

    name: str
    colours: tuple[Colour, ...]
    cloud: float  # strength of broad patches
    grain: float  # of fine roughness
    pebble: float  # of aggregate
    along: float  # of drag marks along the pipe
    around: float  # of runs down the wall
    gloss: float = 0.0
    ribs: float = 0.0  # of rings at a close pitch
    bricks: float = 0.0


MATERIALS = (
    Material(
        "concrete",
        ((0.62, 0.60, 0.60), (0.57, 0.55, 0.58), (0.60, 0.57, 0.52), (0.50, 0.50, 0.54)),
        0.16,
        0.08,
        0.02,
        0.07,
        0.05,
    ),
    Material(
        "worn concrete", ((0.52, 0.49, 0.47), (0.50, 0.47, 0.42), (0.46, 0.46, 0.49)), 0.22, 0.15, 0.15, 0.06, 0.08
    ),
    Material(
        "vitrified clay",
        ((0.56, 0.37, 0.26), (0.50, 0.31, 0.22), (0.46, 0.36, 0.29)),
        0.12,
        0.05,
        0.02,
        0.05,
        0.07,
        0.25,
    ),
    Material(
        "plastic",
        ((0.72, 0.74, 0.68), (0.70, 0.72, 0.74), (0.74, 0.50, 0.30), (0.62, 0.68, 0.62)),
        0.04,
        0.02,
        0.00,
        0.04,
        0.05,
        0.30,
    ),
    Material(
        "corrugated",
        ((0.46, 0.46, 0.46), (0.58, 0.58, 0.55), (0.40, 0.40, 0.43)),
        0.08,
        0.04,
        0.00,
        0.03,
        0.05,
        0.12,
        0.38,
    ),
    Material(
        "lining", ((0.66, 0.66, 0.52), (0.62, 0.66, 0.60), (0.60, 0.58, 0.50)), 0.12, 0.10, 0.08, 0.14, 0.06, 0.20
    ),
    Material(
        "brick",
        ((0.50, 0.34, 0.27), (0.48, 0.40, 0.34), (0.44, 0.36, 0.33)),
        0.16,
        0.12,
        0.06,
        0.03,
        0.06,
        0.0,
        0.0,
        0.5,
    ),
)
SHARE = (0.30, 0.22, 0.10, 0.14, 0.10, 0.08, 0.06)


def fading(view: View, length: float) -> Map:
    """How much of a detail this long (in radii, along the pipe) still shows: 1 near,
    0 where a pixel spans many of them.
    """
    return np.asarray(1 / (1 + (view.depth * view.depth * np.float32(0.5 / (view.pixels * length))) ** 2))


def papered(view: View) -> tuple[Map, Map]:
    """Every pixel's place on the wall in cells of a noise field, never negative."""
    return view.angle * np.float32(1 / CELL) + EDGE, view.depth * np.float32(1 / CELL)


def wall_albedo(view: View, material: Material, random: np.random.Generator) -> tuple[Map, Map]:
    """The albedo (3, S, S) of a clean wall and its gloss (S, S)."""
    around, along = papered(view)
    smooth = view.size > 300
    shift = random.uniform(0, EDGE, 8).astype(np.float32)
    fine, coarse = fading(view, CELL), fading(view, 3 * CELL)
    clouds = sample("cloud", around + shift[0], along + shift[1], smooth)
    tone = clouds * np.float32(material.cloud * random.uniform(0.6, 1.3))
    detail = sample("grain", 2 * around + shift[2], 2 * along + shift[3], smooth) * np.float32(material.grain)
    # pits are deeper than grains are high
    detail += np.minimum(detail + np.float32(1.2 * material.grain), 0) * np.float32(1.2)
    detail += sample("along", around + shift[4], along + shift[5], smooth) * np.float32(
        material.along * random.uniform(0.5, 1.8)
    )
    tone += detail * fine
    if material.pebble:
        tone += (
            np.minimum(sample("pebble", 3 * around + shift[6], 3 * along + shift[7], smooth), 0.7)
            * coarse
            * np.float32(material.pebble * random.uniform(0.3, 1.3))
        )
    if material.around:
        tone += (
            sample("around", around + shift[3], along + shift[6], smooth)
            * coarse
            * np.float32(material.around * random.uniform(0.5, 1.5))
        )
    tone += 1
    if material.ribs:
        tone *= _ribs(view, material.ribs, random)
    colour = np.array(material.colours[random.integers(len(material.colours))]) * random.uniform(
        0.85, 1.1
    ) + random.normal(0, 0.008, 3)
    albedo = plain(tuple(colour)) * tone
    # broad patches differ in hue too: damp is bluer, dry is yellower
    warmth = clouds * np.float32(random.normal(0, 0.012))
    albedo[0] += warmth
    albedo[2] -= warmth
    if material.bricks:
        _lay_bricks(view, albedo, material.bricks, random)
    np.clip(albedo, 0.02, 1.0, out=albedo)
    return albedo, np.float32(material.gloss) * np.maximum(clouds * 0.25 + detail * 2 + 0.1, 0)


def _ribs(view: View, strength: float, random: np.random.Generator) -> Map:
    """Rings of a corrugated pipe: one side of each is lit, the other in its own shadow."""
    pitch = random.uniform(0.10, 0.24)
    twist = random.choice([0.0, 0.0, 1.0]) * pitch / (2 * np.pi)  # some are wound as a spiral
    turns = (view.depth + np.float32(twist) * view.angle) * np.float32(2 * np.pi / pitch)
    wave = np.sin(turns)
    wave += np.float32(0.4) * np.sin(2 * turns + 1)
    return np.asarray(1 + np.float32(strength * random.uniform(0.6, 1.2)) * wave * fading(view, pitch / 6))


def _lay_bricks(view: View, albedo: Map, strength: float, random: np.random.Generator) -> None:
    """Courses along the pipe, every second one shifted by half a brick, with mortar between."""
    courses = int(random.integers(22, 34))
    length = random.uniform(0.45, 0.7)
    row = (view.angle * np.float32(1 / (2 * np.pi)) + 1) * courses
    course = np.floor(row)
    column = view.depth * np.float32(1 / length) + 0.5 * np.mod(course, 2)
    brick = np.floor(column)
    gap = np.float32(0.07)
    mortar = (
        np.minimum(
            np.abs(row - course - 0.5) * -2 + 1, (np.abs(column - brick - 0.5) * -2 + 1) * np.float32(length * 5)
        )
        < gap * 2
    )
    fade = fading(view, 0.06)
    hue = np.mod(np.sin(course * 12.9898 + brick * 78.233) * 43758.547, 1) - 0.5
    albedo *= 1 + np.float32(strength) * hue * fade
    albedo += np.float32(0.16 * random.choice([-1, 1])) * mortar * fade
