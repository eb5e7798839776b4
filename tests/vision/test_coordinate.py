"""Coordinate attention by hand. What holds for all modules: tests/test_every.py."""

import pytest
import torch
from case import error
from torch import nn

from foveal.errors import FovealError
from foveal.vision.coordinate import CoordinateAttention


def test_by_hand():
    # One channel, rows with means 1 and 3, columns with means 0, 2, 4, all as they are between F₁ and the gates.
    # F_h = ln 3 · z − 2 ln 3: gates σ(−ln 3) = 1/4 and σ(ln 3) = 3/4. F_w = −ln 3 · z / 2: 1/2, 1/4, 1/10.
    module = CoordinateAttention(1, squeeze=1, norm=nn.Identity(), activation=nn.Identity()).double()
    log = torch.tensor(3.0, dtype=torch.float64).log()
    with torch.no_grad():
        module.reduce.weight.fill_(1)
        module.reduce.bias.zero_()
        module.by_row.weight.fill_(log)
        module.by_row.bias.fill_(-2 * log)
        module.by_column.weight.fill_(-log / 2)
        module.by_column.bias.zero_()
        y = module(torch.tensor([[[[-1.0, 1.0, 3.0], [1.0, 3.0, 5.0]]]], dtype=torch.float64))
    want = torch.tensor([[[[-1 / 8, 1 / 16, 3 / 40], [3 / 8, 9 / 16, 15 / 40]]]], dtype=torch.float64)
    assert error(y, want) < 1e-12


def test_a_map_that_lies_on_its_side_is_answered_on_its_side():
    module, turned = CoordinateAttention(5).eval(), CoordinateAttention(5).eval()
    turned.load_state_dict(module.state_dict())
    turned.by_row, turned.by_column = module.by_column, module.by_row
    maps = torch.randn(2, 5, 3, 7)
    assert error(turned(maps.transpose(2, 3)), module(maps).transpose(2, 3)) < 1e-6
    assert error(module(maps.transpose(2, 3)), module(maps).transpose(2, 3)) > 1e-4


def test_the_gate_is_a_product_of_rows_and_columns():
    module, maps = CoordinateAttention(5).double().eval(), torch.randn(2, 5, 3, 7, dtype=torch.float64)
    assert torch.linalg.matrix_rank(module(maps) / maps, rtol=1e-9).eq(1).all()


def test_the_squeeze_is_that_of_the_authors():
    assert CoordinateAttention(96).reduce.out_channels == 8
    assert CoordinateAttention(352).reduce.out_channels == 11


def test_one_image_trains():
    module = CoordinateAttention(5).train()
    module(torch.randn(1, 5, 1, 1)).sum().backward()
    assert module.by_row.weight.grad.isfinite().all()


def test_the_gate_is_a_part():
    hard = CoordinateAttention(5, gate=nn.Hardsigmoid(), norm=nn.GroupNorm(2, 8), activation=nn.ReLU())
    with torch.no_grad():
        hard.by_column.weight.zero_()
        hard.by_column.bias.fill_(-3.0)
    assert error(hard(torch.randn(2, 5, 3, 7)), torch.zeros(2, 5, 3, 7)) == 0  # where a sigmoid lets 5 % pass


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: CoordinateAttention(0), "CoordinateAttention's width: expected an integer, at least 1, got 0"),
        (lambda: CoordinateAttention(6, squeeze=0), "squeeze: expected an integer, at least 1, got 0"),
        (
            lambda: CoordinateAttention(6, norm=nn.BatchNorm2d),
            "norm: expected a module, such as nn.Sigmoid(), got the class",
        ),
        (
            lambda: CoordinateAttention(6, gate="sigmoid"),
            "gate: expected a module, such as nn.Sigmoid(), got 'sigmoid'",
        ),
        (lambda: CoordinateAttention(6)(torch.rand(2, 5, 3, 3)), "expected (B, 6, h, w), got (2, 5, 3, 3)"),
        (lambda: CoordinateAttention(6)(torch.rand(2, 6, 3, 0)), "expected (B, 6, h, w), got (2, 6, 3, 0)"),
        (lambda: CoordinateAttention(6)(torch.rand(2, 6, 3, 3).half()), "expected torch.float32, as its weights"),
    ],
)
def test_bad_input_is_one_line(call, says):
    with pytest.raises(FovealError) as caught:
        call()
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
