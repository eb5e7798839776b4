"""What a process that runs an ONNX graph holds in memory, above one that runs an empty graph.

    footprint = peak(open, run on inputs of these shapes) − peak(open an empty graph, run it)

Each peak is of a new process with numpy and onnxruntime and nothing else: the largest resident set that the kernel
counted. The same difference before the first run is what the weights and the plan take.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from foveal.errors import FovealError

CHILD = """
import json, sys
import numpy, onnxruntime
shapes, threads = json.loads(sys.argv[1]), int(sys.argv[2])
def peak():
    with open("/proc/self/status") as lines:  # getrusage would count the process that began this one
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), None)
options = onnxruntime.SessionOptions()
options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 4
session = onnxruntime.InferenceSession(sys.stdin.buffer.read(), options, providers=["CPUExecutionProvider"])
ready = peak()
kinds = {"tensor(uint8)": numpy.uint8, "tensor(float)": numpy.float32}
feed = {one.name: numpy.zeros(shapes[one.name], kinds[one.type]) for one in session.get_inputs()}
for _ in range(3):
    session.run(None, feed)
print(json.dumps([ready, peak()]))
"""


@dataclass(frozen=True)
class Footprint:
    """Bytes above the empty graph's: opened, and at the most while it ran."""

    opened: int
    ran: int


def footprint(graph: bytes, shapes: Mapping[str, Sequence[int]], threads: int = 1) -> Footprint | None:
    """shapes: of its inputs, by their names. None where the system does not report what a process held."""
    whole = peaks(CHILD, [json.dumps(shapes), str(threads)], graph)
    empty = peaks(CHILD, [json.dumps({"x": [1]}), str(threads)], EMPTY)
    return None if whole is None or empty is None else above(whole, empty)


def above(held: tuple[int, int], empty: tuple[int, int]) -> Footprint:
    """held, empty: the peaks of two processes, opened and run."""
    ready, most = (max(0, one - other) for one, other in zip(held, empty, strict=True))
    return Footprint(ready, most)


def peaks(code: str, words: Sequence[str], content: bytes = b"") -> tuple[int, int] | None:
    """What a process of its own prints that runs this code with these words and this on its stdin: two peaks as JSON.

    None where the system does not report what a process held.
    """
    if not Path("/proc/self/status").exists():
        return None
    done = subprocess.run([sys.executable, "-c", code, *words], input=content, capture_output=True, check=False)
    if done.returncode:
        reason = " ".join(done.stderr.decode(errors="replace").split())[-160:]
        raise FovealError(
            f"to measure memory: expected a process that runs the graph, got one that ended with {done.returncode}: "
            f"{reason}"
        )
    ready, most = json.loads(done.stdout)
    return None if ready is None or most is None else (ready, most)


# y = x of one float, opset 18 and IR 8, as onnx writes it: so that no part of onnx is needed to measure.
EMPTY = bytes.fromhex(
    "080812003a3b0a100a017812017922084964656e746974791205656d7074795a0f0a0178"
    "120a0a08080112040a020801620f0a0179120a0a08080112040a02080142040a001012"
)
