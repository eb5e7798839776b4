"""Shapes of an exported graph as constants, where its symbols say that they are, in place.

    Reshape of (B, 16, h, w) to (B, 16, h·w)      to (0, 0, −1): 0 is "as it is", −1 "what is left"

A tracer writes a new shape as sums and products of sides, each a node of its own: half the nodes of a small model whose
images may have any size, and a tenth of its time.
"""

from typing import Any

import numpy as np


def constant_shapes(proto: Any) -> None:
    """Before the graph's notes of shapes are removed. Only of the outermost graph."""
    from onnx import numpy_helper

    graph = proto.graph
    shapes = {
        one.name: [side.dim_param or side.dim_value for side in one.type.tensor_type.shape.dim]
        for one in (*graph.input, *graph.value_info, *graph.output)
        if one.type.tensor_type.HasField("shape")
    }
    held = {one.name for one in graph.initializer}
    for number, node in enumerate(graph.node):
        if node.op_type != "Reshape" or node.input[1] in held or not {node.input[0], node.output[0]} <= shapes.keys():
            continue
        sides = _sides(shapes[node.input[0]], shapes[node.output[0]])
        if sides is not None:
            name = f"shape.{number}"
            graph.initializer.append(numpy_helper.from_array(np.array(sides, np.int64), name))
            node.input[1] = name
            node.ClearField("attribute")  # a 0 is no side of length 0
    _remove_unread(graph)


def _sides(given: list[Any], made: list[Any]) -> list[int] | None:
    """None: more than one side is left to find."""
    places = enumerate(made)
    sides = [
        side if isinstance(side, int) else 0 if given[place : place + 1] == [side] else -1 for place, side in places
    ]
    return sides if sides.count(-1) <= 1 and all(made) else None


def _remove_unread(graph: Any) -> None:
    """Nodes and numbers that only a shape was made with."""
    read = {one.name for one in graph.output}
    kept = []
    for node in reversed(graph.node):
        inner = [one.g for one in node.attribute if one.HasField("g")]
        if inner or not read.isdisjoint(node.output):
            kept.append(node)
            read.update(node.input)
            read.update(name for body in inner for each in body.node for name in each.input)
    nodes, initializers = kept[::-1], [one for one in graph.initializer if one.name in read]
    graph.ClearField("node")
    graph.node.extend(nodes)
    graph.ClearField("initializer")
    graph.initializer.extend(initializers)
