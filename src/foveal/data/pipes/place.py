"""Where findings are in a frame: in sight, dry, clear of each other.

A place is drawn, painted and scored; a poor one is drawn again.

score = min(pixels/enough, 1) · min(2 · what is left of the others, 1) · min(contrast/enough, 1), and 1 is good.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from foveal.data.pipes.finding import FINDINGS, Kind, Place
from foveal.data.pipes.layer import Canvas, Layer
from foveal.data.pipes.scene import Scene, stream

TRIES, MOST = 8, 64  # after so many the best is taken, unless it cannot be seen at all
LEAST = 0.0012  # of the picture that a finding should cover
PLAIN = 0.07  # of full light by which its pixels should differ


@dataclass
class Painted:
    """A finding in its place, with the pixels (S, S) that show it."""

    place: Place
    layer: Layer
    mask: NDArray[np.bool_]
    score: float = 0.0


def paint_findings(
    seed: int, scene: Scene, names: tuple[str, ...], water: Layer | None, canvas: Canvas
) -> dict[str, Painted]:
    """Layers for these kinds, in the order in which they are to be laid; nothing is laid yet."""
    done: dict[str, Painted] = {}
    floods = [] if water is None else [water]
    for name in sorted(names, key=lambda name: (not FINDINGS[name].floods, not FINDINGS[name].in_wall)):
        best = None
        for attempt in range(MOST):
            number = list(FINDINGS).index(name) + MOST * attempt
            chance = stream(seed, "place", number), stream(seed, "finding", number)
            one = _painted(scene, FINDINGS[name], list(done.values()), floods, canvas, *chance)
            best = one if best is None or one.score > best.score else best
            if best.score == 1 or (attempt >= TRIES - 1 and best.mask.any()):
                break
        assert best is not None
        for other in done.values():
            left = other.mask & ~best.mask
            other.mask = left if left.any() else other.mask  # one that is wholly hidden is in the frame all the same
        done[name] = best
        if FINDINGS[name].floods:
            floods.append(best.layer)
    return done


def _painted(
    scene: Scene,
    kind: Kind,
    others: list[Painted],
    floods: list[Layer],
    canvas: Canvas,
    where: np.random.Generator,
    how: np.random.Generator,
) -> Painted:
    """One try, with its score."""
    place = draw_place(scene, kind, [other.place for other in others], where)
    layer = kind.paint(scene, place, how)
    if layer.angle is not None:
        place = replace(place, angle=layer.angle)
    mask = np.zeros((scene.view.size, scene.view.size), bool)
    mask[layer.window] = layer.seen()
    for flood in floods if kind.in_wall else ():
        mask[flood.window] &= flood.cover < 0.5
    enough = max(4, LEAST * mask.size)
    left = min(((other.mask & ~mask).sum() / other.mask.sum() for other in others), default=1.0)
    contrast = layer.contrast(canvas) * scene.lamp.clear(place.depth)
    return Painted(place, layer, mask, min(mask.sum() / enough, 1) * min(2 * left, 1) * min(contrast / PLAIN, 1))


def draw_place(scene: Scene, kind: Kind, taken: list[Place], random: np.random.Generator) -> Place:
    """A place for a finding of this kind, in sight, dry, and as far as may be from those that are taken."""
    tries = [_try(scene, kind, random) for _ in range(6 if taken else 1)]
    return max(tries, key=lambda place: min((_apart(place, other) for other in taken), default=0.0))


def _try(scene: Scene, kind: Kind, random: np.random.Generator) -> Place:
    camera = scene.view.camera
    dry = max(scene.water.dry - 0.35, 0.6)
    if kind.where == "invert":
        angle = np.pi + random.uniform(-0.45, 0.45)
        return Place(angle, max(camera.nearest(angle), 0.85) * random.uniform(1.0, 1.5))
    angle = random.uniform(-1, 1) * (min(dry, 1.5) if kind.where.startswith("roof") else dry)
    near = camera.nearest(angle)
    if kind.where.endswith("joint"):
        rings = scene.joints.near(0.85 * near, 4.5) or [scene.joints.phase]
        if kind.where == "roof-joint" and rings[0] > 1.7 * near:  # too far to see well: it came in elsewhere
            return Place(angle, near * random.uniform(1.05, 1.5))
        return Place(angle, rings[0])
    if kind.where == "ring":
        return Place(angle, max(near, 0.8) * random.uniform(1.0, 1.6))
    return Place(angle, near * random.uniform(1.15, 1.6))


def _apart(one: Place, other: Place) -> float:
    """How far apart two places look: in angle, and in the ratio of their depths."""
    turn = abs((one.angle - other.angle + np.pi) % (2 * np.pi) - np.pi)
    return float(np.hypot(turn, 1.5 * np.log(one.depth / other.depth)))
