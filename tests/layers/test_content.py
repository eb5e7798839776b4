import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from layers.carry import near
from oracle.content import like

from foveal.core.pattern.padding import padding
from foveal.errors import FovealError
from foveal.layers.content import Content


def tokens(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def made():
    torch.manual_seed(0)
    return Content(query_width=7, key_width=3, hidden=5).double()


def test_by_hand():
    # cos = 0 and 1 for keys across and along, and β = ln 3: weights 1/4, 3/4.
    layer = Content(2, 2, 2)
    layer.query.weight.data, layer.key.weight.data = torch.eye(2), torch.eye(2)
    layer.log_strength.data = torch.tensor(math.log(math.log(3)))
    y = layer(torch.tensor([[[5.0, 0.0]]]), torch.tensor([[[0.0, 4.0], [8.0, 0.0]]]))
    assert torch.allclose(y, torch.tensor([[[6.0, 1.0]]]))


def test_it_is_the_oracle():
    layer, query, memory = made(), tokens(2, 11, 7), tokens(2, 13, 3, seed=2)
    assert near(layer(query, memory), torch.tensor(like(layer, query, memory), dtype=torch.float64))


def test_torch_is_a_witness():
    layer, query, memory = made(), tokens(2, 11, 7), tokens(2, 13, 3, seed=2)
    angle = torch.cosine_similarity(layer.query(query)[:, :, None], layer.key(memory)[:, None], dim=-1)
    assert near(layer(query, memory), (layer.log_strength.exp() * angle).softmax(-1) @ memory)


def test_it_begins_as_spread_as_a_scaled_dot_product():
    assert math.isclose(Content(7, 3, hidden=64).log_strength.exp().item(), 8.0, rel_tol=1e-6)


@given(st.floats(0.01, 100))
def test_how_long_a_query_is_does_not_matter(factor):
    layer, query, memory = made(), tokens(2, 11, 7), tokens(2, 13, 3, seed=2)
    assert torch.allclose(layer(query * factor, memory), layer(query, memory))


def test_padding_is_the_shorter_memory():
    layer, query, memory = made(), tokens(2, 11, 7), tokens(2, 13, 3, seed=2)
    y = layer(query, memory, mask=padding([4, 0]))
    assert near(y[0], layer(query[:1], memory[:1, :4])[0])
    assert y[1].eq(0).all()


def test_bad_input():
    with pytest.raises(FovealError, match=r"Content's memory: expected \(B, N, 3\), got \(2, 13, 7\)"):
        made()(tokens(2, 11, 7), tokens(2, 13, 7))
    with pytest.raises(FovealError, match="Content's key_width: expected an integer, at least 1, got 0"):
        Content(7, 0, 5)
