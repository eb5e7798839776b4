import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle.cosine import cosine as oracle

from foveal.core.score.cosine import cosine
from foveal.errors import FovealError


def heads(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_by_hand():
    # (3, 4) is at cos = 3/5 of the first axis and 4/5 of the second, and is 10 long of itself turned back.
    q, k = torch.tensor([[[[3.0, 4.0]]]]), torch.tensor([[[[7.0, 0.0], [0.0, 0.5], [-6.0, -8.0]]]])
    assert torch.allclose(cosine(q, k, temperature=0.5), torch.tensor([[[[1.2, 1.6, -2.0]]]]))


def test_it_is_the_oracle_with_shared_keys():
    q, k = heads(3, 6, 5, 7), heads(3, 2, 11, 7, seed=1)
    want = torch.tensor(oracle(q.tolist(), k.tolist(), 0.3), dtype=torch.float64)
    assert torch.allclose(cosine(q, k, 0.3), want, atol=1e-12, rtol=0)


def test_torch_is_a_witness():
    q, k = heads(2, 3, 5, 7), heads(2, 3, 11, 7, seed=1)
    assert torch.allclose(cosine(q, k), torch.cosine_similarity(q[:, :, :, None], k[:, :, None], dim=-1))


@given(st.floats(1e-3, 1e3))
def test_lengths_do_not_matter(factor):
    q, k = heads(1, 2, 3, 5), heads(1, 2, 7, 5, seed=1)
    assert torch.allclose(cosine(q * factor, k), cosine(q, k))
    assert cosine(q, k).abs().max() <= 1 + 1e-12


def test_a_zero_vector_scores_0_with_finite_gradients():
    q, k = torch.zeros(1, 1, 2, 3, requires_grad=True), torch.ones(1, 1, 5, 3, requires_grad=True)
    scores = cosine(q, k)
    assert scores.eq(0).all()
    scores.sum().backward()
    assert q.grad.isfinite().all()
    assert k.grad.isfinite().all()
    assert cosine(q.detach().half(), k.detach().half()).eq(0).all()


def test_a_temperature_for_each_head():
    q, k = heads(2, 3, 5, 7), heads(2, 3, 11, 7, seed=1)
    each = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64).view(3, 1, 1)
    assert torch.allclose(cosine(q, k, each)[:, 2], cosine(q, k)[:, 2] / 4)


def test_a_temperature_that_is_none():
    with pytest.raises(FovealError, match="cosine's temperature: expected above 0, got 0"):
        cosine(heads(1, 1, 2, 3), heads(1, 1, 2, 3), temperature=0)
