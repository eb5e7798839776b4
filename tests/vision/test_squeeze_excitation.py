"""Squeeze-and-excitation by hand, beside transformers and beside MONAI.

What holds for all modules is in tests/test_every.py.
"""

import pytest
import torch
from case import error
from torch import nn
from transformers.models.efficientnet.modeling_efficientnet import EfficientNetSqueezeExciteLayer

from foveal.errors import FovealError
from foveal.vision.squeeze_excitation import SqueezeExcitation


def test_by_hand():
    # Two channels with means 1 and 3. W_a = (1, 1): 4, SiLU(4) = 4σ(4); W_b = (0, ln 3 / SiLU(4)): gates σ(0) = 1/2
    # and σ(ln 3) = 3/4.
    squeeze = SqueezeExcitation(2, squeeze=1, activation=torch.nn.SiLU()).double()
    silu = 4 * torch.sigmoid(torch.tensor(4.0, dtype=torch.float64))
    with torch.no_grad():
        squeeze.reduce.weight.fill_(1)
        squeeze.reduce.bias.zero_()
        squeeze.widen.weight.copy_(
            torch.tensor([0.0, torch.tensor(3.0, dtype=torch.float64).log() / silu]).view(2, 1, 1, 1)
        )
        squeeze.widen.bias.zero_()
        y = squeeze(torch.tensor([[[[0.0, 2.0]], [[2.0, 4.0]]]], dtype=torch.float64))
    assert error(y, torch.tensor([[[[0.0, 1.0]], [[1.5, 3.0]]]], dtype=torch.float64)) < 1e-6


def test_it_equals_transformers():
    from transformers import EfficientNetConfig

    theirs = EfficientNetSqueezeExciteLayer(EfficientNetConfig(), in_dim=5, expand_dim=13, expand=True)
    ours = SqueezeExcitation(13, squeeze=theirs.dim_se, activation=nn.SiLU())
    ours.reduce.load_state_dict(theirs.reduce.state_dict())
    ours.widen.load_state_dict(theirs.expand.state_dict())
    maps = torch.randn(3, 13, 7, 5)
    assert error(ours(maps), theirs(maps)) < 1e-6


@pytest.mark.parametrize(
    ("inner", "outer", "activation", "gate"),
    [("relu", "sigmoid", None, None), ("leakyrelu", "relu", nn.LeakyReLU(), nn.ReLU())],
)
def test_it_equals_monai(inner, outer, activation, gate):
    from monai.networks.blocks import ChannelSELayer

    theirs = ChannelSELayer(spatial_dims=2, in_channels=13, r=3, acti_type_1=inner, acti_type_2=outer)
    ours = SqueezeExcitation(13, squeeze=4, activation=activation, gate=gate)
    with torch.no_grad():
        for part, linear in ((ours.reduce, theirs.fc[0]), (ours.widen, theirs.fc[2])):
            part.weight.copy_(linear.weight[:, :, None, None])
            part.bias.copy_(linear.bias)
    maps = torch.randn(3, 13, 7, 5)
    assert error(ours(maps), theirs(maps)) < 1e-6


def test_the_gate_is_a_part():
    maps = torch.randn(2, 6, 3, 5)
    hard = SqueezeExcitation(6, squeeze=2, gate=nn.Hardsigmoid())
    with torch.no_grad():
        hard.widen.weight.zero_()
        hard.widen.bias.fill_(-3.0)
    assert error(hard(maps), torch.zeros_like(maps)) == 0  # where a sigmoid lets 5 % pass


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: SqueezeExcitation(0), "SqueezeExcitation's width: expected an integer, at least 1, got 0"),
        (lambda: SqueezeExcitation("6"), "width: expected an integer, at least 1, got '6'"),
        (lambda: SqueezeExcitation(6, squeeze=0), "squeeze: expected an integer, at least 1, got 0"),
        (
            lambda: SqueezeExcitation(6, gate=nn.Sigmoid),
            "gate: expected a module, such as nn.Sigmoid(), got the class Sigmoid",
        ),
        (
            lambda: SqueezeExcitation(6, activation="relu"),
            "activation: expected a module, such as nn.Sigmoid(), got 'relu'",
        ),
        (lambda: SqueezeExcitation(6)(torch.rand(2, 5, 3, 3)), r"expected (B, 6, h, w), got (2, 5, 3, 3)"),
        (lambda: SqueezeExcitation(6)(torch.rand(6, 3, 3)), r"expected (B, 6, h, w), got (6, 3, 3)"),
        (lambda: SqueezeExcitation(6)(torch.rand(2, 6, 0, 3)), r"expected (B, 6, h, w), got (2, 6, 0, 3)"),
        (lambda: SqueezeExcitation(6)("map"), "expected (B, 6, h, w), got 'map'"),
        (lambda: SqueezeExcitation(6)(torch.ones(2, 6, 3, 3).long()), "torch.int64"),
    ],
)
def test_bad_input_is_one_line(call, says):
    with pytest.raises(FovealError) as caught:
        call()
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
