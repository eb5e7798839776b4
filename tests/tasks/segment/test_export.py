"""An exported segmenter says what its model says, in every precision."""

import json

import numpy as np
import onnx
import pytest
import torch
from tasks.segment.squares import FIELDS

from foveal.deploy.onnx.fp16 import halved
from foveal.deploy.onnx.quantise import plans
from foveal.models.zoo import create
from foveal.runtime.onnx_session import opened
from foveal.tasks.segment.card import SegmentCard
from foveal.tasks.segment.export import export_onnx, ready_for_int8
from foveal.tasks.segment.graph import Maps

LITE = {"convolution": "tensorflow", "activation": "relu6"}
MODELS = {
    "icam-seg": ("icam-seg", FIELDS["config"], {}),
    "two classes": ("icam-seg", FIELDS["config"], {"classes": ("background", "red")}),
    "EfficientNet-Lite's padding, shrunk": ("icam-seg", FIELDS["config"] | LITE, {"zoom": 0.5}),
    "enlarged": ("icam-seg", FIELDS["config"], {"zoom": 2.0}),
    "at its own stride": ("icam-seg", FIELDS["config"], {"zoom": 4.0}),
    "a U-Net": ("unet", {"image": 32, "widths": [4, 8]}, {}),
}


def model_and_card(name):
    name, config, facts = MODELS[name]
    torch.manual_seed(0)
    facts = {"classes": ("background", "red", "blue"), "size": 32} | facts
    model = create(name, classes=len(facts["classes"]), **json.loads(json.dumps(config))).eval()
    with torch.no_grad():
        for part in model.modules():
            if isinstance(part, torch.nn.BatchNorm2d):
                part.running_mean.normal_(0, 0.3)
                part.running_var.uniform_(0.5, 2)
    card = SegmentCard(model=name, family="any", config={}, multiple=model.multiple, **facts)
    with torch.no_grad():  # each class has its pixels
        logits = Maps(model, card).small_logits(torch.from_numpy(frames(96, 64)))
        last = model.bias if name == "icam-seg" else model.head.bias
        last -= logits.mean((0, 2, 3)).view_as(last)
    return model, card


def frames(height, width, count=2):
    return np.random.default_rng(height).integers(0, 256, (count, height, width, 3), np.uint8)


EVERY = [(name, probabilities) for name in MODELS for probabilities in (False, True)]
QUICK = [("icam-seg", False), ("EfficientNet-Lite's padding, shrunk", False), ("two classes", True)]


@pytest.mark.parametrize(
    ("name", "probabilities"), [pytest.param(*one, marks=[] if one in QUICK else pytest.mark.slow) for one in EVERY]
)
def test_it_says_what_its_model_says(name, probabilities):
    model, card = model_and_card(name)
    session, maps = opened(export_onnx(model, card, probabilities)), Maps(model, card, probabilities)
    for sides in ((67, 131), (96, 64)):
        shown = frames(*sides)
        with torch.inference_mode():
            expected = [one.numpy() for one in maps(torch.from_numpy(shown))]
        found = session.run(None, {"frames": shown})
        assert found[0].dtype == np.uint8
        assert found[0].shape == (2, *sides)
        assert (found[0] != expected[0]).mean() < 1e-3
        for theirs, ours in zip(found[1:], expected[1:], strict=True):
            np.testing.assert_allclose(theirs, ours, rtol=1e-3, atol=1e-3)
        assert len(np.unique(expected[0])) > 1


def test_logits_of_every_class_are_not_enlarged():
    """That, and the largest of them, took half the time of a small model."""
    model, card = model_and_card("icam-seg")
    operators = [node.op_type for node in onnx.load_model_from_string(export_onnx(model, card)).graph.node]
    assert "ArgMax" not in operators
    assert "BatchNormalization" not in operators
    assert operators.count("Resize") == 1  # of the path, whose maps are two


def test_fp16_says_nearly_the_same_in_half_the_weights():
    model, card = model_and_card("icam-seg")
    plain, shown = export_onnx(model, card), frames(67, 131)
    small = halved(plain)
    held = [
        sum(one.ByteSize() for one in onnx.load_model_from_string(graph).graph.initializer) for graph in (plain, small)
    ]
    assert held[1] < 0.7 * held[0]
    before, after = (opened(graph).run(None, {"frames": shown}) for graph in (plain, small))
    np.testing.assert_allclose(after[2], before[2], rtol=0.05, atol=0.05)
    assert (before[0] == after[0]).mean() > 0.97


INT8 = ["icam-seg", "EfficientNet-Lite's padding, shrunk", "two classes", "a U-Net"]


@pytest.mark.parametrize("name", [INT8[0], *(pytest.param(one, marks=pytest.mark.slow) for one in INT8[1:])])
def test_int8_says_nearly_the_same(name):
    model, card = model_and_card(name)
    ready, shown = ready_for_int8(model, card, export_onnx(model, card)), black_and_white()
    for plan in plans(ready, shown, shown[:4]):
        before, after = (
            opened(graph).run(["label_map", "logits"], {"frames": frames(67, 131)})
            for graph in (ready.float32, plan.content)
        )
        assert plan.error < 0.1 * before[1].std()
        assert (before[0] == after[0]).mean() > 0.95


def test_int8_begins_with_bytes_and_ends_with_logits():
    model, card = model_and_card("icam-seg")
    ready, shown = ready_for_int8(model, card, export_onnx(model, card)), black_and_white()
    found = {plan.name: plan.content for plan in plans(ready, shown, shown[:4])}
    graph = onnx.load_model_from_string(found["all convolutions, and what stands between"]).graph
    weights = [one for one in graph.initializer if len(one.dims) == 4]
    assert sum(one.data_type == onnx.TensorProto.INT8 for one in weights) == len(weights) - 1 > 10
    assert first_operators(graph) == {"DequantizeLinear"}
    others = onnx.load_model_from_string(found["all convolutions but the first"]).graph
    assert "Cast" in first_operators(others)


def black_and_white():
    """Frames with every byte there is."""
    whole = np.zeros((2, 64, 64, 3), np.uint8)
    whole[1] = 255
    return np.concatenate([frames(64, 64, 6), whole])


def first_operators(graph):
    """Which operators first make other numbers of the frames."""
    as_they_are, found = {"frames"}, set()
    for node in graph.node:
        if node.op_type != "Shape" and not as_they_are.isdisjoint(node.input):
            if node.op_type in ("Concat", "Expand", "Reshape", "Slice", "Transpose", "Min", "Max"):
                as_they_are.update(node.output)
            else:
                found.add(node.op_type)
    return found
