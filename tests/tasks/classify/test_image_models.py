"""ViT, Swin and PVT in the task: built by a recipe for its images, saved, opened, exported."""

import numpy as np
import onnxruntime
import pytest
import torch
from grid import first_is_quick

from foveal.errors import FovealError
from foveal.models.store import describe, load_model, save_model
from foveal.tasks.classify.card import ClassifyCard
from foveal.tasks.classify.graph import export_onnx
from foveal.tasks.classify.recipe import ClassifyRecipe
from foveal.tasks.classify.training import build

CASES = [(name, size) for size in (75, 64) for name in ("swin-micro", "vit-micro", "pvt-micro")]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "size"), first_is_quick(CASES))
@torch.no_grad()
def test_a_recipes_model_is_saved_opened_and_exported(name, size, tmp_path):
    torch.manual_seed(0)
    model = build(ClassifyRecipe(model=name, size=size), classes=3).eval()
    assert sum(weight.numel() for weight in model.parameters()) <= 300_000
    for weight in model.parameters():
        weight.add_(0.05 * torch.randn_like(weight))
    family, config = describe(model)
    card = ClassifyCard(model=name, family=family, config=config, classes=("a", "b", "c"), size=size)
    save_model(model, tmp_path / "model.safetensors", card)
    opened, read = load_model(tmp_path / "model.safetensors", ClassifyCard)
    assert opened.config == model.config, "tuples again"
    session = onnxruntime.InferenceSession(export_onnx(opened, read))
    frames = np.random.default_rng(0).integers(0, 256, (3, size, size, 3), np.uint8)
    probability, _, logits = session.run(None, {"frames": frames})
    pixels = (torch.from_numpy(frames).permute(0, 3, 1, 2) / 255 - torch.tensor(card.mean)[:, None, None]) / (
        torch.tensor(card.std)[:, None, None]
    )
    expected = model(pixels)
    assert expected.std(0).min() > 1e-3, "one answer for every image proves nothing"
    assert np.abs(logits - expected.numpy()).max() < 1e-5
    assert np.abs(probability - expected.softmax(1).numpy()).max() < 1e-5


def test_a_size_that_a_model_cannot_take_is_named_in_one_line():
    for name, config in (("vit-tiny", {"patch": 32, "layers": 1}), ("pvt-micro", {})):
        with pytest.raises(FovealError, match=f"--size: expected images that {name} takes, .* of at least 32, got"):
            build(ClassifyRecipe(model=name, size=31, config=config), classes=3)
