"""A lining that has come loose: it wrinkles in folds across or along the pipe, bulges inwards,
or is torn and hangs as a flap.

A fold is a ridge: the side that faces the camera is lit, its crest glints and beyond it lies its shadow. A bulge is
part of an ellipsoid. A flap is a sheet in space, hinged on the wall and bent by its weight, drawn as small facets.
"""

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from foveal.data.pipes.camera import Map, wall
from foveal.data.pipes.finding.kind import Kind, Place, turned
from foveal.data.pipes.layer import Colour, Layer, Window, plain, tinted
from foveal.data.pipes.noise import EDGE, line, sample
from foveal.data.pipes.scene import Scene
from foveal.data.pipes.solid import ellipsoid, frame

LINERS: tuple[Colour, ...] = (
    (0.74, 0.74, 0.64),
    (0.66, 0.72, 0.68),
    (0.78, 0.77, 0.74),
    (0.62, 0.64, 0.68),
    (0.70, 0.62, 0.46),
)
HOSTS: tuple[Colour, ...] = ((0.26, 0.22, 0.20), (0.34, 0.24, 0.17), (0.20, 0.20, 0.21))


def paint(scene: Scene, place: Place, random: np.random.Generator) -> Layer:
    """One of the three, folds most often."""
    choice, wall_colour = random.random(), np.mean(scene.material.colours, axis=0)
    # the rest of the pipe is lined too
    r, g, b = 0.45 * wall_colour + 0.6 * np.array(LINERS[random.integers(len(LINERS))])
    liner = (float(r), float(g), float(b))
    if choice < 0.52:
        return _folds(scene, place, liner, random)
    return _bulge(scene, place, liner, random) if choice < 0.68 else _flap(scene, place, liner, random)


def _folds(scene: Scene, place: Place, liner: Colour, random: np.random.Generator) -> Layer:
    view = scene.view
    across = random.random() < 0.6
    count = int(random.integers(3, 7))
    wide, long = (
        (random.uniform(0.5, 1.1), random.uniform(0.3, 0.5))
        if across
        else (random.uniform(0.3, 0.6), random.uniform(0.6, 1.1))
    )
    long *= max(place.depth, 0.9)
    span = np.linspace(-1.5, 1.5, 13)
    window = view.window(place.angle + span[:, None] * wide, np.maximum(place.depth + span * long, 0.2)[None])
    angle, depth = turned(view.angle[window], place.angle), view.depth[window]
    x, y = angle * np.float32(1 / wide), (depth - np.float32(place.depth)) * np.float32(1 / long)
    own, way = (y, x) if across else (x, y)  # a fold lies at one place of `own` and goes along `way`
    light, shadow, crest, body = (np.zeros_like(x) for _ in range(4))
    for offset in np.linspace(-0.85, 0.85, count) + random.normal(0, 0.08, count):
        thick = random.uniform(0.6, 1.1) * 0.85 / count
        begun, centre, half = random.uniform(0, 4096), random.normal(0, 0.2), random.uniform(0.5, 1.0)
        taper = np.clip(1 - ((way - np.float32(centre)) * np.float32(1 / half)) ** 2, 0, 1)
        bent = (
            np.float32(offset)
            + np.float32(0.10) * line((way + 4) * 9, begun)
            + np.float32(random.normal(0, 0.18)) * way * way
        )
        beside = (own - bent) * np.float32(1 / thick) / np.maximum(np.sqrt(taper), 0.15)
        strength = np.minimum(taper * 3, 1)
        light += strength * np.exp(-(((beside + 0.4) / 0.5) ** 2))
        shadow += strength * np.exp(-(((beside - 0.75) / 0.5) ** 2))
        crest += strength * np.exp(-(((beside + 0.05) / 0.2) ** 2))
        body = np.maximum(body, strength * np.clip(1.8 - np.abs(beside) * 1.2, 0, 1))
    shift = random.uniform(0, EDGE, 2).astype(np.float32)
    mottle = sample("cloud", (angle + 7) * 90 + shift[0], depth * np.float32(90) + shift[1], True)
    broken = np.clip(0.75 + 0.4 * mottle, 0.2, 1.3)
    tone = np.clip(0.72 + 0.45 * light - 0.6 * shadow + 0.05 * mottle, 0.12, 1.4)
    shine = np.float32(random.uniform(0.25, 0.6)) * crest * broken * scene.lamp.at(depth)
    edge = np.clip(1.25 - np.maximum(np.abs(x), np.abs(y)), 0, 0.25) * 4  # nothing at the window's edge
    slack = np.clip((1.15 - np.hypot(x, y) + 0.12 * mottle) * 4, 0, 1)  # the lining between the folds is loose too
    cover = np.maximum(0.85 * body, 0.55 * slack) * edge
    return Layer(
        window,
        cover,
        tinted(liner, tone),
        gloss=shine * edge,
        shade=1 - 0.3 * np.minimum(shadow, 1) * edge,
        mask=cover > 0.42,
    )


