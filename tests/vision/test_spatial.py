"""Spatial attention by hand. What holds for all modules: tests/test_every.py."""

import pytest
import torch
from case import error
from torch import nn

from foveal.errors import FovealError
from foveal.vision.spatial import SpatialAttention


def test_by_hand():
    # Two channels, three places in a row: means (1, 2, 0), largest (2, 3, 0). The middle row of the kernel is
    # (0, 0, ln 3) for the means: a place looks to its right; and (0, −ln 3, 0) for the largest. The bias is ln 9.
    # Scores in ln 3: 2 − 2 + 2 = 2, 0 − 3 + 2 = −1, 0 − 0 + 2 = 2; gates 9/10, 1/4, 9/10.
    spatial = SpatialAttention(kernel=3).double()
    log = torch.tensor(3.0, dtype=torch.float64).log()
    with torch.no_grad():
        spatial.mix.weight.zero_()
        spatial.mix.weight[0, 0, 1, 2] = log
        spatial.mix.weight[0, 1, 1, 1] = -log
        spatial.mix.bias.fill_(2 * log)
        y = spatial(torch.tensor([[[[2.0, 1.0, 0.0]], [[0.0, 3.0, 0.0]]]], dtype=torch.float64))
    assert error(y, torch.tensor([[[[1.8, 0.25, 0.0]], [[0.0, 0.75, 0.0]]]], dtype=torch.float64)) < 1e-12


def test_the_order_of_the_channels_does_not_matter_and_their_number_neither():
    spatial = SpatialAttention(kernel=5)
    maps, order = torch.randn(2, 11, 3, 7), torch.randperm(11)
    assert error(spatial(maps[:, order]), spatial(maps)[:, order]) < 1e-6
    assert error(spatial(maps.repeat(1, 3, 1, 1))[:, :11], spatial(maps)) < 1e-6


def test_a_gate_sees_its_square_and_nothing_beyond():
    spatial = SpatialAttention()  # 7 × 7: three places to each side
    maps = torch.randn(1, 5, 11, 13)
    other = maps.clone()
    other[:, :, 5, 6] += 2
    gates, others = spatial(maps) / maps, spatial(other) / other
    moved = (gates - others).abs()[0, 0] > 1e-4
    assert moved[2:9, 3:10].all()
    assert moved.sum() == 49


def test_the_gate_is_a_part():
    hard = SpatialAttention(gate=nn.Hardsigmoid())
    with torch.no_grad():
        hard.mix.weight.zero_()
        hard.mix.bias.fill_(-3.0)
    assert error(hard(torch.randn(2, 5, 3, 7)), torch.zeros(2, 5, 3, 7)) == 0  # where a sigmoid lets 5 % pass


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: SpatialAttention(kernel=4), "SpatialAttention's kernel: expected an odd integer, at least 1, got 4"),
        (
            lambda: SpatialAttention(gate=nn.Sigmoid),
            "gate: expected a module, such as nn.Sigmoid(), got the class Sigmoid",
        ),
        (lambda: SpatialAttention()(torch.rand(6, 3, 3)), "expected (B, C, h, w), got (6, 3, 3)"),
        (lambda: SpatialAttention()(torch.rand(2, 0, 3, 3)), "expected (B, C, h, w), got (2, 0, 3, 3)"),
        (lambda: SpatialAttention()([1]), "expected (B, C, h, w), got [1]"),
        (
            lambda: SpatialAttention()(torch.rand(2, 6, 3, 3).double()),
            "expected torch.float32, as its weights, got torch.float64",
        ),
    ],
)
def test_bad_input_is_one_line(call, says):
    with pytest.raises(FovealError) as caught:
        call()
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
