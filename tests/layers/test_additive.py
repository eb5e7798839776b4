import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from layers.carry import near
from oracle.additive import additive as oracle
from torch import nn

from foveal.core.pattern.causal import causal
from foveal.core.pattern.padding import padding
from foveal.errors import FovealError
from foveal.layers.additive import Additive


def tokens(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def made():
    torch.manual_seed(0)
    return Additive(query_width=7, key_width=3, hidden=5).double()


def test_by_hand():
    # W_q = 0 and W_k = 1, so e_j = v·tanh(k_j) = 0 and ln 3 for the keys 0 and 1: weights 1/4, 3/4.
    layer = Additive(1, 1, 1)
    nn.init.zeros_(layer.query.weight)
    nn.init.ones_(layer.key.weight)
    nn.init.constant_(layer.v, math.log(3) / math.tanh(1))
    assert math.isclose(layer(torch.ones(1, 1, 1), torch.tensor([[[0.0], [1.0]]])).item(), 0.75, rel_tol=1e-6)


def test_it_is_the_oracle_with_two_widths():
    layer, query, memory = made(), tokens(2, 11, 7), tokens(2, 13, 3, seed=2)
    weights = layer.query.weight.tolist(), layer.key.weight.tolist(), layer.v.tolist()
    want = [oracle(one, two, *weights) for one, two in zip(query.tolist(), memory.tolist(), strict=True)]
    assert near(layer(query, memory), torch.tensor(want, dtype=torch.float64))


def test_torch_is_a_witness():
    layer, query, memory = made(), tokens(2, 11, 7), tokens(2, 13, 3, seed=2)
    inside = (
        torch.einsum("bnc,ac->bna", query, layer.query.weight)[:, :, None]
        + torch.einsum("bmc,ac->bma", memory, layer.key.weight)[:, None]
    )
    scores = torch.einsum("bnma,a->bnm", inside.tanh(), layer.v)
    assert near(layer(query, memory), torch.einsum("bnm,bme->bne", scores.softmax(-1), memory))


@given(st.integers(0, 10))
def test_a_step_with_known_keys_is_a_row_of_the_whole(step):
    layer, query, memory = made(), tokens(2, 11, 7), tokens(2, 13, 3, seed=2)
    mask = padding([13, 4])
    whole = layer(query, memory, mask=mask)
    assert near(layer(query[:, step : step + 1], memory, keys=layer.keys(memory), mask=mask), whole[:, step : step + 1])


def test_masks():
    layer, query, memory = made(), tokens(2, 11, 7), tokens(2, 13, 3, seed=2)
    y = layer(query, memory, mask=causal & padding([13, 0]))
    assert near(y[0, 0], memory[0, 0])
    assert y[1].eq(0).all()
    assert near(y[0, 3], layer(query[:, 3:4], memory[:, :4])[0, 0])


def test_gradients_of_a_row_that_sees_nothing():
    layer, query, memory = made(), tokens(2, 11, 7).requires_grad_(), tokens(2, 13, 3, seed=2).requires_grad_()
    layer(query, memory, mask=padding([13, 0])).square().sum().backward()
    for tensor in (query, memory, *layer.parameters()):
        assert tensor.grad.isfinite().all()
    assert query.grad[1].eq(0).all()


def test_dropout_only_in_training():
    layer, query, memory = Additive(7, 3, 5, dropout=0.5), tokens(2, 11, 7).float(), tokens(2, 13, 3).float()
    torch.manual_seed(0)
    assert not near(layer(query, memory), layer(query, memory))
    layer.eval()
    assert near(layer(query, memory), layer(query, memory), 0)


def test_bad_input():
    layer, query, memory = made(), tokens(2, 11, 7), tokens(2, 13, 3, seed=2)
    with pytest.raises(FovealError, match=r"Additive's query: expected \(B, N, 7\), got \(2, 13, 3\)"):
        layer(memory, query)
    with pytest.raises(FovealError, match=r"Additive's memory: expected \(B, N, 3\), got \(2, 11, 7\)"):
        layer(query, query)
    with pytest.raises(
        FovealError, match=r"Additive's keys: expected \(2, 13, 5\), as keys\(memory\) gives them, got \(2, 13, 3\)"
    ):
        layer(query, memory, keys=memory)
    with pytest.raises(FovealError, match="Additive's hidden: expected an integer, at least 1, got 0"):
        Additive(7, 3, 0)
