"""search_fast.py PEERS… : time builds of Φ as exported files, float32 and int8,
in one interleaved run with ONNX graphs of peers.

One thread, batch 1, from bytes to answer. Peers are quantised too (all their nodes, a channel at a time), and the
ratios of int8 are to the first peer's int8. Weights are random: what is fast enough is trained afterwards; what is not
need not be.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quant_pre_process, quantize_static

from foveal.data.pipes import render
from foveal.deploy.measure.clock import interleaved
from foveal.deploy.measure.cost import flops, parameters
from foveal.deploy.measure.origin import origin
from foveal.deploy.onnx.quantise import plans
from foveal.models.mbconv import Stage
from foveal.models.zoo import create
from foveal.report.table import Table
from foveal.runtime.onnx_session import opened
from foveal.tasks.classify.card import ClassifyCard
from foveal.tasks.classify.graph import export_onnx, ready_for_int8

ROUNDS, WARM_UP = 101, 10
PUBLISHED = "icam-31k"
CELLS = {"patch": 112, "pool": 7}  # tokens of 16 × 16 pixels


def plain(width: int, **rest: Any) -> Stage:
    return Stage(width, squeeze=False, **rest)


def pixels_of(side: int, stem: int, *stages: Stage) -> dict[str, Any]:
    """A stem that cuts its patch into squares of pixels, and does not pad."""
    return {"activation": "relu", "stem": stem, "stem_kernel": side, "stem_stride": side, "stages": stages}


BUILDS: dict[str, dict[str, Any]] = {
    PUBLISHED: {},
    "rectified": {"activation": "relu"},
    "rectified, no squeeze": {"activation": "relu", "stages": (plain(16, expand=1), plain(24, blocks=2, stride=2))},
    "3×3 stem 16 · 16 e1 s2 · 24 e4 s2 · 24 e4": {
        "activation": "relu",
        "stem": 16,
        "stages": (plain(16, stride=2, expand=1), plain(24, stride=2, expand=4), plain(24, expand=4)),
    },
    "4×4 cut 16 · 24 e4 s2 · 24 e4": pixels_of(4, 16, plain(24, stride=2, expand=4), plain(24, expand=4)),
    "4×4 cut 24 · 24 e4 s2 · 24 e4": pixels_of(4, 24, plain(24, stride=2, expand=4), plain(24, expand=4)),
    "4×4 cut 24 · 32 e4 s2 · 32 e4": pixels_of(4, 24, plain(32, stride=2, expand=4), plain(32, expand=4)),
    "4×4 cut 32 · 32 e3 s2 · 32 e3": pixels_of(4, 32, plain(32, stride=2, expand=3), plain(32, expand=3)),
    "4×4 cut 64 · 32 e1 s2 · 32 e4": pixels_of(4, 64, plain(32, stride=2, expand=1), plain(32, expand=4)),
    "4×4 cut 64 · 32 e1 s2 · 32×2 e4, one layer": pixels_of(
        4, 64, plain(32, stride=2, expand=1), plain(32, blocks=2, expand=4)
    )
    | {"layers": 1},
    "4×4 cut 96 · 32 e1 s2 · 32 e4, one layer": pixels_of(4, 96, plain(32, stride=2, expand=1), plain(32, expand=4))
    | {"layers": 1},
    "4×4 cut 64 · 32 e1 s2 · 32 e4, 196 cells": pixels_of(4, 64, plain(32, stride=2, expand=1), plain(32, expand=4))
    | CELLS,
    "4×4 cut 64 · 32 e1 s2 · 32 e4, 196 cells, four queries": pixels_of(
        4, 64, plain(32, stride=2, expand=1), plain(32, expand=4)
    )
    | CELLS
    | {"queries": 4},
    "icam-fast: 4×4 cut 64 · 32 e1 s2 · 32×2 e4, one layer, 196 cells, four queries": pixels_of(
        4, 64, plain(32, stride=2, expand=1), plain(32, blocks=2, expand=4)
    )
    | CELLS
    | {"layers": 1, "queries": 4},
    "4×4 cut 96 · 32 e1 s2 · 32 e4, one layer, 196 cells, four queries": pixels_of(
        4, 96, plain(32, stride=2, expand=1), plain(32, expand=4)
    )
    | CELLS
    | {"layers": 1, "queries": 4},
    "4×4 cut 32 · 32 e4 s2 · 32×2 e4": pixels_of(4, 32, plain(32, stride=2, expand=4), plain(32, blocks=2, expand=4)),
    "8×8 cut 48 · 48×2 e2": pixels_of(8, 48, plain(48, blocks=2, expand=2)),
}


def frames(count: int, seed: int) -> np.ndarray:
    shown = np.stack([render(seed + number, 224).image for number in range(count)])
    shown[0, :4, :4], shown[0, 4:8, :4] = 0, 255
    return shown


class Numbers(CalibrationDataReader):
    """Frames as a peer takes them."""

    def __init__(self, name: str, shown: np.ndarray) -> None:
        self.parts = iter([{name: ((shown / 255 - 0.5) / 0.25).transpose(0, 3, 1, 2).astype(np.float32)}])

    def get_next(self) -> Any:
        return next(self.parts, None)


def peer_int8(file: Path, name: str, shown: np.ndarray) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        ready, made = Path(folder) / "ready.onnx", Path(folder) / "int8.onnx"
        # without it, BatchNorm stays and int8 takes four times as long
        quant_pre_process(file, ready, skip_symbolic_shape=True)
        kinds = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8}
        quantize_static(ready, made, Numbers(name, shown), quant_format=QuantFormat.QDQ, per_channel=True, **kinds)
        return made.read_bytes()


def job(session: Any, feed: dict[str, Any]) -> Any:
    wanted = ["probability"] if "frames" in feed else None
    return lambda: session.run(wanted, feed)


def main(peers: list[Path]) -> None:
    shown, held = frames(16, 3_000_000), frames(8, 4_000_000)
    jobs, facts, told = {}, {}, {}
    for name, settings in BUILDS.items():
        torch.manual_seed(0)
        model = create(PUBLISHED, classes=2, **settings).eval()
        card = ClassifyCard(model=PUBLISHED, family="icam", config={}, classes=("a", "b"))
        content = export_onnx(model, card)
        ready = ready_for_int8(model, card, content, shown)
        best = plans(ready, shown, held)[0]
        for kind, graph in (("", content), (" int8", best.content)):
            jobs[name + kind] = job(opened(graph), {"frames": held[:1]})
            facts[name + kind] = len(graph)
        told[name] = (f"{parameters(model):,}", f"{flops(model, torch.zeros(1, 3, 224, 224)) / 1e6:.0f}")
    for peer in peers:
        session = opened(str(peer))
        name = session.get_inputs()[0].name
        feed = {name: np.random.default_rng(0).standard_normal((1, 3, 224, 224), np.float32)}
        int8 = peer_int8(peer, name, shown)
        jobs[peer.stem], jobs[f"{peer.stem} int8"] = job(session, feed), job(opened(int8), feed)
        facts[peer.stem], facts[f"{peer.stem} int8"] = peer.stat().st_size, len(int8)
        told[peer.stem] = ("", "")
    taken = interleaved(jobs, rounds=ROUNDS, warm_up=WARM_UP)
    first = peers[0].stem if peers else PUBLISHED
    print(" · ".join(f"{key} {value}" for key, value in origin("cpu", 1).items()), end="\n\n")
    head = ["build", "parameters", "MFLOP", "kB", "ms", f"{first} takes ×", "int8 kB", "int8 ms"]
    rows = []
    for name in sorted(told, key=lambda name: taken[name].median):
        cells = [name, *told[name]]
        for kind in ("", " int8"):
            timing = taken[name + kind]
            spread = f"{1e3 * timing.median:.2f} ({1e3 * timing.p10:.2f}–{1e3 * timing.p90:.2f})"
            cells += [f"{facts[name + kind] / 1000:.0f}", spread, f"{taken[first + kind].median / timing.median:.2f}"]
        rows.append(cells)
    print(Table([*head, f"{first} int8 takes ×"], rows).markdown(), end="")


if __name__ == "__main__":
    main([Path(word) for word in sys.argv[1:]])
