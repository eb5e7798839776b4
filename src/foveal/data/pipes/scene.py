"""What is in a frame apart from its findings, drawn from the seed: camera, material, joints, lamp, water, lens, text.

Each part has its own stream of chance, so that a frame with a finding and the same frame without it show the same pipe.
"""

from dataclasses import dataclass

import numpy as np

from foveal.data.pipes.camera import Camera, View
from foveal.data.pipes.joint import Joints, draw_joints
from foveal.data.pipes.lamp import Lamp
from foveal.data.pipes.lens import Lens, draw_lens
from foveal.data.pipes.texture import MATERIALS, SHARE, Material
from foveal.data.pipes.water import Water, draw_water

STREAMS = (
    "camera",
    "material",
    "wall",
    "joints",
    "rings",
    "wear",
    "lamp",
    "water",
    "ripples",
    "lens",
    "sensor",
    "text",
    "plan",
    "place",
    "finding",
)
HAZES = ((0.05, 0.05, 0.06), (0.15, 0.15, 0.18), (0.28, 0.29, 0.34), (0.42, 0.44, 0.48))


@dataclass(frozen=True)
class Scene:
    """One pipe, as one camera sees it."""

    view: View
    material: Material
    joints: Joints
    lamp: Lamp
    water: Water
    lens: Lens


def stream(seed: int, name: str, number: int = 0) -> np.random.Generator:
    """The chance that one part of one frame is drawn from."""
    return np.random.default_rng([seed, STREAMS.index(name), number])


def draw_scene(seed: int, size: int) -> Scene:
    """The pipe of this seed."""
    material = MATERIALS[stream(seed, "material").choice(len(MATERIALS), p=SHARE)]
    camera = draw_camera(stream(seed, "camera"))
    return Scene(
        view=camera.look(size),
        material=material,
        joints=draw_joints(stream(seed, "joints"), smooth=material.gloss > 0.1),
        lamp=draw_lamp(stream(seed, "lamp")),
        water=draw_water(stream(seed, "water"), camera.offset[1]),
        lens=draw_lens(stream(seed, "lens")),
    )


def draw_camera(random: np.random.Generator) -> Camera:
    """A robot that stands low in the pipe and seldom quite straight.

    Half of the frames were 16:9 before they were made square.
    """
    aspect = float(random.choice([1.0, 1.33, 1.78, 1.78])) * random.uniform(0.94, 1.06)
    return Camera(
        offset=(random.normal(0, 0.07), float(np.clip(random.normal(0.08, 0.12), -0.25, 0.35))),
        yaw=float(np.clip(random.normal(0, 0.12), -0.3, 0.3)),
        pitch=float(np.clip(random.normal(0, 0.11), -0.28, 0.28)),
        roll=float(np.clip(random.normal(0, 0.08), -0.3, 0.3)),
        focal=random.uniform(0.85, 1.45),
        aspect=aspect,
        bulge=random.uniform(0.0, 0.12),
    )


def draw_lamp(random: np.random.Generator) -> Lamp:
    """Lamps light the near wall well.

    The middle is dark in most pipes, grey where the air is misty, and seldom quite black.
    """
    glare = random.uniform(0.2, 0.9) if random.random() < 0.4 else 0.0
    haze = HAZES[random.choice(len(HAZES), p=(0.2, 0.3, 0.28, 0.22))]
    return Lamp(
        level=random.uniform(0.8, 1.6),
        reach=random.uniform(1.4, 4.0),
        aim=random.uniform(-np.pi, np.pi),
        lean=random.uniform(0, 0.3),
        lobes=(random.uniform(-np.pi, np.pi), random.uniform(0, 0.3)),
        spot=(random.uniform(-np.pi, np.pi), random.uniform(0.8, 3.0), glare),
        haze=haze,
        thick=random.uniform(3.4, 10),
    )
