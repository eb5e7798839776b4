"""search_seg.py PEER.onnx [BUILD…] : time builds of icam-seg as exported files, float32 and int8, in one interleaved
run with a peer, a float32 graph of images to maps.

One thread, 256 × 256 pixels, six classes, from bytes to label map; CPU time, as other work on the machine would be part
of any other. Weights are random: what is fast enough is trained afterwards; what is not need not be. int8 is the
fastest plan of deploy/onnx/quantise.py.
"""

import argparse
import dataclasses
import sys
import time
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from foveal.data.pipes import render
from foveal.deploy.measure.clock import Job, interleaved
from foveal.deploy.measure.cost import parameters
from foveal.deploy.measure.origin import origin
from foveal.deploy.onnx.quantise import plans
from foveal.models.efficientnet_lite import B0
from foveal.models.mbconv import Stage
from foveal.models.zoo import create
from foveal.report.table import Table
from foveal.runtime.onnx_session import opened
from foveal.tasks.segment.card import SegmentCard
from foveal.tasks.segment.export import export_onnx, ready_for_int8
from foveal.tasks.segment.task import TASK

ROUNDS, WARM_UP, SIDE, CLASSES = 41, 5, 256, 6
TINY, SMALL = "icam-seg", "icam-seg-small"


def stages(*each: tuple[int, int, int]) -> tuple[Stage, ...]:
    """Width, blocks and expansion of each, strides 4, 8 and 16."""
    return tuple(Stage(width, blocks, expand, stride=2, squeeze=False) for width, blocks, expand in each)


def lite(blocks: int) -> tuple[Stage, ...]:
    """EfficientNet-Lite0's first stages, so many blocks in the last of them."""
    return (*B0[:3], dataclasses.replace(B0[3], blocks=blocks))


BUILDS: dict[str, tuple[str, dict[str, Any]]] = {
    TINY: (TINY, {}),
    "stem 24": (TINY, {"stem": 24}),
    "stem 16": (TINY, {"stem": 16}),
    "stem 16, path 24": (TINY, {"stem": 16, "path": 24}),
    "stem 16 · 24 e2 · 48×2 e2 · 64×2 e3": (TINY, {"stem": 16, "stages": stages((24, 1, 2), (48, 2, 2), (64, 2, 3))}),
    "stem 16 · 24 e1 · 48×2 e2 · 64×3 e3": (TINY, {"stem": 16, "stages": stages((24, 1, 1), (48, 2, 2), (64, 3, 3))}),
    "no refinement": (TINY, {"refine": 0}),
    "stem 16, no refinement": (TINY, {"stem": 16, "refine": 0}),
    "path of 24": (TINY, {"path": 24}),
    SMALL: (SMALL, {}),
    "path 32": (SMALL, {"path": 32}),
    "path 24": (SMALL, {"path": 24}),
    "one layer": (SMALL, {"layers": 1}),
    "no refinement, path 48": (SMALL, {"refine": 0}),
    "last stage of 2 blocks": (SMALL, {"stages": lite(2)}),
    "last stage of 1 block": (SMALL, {"stages": lite(1)}),
    "path 32, last stage of 2 blocks": (SMALL, {"path": 32, "stages": lite(2)}),
    "path 32, last stage of 1 block": (SMALL, {"path": 32, "stages": lite(1)}),
}


def model_of(name: str, changes: dict[str, Any]) -> torch.nn.Module:
    """With BatchNorms that are no identity, so that none of their work is folded away for nothing."""
    torch.manual_seed(0)
    model = create(name, classes=CLASSES, **changes).eval()
    for part in model.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            cast("torch.Tensor", part.running_var).uniform_(0.5, 1.5)
    return model


def frames(count: int, seed: int) -> np.ndarray:
    shown = np.stack([render(seed + number, SIDE).image for number in range(count)])
    shown[0, :4, :4], shown[0, 4:8, :4] = 0, 255
    return shown


def main(peer: Path, wanted: list[str]) -> None:
    shown, held = frames(8, 3_000_000), frames(2, 4_000_000)
    session = opened(str(peer))
    given = session.get_inputs()[0]
    pixels = {given.name: np.random.default_rng(0).standard_normal((1, *given.shape[1:]), np.float32)}
    jobs: dict[str, Job] = {peer.stem: lambda: session.run(None, pixels)}
    facts = {}
    for number, (name, (preset, changes)) in enumerate(BUILDS.items()):
        if wanted and name not in wanted:
            continue
        model = model_of(preset, changes)
        card = dataclasses.replace(cast("SegmentCard", TASK.new_card(preset, model)), size=SIDE)
        content = export_onnx(model, card)
        best = plans(ready_for_int8(model, card, content), shown, held)[0]
        for kind, graph in (("", content), (" int8", best.content)):
            ready = opened(graph)
            jobs[f"{number}{kind}"] = lambda ready=ready: ready.run(["label_map"], {"frames": held[:1]})  # type: ignore[misc]
        facts[number] = [name, preset, f"{parameters(model):,}", f"{len(content) / 1000:.0f}"]
        print(f"{name}: {best.name}", file=sys.stderr)
    taken = interleaved(jobs, rounds=ROUNDS, warm_up=WARM_UP, clock=time.thread_time)
    print(" · ".join(f"{key} {value}" for key, value in origin("cpu", 1).items()), end="\n\n")
    rows = []
    for number, fact in facts.items():
        cells = list(fact)
        for kind in ("", " int8"):
            timing = taken[f"{number}{kind}"]
            cells.append(f"{1e3 * timing.median:.2f} ({1e3 * timing.p10:.2f}–{1e3 * timing.p90:.2f})")
            cells.append(f"{timing.median / taken[peer.stem].median:.3f}")
        rows.append(cells)
    head = ["build", "of", "parameters", "kB", "ms", f"× {peer.stem}", "int8 ms", f"int8 × {peer.stem}"]
    print(Table(head, rows).markdown(), end="")
    print(f"\n{peer.stem}: {1e3 * taken[peer.stem].median:.2f} ms")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0], allow_abbrev=False)
    parser.add_argument("peer", metavar="PEER.onnx", type=Path)
    parser.add_argument("builds", metavar="BUILD", nargs="*", choices=[[], *BUILDS], help=f"of {', '.join(BUILDS)}")
    asked = parser.parse_args()
    main(asked.peer, asked.builds)
