"""Efficient channel attention by hand, and beside numpy's correlation.

What holds for all modules: tests/test_every.py.
"""

import numpy as np
import pytest
import torch
from case import error
from torch import nn

from foveal.errors import FovealError
from foveal.vision.eca import EfficientChannelAttention


def test_by_hand():
    # Means 1, 2, 4 and w = (ln 3, 0, −ln 3): sums −2 ln 3, (1 − 4) ln 3, 2 ln 3; gates 1/10, 1/28, 9/10.
    eca = EfficientChannelAttention(3, kernel=3).double()
    with torch.no_grad():
        eca.mix.weight.copy_(torch.tensor([[[1.0, 0.0, -1.0]]]).double() * torch.tensor(3.0).double().log())
    maps = torch.tensor([[[[0.0, 2.0]], [[1.0, 3.0]], [[4.0, 4.0]]]], dtype=torch.float64)
    want = torch.tensor([[[[0.0, 0.2]], [[1 / 28, 3 / 28]], [[3.6, 3.6]]]], dtype=torch.float64)
    assert error(eca(maps), want) < 1e-12


@pytest.mark.parametrize(
    ("width", "kernel"),
    [(1, 1), (7, 1), (8, 3), (16, 3), (64, 3), (127, 3), (128, 5), (256, 5), (512, 5), (1024, 5), (2048, 7)],
)
def test_the_kernel_is_that_of_the_paper(width, kernel):
    # t = (log₂ C + 1)/2: 0.5, 1.9, 2, 2.5, 3.5, 3.99, 4, 4.5, 5, 5.5, 6; between 2m and 2m + 2 the nearest odd number
    # is 2m + 1, and an even t goes up.
    assert EfficientChannelAttention(width).mix.kernel_size == (kernel,)


def test_the_gates_are_a_correlation_of_the_means():
    eca = EfficientChannelAttention(13, kernel=5, gate=nn.Identity()).double()
    maps = torch.randn(2, 13, 3, 7, dtype=torch.float64)
    weight = eca.mix.weight.detach().numpy().ravel()
    gates = np.stack([np.correlate(means, weight, "same") for means in maps.numpy().mean((2, 3))])
    assert error(eca(maps), maps * torch.from_numpy(gates)[..., None, None]) < 1e-12


def test_channels_that_are_far_apart_do_not_meet():
    eca = EfficientChannelAttention(11, kernel=3)
    maps, other = torch.randn(2, 2, 11, 3, 5)
    other[:, :7] = maps[:, :7]
    assert error(eca(maps)[:, :6], eca(other)[:, :6]) == 0
    assert error(eca(maps)[:, 6], eca(other)[:, 6]) > 0


def test_the_gate_is_a_part():
    hard = EfficientChannelAttention(6, gate=nn.Hardsigmoid())
    with torch.no_grad():
        hard.mix.weight.fill_(-3.0)
    assert error(hard(torch.ones(2, 6, 3, 5)), torch.zeros(2, 6, 3, 5)) == 0  # where a sigmoid lets 5 % pass


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda: EfficientChannelAttention(0),
            "EfficientChannelAttention's width: expected an integer, at least 1, got 0",
        ),
        (lambda: EfficientChannelAttention(6, kernel=4), "kernel: expected an odd integer, at least 1, got 4"),
        (lambda: EfficientChannelAttention(6, kernel=-1), "kernel: expected an odd integer, at least 1, got -1"),
        (lambda: EfficientChannelAttention(6, kernel=2.5), "kernel: expected an odd integer, at least 1, got 2.5"),
        (lambda: EfficientChannelAttention(6, gate=nn.Sigmoid), "gate: expected a module"),
        (lambda: EfficientChannelAttention(6)(torch.rand(2, 5, 3, 3)), "expected (B, 6, h, w), got (2, 5, 3, 3)"),
        (lambda: EfficientChannelAttention(6)(torch.rand(6, 3, 3)), "expected (B, 6, h, w), got (6, 3, 3)"),
        (lambda: EfficientChannelAttention(6)(torch.ones(2, 6, 3, 3).long()), "torch.int64"),
    ],
)
def test_bad_input_is_one_line(call, says):
    with pytest.raises(FovealError) as caught:
        call()
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
