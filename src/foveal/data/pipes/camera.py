"""What a camera in a pipe sees: each pixel's ray meets the wall |o + t·d| = 1 at one angle and one depth.

The pipe is a cylinder of radius 1 along z. x points right, y down, z ahead; the angle is 0 at the crown and grows
clockwise, so that clock = 12·angle/2π. The camera stands at o (off the axis), is turned by tilt and roll, and the
picture is squeezed by `aspect` (a 16:9 frame made square shows an ellipse) and bulged by the lens.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Map = NDArray[np.float32]
Values = NDArray[np.floating[Any]]  # what a caller may give: made a Map where it is kept
FARTHEST = 60.0  # depth, in radii, where the pipe is taken to end


@dataclass(frozen=True)
class Camera:
    """Where the camera is and how it looks; lengths are in radii of the pipe, angles in radians."""

    offset: tuple[float, float] = (0.0, 0.0)
    yaw: float = 0.0
    pitch: float = 0.0
    roll: float = 0.0
    focal: float = 1.0  # in half heights of the picture
    aspect: float = 1.0  # how many times wider than high the scene was before it was made square
    bulge: float = 0.0

    def turn(self) -> NDArray[np.float64]:
        """The rotation that takes a direction of the picture to one of the pipe."""
        c, s = np.cos(self.roll), np.sin(self.roll)
        rolled = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
        c, s = np.cos(self.yaw), np.sin(self.yaw)
        yawed = np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])
        c, s = np.cos(self.pitch), np.sin(self.pitch)
        pitched = np.array([[1, 0, 0], [0, c, s], [0, -s, c]])
        return np.asarray(yawed @ pitched @ rolled)

    def look(self, size: int) -> "View":
        """The rays of all pixels, and where they meet the wall."""
        line = (np.arange(size, dtype=np.float32) + 0.5) * (2.0 / size) - 1.0
        u, v = (line * np.float32(self.aspect))[None, :], line[:, None]
        stretch = (1.0 + np.float32(self.bulge) * (u * u + v * v)) * np.float32(1.0 / self.focal)
        u, v = u * stretch, v * stretch
        turn = self.turn().astype(np.float32)
        ray = np.empty((3, size, size), np.float32)
        for axis in range(3):
            ray[axis] = turn[axis, 0] * u + turn[axis, 1] * v + turn[axis, 2]
        np.maximum(ray[2], 0.05, out=ray[2])  # a lens this wide would look backwards at the corners
        ox, oy = np.float32(self.offset[0]), np.float32(self.offset[1])
        a = np.maximum(ray[0] * ray[0] + ray[1] * ray[1], np.float32(1e-5))
        b = ox * ray[0] + oy * ray[1]
        reach = (np.sqrt(b * b + a * (1 - ox * ox - oy * oy)) - b) / a
        x, y = ox + reach * ray[0], oy + reach * ray[1]
        depth = np.minimum(reach * ray[2], np.float32(FARTHEST))
        return View(self, size, ray, np.arctan2(x, -y), depth, y)

    def project(self, points: NDArray[Any], size: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Pixel columns and rows of points (3, N) of the pipe that lie ahead of the camera."""
        origin = np.array([*self.offset, 0.0])[:, None]
        x, y, z = self.turn().T @ (np.asarray(points, np.float64) - origin)
        z = np.maximum(z, 0.05)
        u, v = self.focal * x / z, self.focal * y / z
        x, y = u, v
        for _ in range(6):  # the lens's bulge undone: x·(1 + k·r²) = u
            stretch = 1.0 + self.bulge * (x * x + y * y)
            x, y = u / stretch, v / stretch
        return (x / self.aspect + 1) * (size / 2) - 0.5, (y + 1) * (size / 2) - 0.5

    def nearest(self, angle: float, margin: float = 0.88) -> float:
        """The least depth at which the wall at this angle is well inside the picture."""
        depths = np.linspace(0.25, 4.0, 76)
        x, y = self.project(wall(angle, depths), 2)
        inside = np.maximum(np.abs(x - 0.5), np.abs(y - 0.5)) < margin
        return float(depths[int(np.argmax(inside))]) if inside.any() else 4.0


@dataclass(frozen=True)
class View:
    """A picture's rays (3, S, S) and, for every pixel (S, S), the wall's angle, depth and height."""

    camera: Camera
    size: int
    ray: Map
    angle: Map
    depth: Map
    height: Map  # y of the wall: +1 at the invert

    @property
    def pixels(self) -> float:
        """How many pixels one radius spans at depth 1.

        At depth z an arc spans 1/z of that and a length along the pipe 1/z².
        """
        return self.camera.focal * self.size / 2

    def window(self, angles: NDArray[Any], depths: NDArray[Any], margin: int = 3) -> tuple[slice, slice]:
        """The part of the picture that holds these points of the wall."""
        return self.around(*self.camera.project(wall(angles, depths), self.size), margin)

    def around(self, x: NDArray[Any], y: NDArray[Any], margin: int = 3) -> tuple[slice, slice]:
        """The part of the picture that holds these pixels; never empty."""
        return tuple(  # type: ignore[return-value]
            slice(int(np.clip(c.min() - margin, 0, self.size - 1)), int(np.clip(c.max() + margin + 1, 1, self.size)))
            for c in (y, x)
        )


def wall(angle: NDArray[Any] | float, depth: NDArray[Any] | float) -> NDArray[np.float64]:
    """Points (3, N) of the wall."""
    angle, depth = np.broadcast_arrays(np.asarray(angle, np.float64), np.asarray(depth, np.float64))
    return np.stack([np.sin(angle).ravel(), -np.cos(angle).ravel(), depth.ravel()])