def _bulge(scene: Scene, place: Place, liner: Colour, random: np.random.Generator) -> Layer:
    view = scene.view
    radii = np.array(
        [random.uniform(0.4, 0.65), random.uniform(0.8, 1.5) * max(place.depth, 0.9), random.uniform(0.20, 0.34)],
        np.float32,
    )
    out = np.array([np.sin(place.angle), -np.cos(place.angle), 0.0])
    centre = (1.04 * out + np.array([0, 0, place.depth + 0.4 * radii[1]])).astype(np.float32)
    origin = np.array([*view.camera.offset, 0], np.float32)
    corners = np.array([[u, v, w] for u in (-1, 1) for v in (-1, 1) for w in (0, 1)], np.float32).T * radii[:, None]
    turn = frame(-out)
    points = (turn.T @ corners) * np.float32(1.1) + centre[:, None]
    points[2] = np.maximum(points[2], 0.25)
    window = view.around(*view.camera.project(points, view.size), 4)
    ray = view.ray[:, window[0], window[1]]
    u, v = ray[0] / ray[2], ray[1] / ray[2]
    shift = random.uniform(0, EDGE, 4).astype(np.float32)
    creases = sample("cloud", (u + 8) * 70 + shift[0], (v + 8) * 70 + shift[1], True)
    reach, facing = np.full_like(u, np.inf), np.zeros_like(u)
    for lobe in range(int(random.integers(2, 5))):  # it buckles: several swellings with creases where they meet
        aside = turn.T @ (radii * random.normal(0, 0.33, 3).astype(np.float32) * np.array([1, 1, 0.3], np.float32))
        size = radii * random.uniform(0.5, 0.85, 3).astype(np.float32) if lobe else radii * np.float32(0.9)
        at, looks = ellipsoid(ray, origin, centre + aside * np.float32(lobe > 0), turn, size, 0.08 * creases)
        nearer = (at > 0.1) & (at < reach)
        reach, facing = np.where(nearer, at, reach), np.where(nearer, looks, facing)
    cover = reach * ray[2] < view.depth[window]
    depth = np.where(cover, reach * ray[2], view.depth[window])
    # the skin is drawn into wrinkles that run along the pipe
    angle = turned(view.angle[window], place.angle)
    wrinkle = line((angle + 4) * np.float32(random.uniform(7, 14)) + 2.5 * creases, random.uniform(0, 4096))
    wrinkle += 0.3 * sample("along", (angle + 7) * 60 + shift[2], depth * np.float32(60) + shift[3], True)
    tone = np.clip(0.12 + 0.98 * facing + 0.15 * wrinkle + 0.12 * creases, 0.08, 1.5)
    light = scene.lamp.at(depth) * tone
    shine = (
        np.clip(wrinkle - 0.8, 0, 1)
        * np.clip(facing * 1.6 - 0.2, 0, 1)
        * np.float32(random.uniform(0.3, 0.7))
        * scene.lamp.at(depth)
    )
    return Layer(window, cover, tinted(liner, 1 + 0.06 * creases), light, shine * cover)


