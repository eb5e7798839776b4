"""An exported segmenter says what its model says, in every precision."""

import json

import numpy as np
import onnx
import pytest
import torch
from tasks.segment.squares import FIELDS

from foveal.models.zoo import create
from foveal.runtime.onnx_session import opened
from foveal.tasks.segment.card import SegmentCard
from foveal.tasks.segment.export import export_onnx
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
