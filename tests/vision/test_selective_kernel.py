"""Selective kernels by hand, and what `watch` sees. What holds for all modules: tests/test_every.py."""

import pytest
import torch
from case import error
from torch import nn

import foveal
from foveal.errors import FovealError
from foveal.vision.selective_kernel import SelectiveKernel


class Times(nn.Module):
    def __init__(self, number):
        super().__init__()
        self.number = number

    def forward(self, maps):
        return maps * self.number


def test_by_hand():
    # Branches x and −3x of channels with means 1 and 2: s = −2 and −4, W = (−1, 0): z = 2. A₀ = (ln 3 / 2, 0),
    # A₁ = (0, ln 2): scores (ln 3, 0) and (0, ln 4), so weights (3/4, 1/4) and (1/5, 4/5), and
    # y = (3/4 − 3/4) x = 0 and (1/5 − 12/5) x = −2.2 x.
    module = SelectiveKernel(2, branches=[Times(1), Times(-3)], squeeze=1, norm=nn.Identity()).double()
    two, three = torch.tensor([2.0, 3.0], dtype=torch.float64).log()
    with torch.no_grad():
        module.reduce.weight.copy_(torch.tensor([-1.0, 0.0]).view(1, 2, 1, 1))
        module.score.weight.copy_(torch.stack([three / 2, 0 * two, 0 * two, two]).view(4, 1, 1, 1))
        y = module(torch.tensor([[[[0.0, 2.0]], [[3.0, 1.0]]]], dtype=torch.float64))
    assert error(y, torch.tensor([[[[0.0, 0.0]], [[-6.6, -2.2]]]], dtype=torch.float64)) < 1e-12


def test_branches_that_agree_are_passed_on():
    branch = nn.Conv2d(5, 7, 3, stride=2)  # which changes width and size: what comes in is the branches' own business
    module, maps = SelectiveKernel(7, branches=[branch, branch, branch]).eval(), torch.randn(2, 5, 11, 13)
    assert error(module(maps), branch(maps)) < 1e-6


def test_weights_are_watched_a_head_for_each_channel():
    module, maps = SelectiveKernel(5, branches=[Times(number) for number in (1, 2, 4)]).eval(), torch.randn(2, 5, 3, 7)
    with foveal.watch(module) as seen:
        y = module(maps)
    [record] = seen.values()
    assert tuple(record.weights.shape) == (2, 5, 1, 3)
    factor = (record.weights[:, :, 0] * torch.tensor([1.0, 2, 4])).sum(-1)
    assert error(y, maps * factor[..., None, None]) < 1e-6


@pytest.mark.parametrize(("width", "groups"), [(64, 32), (48, 16), (6, 2), (7, 1)])
def test_the_branches_are_those_of_the_paper(width, groups):
    first, second = SelectiveKernel(width).branches
    assert [one[0].dilation for one in (first, second)] == [(1, 1), (2, 2)]
    assert first[0].weight.shape == second[0].weight.shape == (width, width // groups, 3, 3)


def test_the_squeeze_is_that_of_the_paper():
    assert SelectiveKernel(256).reduce.out_channels == 32
    assert SelectiveKernel(1024).reduce.out_channels == 64


def test_one_image_trains_with_another_norm():
    module = SelectiveKernel(6, squeeze=4, norm=nn.GroupNorm(1, 4), activation=nn.SiLU()).train()
    module(torch.randn(1, 6, 3, 5)).sum().backward()
    assert module.score.weight.grad.any()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: SelectiveKernel(0), "SelectiveKernel's width: expected an integer, at least 1, got 0"),
        (lambda: SelectiveKernel(6, squeeze=0), "squeeze: expected an integer, at least 1, got 0"),
        (lambda: SelectiveKernel(6, branches=[]), "branches: expected a list of modules, at least one, got []"),
        (
            lambda: SelectiveKernel(6, branches=nn.Identity()),
            "branches: expected a list of modules, at least one, got Identity",
        ),
        (lambda: SelectiveKernel(6, branches=[nn.ReLU]), "branches: expected a list of modules, at least one"),
        (lambda: SelectiveKernel(6, norm=nn.BatchNorm2d), "norm: expected a module"),
        (lambda: SelectiveKernel(6)(torch.rand(2, 5, 3, 3)), "maps: expected (B, 6, h, w), got (2, 5, 3, 3)"),
        (
            lambda: SelectiveKernel(6)(torch.rand(1, 6, 3, 3)),
            "expected at least 2 samples to train its batch norm, got 1",
        ),
        (
            lambda: SelectiveKernel(6, branches=[nn.Identity()])(torch.rand(2, 5, 3, 3)),
            "branch 0: expected (B, 6, h, w)",
        ),
        (
            lambda: SelectiveKernel(6, branches=[nn.Identity(), nn.MaxPool2d(2)])(torch.rand(2, 6, 4, 4)),
            "branch 1: expected (2, 6, 4, 4), as the first, got (2, 6, 2, 2)",
        ),
    ],
)
def test_bad_input_is_one_line(call, says):
    with pytest.raises(FovealError) as caught:
        call()
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
