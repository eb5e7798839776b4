"""`foveal bench resolution MODEL… --peer FILE`: the time of one image against its side, and how fast it grows.

    time ∝ pixels^e:   e is the slope of the line through (log pixels, log time), by least squares

e = 1 is linear in the pixels. A ViT compares every patch with every other: its e goes towards 2. Presets and peers by
name are built for each side with random weights; an ONNX graph of somebody else's is read anew with another side,
which a network of convolutions takes.
"""

import math
from pathlib import Path

import numpy as np

from foveal.app.command.bench.models import Contender, of_graph, read_graph
from foveal.errors import FovealError, expect
from foveal.report.bench import Bench, Row
from foveal.report.plot import curve
from foveal.tasks.load import load

OBEYS = ("models", "peer")  # the flags that it obeys

SIDES = (224, 448, 896)
DEFAULT = ("icam-31k", "vit-24")
ROUNDS = {224: 31, 448: 11, 896: 5}


def measure(bench: Bench) -> None:
    asked = bench.asked
    assert asked is not None
    names, files = asked.models or DEFAULT, [Path(file) for file in asked.peer]
    times: dict[str, list[float]] = {}
    for side in SIDES:
        contenders = [_built(name, side, bench.threads) for name in names] + [
            _resized(file, side, bench.threads) for file in files
        ]
        taken = bench.time(
            f"{side} × {side}", {one.name: one.job(1) for one in contenders}, min(ROUNDS[side], 3 * bench.rounds)
        )
        for one in contenders:
            timing = taken[one.name]
            times.setdefault(one.name, []).append(timing.median)
            spent_on = f"{1e3 * timing.median:.2f} ms ({1e3 * timing.p10:.2f}–{1e3 * timing.p90:.2f})"
            bench.add(
                Row(
                    f"{side} × {side}: {one.name}",
                    spent_on,
                    "",
                    timing.median / times[one.name][0],
                    f"× the time at {SIDES[0]}",
                )
            )
    bench.picture = curve(
        {name: [(side, 1e3 * one) for side, one in zip(SIDES, spent, strict=True)] for name, spent in times.items()},
        "side in pixels",
        "ms per image",
    )
    for name, spent in times.items():
        bench.add(Row(f"{name}: grows with pixels to the power", f"{exponent(SIDES, spent):.2f}", "", None, ""))


def exponent(sides: tuple[int, ...], seconds: list[float]) -> float:
    pixels = [2 * math.log(side) for side in sides]
    return float(np.polyfit(pixels, np.log(seconds), 1)[0])


def _built(name: str, side: int, threads: int) -> Contender:
    import torch

    model = load(name, device="cpu")
    expect(
        model.random, name, "a preset or a peer, which can be built for any side", "a model that was trained for one"
    )
    torch.manual_seed(0)
    return of_graph(name, load(name, device="cpu", config={"image": side}).graph(), threads)


def _resized(file: Path, side: int, threads: int) -> Contender:
    """The same graph for images of another side."""
    try:
        import onnx
    except ModuleNotFoundError:
        raise FovealError(
            "to give a graph another side: expected onnx to be installed, got none; pip install foveal[train]"
        ) from None
    content = read_graph(file)
    of_graph(file.stem, content, threads)  # says in one line what is no graph
    proto = onnx.load_model_from_string(content)
    for place in (2, 3):
        proto.graph.input[0].type.tensor_type.shape.dim[place].dim_value = side
    proto.graph.ClearField("value_info")
    return of_graph(file.stem, proto.SerializeToString(), threads)
