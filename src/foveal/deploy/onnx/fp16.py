"""Weights in 16 bits, arithmetic in 32: half the file, the same time.

    W ≈ float32(float16(W))

A runtime widens them once, when it opens the file. Relative error of a weight: at most 2⁻¹¹, and more of those below
6e-5, which hardly count. A tensor with numbers that 16 bits cannot hold stays.
"""

from typing import Any

import numpy as np

from foveal.deploy.onnx.chunks import graphs

LEAST = 16  # numbers in a tensor that are worth a cast
LARGEST = float(np.finfo(np.float16).max)


def halved(content: bytes, least: int = LEAST) -> bytes:
    """The same graph with its weights in float16, if a tensor has at least so many."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    proto = onnx.load_model_from_string(content)
    for graph in reversed(graphs(proto)):  # the inner first: the outer one is made anew out of copies
        casts = []
        for place, held in enumerate(graph.initializer):
            if held.data_type != TensorProto.FLOAT or np.prod(held.dims) < least:
                continue
            values = numpy_helper.to_array(held)
            if not np.abs(values).max() <= LARGEST:
                continue
            name = f"{held.name}.half"
            casts.append(helper.make_node("Cast", [name], [held.name], to=TensorProto.FLOAT))
            graph.initializer[place].CopyFrom(numpy_helper.from_array(values.astype(np.float16), name))
        nodes: list[Any] = [*casts, *graph.node]
        graph.ClearField("node")
        graph.node.extend(nodes)
    onnx.checker.check_model(proto)
    made: bytes = proto.SerializeToString()
    return made
