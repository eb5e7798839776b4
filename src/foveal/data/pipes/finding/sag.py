"""A sag: the pipe has sunk, so that water stands in the dip.

Seen from the axis its level H(z) climbs the wall where the pipe sinks.

H goes from shallow to deep over some length, away from the camera or towards it. Still water is a mirror: a ray (x, y,
z) goes on as (x, -y, z) from where it meets the surface and shows the wall that it meets then.
"""

import numpy as np

from foveal.data.pipes.camera import Map
from foveal.data.pipes.finding.kind import Kind, Place, middle
from foveal.data.pipes.layer import Layer, plain, tinted
from foveal.data.pipes.noise import EDGE, sample
from foveal.data.pipes.scene import Scene
from foveal.data.pipes.water import COLOURS, bounds

WET = 0.10  # how far above the water the wall is damp


def paint(scene: Scene, place: Place, random: np.random.Generator) -> Layer:
    """The standing water, what it mirrors, and what floats on it."""
    view, eye = scene.view, scene.view.camera.offset[1]
    away = random.random() < 0.6
    deep = eye + (random.uniform(0.07, 0.22) if away else random.uniform(0.15, 0.34))
    shallow = max(min(deep + random.uniform(0.35, 0.8), 0.9, scene.water.level - 0.12), deep + 0.05)
    begin, run = (
        (random.uniform(0.3, 1.0), random.uniform(1.8, 4.5))
        if away
        else (random.uniform(0.8, 1.6), random.uniform(4.0, 10.0))
    )
    most = min(scene.water.level, 0.97)

    def level(depth: Map) -> Map:
        """The water's height at this depth; never below the water that is there anyway."""
        # the water is level: in the pipe's eyes it climbs evenly
        share = np.clip((depth - np.float32(begin)) * np.float32(1 / run), 0, 1)
        share = share if away else 1 - share
        return np.asarray(np.minimum(np.float32(shallow) + np.float32(deep - shallow) * share, np.float32(most)))

    window = bounds(view.height > level(view.depth) - np.float32(WET))
    if window is None:
        window = (slice(view.size - 1, view.size), slice(0, 1))
    depth, ray = view.depth[window], view.ray[:, window[0], window[1]]
    height = level(depth)
    x, z = _meet(ray, view.camera.offset, height, depth)
    height = level(z)
    x, z = _meet(ray, view.camera.offset, height, depth)
    shift = random.uniform(0, EDGE, 6).astype(np.float32)
    around, along = (x + 4) * np.float32(60), z * np.float32(60)
    swell = sample("cloud", around + shift[0], along + shift[1], True)
    below = view.height[window] - height
    pixel = z * np.float32(1 / view.pixels)
    standing = np.clip((np.float32(most) - height) * 25, 0, 1)  # nothing where it is no deeper than elsewhere
    cover = np.clip(below / pixel + 0.5, 0, 1) * standing
    # the mirrored wall
    up = -ray[1] * (1 + np.float32(random.uniform(0.01, 0.10)) * swell)
    a, b = np.maximum(ray[0] ** 2 + up * up, 1e-5), x * ray[0] + height * up
    reach = (np.sqrt(np.maximum(b * b - a * np.minimum(x * x + height * height - 1, 0), 0)) - b) / a
    there = np.clip(z + reach * ray[2], 0.3, 60)
    ring = (there - np.float32(scene.joints.phase)) * np.float32(1 / scene.joints.pitch)
    ring = np.abs(ring - np.rint(ring)) * np.float32(scene.joints.pitch)
    seen = scene.lamp.at(there) * (1 - 0.5 * np.clip(1.5 - ring / np.float32(2 * scene.joints.gap), 0, 1))
    slope = np.clip(ray[1] / ray[2], 0.02, 4)
    mirror = np.float32(random.uniform(0.55, 0.95)) * (0.25 + 0.75 / (1 + 3 * slope))
    wall = np.mean(scene.material.colours, axis=0) * random.uniform(0.8, 1.1)
    light = scene.lamp.at(z)
    body = tinted(COLOURS[random.integers(len(COLOURS))], light * (1 + 0.12 * swell))
    colour = body + mirror * (plain(tuple(wall)) * seen - body)
    # scum and crumbs gather in rafts and along the edge
    crumbs = sample("grain", around * 3 + shift[2], along * 3 + shift[3]) + 0.5 * sample(
        "pebble", around + shift[4], along + shift[5]
    )
    raft = np.float32(random.uniform(2.6, 4.4)) - 0.5 * swell - 0.9 * np.clip(1 - np.abs(below) * 9, 0, 1)
    colour += np.float32(0.5) * light * np.clip(crumbs - raft, 0, 1) / (1 + 0.05 * z * z)
    edge = (
        np.clip(1 - np.abs(below) / (pixel + np.float32(0.008)), 0, 1)
        * np.clip(0.5 + swell, 0, 1)
        * standing
        / (1 + 0.1 * z * z)
    )
    gloss = np.float32(random.uniform(0.1, 0.45)) * light * edge
    # the lamp itself, mirrored in front of the camera
    glare = np.exp(
        -(((x - np.float32(random.normal(0, 0.2))) * 2.2) ** 2)
        - ((z - np.float32(random.uniform(0.6, 1.4))) * 2.0) ** 2
    )
    gloss += np.float32(random.uniform(0.0, 0.35)) * glare * (1 + 0.3 * swell) * cover
    damp = np.clip(1 + below / WET, 0, 1) * (1 - cover) * standing
    mask = cover > 0.4
    return Layer(
        window, cover, colour, np.ones_like(z), gloss, 1 - 0.3 * damp, mask, angle=middle(view.angle[window], mask)
    )


def _meet(ray: Map, offset: tuple[float, float], height: Map, farthest: Map) -> tuple[Map, Map]:
    """Where rays meet water of this height: x across the pipe and z along it."""
    reach = (height - np.float32(offset[1])) / np.maximum(ray[1], np.float32(1e-3))
    reach = np.clip(reach, 0, farthest / ray[2])  # the wall is never nearer than the water above it
    return np.float32(offset[0]) + reach * ray[0], np.maximum(reach * ray[2], np.float32(0.05))


KIND = Kind("sag", "invert", paint, in_wall=False, floods=True)
