"""Things that stand in the pipe: a ray o + t·d meets an ellipsoid, a box or a capped tube.

Each gives t and how the face looks at us.

Every function takes rays (3, h, w) and the camera's place and returns (t, facing): t = inf where the ray misses,
facing = |n·d|/|d|.
"""

import numpy as np
from numpy.typing import NDArray

from foveal.data.pipes.camera import Map

Point = NDArray[np.float32]


def frame(axis: NDArray[np.float64]) -> Point:
    """A rotation (3, 3) whose last row is this axis."""
    axis = axis / np.linalg.norm(axis)
    helper = np.array([0.0, 0.0, 1.0]) if abs(axis[2]) < 0.8 else np.array([1.0, 0.0, 0.0])
    first = np.cross(helper, axis)
    first /= np.linalg.norm(first)
    return np.stack([first, np.cross(axis, first), axis]).astype(np.float32)


def into(turn: Point, ray: Map) -> Map:
    """Rays in the frame of a thing."""
    return np.tensordot(turn, ray, 1)


def ellipsoid(
    ray: Map, origin: Point, centre: Point, turn: Point, radii: Point, bumps: Map | float = 0.0
) -> tuple[Map, Map]:
    """|(p - c)/r| = 1 + bumps."""
    way = into(turn, ray) / radii[:, None, None]
    start = ((turn @ (origin - centre)) / radii)[:, None, None]
    a = (way * way).sum(0)
    b = (way * start).sum(0)
    root = b * b - a * ((start * start).sum() - (1 + bumps) ** 2)
    hit = root > 0
    root = np.sqrt(np.maximum(root, 0))
    reach = np.where(hit, (-b - root) / a, np.inf)
    normal = (start + np.where(hit, reach, 0) * way) / radii[:, None, None]
    return reach, _facing(normal, into(turn, ray))


def box(ray: Map, origin: Point, centre: Point, turn: Point, radii: Point) -> tuple[Map, Map]:
    """|(p - c)_k| = r_k on the first of the faces that is entered."""
    way = into(turn, ray)
    way = np.where(np.abs(way) < 1e-5, np.float32(1e-5), way)
    start = (turn @ (origin - centre))[:, None, None]
    edge = radii[:, None, None]
    near = (-np.sign(way) * edge - start) / way
    far = (np.sign(way) * edge - start) / way
    face = near.argmax(0)
    reach = near.max(0)
    reach = np.where((reach < far.min(0)) & (reach > 0.05), reach, np.inf)
    facing = np.abs(np.take_along_axis(way, face[None], 0)[0]) / np.sqrt((way * way).sum(0))
    return reach, facing


def tube(ray: Map, origin: Point, base: Point, turn: Point, radius: float, length: float) -> tuple[Map, Map, Map]:
    """A tube from `base` along the frame's last axis, open at its end.

    Also returns how far in from the rim the end is seen: 0 on the outside, else 1 - ρ/r with ρ the distance from the
    axis.
    """
    way = into(turn, ray)
    start = (turn @ (origin - base))[:, None, None]
    a = np.maximum(way[0] ** 2 + way[1] ** 2, 1e-6)
    b = way[0] * start[0] + way[1] * start[1]
    root = b * b - a * (start[0] ** 2 + start[1] ** 2 - radius**2)
    hit = root > 0
    side = (-b - np.sqrt(np.maximum(root, 0))) / a
    along = start[2] + side * way[2]
    side = np.where(hit & (along > -0.05) & (along < length) & (side > 0.05), side, np.inf)
    reach = np.where(np.isfinite(side), side, 0)
    normal = np.stack([start[0] + reach * way[0], start[1] + reach * way[1], np.zeros_like(reach)])
    facing = _facing(normal, way)
    step = np.where(np.abs(way[2]) < 1e-5, np.float32(1e-5), way[2])
    end = (length - start[2]) / step
    beside = np.hypot(start[0] + end * way[0], start[1] + end * way[1])
    on_end = (beside < radius) & (end > 0.05) & (end < side)
    straight = np.abs(way[2]) / np.sqrt((way * way).sum(0))
    return np.where(on_end, end, side), np.where(on_end, straight, facing), np.where(on_end, 1 - beside / radius, 0)


def _facing(normal: Map, way: Map) -> Map:
    length = np.sqrt((normal * normal).sum(0) * (way * way).sum(0))
    return np.asarray(np.abs((normal * way).sum(0)) / np.maximum(length, 1e-9))
