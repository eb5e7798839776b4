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
    "capped": {"activation": "relu6"},
    "capped, TensorFlow's": {"activation": "relu6", "convolution": "tensorflow", "stages": STAGES, "pool": 2},
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
    frames = uneven(**BUILDS[build])
    # ReLU6 says the same where no number is larger than in the calibration
    other = torch.from_numpy(shown(20, 1) if "capped" in build else shown(5, 2))
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


def test_relu6_is_reached_by_every_channel():
    """Of what a depthwise convolution reads: int8 has 255 steps for it."""
    frames = uneven(**BUILDS["capped"])
    seen = []
    block = frames.net.blocks[1]
    block.depthwise.register_forward_pre_hook(lambda _, x: seen.append(x[0].amax((0, 2, 3))))
    images = torch.from_numpy(shown(20, 1))
    with torch.no_grad():  # channels of very different size, one of them above 6
        block.expand.weight *= torch.logspace(-1.5, 0.7, len(block.expand.weight))[:, None, None, None]
        frames(images)
        equalise(frames, shown(20, 1))
        frames(images)
    before, after = seen[0], seen[-1]
    assert before.max() == 6
    assert before.min() < 1
    near = before > 6 / FARTHEST
    torch.testing.assert_close(after[near], torch.full_like(after[near], 6.0), rtol=1e-3, atol=0)


def test_a_channel_that_is_never_above_0_is_left_alone():
    frames = uneven(**BUILDS["squares of pixels"])
    with torch.no_grad():
        frames.net.stem.bias[3] = -1e6
    before = frames.net.stem.weight[3].clone()
    equalise(frames, shown(20, 1))
    assert torch.equal(frames.net.stem.weight[3], before)
    assert torch.isfinite(frames(torch.from_numpy(shown(2, 2)))[0]).all()
