"""CBAM by hand, and its channels beside transformers' EfficientNet. What holds for all modules: tests/test_every.py."""

import pytest
import torch
from case import error
from torch import nn
from transformers import EfficientNetConfig
from transformers.models.efficientnet.modeling_efficientnet import EfficientNetSqueezeExciteLayer

from foveal.errors import FovealError
from foveal.vision import CBAM, ChannelAttention, EfficientChannelAttention, SpatialAttention


def test_the_channels_by_hand():
    # Means 1 and 3, largest 2 and 4. W₀ = (1, −1), so −2 and −2, ReLU 0: only the biases of W₁ are left, twice.
    # W₀ = (−1, 1): 2 and 2; W₁ = (ln 3 / 4, 0), biases (0, −ln 3 / 2): gates σ(ln 3) = 3/4 and σ(−ln 3) = 1/4.
    channel = ChannelAttention(2, squeeze=1).double()
    log = torch.tensor(3.0, dtype=torch.float64).log()
    maps = torch.tensor([[[[0.0, 2.0]], [[2.0, 4.0]]]], dtype=torch.float64)
    with torch.no_grad():
        channel.reduce.weight.copy_(torch.tensor([-1.0, 1.0]).view(1, 2, 1, 1))
        channel.reduce.bias.zero_()
        channel.widen.weight.copy_(torch.stack([log / 4, torch.zeros_like(log)]).view(2, 1, 1, 1))
        channel.widen.bias.copy_(torch.stack([torch.zeros_like(log), -log / 2]))
        assert error(channel(maps), torch.tensor([[[[0.0, 1.5]], [[0.5, 1.0]]]]).double()) < 1e-12
        channel.reduce.weight.neg_()
        assert error(channel(maps), torch.tensor([[[[0.0, 1.0]], [[0.5, 1.0]]]]).double()) < 1e-12


def test_on_flat_maps_the_channels_are_those_of_transformers():
    # Where a map is flat its mean is its largest, and the sum of the two is squeeze-and-excitation of twice W₁.
    theirs = EfficientNetSqueezeExciteLayer(
        EfficientNetConfig(hidden_act="relu"), in_dim=12, expand_dim=13, expand=True
    )
    ours = ChannelAttention(13, squeeze=theirs.dim_se)
    ours.reduce.load_state_dict(theirs.reduce.state_dict())
    ours.widen.load_state_dict({name: weight / 2 for name, weight in theirs.expand.state_dict().items()})
    maps = torch.randn(3, 13, 1, 1).expand(3, 13, 7, 5)
    assert error(ours(maps), theirs(maps)) < 1e-6
    assert theirs.dim_se == 3


def test_channels_come_first():
    maps, module = torch.randn(2, 7, 5, 3), CBAM(7)
    assert error(module(maps), module.spatial(module.channel(maps))) == 0
    assert error(module(maps), module.channel(module.spatial(maps))) > 1e-4


def test_parts_may_be_passed_in():
    maps = torch.randn(2, 7, 5, 3)
    channel, spatial = EfficientChannelAttention(7, gate=nn.Hardsigmoid()), SpatialAttention(kernel=3)
    assert error(CBAM(7, channel=channel, spatial=spatial)(maps), spatial(channel(maps))) == 0
    assert error(CBAM(7, channel=channel, spatial=nn.Identity())(maps), channel(maps)) == 0
    hard = ChannelAttention(7, gate=nn.Hardsigmoid(), activation=nn.SiLU())
    with torch.no_grad():
        hard.widen.weight.zero_()
        hard.widen.bias.fill_(-1.5)
    assert error(CBAM(7, channel=hard)(maps), torch.zeros_like(maps)) == 0  # σ(−3): both poolings count


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: CBAM(0), "CBAM's width: expected an integer, at least 1, got 0"),
        (
            lambda: CBAM(6, spatial=SpatialAttention),
            "CBAM's spatial: expected a module, such as nn.Sigmoid(), got the class",
        ),
        (lambda: CBAM(6, channel=4), "CBAM's channel: expected a module, such as nn.Sigmoid(), got 4"),
        (lambda: ChannelAttention("6"), "width: expected an integer, at least 1, got '6'"),
        (lambda: ChannelAttention(6, squeeze=0), "squeeze: expected an integer, at least 1, got 0"),
        (lambda: ChannelAttention(6, gate=nn.Sigmoid), "ChannelAttention's gate: expected a module"),
        (lambda: CBAM(6)(torch.rand(2, 5, 3, 3)), "CBAM's maps: expected (B, 6, h, w), got (2, 5, 3, 3)"),
        (lambda: CBAM(6)(torch.rand(2, 6, 3, 0)), "CBAM's maps: expected (B, 6, h, w), got (2, 6, 3, 0)"),
        (lambda: CBAM(6)(torch.rand(2, 6, 3, 3).double()), "expected torch.float32, as its weights, got torch.float64"),
    ],
)
def test_bad_input_is_one_line(call, says):
    with pytest.raises(FovealError) as caught:
        call()
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
