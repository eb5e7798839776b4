"""A frame from a seed: pipe, wear and joints, findings in the wall, water, findings that stand in the pipe, lens,
text, compression.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from foveal.data.pipes.finding import FINDINGS
from foveal.data.pipes.layer import Canvas
from foveal.data.pipes.overlay import draw_text
from foveal.data.pipes.place import Painted, paint_findings
from foveal.data.pipes.plan import draw_kinds
from foveal.data.pipes.scene import draw_scene, stream
from foveal.data.pipes.texture import wall_albedo
from foveal.data.pipes.water import bounds
from foveal.data.pipes.wear import lay_wear
from foveal.errors import FovealError, expect, is_integer, short_repr, unknown

KINDS: tuple[str, ...] = tuple(FINDINGS)
SMALLEST, LARGEST = 32, 1024


@dataclass(frozen=True)
class Finding:
    """One thing found: what, the box (x0, y0, x1, y1) in pixels, the visible pixels (S, S) and the clock position,
    0 to 12 hours.
    """

    kind: str
    box: tuple[float, float, float, float]
    mask: NDArray[np.bool_]
    clock: float


@dataclass(frozen=True)
class Frame:
    """A picture (S, S, 3) of 0..255 and what is found in it."""

    image: NDArray[np.uint8]
    findings: tuple[Finding, ...]


def render(seed: int, size: int = 224, kinds: Sequence[str] | None = None) -> Frame:
    """The frame of this seed, with findings of these kinds: none for (), some at random for None."""
    check(seed, size, kinds)
    seed, size = int(seed), int(size)
    names = draw_kinds(stream(seed, "plan")) if kinds is None else tuple(kinds)
    scene = draw_scene(seed, size)
    view = scene.view
    albedo, gloss = wall_albedo(view, scene.material, stream(seed, "wall"))
    light = scene.lamp.on_wall(view)
    canvas = Canvas(albedo, light, gloss * light)
    lay_wear(view, canvas, stream(seed, "wear"))
    scene.joints.lay(view, canvas, stream(seed, "rings"))
    gain = scene.lens.gain(canvas)  # settled before any finding is laid: a finding changes its own pixels only
    canvas.light *= gain
    canvas.gloss *= gain
    scene = replace(scene, lamp=replace(scene.lamp, level=scene.lamp.level * gain))
    water = scene.water.layer(view, scene.lamp, stream(seed, "ripples"))
    painted = paint_findings(seed, scene, names, water, canvas)
    in_wall = [one.layer for name, one in painted.items() if FINDINGS[name].in_wall]
    in_wall.sort(key=lambda layer: layer.moved is None)  # a pipe is shifted before anything is painted on it
    standing = [one.layer for name, one in painted.items() if not FINDINGS[name].in_wall]
    for layer in [*in_wall, *([water] if water else []), *standing]:
        layer.lay(canvas)
    picture = scene.lens.develop(canvas, view, scene.lamp)
    picture = scene.lens.expose(picture, stream(seed, "sensor"))
    picture, written = draw_text(stream(seed, "text")).write(picture)
    found = (_finding(name, painted[name], written) for name in names)
    return Frame(scene.lens.compress(picture), tuple(found))


def _finding(name: str, painted: Painted, written: NDArray[np.bool_]) -> Finding:
    mask = painted.mask & ~written
    if not mask.any():  # wholly under the text: it is in the frame all the same
        mask = painted.mask
    window = bounds(mask)
    assert window is not None, name
    rows, columns = window
    return Finding(
        name,
        (float(columns.start), float(rows.start), float(columns.stop), float(rows.stop)),
        mask,
        painted.place.clock,
    )


def check(seed: object, size: object, kinds: object) -> None:
    """Raise a FovealError for a call that names no frame."""
    fits = is_integer(seed) and seed >= 0  # type: ignore[operator]
    expect(fits, "seed of a pipe", "an integer, at least 0", short_repr(seed))
    fits = is_integer(size) and SMALLEST <= size <= LARGEST  # type: ignore[operator]
    expected = f"an integer of pixels from {SMALLEST} to {LARGEST}"
    expect(fits, "size of a pipe's image", expected, short_repr(size))
    if kinds is None:
        return
    if isinstance(kinds, str) or not isinstance(kinds, Sequence):
        raise FovealError(
            f"kinds of findings: expected a sequence of names, got {short_repr(kinds)}; write a single one as (name,)"
        )
    for name in kinds:
        if not isinstance(name, str) or name not in FINDINGS:
            raise unknown("kind of finding", name if isinstance(name, str) else short_repr(name), KINDS)
    expect(len(set(kinds)) == len(kinds), "kinds of findings", "each name once", short_repr(kinds))
