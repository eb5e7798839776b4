"""A displaced joint: the next pipe is shifted by s across the axis.

Its end shows as a lit crescent on one side; on the other a dark gap opens.

In the plane of the joint a ray passes at p: it sees the end of the next pipe where |p| < 1 < |p - s|, and the gap's
shadow on the opposite side, where |p + s·k| > 1.
"""

import numpy as np
from numpy.typing import NDArray

from foveal.data.pipes.camera import FARTHEST, Map
from foveal.data.pipes.finding.kind import Kind, Place, turned
from foveal.data.pipes.layer import Layer, Window, tinted
from foveal.data.pipes.noise import EDGE, line, sample
from foveal.data.pipes.scene import Scene


def paint(scene: Scene, place: Place, random: np.random.Generator) -> Layer:
    """The two crescents and the open ring between them."""
    view = scene.view
    shift = random.uniform(0.10, 0.24)
    angles = np.linspace(0, 2 * np.pi, 40)
    window = view.window(angles, np.full(40, place.depth), 4)
    ray = view.ray[:, window[0], window[1]]
    step = np.float32(place.depth) / ray[2]
    x, y = view.camera.offset[0] + step * ray[0], view.camera.offset[1] + step * ray[1]
    ax, ay = np.float32(np.sin(place.angle)), np.float32(-np.cos(place.angle))
    angle = turned(view.angle[window], place.angle)
    broken = line((angle + 4) * 16, random.uniform(0, 4096)) * np.float32(random.uniform(0.004, 0.02))
    pixel = np.float32(place.depth / view.pixels)
    near = np.sqrt(x * x + y * y) + broken
    lip_edge = np.sqrt((x + np.float32(shift) * ax) ** 2 + (y + np.float32(shift) * ay) ** 2) + broken
    open_ = np.float32(random.uniform(0.3, 0.9) * shift)
    gap_edge = np.sqrt((x - open_ * ax) ** 2 + (y - open_ * ay) ** 2) + broken
    through = np.clip((1 - near) / pixel + 0.5, 0, 1)  # rays that pass the end of the near pipe
    lip = through * np.clip((lip_edge - 1) / pixel + 0.5, 0, 1)
    gap = through * np.clip((gap_edge - 1) / pixel + 0.5, 0, 1)
    seam = np.clip((0.016 - np.abs(near - 1)) / pixel + 0.5, 0, 1)
    edge = np.clip((0.02 - np.abs(lip_edge - 1)) / pixel + 0.5, 0, 1) * (near < 1) * (np.abs(angle) < 1.5)
    grit = sample("grain", (x + 4) * 200, (y + 4) * 200 + np.float32(random.uniform(0, EDGE)))
    tone = np.float32(random.uniform(0.75, 1.25)) * (1 + 0.18 * grit)
    face = tinted((0.60, 0.58, 0.55), tone)
    dark = np.maximum(np.maximum(gap, 0.9 * seam), 0.8 * edge)
    albedo = face + dark * (np.float32(0.05) - face)
    cover = np.maximum(lip, 0.92 * dark).astype(np.float32)
    light = scene.lamp.at(np.full_like(x, place.depth)) * 1.1
    # the lip shades the pipe behind it
    beyond = (
        np.clip(1 - (1 - lip_edge) / np.float32(0.9 * shift), 0, 1) * (near < 1) * np.clip(np.cos(angle) + 0.4, 0, 1)
    )
    moved = _moved(scene, ray, window, through > 0.5, (-shift * float(ax), -shift * float(ay)))
    crescents = np.maximum(lip, gap) > 0.4
    mask = crescents | ((seam > 0.5) & (np.abs(angle) < 1.2))
    return Layer(window, cover, albedo, light, shade=1 - 0.45 * beyond, mask=mask, moved=moved)


def _moved(
    scene: Scene, ray: Map, window: Window, beyond: NDArray[np.bool_], centre: tuple[float, float]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Where the picture shows now what these rays will meet once the pipe beyond has its axis at `centre`."""
    camera, size = scene.view.camera, scene.view.size
    rows, columns = (grid.astype(np.intp) for grid in np.broadcast_arrays(*np.ogrid[window]))
    ray = ray[:, beyond]
    ox, oy = camera.offset[0] - centre[0], camera.offset[1] - centre[1]
    a = np.maximum(ray[0] * ray[0] + ray[1] * ray[1], np.float32(1e-5))
    b = ox * ray[0] + oy * ray[1]
    reach = (np.sqrt(np.maximum(b * b + a * (1 - ox * ox - oy * oy), 0)) - b) / a
    x, y = camera.project(
        np.stack([ox + reach * ray[0], oy + reach * ray[1], np.minimum(reach * ray[2], FARTHEST)]), size
    )
    rows[beyond], columns[beyond] = (np.clip(np.rint(at), 0, size - 1).astype(np.intp) for at in (y, x))
    return rows, columns


KIND = Kind("joint-displaced", "joint", paint)
