"""Peers that foveal builds itself, exported: onnxruntime says what torch says, for any batch."""

import numpy as np
import onnxruntime
import pytest
import torch
from cards import classify_card
from grid import first_is_quick

from foveal.models.store import describe
from foveal.models.zoo import create
from foveal.tasks.classify.graph import export_onnx


@pytest.mark.parametrize("name", first_is_quick(["mobilenet-v3-s", "mobilenet-v4-s", "xie-2019"]))
@torch.no_grad()
def test_an_exported_peer_says_the_same(name):
    torch.manual_seed(0)
    model = create(name, classes=3, image=96).eval()  # 96: a last map of 3 × 3, which 8 × 8 cells of xie-2019 overlap
    family, config = describe(model)
    card = classify_card(name, family, config, ("a", "b", "c"), size=96)
    session = onnxruntime.InferenceSession(export_onnx(model, card), providers=["CPUExecutionProvider"])
    mean, std = (torch.tensor(values)[:, None, None] for values in (card.mean, card.std))
    for batch in (1, 3):
        frames = np.random.default_rng(batch).integers(0, 256, (batch, 96, 96, 3), np.uint8)
        (logits,) = session.run(["logits"], {"frames": frames})
        want = model((torch.from_numpy(frames).permute(0, 3, 1, 2) / 255 - mean) / std)
        torch.testing.assert_close(torch.from_numpy(logits), want, rtol=1e-4, atol=1e-4 * float(want.abs().max()))
