"""Channels of one range, and the same answers."""

import numpy as np
import pytest
import torch
from cards import classify_card

from foveal.deploy.onnx.equalise import FARTHEST, equalise
from foveal.deploy.twins.fused_icam import Frames
from foveal.models.mbconv import Stage
from foveal.models.zoo import create

CARD = classify_card("icam-31k", "icam", {}, ("a", "b", "c"), size=56)
STAGES = (Stage(16, stride=2, expand=1, squeeze=False), Stage(16, blocks=2, expand=3, squeeze=False))
BUILDS = {
    "rectified": {"activation": "relu"},
    "squares of pixels": {"activation": "relu", "stem_kernel": 7, "stem_stride": 7, "stages": STAGES},
    "the stem's map is added": {"activation": "relu", "stem": 16, "stages": (Stage(16, expand=2, squeeze=False),)},
    "cells": {"activation": "relu", "pool": 2, "stages": STAGES},
    "smooth": {"activation": "silu"},
}


def shown(count, seed):
    return np.random.default_rng(seed).integers(0, 256, (count, 56, 56, 3), np.uint8)


def uneven(**settings):
    """A lean model whose channels are worth very different numbers."""
    torch.manual_seed(0)
    model = create("icam-31k", classes=3, image=56, patch=14, **settings).eval()
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.weight.copy_(torch.logspace(-0.5, 0.5, len(module.weight)))
    return Frames(model, CARD, runs=True)


def ranges(frames, layer):
    seen = []
    hook = layer.register_forward_hook(lambda _, __, y: seen.append(y.amax((0, 2, 3))))
    frames(torch.from_numpy(shown(20, 1)))
    hook.remove()
    return seen[0]


@pytest.mark.parametrize("build", BUILDS)
def test_it_says_the_same(build):
    frames, other = uneven(**BUILDS[build]), torch.from_numpy(shown(5, 2))
    before = frames(other)[0]
    weights = [tensor.clone() for tensor in frames.net.state_dict().values()]
    equalise(frames, shown(20, 1))
    torch.testing.assert_close(frames(other)[0], before, rtol=1e-4, atol=1e-4)
    same = all(torch.equal(a, b) for a, b in zip(weights, frames.net.state_dict().values(), strict=True))
    assert same == (build == "smooth")


def test_channels_have_one_range_before_a_depthwise_convolution():
    frames = uneven(**BUILDS["squares of pixels"])
    stem, block = frames.net.stem, frames.net.blocks[1]
    apart = {layer: ranges(frames, layer) for layer in (stem, block.expand)}
    equalise(frames, shown(20, 1))
    for layer, before in apart.items():
        found = ranges(frames, layer)
        assert before.max() > 8 * before.min()
        near = before > before.max() / FARTHEST
        assert near.sum() > len(near) / 2
        torch.testing.assert_close(found[near], found.max().expand_as(found[near]), rtol=1e-3, atol=0)


def test_a_channel_that_is_never_above_0_is_left_alone():
    frames = uneven(**BUILDS["squares of pixels"])
    with torch.no_grad():
        frames.net.stem.bias[3] = -1e6
    before = frames.net.stem.weight[3].clone()
    equalise(frames, shown(20, 1))
    assert torch.equal(frames.net.stem.weight[3], before)
    assert torch.isfinite(frames(torch.from_numpy(shown(2, 2)))[0]).all()
