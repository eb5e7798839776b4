"""An exported file that reads what is painted (painted.py), made by hand: no torch, and a graph of six operators."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tasks.segment.painted import KINDS, STEP

from foveal.runtime.onnx_names import CARD, INPUT
from foveal.tasks.segment.card import SegmentCard

FRAMES = ["B", "H", "W", 3]


def written(path, outputs=("label_map", "scores", "logits"), frames=FRAMES, kind=TensorProto.UINT8, **card):
    """A graph that reads labels off the red of painted images: logits of 0 and 1, and their largest as scores."""
    facts = SegmentCard(
        **{
            "model": "reads", "family": "reads", "config": {}, "classes": ("background", *KINDS), "size": 32,
            "multiple": 1,
        } | card
    )  # fmt: skip
    constants = {
        "red": np.array(0),
        "step": np.array(STEP, np.uint8),
        "depth": np.array(3),
        "ends": np.array([0, 1], np.float32),
        "sides": np.array([2, 3]),
    }
    nodes = [
        helper.make_node("Cast", [INPUT], ["bytes"], to=TensorProto.UINT8),
        helper.make_node("Gather", ["bytes", "red"], ["reds"], axis=3),
        helper.make_node("Div", ["reds", "step"], ["label_map"]),
        helper.make_node("Cast", ["label_map"], ["labels"], to=TensorProto.INT64),
        helper.make_node("OneHot", ["labels", "depth", "ends"], ["logits"], axis=1),
        helper.make_node("ReduceMax", ["logits", "sides"], ["scores"], keepdims=0),
    ]
    shapes = {
        "label_map": (TensorProto.UINT8, ["B", "H", "W"]),
        "scores": (TensorProto.FLOAT, ["B", 3]),
        "logits": (TensorProto.FLOAT, ["B", 3, "H", "W"]),
    }
    graph = helper.make_graph(
        nodes,
        "reads",
        [helper.make_tensor_value_info(INPUT, kind, frames)],
        [helper.make_tensor_value_info(name, *shapes[name]) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    helper.set_model_props(proto, {CARD: facts.text()})
    onnx.save(proto, path)
    return path
