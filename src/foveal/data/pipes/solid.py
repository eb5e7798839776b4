"""Things that stand in the pipe: a ray o + t·d meets an ellipsoid, a box or a tube.

Every function takes rays d (3, h, w) and the camera's place o, and returns (t, facing): t = inf where the ray misses,
facing = |n·d|/(|n|·|d|) with the normal n of what it meets. A tube also returns how far inside its rim its end is seen.
"""

import numpy as np
from numpy.typing import NDArray

from foveal.data.pipes.camera import Map

Point = NDArray[np.float32]

NEAREST = 0.05  # the least t that is met: what is nearer is beside or behind the camera
SUNKEN = 0.05  # how far a tube begins within the wall, so that no gap opens where they meet
FLAT = 1e-5  # the least component of a direction that is divided by: a ray along a face would divide by 0


def frame(axis: NDArray[np.float64]) -> Point:
    """A rotation (3, 3) whose last row is this axis."""
    axis = axis / np.linalg.norm(axis)
    helper = np.array([0.0, 0.0, 1.0]) if abs(axis[2]) < 0.8 else np.array([1.0, 0.0, 0.0])
    first = np.cross(helper, axis)
    first /= np.linalg.norm(first)
    return np.stack([first, np.cross(axis, first), axis]).astype(np.float32)


def into(rotation: Point, ray: Map) -> Map:
    """Rays in the frame of a thing."""
    return np.tensordot(rotation, ray, 1)


def ellipsoid(
    ray: Map, origin: Point, centre: Point, rotation: Point, radii: Point, bumps: Map | float = 0.0
) -> tuple[Map, Map]:
    """|(p - c)/r| = 1 + bumps."""
    direction = into(rotation, ray) / radii[:, None, None]
    start = ((rotation @ (origin - centre)) / radii)[:, None, None]
    a = (direction * direction).sum(0)
    b = (direction * start).sum(0)
    discriminant = b * b - a * ((start * start).sum() - (1 + bumps) ** 2)
    hit = discriminant > 0
    t = np.where(hit, (-b - np.sqrt(np.maximum(discriminant, 0))) / a, np.inf)
    normal = (start + np.where(hit, t, 0) * direction) / radii[:, None, None]
    return t, _facing(normal, into(rotation, ray))


def box(ray: Map, origin: Point, centre: Point, rotation: Point, radii: Point) -> tuple[Map, Map]:
    """|(p - c)_k| = r_k on the first of the faces that is entered."""
    direction = into(rotation, ray)
    direction = np.where(np.abs(direction) < FLAT, np.float32(FLAT), direction)
    start = (rotation @ (origin - centre))[:, None, None]
    edge = radii[:, None, None]
    near = (-np.sign(direction) * edge - start) / direction
    far = (np.sign(direction) * edge - start) / direction
    face = near.argmax(0)
    t = near.max(0)
    t = np.where((t < far.min(0)) & (t > NEAREST), t, np.inf)
    facing = np.abs(np.take_along_axis(direction, face[None], 0)[0]) / np.sqrt((direction * direction).sum(0))
    return t, facing


def tube(ray: Map, origin: Point, base: Point, rotation: Point, radius: float, length: float) -> tuple[Map, Map, Map]:
    """A tube from `base` along the frame's last axis, open at its end.

    Also returns how far in from the rim the end is seen: 0 on the outside, else 1 - ρ/r with ρ the distance from the
    axis.
    """
    direction = into(rotation, ray)
    start = (rotation @ (origin - base))[:, None, None]
    a = np.maximum(direction[0] ** 2 + direction[1] ** 2, 1e-6)  # of a ray along the axis it is 0
    b = direction[0] * start[0] + direction[1] * start[1]
    discriminant = b * b - a * (start[0] ** 2 + start[1] ** 2 - radius**2)
    hit = discriminant > 0
    side = (-b - np.sqrt(np.maximum(discriminant, 0))) / a
    along = start[2] + side * direction[2]
    side = np.where(hit & (along > -SUNKEN) & (along < length) & (side > NEAREST), side, np.inf)
    t = np.where(np.isfinite(side), side, 0)
    normal = np.stack([start[0] + t * direction[0], start[1] + t * direction[1], np.zeros_like(t)])
    facing = _facing(normal, direction)
    step = np.where(np.abs(direction[2]) < FLAT, np.float32(FLAT), direction[2])
    end = (length - start[2]) / step
    beside = np.hypot(start[0] + end * direction[0], start[1] + end * direction[1])
    on_end = (beside < radius) & (end > NEAREST) & (end < side)
    straight = np.abs(direction[2]) / np.sqrt((direction * direction).sum(0))
    return np.where(on_end, end, side), np.where(on_end, straight, facing), np.where(on_end, 1 - beside / radius, 0)


def _facing(normal: Map, direction: Map) -> Map:
    length = np.sqrt((normal * normal).sum(0) * (direction * direction).sum(0))
    return np.asarray(np.abs((normal * direction).sum(0)) / np.maximum(length, 1e-9))
