"""`foveal bench resolution MODEL… --peer FILE`: the time of one image against its side, the memory, and how fast the
time grows.

    time ∝ pixels^e:   e is the slope of the line through (log pixels, log time), by least squares

e = 1 is linear in the pixels. A ViT compares every patch with every other: its e goes towards 2. Presets and peers by
name are built for each side with random weights; a model that takes images of any size is timed as it is; an
ONNX graph of somebody else's is read anew with another side, which a network of convolutions takes. A model that sees
large images in tiles is timed a second time, as `foveal predict` sees them.
"""

import math
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from foveal.app.command.bench.graph import (
    Contender,
    Size,
    asked_sides,
    expect_images,
    image_axes,
    image_preset,
    is_peer,
    of_graph,
    read_graph,
    takes_any_size,
)
from foveal.app.command.bench.models import short_names
from foveal.app.command.bench.tiled import tiled
from foveal.errors import FovealError, expect, expect_integer
from foveal.report.bench import Bench, Row
from foveal.report.plot import curve
from foveal.report.table import plain_name
from foveal.tasks.load import find_model, load

OBEYS = ("models", "peer", "size", "tile")  # the flags that it obeys

SIDES = (224, 448, 896)
DEFAULT = ("icam-31k", "vit-24")
ROUNDS = ((224, 31), (448, 11))  # up to which side, how many
FEWEST = 5

AtSide = Callable[[int], Contender]


def measure(bench: Bench) -> None:
    asked = bench.asked
    assert asked is not None
    sides = SIDES if asked.size is None else asked_sides(asked.size)
    if asked.tile is not None:
        expect_integer(asked.tile, "--tile")
    names = [*(asked.models or DEFAULT), *asked.peer]
    called = short_names(names)
    expect(len(set(names)) == len(names), "the models", "each once", ", ".join(names))
    if asked.size is not None or asked.tile is not None:  # the usual table is another
        bench.stem = plain_name("-".join(["resolution", *called.values()]))[:80]
    with tempfile.TemporaryDirectory() as folder:
        subjects: list[AtSide] = []
        for number, name in enumerate(names):
            peer = name in asked.peer or is_peer(name)
            file = Path(folder, f"{number}.onnx")
            subjects += (
                [_resized(Path(name), called[name], bench.threads)]
                if peer
                else _ours(name, called[name], sides, bench.threads, file, asked.tile)
            )
        in_tiles = len(subjects) > len(names)
        expect(asked.tile is None or in_tiles, "--tile", "a model that sees images in tiles", "none", "leave it out")
        _time(bench, subjects, sides)


def _time(bench: Bench, subjects: list[AtSide], sides: tuple[int, ...]) -> None:
    times: dict[str, list[float]] = {}
    for side in sides:
        contenders = [subject(side) for subject in subjects]
        rounds = next((count for largest, count in ROUNDS if side <= largest), FEWEST)
        what = f"{side} × {side}"
        taken = bench.time(what, {one.name: one.job(1) for one in contenders}, min(rounds, 3 * bench.rounds))
        for one in contenders:
            timing = taken[one.name]
            times.setdefault(one.name, []).append(timing.median)
            took = f"{1e3 * timing.median:.2f} ms ({1e3 * timing.p10:.2f}–{1e3 * timing.p90:.2f}){_held(one)}"
            ratio = timing.median / times[one.name][0]
            bench.add(Row(f"{what}: {one.name}", took, "", ratio, f"× the time at {sides[0]}"))
    bench.add(Row("MB at most", "held by a process of its own, above one with an empty graph", "", None, ""))
    if len(sides) == 1:
        return
    lines = {name: [(side, 1e3 * one) for side, one in zip(sides, spent, strict=True)] for name, spent in times.items()}
    bench.picture = curve(lines, "side in pixels", "ms per image")
    for name, spent in times.items():
        bench.add(Row(f"{name}: grows with pixels to the power", f"{exponent(sides, spent):.2f}", "", None, ""))


def _held(one: Contender) -> str:
    """What a process holds above an empty graph, in words."""
    try:
        held = None if one.footprint is None else one.footprint(1)
    except FovealError as error:  # what was timed is not lost for it
        return f", {error}"
    return "" if held is None else f", {held.ran / 1e6:.1f} MB at most"


def exponent(sides: tuple[int, ...], seconds: list[float]) -> float:
    pixels = [2 * math.log(side) for side in sides]
    return float(np.polyfit(pixels, np.log(seconds), 1)[0])


def _ours(name: str, label: str, sides: tuple[int, ...], threads: int, file: Path, tile: int | None) -> list[AtSide]:
    """As a whole, and in tiles where it sees large images so. file: where its graph is written."""
    graphs = _graphs(name, sides)
    subjects: list[AtSide] = [lambda side: of_graph(label, graphs[side], threads, size=Size(side))]
    content = graphs[sides[0]]
    if takes_any_size(name, content):
        file.write_bytes(content)
        see = load(file, threads=threads).in_tiles(tile)
        if see is not None:
            words = f"{label} in tiles" if tile is None else f"{label} in tiles of {tile}"
            subjects.append(lambda side: tiled(words, file, see, side, tile, threads))
    return subjects


def _graphs(name: str, sides: tuple[int, ...]) -> dict[int, bytes]:
    """Of each side. A model that takes images of any size has one graph for all."""
    preset = find_model(name) is None
    model = image_preset(name, sides[0]) if preset else load(name)
    expect_images(model, name)
    content = read_graph(model.path or Path(name)) if model.is_exported else model.graph()
    if takes_any_size(name, content):
        return dict.fromkeys(sides, content)
    wanted = "a preset or a peer, which can be built for any side, or a model of images of any size"
    expect(preset, name, wanted, "a model that was trained for one")
    return {sides[0]: content} | {side: image_preset(name, side).graph() for side in sides[1:]}


def _resized(file: Path, label: str, threads: int) -> AtSide:
    """The same graph for images of another side."""
    try:
        import onnx
    except ModuleNotFoundError:
        raise FovealError(
            "to give a graph another side: expected onnx to be installed, got none; pip install foveal[train]"
        ) from None
    content = read_graph(file)
    of_graph(label, content, threads)  # says in one line what is no graph
    proto = onnx.load_model_from_string(content)

    axes = proto.graph.input[0].type.tensor_type.shape.dim
    sides = image_axes([axis.dim_value or axis.dim_param for axis in axes])
    expect(bool(sides), str(file), "a graph of images, (B, 3, H, W) or (B, H, W, 3)", "another input")

    def at(side: int) -> Contender:
        for place in sides:
            axes[place].dim_value = side
        proto.graph.ClearField("value_info")
        return of_graph(label, proto.SerializeToString(), threads)

    return at
