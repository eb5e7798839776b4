"""A model that sees large images in tiles, as `foveal predict` does: its time, and what a process of its own holds.

    footprint = peak(open the file, see an image in tiles) − peak(open an empty graph, run it),   in one process

What foveal itself takes to be imported is in both peaks.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foveal.app.command.bench.graph import Contender
from foveal.deploy.measure.clock import Job
from foveal.deploy.measure.footprint import Footprint, peaks

CHILD = """
import json, sys
import numpy
from foveal.deploy.measure.footprint import EMPTY
from foveal.runtime.onnx_session import opened
from foveal.tasks.load import load
file, side, tile, threads = sys.argv[1], *map(int, sys.argv[2:])
def peak():
    with open("/proc/self/status") as lines:
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), None)
opened(EMPTY, threads).run(None, {"x": numpy.zeros(1, numpy.float32)})
empty = peak()
see = load(file, threads=threads).in_tiles(tile or None)
ready, image = peak(), numpy.zeros((side, side, 3), numpy.uint8)
for _ in range(2):
    see(image)
print(json.dumps([ready - empty, peak() - empty] if empty else [None, None]))
"""


def tiled(
    name: str, file: Path, see: Callable[[NDArray[np.uint8]], Any], side: int, tile: int | None, threads: int
) -> Contender:
    """One image of this side. file: the exported model, which `see` sees it with."""

    def job(batch: int) -> Job:
        image = np.random.default_rng(0).integers(0, 256, (side, side, 3), np.uint8)
        return lambda: see(image)

    def footprint(batch: int) -> Footprint | None:
        held = peaks(CHILD, [str(file), str(side), str(tile or 0), str(threads)])
        return None if held is None else Footprint(*held)

    return Contender(name, job, footprint)
