"""int8: weights a channel, maps a tensor, by onnxruntime's quantiser.

Which convolutions take part is chosen by what it costs and gives.

    x ≈ s (q − z),  q in 0 … 255;   W_c ≈ s_c q_c,  q_c in −127 … 127

Bytes of a camera are q already (s = 1, z = 0): a first convolution that takes part reads them as they come. Small maps
and what works on vectors stay in float32: there a step between the two costs more than it saves. Their weights lie in
the file with 16 bits, which a runtime widens once, when it opens it.

A plan names what is quantised. Every plan is calibrated on the same frames, held beside the model on others, and timed
in turns with the float file: the fastest plan whose logits are near enough is kept. What a convolution's map
costs in error is seen by quantising it alone.
"""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foveal.deploy.measure.clock import interleaved
from foveal.deploy.onnx.fp16 import halved
from foveal.deploy.onnx.silence import quiet
from foveal.runtime.onnx_names import INPUT
from foveal.runtime.onnx_session import opened

BATCH = 8
# what may stand between convolutions
BETWEEN = (
    "Relu",
    "Clip",
    "AveragePool",
    "GlobalAveragePool",
    "Add",
    "Sigmoid",
    "Mul",
    "HardSwish",
    "Resize",
    "Concat",
    "Reshape",
    "Transpose",
)
CLIPPING = ("Relu", "Clip")  # which an int8 convolution does as it rounds: before them a map has another range
LEAST = 6  # rows and columns of a map that is worth it
FINE = 4  # stride from which on a map is no longer fine: few channels at many positions are slower in int8
HALVED = 256  # numbers of a tensor whose storing in 16 bits outweighs a cast
ROUNDS, WARM_UP = 31, 5


@dataclass(frozen=True)
class ReadyForInt8:
    """The files of one model that plans are made of. Those of an ICAM with a Φ of its own have their convolutions'
    weights on int8's grid already (deploy/onnx/rounding.py).
    """

    float32: bytes  # as the model is shipped without int8: every plan is compared with it, and timed in turns with it
    rounded: bytes
    rounded_but_stem: bytes  # where the first convolution stays in float32, its weights do, too
    timed: str = "probability"  # the output that is asked for when it is timed


@dataclass(frozen=True)
class Plan:
    name: str
    content: bytes
    error: float  # mean |difference| of the logits
    ratio: float  # its time over that of the float file


@dataclass(frozen=True)
class Blame:
    """What the map of one convolution costs when it alone has 8 bits."""

    layer: str
    error: float


def plans(ready: ReadyForInt8, calibration: NDArray[np.uint8], holdout: NDArray[np.uint8]) -> list[Plan]:
    """Every plan, the fastest first. Frames (N, S, S, 3) each."""
    stem, rest = Nodes(ready.rounded), Nodes(ready.rounded_but_stem)
    coarse = _coarse(ready.rounded_but_stem, rest.convolutions)
    picks = {
        "all convolutions but those of the finest maps, and what stands between": (
            ready.rounded_but_stem,
            rest.with_between(coarse) if len(coarse) + 1 < len(rest.convolutions) else [],
        ),
        "all convolutions but the first, and what stands between": (
            ready.rounded_but_stem,
            rest.with_between(rest.convolutions[1:]),
        ),
        "all convolutions, and what stands between": (ready.rounded, stem.with_between(stem.convolutions)),
        "all convolutions but the first": (ready.rounded_but_stem, [node.name for node in rest.convolutions[1:]]),
        # depthwise weights are rounded here, too, and stay in float32: what is left where nothing else is near enough
        "wide ones": (
            ready.rounded_but_stem,
            [node.name for node in rest.convolutions[1:] if _group(node) == 1],
        ),
    }
    made = {name: _quantised(content, nodes, calibration) for name, (content, nodes) in picks.items() if nodes}
    sessions = {name: opened(graph_) for name, graph_ in {"float": ready.float32, **made}.items()}
    expected = _logits(sessions["float"], holdout)
    one = {INPUT: holdout[:1]}
    taken = interleaved(
        {name: _job(session, one, ready.timed) for name, session in sessions.items()},
        rounds=ROUNDS,
        warm_up=WARM_UP,
        clock=time.thread_time,  # sessions have one thread: a busy machine chooses as an idle one
    )
    found = [
        Plan(
            name,
            graph_,
            float(np.abs(_logits(sessions[name], holdout) - expected).mean()),
            taken[name].median / taken["float"].median,
        )
        for name, graph_ in made.items()
    ]
    return sorted(found, key=lambda plan: plan.ratio)


def blame(ready: ReadyForInt8, calibration: NDArray[np.uint8], holdout: NDArray[np.uint8]) -> list[Blame]:
    """Every convolution, the worst first: its map in 8 bits behind the activation that is part of it."""
    expected = _logits(opened(ready.rounded), holdout)
    found, wide = [], _wide(ready.rounded)
    for node in wide:
        if node.op_type == "Conv":
            follows = [one.name for one in wide if one.op_type in CLIPPING and node.output[0] in one.input]
            alone = _quantised(ready.rounded, [node.name, *follows], calibration)
            found.append(Blame(node.name, float(np.abs(_logits(opened(alone), holdout) - expected).mean())))
    return sorted(found, key=lambda one: -one.error)


