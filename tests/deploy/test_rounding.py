"""Weights on int8's grid: what is not rounded yet takes up the error."""

import numpy as np
import pytest
import torch
from cards import classify_card
from torch import nn

from foveal.deploy.onnx.rounding import STEPS, round_weights, rounded, second_moments, windows
from foveal.deploy.twins.fused_icam import Frames
from foveal.models.mbconv import Same, Stage
from foveal.models.zoo import create

CARD = classify_card("icam-31k", "icam", {}, ("a", "b", "c"), size=56)
LITE = {"activation": "relu6", "convolution": "tensorflow"}
STAGES = (Stage(16, expand=1, squeeze=False), Stage(16, blocks=2, expand=3, stride=2, kernel=5, squeeze=False))
BUILDS = {
    "lite": {**LITE, "stages": STAGES, "pool": 2},
    "a mean of each patch": {"activation": "relu", "stages": STAGES},
    "gates": {"activation": "relu"},
    "attention on the map": {"activation": "relu", "stages": STAGES, "attention": "EfficientChannelAttention"},
}


def nearest(weight):
    step = weight.abs().amax(1, keepdim=True) / STEPS
    return (weight / step).round() * step


def seen(rows, count, seed=0):
    """Inputs that go together, and are no 0 on average: (1, 1, n, positions)."""
    generator = torch.Generator().manual_seed(seed)
    mixed = torch.randn(count, 5, generator=generator) @ torch.randn(5, 701, generator=generator)
    return (mixed + torch.randn(count, 701, generator=generator) / 3 + 2)[None, None]


def test_two_weights_by_hand():
    """s = 1/127 · 1.27 = 0.01; x₂ = x₁, so that what the first loses the second takes up, and the bias the rest."""
    moments = torch.tensor([[[1.0, 1.0, 0.0], [1.0, 1.0 + 1e-6, 0.0], [0.0, 0.0, 1.0]]], dtype=torch.float64)
    weight, bias = rounded(torch.tensor([[1.27, 0.504]]), torch.tensor([0.3]), moments)
    torch.testing.assert_close(weight, torch.tensor([[1.27, 0.50]]))
    torch.testing.assert_close(bias, torch.tensor([0.3]))  # no x is 1 on average: nothing to take up
    always = torch.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 1.0], [0.0, 1.0, 1.0 + 1e-6]]], dtype=torch.float64)
    weight, bias = rounded(torch.tensor([[1.27, 0.504]]), torch.tensor([0.3]), always)
    torch.testing.assert_close(bias, torch.tensor([0.304]), atol=1e-5, rtol=0)  # x₂ is always 1


def test_all_weights_are_on_the_grid_of_their_row():
    weight = torch.randn(7, 23)
    made, _ = rounded(weight, torch.randn(7), second_moments(seen(7, 23)))
    step = weight.abs().amax(1, keepdim=True) / STEPS
    torch.testing.assert_close(made / step, (made / step).round(), atol=1e-3, rtol=0)
    torch.testing.assert_close(made.abs().amax(1), weight.abs().amax(1))  # so the row keeps its step


def test_the_error_is_smaller_than_that_of_rounding_and_0_on_average():
    torch.manual_seed(0)
    weight, bias, x = torch.randn(7, 23), torch.randn(7), seen(7, 23)
    made, moved = rounded(weight, bias, second_moments(x))
    x = x[0, 0]
    error = (made - weight) @ x + (moved - bias)[:, None]
    plain = (nearest(weight) - weight) @ x
    assert error.square().mean() < plain.square().mean() / 4
    assert error.mean(1).abs().max() < plain.mean(1).abs().max() / 20


@pytest.mark.parametrize("kind", [nn.Conv2d, Same])
@pytest.mark.parametrize("groups", [1, 3])
def test_windows_are_what_a_convolution_sees(kind, groups):
    layer = kind(3, 6, 5, 2, groups=groups) if kind is Same else kind(3, 6, 5, 2, 1, groups=groups)
    x = torch.randn(2, 3, 17, 13)
    found = windows(layer, x)
    rows = layer.weight.flatten(1).unflatten(0, (groups, -1))  # (G, rows, n)
    y = (rows @ found).flatten(1, 2) + layer.bias[:, None]
    torch.testing.assert_close(y, layer(x).flatten(2), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("stem", [True, False])
@pytest.mark.parametrize("build", BUILDS)
def test_a_model_answers_nearly_as_before(build, stem):
    torch.manual_seed(0)
    model = create("icam-31k", classes=3, image=56, patch=28, **BUILDS[build]).eval()
    shown = np.random.default_rng(1).integers(0, 256, (12, 56, 56, 3), np.uint8)
    images = torch.from_numpy(np.random.default_rng(2).integers(0, 256, (5, 56, 56, 3), np.uint8))
    frames = Frames(model, CARD, runs=True)
    with torch.no_grad():
        before, first = frames(images)[0], frames.net.stem.weight.clone()
        round_weights(frames, shown, stem)
        after = frames(images)[0]
    assert 0 < (after - before).abs().max() < 0.05 * before.std()
    assert torch.equal(frames.net.stem.weight, first) != stem
    for block in frames.net.blocks:
        weight = block.depthwise.weight.flatten(1)
        step = weight.abs().amax(1, keepdim=True) / STEPS
        torch.testing.assert_close(weight / step, (weight / step).round(), atol=1e-3, rtol=0)
