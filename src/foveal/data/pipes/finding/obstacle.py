"""An obstacle: something that does not belong in the pipe lies or stands in it: stones, a brick or slab,
a pipe or bar across.
"""

import numpy as np
from numpy.typing import NDArray

from foveal.data.pipes.camera import Map
from foveal.data.pipes.finding.kind import Kind, Place, middle
from foveal.data.pipes.layer import Layer, tinted
from foveal.data.pipes.noise import sample
from foveal.data.pipes.scene import Scene
from foveal.data.pipes.solid import Point, box, ellipsoid, frame, tube

COLOURS = (
    (0.66, 0.64, 0.60),
    (0.56, 0.50, 0.42),
    (0.52, 0.32, 0.24),
    (0.74, 0.72, 0.68),
    (0.42, 0.40, 0.40),
    (0.52, 0.42, 0.28),
)


def paint(scene: Scene, place: Place, random: np.random.Generator) -> Layer:
    """One to four things; of those that overlap the nearer is seen."""
    view = scene.view
    floor = min(scene.water.level, 0.97)
    across = random.random() < 0.2
    count = 1 if across else int(random.integers(1, 5))
    origin = np.array([*view.camera.offset, 0], np.float32)
    reach = random.uniform(0.26, 0.50) if count < 3 else random.uniform(0.20, 0.36)
    spot = np.array([np.sin(place.angle) * 0.7, floor - 0.35 * reach, place.depth])
    if across:
        spot = np.array([0.0, random.uniform(-0.1, 0.7), place.depth])
    room = 1.3 if across else reach * (2.0 if count == 1 else 3.0)
    corners = spot[:, None] + room * np.stack(np.meshgrid(*[[-1, 1]] * 3)).reshape(3, 8) * np.array(
        [[1], [1], [0.4 if across else 0.8]]
    )
    corners[2] = np.maximum(corners[2], 0.2)
    window = view.around(*view.camera.project(corners, view.size))
    ray = view.ray[:, window[0], window[1]]
    depth, light, tone = (
        np.array(view.depth[window]),
        np.zeros(ray.shape[1:], np.float32),
        np.zeros((3, *ray.shape[1:]), np.float32),
    )
    cover = np.zeros(ray.shape[1:], bool)
    for _ in range(count):
        at, facing, albedo = _thing(ray, origin, spot, reach, across, random)
        nearer = at * ray[2] < depth
        point = origin[1] + np.where(nearer, at, 0) * ray[1]
        nearer &= point < floor + 0.02
        depth = np.where(nearer, at * ray[2], depth)
        light = np.where(
            nearer, (0.22 + 0.88 * facing) * np.clip(1.25 - 0.9 * np.clip(point - floor + 0.35, 0, 1), 0.4, 1), light
        )
        tone = np.where(nearer, albedo, tone)
        cover |= nearer
    light = light * scene.lamp.at(depth.astype(np.float32))
    x, y = view.camera.project(np.array([[spot[0]], [floor], [place.depth]]), view.size)
    rows, columns = np.ogrid[window]
    size = 1.1 * reach * view.pixels / place.depth
    under = np.exp(-(((columns - x[0]) * view.camera.aspect / (1.6 * size)) ** 2 + ((rows - y[0]) / (0.6 * size)) ** 2))
    return Layer(
        window,
        cover,
        tone,
        light,
        shade=1 - 0.5 * (not across) * under,
        mask=cover,
        angle=middle(view.angle[window], cover),
    )


def _thing(
    ray: Map,
    origin: Point,
    spot: NDArray[np.float64],
    reach: float,
    across: bool,
    random: np.random.Generator,
) -> tuple[Map, Map, Map]:
    """Where the rays meet one thing, how it faces them, and its albedo."""
    colour = COLOURS[random.integers(len(COLOURS))]
    if across:
        slant = random.normal(0, 0.35)
        axis = np.array([np.cos(slant), np.sin(slant), random.normal(0, 0.15)])
        at, facing, _ = tube(
            ray, origin, (spot - 1.6 * axis).astype(np.float32), frame(axis), random.uniform(0.05, 0.16), 3.2
        )
    else:
        centre = (
            spot + reach * np.array([random.normal(0, 0.9), random.normal(0, 0.25), random.normal(0, 0.6)])
        ).astype(np.float32)
        centre[2] = max(centre[2], 0.8)
        radii = (reach * random.uniform(0.45, 1.0, 3)).astype(np.float32)
        turn = frame(random.normal(0, 1, 3))
        if random.random() < 0.4:
            at, facing = box(ray, origin, centre, turn, radii * np.float32(0.8))
        else:
            u, v = ray[0] / ray[2], ray[1] / ray[2]
            bumps = sample("pebble", (u + 4) * 60 + random.uniform(0, 300), (v + 4) * 60, True) * np.float32(0.07)
            at, facing = ellipsoid(ray, origin, centre, turn, radii, bumps)
            facing = np.round(facing * 5 + 2 * bumps) / 5 * 0.6 + facing * 0.4  # flat facets, as of a broken stone
    point = origin[:, None, None] + np.where(np.isfinite(at), at, 0) * ray
    dirt = sample("cloud", (point[0] + 4) * 150, (point[1] + point[2] + 4) * 150) + sample(
        "grain", (point[0] + 4) * 220, (point[1] + 4) * 220
    )
    return at, facing, tinted(colour, 1 + 0.16 * dirt)


KIND = Kind("obstacle", "invert", paint, in_wall=False)
