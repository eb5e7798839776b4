import math

import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle.dot import dot as oracle

from foveal.core.score.dot import dot


def heads(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_by_hand():
    q, k = torch.tensor([[[[3.0, 4.0]]]]), torch.tensor([[[[1.0, 0.0], [0.0, 2.0]]]])
    assert dot(q, k, scale=1.0).tolist() == [[[[3.0, 8.0]]]]
    assert torch.allclose(dot(q, k), torch.tensor([[[[3 / math.sqrt(2), 8 / math.sqrt(2)]]]]))


def test_it_is_the_oracle_with_shared_keys():
    q, k = heads(3, 6, 5, 7), heads(3, 2, 11, 7, seed=1)
    assert torch.allclose(
        dot(q, k), torch.tensor(oracle(q.tolist(), k.tolist()), dtype=torch.float64), atol=1e-12, rtol=0
    )


def test_einsum_is_a_witness():
    q, k = heads(2, 3, 5, 7), heads(2, 3, 11, 7, seed=1)
    assert torch.allclose(dot(q, k, scale=0.3), torch.einsum("bhnd,bhmd->bhnm", q, k) * 0.3)


@given(st.floats(-4, 4))
def test_it_is_linear_in_the_query(factor):
    q, k = heads(1, 2, 3, 5), heads(1, 2, 7, 5, seed=1)
    assert torch.allclose(dot(q * factor, k), dot(q, k) * factor)
