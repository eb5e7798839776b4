"""Weights on int8's grid: what is not rounded yet takes up the error."""

import numpy as np
import pytest
import torch
from cards import classify_card
from torch import nn

from foveal.deploy.onnx import rounding
from foveal.deploy.onnx.rounding import STEPS, round_weights, rounded, second_moments, windows
from foveal.deploy.twins.fused_icam import Frames
from foveal.models.mbconv import Same, Stage
from foveal.models.zoo import create

CARD = classify_card("icam-31k", "icam", {}, ("a", "b", "c"), size=56)
LITE = {"activation": "relu6", "convolution": "tensorflow"}
STAGES = (Stage(16, expand=1, squeeze=False), Stage(16, blocks=2, expand=3, stride=2, kernel=5, squeeze=False))
BUILDS = {
    "lite": {**LITE, "stages": STAGES, "pool": 7, "mixer": True},
    "means of cells": {"activation": "relu", "stages": STAGES[:1], "pool": 2},  # of a map of 14 × 14
    "a mean of each patch": {"activation": "relu", "stages": STAGES},
    "gates": {"activation": "relu"},
    "attention on the map": {"activation": "relu", "stages": STAGES, "attention": "EfficientChannelAttention"},
}


def nearest(weight):
    step = weight.abs().amax(1, keepdim=True).clamp(min=1e-30) / STEPS
    return (weight / step).round() * step


def seen(count, scale=1.0):
    """Inputs that go together, and are no 0 on average: (1, 1, n, positions)."""
    generator = torch.Generator().manual_seed(0)
    mixed = torch.randn(count, 5, generator=generator) @ torch.randn(5, 701, generator=generator)
    return scale * (mixed + torch.randn(count, 701, generator=generator) / 3 + 2)[None, None]


def test_three_weights_by_hand():
    """s = 1.27 / 127 = 0.01; x₃ = x₂: what the second loses, 0.004, the third takes up, so that 0.108 becomes 0.11."""
    same = torch.tensor([[1.0, 0, 0, 0], [0, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1]], dtype=torch.float64)
    weight, bias = rounded(torch.tensor([[1.27, 0.504, 0.104]]), torch.tensor([0.3]), same[None])
    torch.testing.assert_close(weight, torch.tensor([[1.27, 0.50, 0.11]]))
    torch.testing.assert_close(bias, torch.tensor([0.3]))  # no x is anything but 0 on average: nothing to take up


def test_the_bias_by_hand():
    """x₂ is always 1, so that the bias takes up the 0.004 that its weight loses."""
    always = torch.tensor([[1.0, 0, 0], [0, 1, 1], [0, 1, 1]], dtype=torch.float64)
    weight, bias = rounded(torch.tensor([[1.27, 0.504]]), torch.tensor([0.3]), always[None])
    torch.testing.assert_close(weight, torch.tensor([[1.27, 0.50]]))
    torch.testing.assert_close(bias, torch.tensor([0.304]), atol=1e-6, rtol=0)


def on_the_grid(weight):
    step = weight.abs().amax(1, keepdim=True).clamp(min=1e-30) / STEPS
    return bool(((weight / step) - (weight / step).round()).abs().max() < 1e-3)


def test_all_weights_are_on_the_grid_of_their_row():
    torch.manual_seed(0)
    weight = torch.randn(7, 23)
    weight[3] = 0.0
    made, _ = rounded(weight, torch.randn(7), second_moments(seen(23)))
    assert not on_the_grid(weight)
    assert on_the_grid(made)
    torch.testing.assert_close(made.abs().amax(1), weight.abs().amax(1))  # so the row keeps its step


@pytest.mark.parametrize("scale", [1.0, 100.0])  # such as bytes: the bias's own 1 is small beside their squares
def test_the_error_is_smaller_than_that_of_rounding_and_0_on_average(scale):
    torch.manual_seed(0)
    weight, bias, x = torch.randn(7, 23), torch.randn(7), seen(23, scale)
    made, moved = rounded(weight, bias, second_moments(x))
    x = x[0, 0]
    error = (made - weight) @ x + (moved - bias)[:, None]
    plain = (nearest(weight) - weight) @ x
    assert error.square().mean() < plain.square().mean() / 4
    assert error.mean(1).abs().max() < plain.mean(1).abs().max() / 2000


