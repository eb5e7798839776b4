"""A lateral that was pushed too far: its end sticks out of the wall into the pipe and shows its outside,
its cut rim and a dark bore.
"""

import numpy as np

from foveal.data.pipes.camera import wall
from foveal.data.pipes.finding.kind import Kind, Place
from foveal.data.pipes.layer import Layer, tinted
from foveal.data.pipes.noise import sample
from foveal.data.pipes.scene import Scene
from foveal.data.pipes.solid import frame, tube

PIPES = (
    (0.70, 0.70, 0.68),
    (0.80, 0.78, 0.72),
    (0.70, 0.42, 0.25),
    (0.58, 0.56, 0.54),
    (0.40, 0.40, 0.44),
    (0.66, 0.58, 0.46),
)


def paint(scene: Scene, place: Place, random: np.random.Generator) -> Layer:
    """The stub, by its rays."""
    view = scene.view
    radius, length = random.uniform(0.13, 0.27), random.uniform(0.25, 0.7)
    base = wall(place.angle, place.depth)[:, 0]
    axis = np.array([-base[0], -base[1], random.normal(-0.15, 0.25)]) + np.array([*random.normal(0, 0.12, 2), 0])
    axis /= np.linalg.norm(axis)
    ends = np.stack([base - 0.1 * axis, base + length * axis], 1)
    corners = (ends[:, :, None] + radius * 1.3 * np.stack(np.meshgrid(*[[-1, 1]] * 3)).reshape(3, 1, 8)).reshape(3, -1)
    corners[2] = np.maximum(corners[2], 0.15)
    window = view.around(*view.camera.project(corners, view.size))
    ray = view.ray[:, window[0], window[1]]
    origin = np.array([*view.camera.offset, 0], np.float32)
    reach, facing, rim = tube(ray, origin, base.astype(np.float32), frame(axis), radius, length)
    depth = reach * ray[2]
    hit = depth < view.depth[window]
    depth = np.where(hit, depth, 1).astype(np.float32)
    point = origin[:, None, None] + np.where(hit, reach, 0) * ray
    dirt = sample("cloud", (point[0] + 4) * 160, (point[1] + point[2] + 4) * 160) + 0.6 * sample(
        "grain", (point[0] + 4) * 260, (point[1] + 4) * 260
    )
    albedo = tinted(PIPES[random.integers(len(PIPES))], 1 + np.float32(random.uniform(0.04, 0.16)) * dirt)
    thick = random.uniform(0.10, 0.22)
    bore = rim > thick
    on_rim = (rim > 0) & ~bore
    light = scene.lamp.at(depth) * (0.25 + 0.85 * facing)
    light = np.where(on_rim, 1.2 * light, np.where(bore, light * 0.1 * np.maximum(1 - 2 * (rim - thick), 0.2), light))
    # dark where the stub leaves the wall, and its shadow beside it
    from_base = np.linalg.norm(point - base[:, None, None].astype(np.float32), axis=0)
    light *= np.clip(0.45 + 0.55 * from_base / (1.6 * radius), 0.45, 1)
    x, y = view.camera.project(base[:, None], view.size)
    rows, columns = np.ogrid[window]
    spread = 1.7 * radius * view.pixels / place.depth
    near = np.exp(-(((columns - x[0]) * view.camera.aspect) ** 2 + (rows - y[0]) ** 2) / spread**2)
    return Layer(window, hit * np.float32(1), albedo, light, shade=1 - 0.5 * near)


KIND = Kind("lateral-protruding", "wall", paint, in_wall=False)