def _flap(scene: Scene, place: Place, liner: Colour, random: np.random.Generator) -> Layer:
    view = scene.view
    wide, bare = random.uniform(0.3, 0.6), random.uniform(0.35, 0.7) * max(place.depth, 0.9)
    grid = np.linspace(-1, 1, 17), np.linspace(0, 1, 9)
    s, t = np.meshgrid(*grid, indexing="ij")
    hinge = wall(place.angle + wide * s * (1 - 0.2 * t), np.full_like(s, place.depth)).reshape(3, *s.shape)
    length = (
        random.uniform(0.45, 0.95)
        * (1 + 0.18 * line((grid[0] + 4) * 9, random.uniform(0, 4096)))[:, None]
        * (1 - 0.25 * s * s)
    )
    bend, sway = random.uniform(0.2, 1.0), 0.09 * line((grid[0] + 4) * 12, random.uniform(0, 4096))[:, None]
    sheet = np.array(hinge)
    sheet[:2] -= hinge[:2] * (length * t * (1 - 0.3 * bend * t))  # away from the wall,
    sheet[1] += 0.45 * length * t * t  # down by its weight,
    sheet[2] -= length * t * (0.25 * bend - 0.6 * sway) * np.sin(2.2 * t)  # and towards the camera
    sheet[:2] /= np.maximum(np.hypot(sheet[0], sheet[1]), 1)
    sheet[2] = np.maximum(sheet[2], 0.3)
    span = np.linspace(-1.35, 1.35, 9)
    patch = wall(place.angle + wide * span[:, None], np.linspace(0.8 * place.depth, place.depth + 1.3 * bare, 9)[None])
    window = view.around(*view.camera.project(np.concatenate([patch, sheet.reshape(3, -1)], 1), view.size))
    # the host pipe, bare where the lining was
    angle, depth = turned(view.angle[window], place.angle), view.depth[window]
    shift = random.uniform(0, EDGE, 4).astype(np.float32)
    mottle = sample("cloud", (angle + 7) * 110 + shift[0], depth * np.float32(110) + shift[1], True)
    grit = sample("grain", (angle + 7) * 200 + shift[2], depth * np.float32(200) + shift[3])
    x, y = angle * np.float32(1 / wide), (depth - np.float32(place.depth)) * np.float32(1 / bare)
    torn = (
        np.minimum(1.05 - np.abs(x), np.minimum(y + 0.04, 1 - y))
        + 0.09 * mottle
        + 0.05 * line((angle + 4) * 40, float(shift[0]))
    )
    pixel = depth * np.float32(1 / (view.pixels * wide))
    cover = np.clip(torn / pixel + 0.5, 0, 1)
    rim = np.clip(1 - np.abs(torn - 0.02) * 18, 0, 1) * cover
    albedo = tinted(HOSTS[random.integers(len(HOSTS))], 1 + 0.3 * mottle + 0.25 * grit)
    albedo += rim * (plain(liner) - albedo)
    light = np.asarray(scene.lamp.at(depth), np.float32)
    shown, tone = _facets(scene, sheet, window, random)
    albedo = albedo + shown * (tinted(liner, 1 + 0.05 * mottle) - albedo)
    light = light + shown * (np.asarray(scene.lamp.at(place.depth), np.float32) * tone - light)
    gloss = np.clip(tone - 1.0, 0, 1) * shown * np.float32(random.uniform(0.3, 0.9))
    cover = np.maximum(cover, shown)
    return Layer(window, cover, albedo, light, gloss, mask=cover > 0.4)


def _facets(scene: Scene, sheet: NDArray[np.float64], window: Window, random: np.random.Generator) -> tuple[Map, Map]:
    """A sheet (3, n, m) as seen in a window: where it is, and how light."""
    view = scene.view
    along, down = np.diff(sheet, axis=1)[:, :, :-1], np.diff(sheet, axis=2)[:, :-1]
    normal = np.cross(along, down, axis=0)
    seen = sheet[:, :-1, :-1] - np.array([*view.camera.offset, 0.0])[:, None, None]
    facing = np.abs((normal * seen).sum(0)) / np.maximum(
        np.linalg.norm(normal, axis=0) * np.linalg.norm(seen, axis=0), 1e-9
    )
    pleats = line(np.arange(facing.shape[0]) * 2.3, random.uniform(0, 4096))[:, None] * np.linspace(
        0.4, 1, facing.shape[1]
    )
    tones = np.clip(0.3 + 0.6 * facing + 0.28 * pleats, 0.12, 1.27)
    scale = 2
    x, y = view.camera.project(sheet.reshape(3, -1), view.size)
    x = ((x - window[1].start + 0.5) * scale).reshape(sheet.shape[1:])
    y = ((y - window[0].start + 0.5) * scale).reshape(sheet.shape[1:])
    shape = (window[1].stop - window[1].start) * scale, (window[0].stop - window[0].start) * scale
    cover, tone = Image.new("L", shape), Image.new("L", shape)
    pens = ImageDraw.Draw(cover), ImageDraw.Draw(tone)
    for i in range(facing.shape[0]):
        for j in range(facing.shape[1]):
            corners = [(float(x[a, b]), float(y[a, b])) for a, b in ((i, j), (i + 1, j), (i + 1, j + 1), (i, j + 1))]
            pens[0].polygon(corners, fill=255)
            pens[1].polygon(corners, fill=int(200 * tones[i, j]))
    shown = np.asarray(cover.reduce(scale), np.float32) * np.float32(1 / 255)
    lit = np.asarray(tone.reduce(scale), np.float32) * np.float32(1 / 200)
    return shown, lit / np.maximum(shown, 0.05)


KIND = Kind("lining", "wall", paint)