def test_inputs_that_are_always_0_change_nothing():
    torch.manual_seed(0)
    weight, bias = torch.randn(7, 23), torch.randn(7)
    made, same = rounded(weight, bias, second_moments(torch.zeros(1, 1, 23, 5)))
    torch.testing.assert_close(made, nearest(weight))
    assert torch.equal(same, bias)


@pytest.mark.parametrize("kind", [nn.Conv2d, Same])
@pytest.mark.parametrize("groups", [1, 3])
def test_windows_are_what_a_convolution_sees(kind, groups):
    layer = kind(3, 6, 5, 2, groups=groups) if kind is Same else kind(3, 6, 5, 2, 1, groups=groups)
    x = torch.randn(2, 3, 17, 13)
    found = windows(layer, x)
    rows = layer.weight.flatten(1).unflatten(0, (groups, -1))  # (G, rows, n)
    y = (rows @ found).flatten(1, 2) + layer.bias[:, None]
    torch.testing.assert_close(y, layer(x).flatten(2), atol=1e-5, rtol=1e-5)


def shaken(**config):
    """A model whose BatchNorms have learned something: projections then have biases, which are handed on."""
    torch.manual_seed(0)
    model = create("icam-31k", classes=3, image=56, patch=28, **config).eval()
    with torch.no_grad():
        for part in model.modules():
            if isinstance(part, nn.BatchNorm2d):
                part.running_mean.normal_(0, 0.3)
                part.running_var.uniform_(0.3, 1)
                part.weight.uniform_(0.5, 1.5)
                part.bias.normal_(0, 0.5)
    return model


def images(count, seed):
    return np.random.default_rng(seed).integers(0, 256, (count, 56, 56, 3), np.uint8)


def projections(frames):
    return [block.weight.clone() for block in frames.net.blocks]


@pytest.mark.parametrize("stem", [True, False])
@pytest.mark.parametrize("build", BUILDS)
def test_a_model_answers_nearly_as_before(build, stem, monkeypatch):
    """And nearer than with the nearest weights: four batches in eleven, the last of them smaller."""
    model, shown = shaken(**BUILDS[build]), torch.from_numpy(images(20, 2))
    frames, plain = Frames(model, CARD, runs=True), Frames(model, CARD, runs=True)
    with torch.no_grad():
        before, first, projected = frames(shown)[0], frames.net.stem.weight.clone(), projections(frames)
        assert round_weights(frames, images(27, 1), stem)
        after = frames(shown)[0]
        monkeypatch.setattr(rounding, "rounded", lambda weight, bias, _: (nearest(weight), bias))
        round_weights(plain, images(27, 1), stem)
        other = plain(shown)[0]
    assert 0 < (after - before).abs().mean() < (other - before).abs().mean() / 1.5
    assert torch.equal(frames.net.stem.weight, first) != stem
    layers = [layer for block in frames.net.blocks for layer in (block.expand, block.depthwise) if layer is not None]
    for layer in [*layers, frames.decoder.mixer[0], *([frames.net.stem] if stem else [])]:
        assert on_the_grid(layer.weight.flatten(1))
    for place, (block, weight) in enumerate(zip(frames.net.blocks, projected, strict=True)):
        of_vectors = build == "a mean of each patch" and place == len(projected) - 1
        alone = block.squeeze is not None or of_vectors
        assert torch.equal(block.weight, weight) == alone
        assert alone or on_the_grid(block.weight)


def test_the_last_projection_sees_means_of_cells(monkeypatch):
    """Two rows and two columns, each of 7 × 7 numbers, and no map of 14 × 14."""
    frames, positions = Frames(shaken(**BUILDS["means of cells"]), CARD), []
    kept = rounding.second_moments
    monkeypatch.setattr(rounding, "second_moments", lambda seen: positions.append(seen.shape[3]) or kept(seen))
    round_weights(frames, images(3, 1))
    assert positions == [14 * 14, 14 * 14, 2 * 2, 4 * 4]  # stem, depthwise, projection, and the mixer of all patches


def test_a_model_without_a_phi_of_its_own_is_left_alone():
    model = create("vit-micro", classes=3).eval()
    frames = Frames(model, classify_card("vit-micro", "vit", {}, ("a", "b", "c"), size=224))
    assert not round_weights(frames, np.zeros((1, 224, 224, 3), np.uint8))
