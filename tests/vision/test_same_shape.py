"""Which modules can stand on any map, by name; what each computes is tested with its own file."""

import pytest
import torch
from torch import nn

import foveal
from foveal.errors import FovealError
from foveal.vision import same_shape as source
from foveal.vision.non_local import FORMS, NonLocal
from foveal.vision.same_shape import SAME_SHAPE, same_shape

PARTS = {"Concatenation", "DotProduct", "EmbeddedGaussian", "Gaussian"}  # the forms of NonLocal
ELSEWHERE = {"AttentionGate", "TemporalAttention", "SpaceTime"}


@pytest.mark.parametrize("name", SAME_SHAPE)
def test_a_map_comes_out_as_it_went_in_and_what_learns_is_reached(name):
    torch.manual_seed(0)
    module, maps = same_shape(name, 13), torch.randn(3, 13, 5, 7)
    assert type(module).__name__ == name.split(":")[0]
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            nn.init.uniform_(part.weight, 0.5, 1.5)  # NonLocal's begins at 0
    y = module(maps)
    assert y.shape == maps.shape
    assert not torch.equal(y, maps)
    y.square().sum().backward()
    assert all(weight.grad is not None for weight in module.parameters())


def test_every_module_of_the_folder_is_there_or_named_as_one_that_cannot_be():
    assert {name.split(":")[0] for name in SAME_SHAPE} | PARTS | ELSEWHERE == set(foveal.vision.__all__)
    assert {name.split(":")[1] for name in SAME_SHAPE if ":" in name} == set(FORMS)
    assert {type(NonLocal(4, form=form).form).__name__ for form in FORMS} == PARTS
    assert all(name in source.__doc__ for name in ELSEWHERE)


@pytest.mark.parametrize("name", ["cbam", "NonLocal", "NonLocal:softmax", "AttentionGate", "", None])
def test_another_name_is_refused(name):
    with pytest.raises(FovealError, match="no module on one feature map is called"):
        same_shape(name, 8)
