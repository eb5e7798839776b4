"""search_fast.py PEERS… : time builds of Φ as exported files, in one interleaved run with ONNX graphs of peers, one thread, batch 1.

What is fast enough is trained afterwards; what is not need not be.
"""

import itertools
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from foveal.deploy.cost import flops, weights
from foveal.deploy.export import export_onnx
from foveal.deploy.opened import opened
from foveal.models.card import Card
from foveal.models.mbconv import Stage
from foveal.models.zoo import create

ROUNDS, WARM = 60, 10


def plain(width: int, **rest: Any) -> Stage:
    return Stage(width, squeeze=False, **rest)


BUILDS: dict[str, dict[str, Any]] = {
    "icam-31k": {},
    "relu": {"activation": "relu"},
    "relu, no squeeze": {"activation": "relu", "stages": (plain(16, expand=1), plain(24, blocks=2, stride=2))},
    "16 · 16 · 24×2 e3": {"stem": 16, "stages": (plain(16, expand=1), plain(24, blocks=2, stride=2, expand=3))},
    "16 · 24×2 e3": {"stem": 16, "stages": (plain(24, blocks=2, stride=2, expand=3),)},
    "16 · 24 e3 · 24 e3 s2": {"stem": 16, "stages": (plain(24, stride=2, expand=3), plain(24, stride=2, expand=3), plain(24, expand=3))},
    "16 · 16 e1 s2 · 24 e4 s2 · 24 e4": {
        "stem": 16,
        "stages": (plain(16, stride=2, expand=1), plain(24, stride=2, expand=4), plain(24, expand=4)),
    },
    "16 · 24 e1 s2 · 24×2 e4 · 32 e4 s2": {
        "stem": 16,
        "stages": (plain(24, stride=2, expand=1), plain(24, blocks=2, expand=4), plain(32, stride=2, expand=4)),
    },
    "16 · 24 e1 s2 · 32 e4 s2 · 32×2 e4": {
        "stem": 16,
        "stages": (plain(24, stride=2, expand=1), plain(32, stride=2, expand=4), plain(32, blocks=2, expand=4)),
    },
    "p4 32 · 32×2 e2": {"stem": 32, "stem_kernel": 4, "stem_stride": 4, "stages": (plain(32, blocks=2, expand=2),)},
    "p4 24 · 24×2 e4 · 32 e4 s2 · 32 e4": {
        "stem": 24,
        "stem_kernel": 4,
        "stem_stride": 4,
        "stages": (plain(24, blocks=2, expand=4), plain(32, stride=2, expand=4), plain(32, expand=4)),
    },
    "k7s4 24 · 24×2 e4 · 32 e4 s2 · 32 e4": {
        "stem": 24,
        "stem_kernel": 7,
        "stem_stride": 4,
        "stages": (plain(24, blocks=2, expand=4), plain(32, stride=2, expand=4), plain(32, expand=4)),
    },
    "k7s4 32 · 32 e2 · 32×2 e3 s2": {
        "stem": 32,
        "stem_kernel": 7,
        "stem_stride": 4,
        "stages": (plain(32, expand=2), plain(32, blocks=2, stride=2, expand=3)),
    },
}


def main(peers: list[Path]) -> None:
    runs, facts = {}, {}
    frame = np.random.default_rng(0).integers(0, 256, (1, 224, 224, 3), np.uint8)
    for name, settings in BUILDS.items():
        settings = {"activation": "relu", **settings} if name != "icam-31k" else settings
        torch.manual_seed(0)
        model = create("icam-31k", classes=2, **settings).eval()
        content = export_onnx(model, Card("icam-31k", "icam", {}, ("a", "b")))
        session = opened(content)
        runs[name] = (session, {"frames": frame}, ["probability"])
        facts[name] = (weights(model), flops(model, torch.zeros(1, 3, 224, 224)) / 1e6, len(content) / 1000)
    for peer in peers:
        session = opened(str(peer))
        runs[peer.stem] = (session, {session.get_inputs()[0].name: np.random.randn(1, 3, 224, 224).astype(np.float32)}, None)
        facts[peer.stem] = (0, 0.0, peer.stat().st_size / 1000)
    times: dict[str, list[float]] = {name: [] for name in runs}
    for turn, (name, (session, feed, wanted)) in itertools.product(range(ROUNDS + WARM), runs.items()):
        began = time.perf_counter()
        session.run(wanted, feed)
        if turn >= WARM:
            times[name].append(1000 * (time.perf_counter() - began))
    base = statistics.median(times[peers[0].stem]) if peers else float("nan")
    print(
        f"| build | weights | MFLOP | kB | ms (median) | p10 | {peers[0].stem if peers else ''} takes × |\n|---|---:|---:|---:|---:|---:|---:|"
    )
    for name, spent in sorted(times.items(), key=lambda item: statistics.median(item[1])):
        count, work, size = facts[name]
        middle = statistics.median(spent)
        print(f"| {name} | {count:,} | {work:.0f} | {size:.0f} | {middle:.2f} | {np.quantile(spent, 0.1):.2f} | {base / middle:.2f} |")


if __name__ == "__main__":
    main([Path(word) for word in sys.argv[1:]])
