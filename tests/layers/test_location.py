import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from layers.carry import near
from oracle.location import location as oracle

from foveal.core.pattern.padding import padding
from foveal.errors import FovealError
from foveal.layers.location import Location


def tokens(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def made():
    torch.manual_seed(0)
    return Location(state_width=7, keys=13).double()


def test_by_hand():
    # W_a s = (0, ln 3): weights 1/4 and 3/4, whatever the memory holds.
    layer = Location(1, 2)
    layer.place.weight.data = torch.tensor([[0.0], [math.log(3)]])
    assert math.isclose(layer(torch.ones(1, 1, 1), torch.tensor([[[4.0], [8.0]]])).item(), 7.0, rel_tol=1e-6)


@pytest.mark.parametrize("keys", [13, 5, 1])
def test_it_is_the_oracle(keys):
    layer, state, memory = made(), tokens(2, 11, 7), tokens(2, keys, 3, seed=2)
    want = [
        oracle(one, two, layer.place.weight.tolist()) for one, two in zip(state.tolist(), memory.tolist(), strict=True)
    ]
    assert near(layer(state, memory), torch.tensor(want, dtype=torch.float64))


def test_torch_is_a_witness():
    layer, state, memory = made(), tokens(2, 11, 7), tokens(2, 13, 3, seed=2)
    assert near(layer(state, memory), layer.place(state).softmax(-1) @ memory)


@given(st.floats(-5, 5))
def test_the_weights_do_not_read_the_memory(factor):
    layer, state, memory = made(), tokens(2, 11, 7), tokens(2, 13, 3, seed=2)
    assert torch.allclose(layer(state, memory * factor), layer(state, memory) * factor)


def test_padding_is_the_shorter_memory():
    layer, state, memory = made(), tokens(2, 11, 7), tokens(2, 13, 3, seed=2)
    y = layer(state, memory, mask=padding([4, 13]))
    assert near(y[0], layer(state[:1], memory[:1, :4])[0])


def test_bad_input():
    with pytest.raises(
        FovealError, match="Location's memory: expected at most 13 tokens, got 17; build it with more keys"
    ):
        made()(tokens(2, 11, 7), tokens(2, 17, 3))
    with pytest.raises(FovealError, match=r"Location's state: expected \(B, N, 7\)"):
        made()(tokens(2, 11, 5), tokens(2, 13, 3))
    with pytest.raises(FovealError, match="Location's keys: expected an integer, at least 1, got 0"):
        Location(7, 0)
