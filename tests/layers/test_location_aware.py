import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from layers.carry import near
from oracle.location_aware import like

from foveal.core import observe
from foveal.core.pattern.padding import padding
from foveal.errors import FovealError
from foveal.layers.location_aware import LocationAware


def tokens(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def made(**options):
    torch.manual_seed(0)
    return LocationAware(state_width=7, key_width=3, hidden=5, **{"filters": 2, "taps": 3, **options}).double()


def inputs():
    return tokens(2, 7), tokens(2, 13, 3, seed=2), tokens(2, 13, seed=3).softmax(-1)


def test_by_hand():
    # Only the place counts. The filter reads the left neighbour, so the step after (1, 0, 0) has f = (0, 1, 0) and e =
    # (0, ln 3, 0).
    layer = LocationAware(1, 1, 1, filters=1, taps=3)
    for weight in (layer.state.weight, layer.state.bias, layer.key.weight):
        weight.data.zero_()
    layer.place.weight.data.fill_(1)
    layer.filters.data = torch.tensor([[1.0, 0.0, 0.0]])
    layer.v.data.fill_(math.log(3) / math.tanh(1))
    y, weights = layer(torch.ones(1, 1), torch.tensor([[[1.0], [2.0], [4.0]]]), torch.tensor([[1.0, 0.0, 0.0]]))
    assert torch.allclose(weights, torch.tensor([[0.2, 0.6, 0.2]]))
    assert torch.allclose(y, torch.tensor([[2.2]]))


def test_it_is_the_oracle():
    layer = made()
    for got, want in zip(layer(*inputs()), like(layer, *inputs()), strict=True):
        assert near(got, torch.tensor(want, dtype=torch.float64))


def test_conv1d_is_a_witness():
    layer, (state, memory, previous) = made(), inputs()
    place = layer.place(F.conv1d(previous[:, None], layer.filters[:, None], padding=1).transpose(1, 2))
    scores = torch.tanh(layer.state(state)[:, None] + layer.key(memory) + place) @ layer.v
    y, weights = layer(state, memory, previous)
    assert near(weights, scores.softmax(-1))
    assert near(y, (scores.softmax(-1)[..., None] * memory).sum(1))


def test_before_the_first_step_nothing_was_looked_at():
    layer, (state, memory, _) = made(), inputs()
    for one, other in zip(layer(state, memory), layer(state, memory, torch.zeros(2, 13).double()), strict=True):
        assert near(one, other, 0)


@given(st.lists(st.integers(1, 13), min_size=2, max_size=2))
def test_a_padded_memory_is_the_shorter_one(lengths):
    layer, (state, memory, _) = made(), inputs()
    mask = padding(lengths)
    _, first = layer(state, memory, mask=mask, keys=layer.keys(memory))
    y, second = layer(state, memory, first, mask=mask)
    for sample, length in enumerate(lengths):
        one, short = state[sample : sample + 1], memory[sample : sample + 1, :length]
        want, weights = layer(one, short, layer(one, short)[1])
        assert near(y[sample], want[0])
        assert near(second[sample, :length], weights[0])
        assert second[sample, length:].eq(0).all()


def test_a_walk_learns_through_all_its_steps():
    layer, (state, memory, _) = made(), inputs()
    weights = None
    for _ in range(3):
        y, weights = layer(state, memory, weights)
    y.square().sum().backward()
    for name, parameter in layer.named_parameters():
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().sum() > 0, name


def test_the_weights_are_those_that_are_seen():
    layer, seen = made(), []
    observe.observers.append(seen.append)
    try:
        _, weights = layer(*inputs())
    finally:
        observe.observers.pop()
    (look,) = seen
    assert near(look.rows(torch.tensor([0]))[:, 0, 0], weights, 0)


def test_bad_input():
    layer, (state, memory, previous) = made(), inputs()
    with pytest.raises(FovealError, match=r"LocationAware's state: expected \(B, 7\), one step, got \(2, 1, 7\)"):
        layer(state[:, None], memory, previous)
    with pytest.raises(FovealError, match=r"LocationAware's previous: expected \(2, 13\), got \(2, 11\)"):
        layer(state, memory, previous[:, :11])
    with pytest.raises(FovealError, match=r"LocationAware's keys: expected \(2, 13, 5\)"):
        layer(state, memory, keys=memory)
    with pytest.raises(
        FovealError, match="LocationAware's taps: expected an odd number, so that a filter has a middle, got 4"
    ):
        made(taps=4)
