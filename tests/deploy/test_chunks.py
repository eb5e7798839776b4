"""Φ on chunks of patches is Φ on all of them, for any batch."""

import numpy as np
import onnx
import pytest
import torch
from cards import classify_card
from grid import first_is_quick

from foveal.deploy.onnx import chunks
from foveal.deploy.onnx.chunks import chunk_of, graphs
from foveal.deploy.onnx.fp16 import halved
from foveal.deploy.twins.fused_icam import Frames
from foveal.models.zoo import create
from foveal.runtime.onnx_session import opened
from foveal.tasks.classify.graph import Answers, export_onnx, graph_of


def test_the_most_that_fit():
    assert chunk_of(16, 96 * 28 * 28 * 4) == 4  # icam-31k: 0.3 MB a patch
    assert chunk_of(16, 64 * 14 * 14 * 4) == 16
    assert chunk_of(9, 10**9) == 1


def test_the_widest_map_of_a_patch():
    frames = Frames(create("icam-31k").eval(), classify_card("icam-31k", "icam", {}, ("a", "b")))
    assert frames.widest() == 96 * 28 * 28 * 4


@pytest.mark.slow
@pytest.mark.parametrize("settings", first_is_quick([{}, {"pool": 2}, {"queries": 3, "first": "static"}]))
def test_chunks_are_the_whole(settings, monkeypatch):
    torch.manual_seed(0)
    model, card = (
        create("icam-31k", classes=3, image=56, patch=14, **settings).eval(),
        classify_card("icam-31k", "icam", {}, ("a", "b", "c"), size=56),
    )
    whole = export_onnx(model, card)
    assert patches_at_once(whole) == 16  # small maps stay together, but those of other images
    monkeypatch.setattr(chunks, "CACHE", 4 * 96 * 7 * 7 * 4)
    made = export_onnx(model, card)
    proto = onnx.load_model_from_string(made)
    assert patches_at_once(made) == 4
    together = graph_of(Answers(model, card, runs=True), card)
    # the quantiser sees no nodes inside of nodes
    assert "Scan" not in [node.op_type for node in onnx.load_model_from_string(together).graph.node]
    assert [one.name for one in proto.graph.output] == [
        one.name for one in onnx.load_model_from_string(whole).graph.output
    ]
    body = graphs(proto)[1]
    assert not any(node.doc_string or node.metadata_props for node in body.node)
    for count in (1, 3, 17):
        frames = {"frames": np.random.default_rng(count).integers(0, 256, (count, 56, 56, 3), np.uint8)}
        for one, other in zip(opened(whole).run(None, frames), opened(made).run(None, frames), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5)
        for one, other in zip(opened(together).run(None, frames), opened(made).run(None, frames), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5)
    assert len(halved(made)) < 0.75 * len(made)
    np.testing.assert_allclose(
        opened(halved(made)).run(["logits"], frames)[0], opened(whole).run(["logits"], frames)[0], atol=0.02
    )


def patches_at_once(content):
    proto = onnx.load_model_from_string(content)
    assert [node.op_type for node in proto.graph.node].count("Scan") == 1
    count, *patch = (side.dim_value for side in graphs(proto)[1].input[0].type.tensor_type.shape.dim)
    assert patch == [3, 14, 14]
    return count
