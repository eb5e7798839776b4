"""What a process that runs an ONNX graph holds in memory, above one that runs an empty graph.

    footprint = peak(open, run at this batch) − peak(open an empty graph, run it)

Each peak is of a new process with numpy and onnxruntime and nothing else: the largest resident set that the kernel
counted. The same difference before the first run is what the weights and the plan take.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from foveal.errors import FovealError

CHILD = """
import json, sys
import numpy, onnxruntime
batch, threads = int(sys.argv[1]), int(sys.argv[2])
def peak():
    with open("/proc/self/status") as lines:  # getrusage would count the process that began this one
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), None)
options = onnxruntime.SessionOptions()
options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 4
session = onnxruntime.InferenceSession(sys.stdin.buffer.read(), options, providers=["CPUExecutionProvider"])
ready = peak()
kinds = {"tensor(uint8)": numpy.uint8, "tensor(float)": numpy.float32}
rows = lambda one: one.shape[0] if isinstance(one.shape[0], int) else batch
feed = {one.name: numpy.zeros([rows(one), *one.shape[1:]], kinds[one.type]) for one in session.get_inputs()}
for _ in range(3):
    session.run(None, feed)
print(json.dumps([ready, peak()]))
"""


@dataclass(frozen=True)
class Footprint:
    """Bytes above the empty graph's: opened, and at the most while it ran."""

    opened: int
    ran: int


def footprint(graph: bytes, batch: int = 1, threads: int = 1) -> Footprint | None:
    """None where the system does not report what a process held."""
    if not Path("/proc/self/status").exists():
        return None
    ready, most = _peaks(graph, batch, threads)
    empty_ready, empty_most = _peaks(EMPTY, batch, threads)
    if ready is None or most is None or empty_ready is None or empty_most is None:
        return None
    return Footprint(max(0, ready - empty_ready), max(0, most - empty_most))


def _peaks(graph: bytes, batch: int, threads: int) -> tuple[int | None, int | None]:
    command = [sys.executable, "-c", CHILD, str(batch), str(threads)]
    done = subprocess.run(command, input=graph, capture_output=True, check=False)
    if done.returncode:
        reason = " ".join(done.stderr.decode(errors="replace").split())[-160:]
        raise FovealError(
            f"to measure memory: expected a process that runs the graph, got one that ended with {done.returncode}: "
            f"{reason}"
        )
    ready, most = json.loads(done.stdout)
    return ready, most


# y = x of one float, opset 18 and IR 8, as onnx writes it: so that no part of onnx is needed to measure.
EMPTY = bytes.fromhex(
    "080812003a3b0a100a017812017922084964656e746974791205656d7074795a0f0a0178"
    "120a0a08080112040a020801620f0a0179120a0a08080112040a02080142040a001012"
)
