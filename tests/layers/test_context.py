import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from layers.carry import near
from oracle.context import like

from foveal.core.pattern.padding import padding
from foveal.errors import FovealError
from foveal.layers.context import Context


def tokens(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def made():
    torch.manual_seed(0)
    return Context(query_width=7, key_width=3, hidden=5).double()


def test_by_hand():
    # Both queries are 1. The first has no past: c = tanh 1, e = (0, ln 3). The second has a past of 1, and W_h = −1
    # takes it away: c = 0.
    layer = Context(1, 1, 1)
    layer.query.weight.data, layer.history.weight.data = torch.tensor([[1.0]]), torch.tensor([[-1.0]])
    layer.key.weight.data = torch.tensor([[math.log(3) / math.tanh(1) / 4]])
    y = layer(torch.ones(1, 2, 1), torch.tensor([[[0.0], [4.0]]]))
    assert torch.allclose(y, torch.tensor([[[3.0], [2.0]]]))


def test_it_is_the_oracle():
    layer, query, memory = made(), tokens(2, 11, 7), tokens(2, 13, 3, seed=2)
    assert near(layer(query, memory), torch.tensor(like(layer, query, memory), dtype=torch.float64))


def test_torch_is_a_witness():
    layer, query, memory = made(), tokens(2, 11, 7), tokens(2, 13, 3, seed=2)
    before = torch.ones(11, 11, dtype=torch.float64).tril(-1)
    past = (before / before.sum(1, keepdim=True).clamp(min=1)) @ query
    c = torch.tanh(layer.query(query) + layer.history(past))
    scores = c @ layer.key(memory).transpose(1, 2) / math.sqrt(5)
    assert near(layer(query, memory), scores.softmax(-1) @ memory)


@given(st.integers(0, 10))
def test_step_by_step_is_the_whole(step):
    layer, query, memory = made(), tokens(2, 11, 7), tokens(2, 13, 3, seed=2)
    one = layer(query[:, step : step + 1], memory, earlier=query[:, :step])
    assert near(one, layer(query, memory)[:, step : step + 1])


def test_no_gradient_comes_from_later_queries():
    layer, query, memory = made(), tokens(2, 11, 7).requires_grad_(), tokens(2, 13, 3, seed=2)
    (grad,) = torch.autograd.grad(layer(query, memory)[:, 4].square().sum(), query)
    assert grad[:, 5:].eq(0).all()
    assert grad[:, :5].ne(0).all()


def test_padding_is_the_shorter_memory():
    layer, query, memory = made(), tokens(2, 11, 7), tokens(2, 13, 3, seed=2)
    y = layer(query, memory, mask=padding([4, 0]))
    assert near(y[0], layer(query[:1], memory[:1, :4])[0])
    assert y[1].eq(0).all()


def test_bad_input():
    with pytest.raises(FovealError, match=r"Context's query: expected \(B, N, 7\), got \(2, 11, 3\)"):
        made()(tokens(2, 11, 3), tokens(2, 13, 3))
    with pytest.raises(FovealError, match=r"Context's earlier: expected \(B, N, 7\), got \(2, 7\)"):
        made()(tokens(2, 11, 7), tokens(2, 13, 3), earlier=tokens(2, 7))
    with pytest.raises(FovealError, match="Context's query_width: expected an integer, at least 1, got -1"):
        Context(-1, 3, 5)
