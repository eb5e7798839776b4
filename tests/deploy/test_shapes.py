"""Shapes that symbols say are constants, and graphs that say the same."""

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from foveal.deploy.onnx.shapes import constant_shapes


def made(given, sides, arithmetic):
    """A graph that reshapes x to the sides, which are made of a tensor of its shape."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        *arithmetic,
        helper.make_node("Reshape", ["x", "sides"], ["y"], allowzero=1),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, given)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, sides)],
        [numpy_helper.from_array(np.array(values), name) for name, values in NUMBERS.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


NUMBERS = {"two": [2], "zero": [0], "one": [1], "three": [3]}
FLAT = [  # (B, h · w)
    helper.make_node("Slice", ["shape", "zero", "one"], ["batch"]),
    helper.make_node("Slice", ["shape", "one", "two"], ["height"]),
    helper.make_node("Slice", ["shape", "two", "three"], ["width"]),
    helper.make_node("Mul", ["height", "width"], ["area"]),
    helper.make_node("Concat", ["batch", "area"], ["sides"], axis=0),
]
SWAPPED = [
    *FLAT[:3],
    helper.make_node("Concat", ["batch", "width", "height"], ["sides"], axis=0),
]


def run(proto, x):
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


def test_one_side_is_left_to_find():
    proto, x = made(["b", "h", "w"], ["b", "h*w"], FLAT), np.random.rand(5, 3, 7).astype(np.float32)
    expected = run(proto, x)
    constant_shapes(proto)
    assert [node.op_type for node in proto.graph.node] == ["Reshape"]
    assert [numpy_helper.to_array(one).tolist() for one in proto.graph.initializer] == [[0, -1]]
    np.testing.assert_array_equal(run(proto, x), expected)


def test_two_are_left_as_they_are():
    proto, x = made(["b", "h", "w"], ["b", "w", "h"], SWAPPED), np.random.rand(5, 3, 7).astype(np.float32)
    expected = run(proto, x)
    constant_shapes(proto)
    assert len(proto.graph.node) == 6
    assert expected.shape == (5, 7, 3)
    np.testing.assert_array_equal(run(proto, x), expected)


def test_a_side_that_nothing_is_known_of_is_left():
    proto = made(["b", "h", "w"], [None, None], FLAT)
    constant_shapes(proto)
    onnx.checker.check_model(proto)
    assert len(proto.graph.node) == 7