def _quantised(content: bytes, nodes: Sequence[str], calibration: NDArray[np.uint8]) -> bytes:
    from onnxruntime.quantization import (  # type: ignore[import-untyped]
        CalibrationDataReader,
        CalibrationMethod,
        QuantFormat,
        QuantType,
        quantize_static,
    )

    class Frames(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.parts = iter(range(0, len(calibration), BATCH))

        def get_next(self) -> dict[str, Any] | None:
            start = next(self.parts, None)
            return None if start is None else {INPUT: calibration[start : start + BATCH]}

    with tempfile.TemporaryDirectory() as folder, quiet():
        given, made = Path(folder) / "float.onnx", Path(folder) / "int8.onnx"
        given.write_bytes(content)
        quantize_static(
            given,
            made,
            Frames(),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            calibrate_method=CalibrationMethod.MinMax,
            nodes_to_quantize=list(nodes),
        )
        return _shortly_named(halved(_direct(made.read_bytes()), HALVED))


def _wide(content: bytes) -> list[Any]:
    """The nodes that make maps of some size, up to the logits: an answer is made of these as they are."""
    import onnx

    graph = onnx.shape_inference.infer_shapes(onnx.load_model_from_string(content)).graph
    sides = {
        one.name: [side.dim_value for side in one.type.tensor_type.shape.dim]
        for one in (*graph.value_info, *graph.output)
    }
    input_sides = sides | {
        node.output[0]: sides.get(node.input[0], []) for node in graph.node if "Pool" in node.op_type
    }
    answers = _behind(graph, "logits")
    return [
        node
        for node in graph.node
        if node.output[0] not in answers
        # a side of any length has no number
        and len(shape := input_sides.get(node.output[0], [])) == 4
        and all(side == 0 or side >= LEAST for side in shape[2:])
    ]


def _direct(content: bytes) -> bytes:
    """Leave out the cast of bytes to numbers, and of these numbers to the same bytes."""
    import onnx
    from onnx import numpy_helper

    proto = onnx.load_model_from_string(content)
    graph = proto.graph
    held = {one.name: one for one in graph.initializer}
    makers = {node.output[0]: node for node in graph.node}
    read = [name for node in graph.node for name in node.input]
    known = onnx.shape_inference.infer_shapes(proto).graph
    bytes_ = {
        one.name
        for one in (*known.input, *known.value_info)
        if one.type.tensor_type.elem_type == onnx.TensorProto.UINT8
    }
    for node in [node for node in graph.node if node.op_type == "QuantizeLinear"]:
        cast = makers.get(node.input[0])
        if cast is None or cast.op_type != "Cast" or read.count(cast.output[0]) != 1 or cast.input[0] not in bytes_:
            continue
        scale, zero = (numpy_helper.to_array(held[name]) for name in node.input[1:3])
        if scale.size != 1 or abs(float(scale) - 1) > 1e-6 or int(zero) != 0:  # no byte was 255 in calibration
            continue
        for other in graph.node:
            other.input[:] = [cast.input[0] if name == node.output[0] else name for name in other.input]
        graph.node.remove(cast)
        graph.node.remove(node)
    made: bytes = proto.SerializeToString()
    return made


def _shortly_named(content: bytes) -> bytes:
    """What only nodes read is called by a number: names were an eighth of a small file.

    Of a graph without graphs inside, as an int8 one is.
    """
    import onnx

    proto = onnx.load_model_from_string(content)
    graph, names = proto.graph, dict[str, str]()
    del graph.value_info[:]  # follows from the nodes
    names |= {name: name for name in ("", *(one.name for one in (*graph.input, *graph.output)))}
    for node in graph.node:
        node.name = ""
        for part in (node.input, node.output):
            part[:] = [names.setdefault(name, f"{len(names):x}") for name in part]
    for one in graph.initializer:
        one.name = names.setdefault(one.name, f"{len(names):x}")
    onnx.checker.check_model(proto)
    made: bytes = proto.SerializeToString()
    return made


class Nodes:
    """The nodes of a graph that may be quantised."""

    def __init__(self, content: bytes) -> None:
        self.wide = _wide(content)
        self.convolutions = [node for node in self.wide if node.op_type == "Conv"]

    def with_between(self, convolutions: Sequence[Any]) -> list[str]:
        """Names of these convolutions, and of what stands between: all that such a node reads is made of their maps."""
        made, computed = {node.output[0] for node in convolutions}, {node.output[0] for node in self.wide}
        found = [node.name for node in convolutions]
        for node in self.wide:
            read = [name for name in node.input if name in computed]
            if node.op_type in BETWEEN and read and made.issuperset(read):
                made.add(node.output[0])
                found.append(node.name)
        return found


def _coarse(content: bytes, convolutions: Sequence[Any]) -> list[Any]:
    """Convolutions that read a map that is no longer fine."""
    import onnx

    strides: dict[str, int] = {}  # of what is made of the frames by convolutions
    read = {}
    for node in onnx.load_model_from_string(content).graph.node:
        read[node.name] = max((strides.get(name, 1) for name in node.input), default=1)
        own = next((one.ints[0] for one in node.attribute if one.name == "strides" and node.op_type == "Conv"), 1)
        strides |= dict.fromkeys(node.output, own * read[node.name])
    return [node for node in convolutions if read[node.name] >= FINE]


def _behind(graph: Any, name: str) -> set[str]:
    """What is made of a tensor."""
    found: set[str] = set()
    for node in graph.node:  # each stands behind those that it reads
        if not found.isdisjoint(node.input) or name in node.input:
            found.update(node.output)
    return found


def _group(node: Any) -> int:
    return next((int(one.i) for one in node.attribute if one.name == "group"), 1)


def _logits(session: Any, frames: NDArray[np.uint8]) -> NDArray[np.float32]:
    return np.concatenate(
        [session.run(["logits"], {INPUT: frames[start : start + BATCH]})[0] for start in range(0, len(frames), BATCH)]
    )


def _job(session: Any, feed: dict[str, Any], output: str) -> Any:
    return lambda: session.run([output], feed)
