"""The moving average of weights."""

import copy

import pytest
import torch
from torch import nn

from foveal.training.average import Average


def test_three_steps_by_hand():
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 1.0)
    average = Average(model, decay=0.15)
    for step, value in enumerate((2.0, 3.0, 5.0)):
        nn.init.constant_(model.weight, value)
        average.update(model, step)
    # decays: min(0.15, 1/10) = 0.1, min(0.15, 2/11) = 0.15, 0.15
    first = 0.1 * 1 + 0.9 * 2
    second = 0.15 * first + 0.85 * 3
    assert average.module.weight.item() == pytest.approx(0.15 * second + 0.85 * 5)


def test_the_first_weights_are_forgotten_although_the_decay_is_long():
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 100.0)
    average = Average(model, decay=0.999)
    nn.init.constant_(model.weight, 0.0)
    for step in range(100):
        average.update(model, step)
    assert abs(average.module.weight.item()) < 1e-3


def test_it_follows_statistics_and_counters_and_is_not_trained():
    model = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5))
    average = Average(model, decay=0.0)
    model(torch.randn(7, 3))
    average.update(model, 50)
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(average.module.state_dict()[name], tensor)
    assert not any(parameter.requires_grad for parameter in average.parameters())


def test_a_copy_that_goes_on_from_its_state_is_the_same():
    torch.manual_seed(0)
    model = nn.Linear(3, 5)
    average = Average(model, decay=0.9)
    average.update(nn.Linear(3, 5), 0)
    other = Average(copy.deepcopy(model), decay=0.9)
    other.load_state_dict(average.state_dict())
    new = nn.Linear(3, 5)
    average.update(new, 1)
    other.update(new, 1)
    assert torch.equal(average.module.weight, other.module.weight)
