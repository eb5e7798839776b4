import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle.content import score as oracle

from foveal.core.score.content import content
from foveal.errors import FovealError


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_by_hand():
    # content(q) = (3, 4), content(k) = (1, 0) and (0, 1).
    q, k = torch.tensor([[[[1.0]]]]), torch.tensor([[[[2.0, 0.0], [0.0, 5.0]]]])
    scores = content(q, k, torch.tensor([[3.0], [4.0]]), torch.eye(2), strength=10.0)
    assert torch.allclose(scores, torch.tensor([[[[6.0, 8.0]]]]))


def test_it_is_the_oracle_with_shared_keys_and_two_widths():
    q, k, w_query, w_key = draw(2, 6, 5, 7), draw(2, 3, 11, 2, seed=1), draw(13, 7, seed=2), draw(13, 2, seed=3)
    want = torch.tensor(oracle(*(x.tolist() for x in (q, k, w_query, w_key)), 1.7), dtype=torch.float64)
    assert torch.allclose(content(q, k, w_query, w_key, 1.7), want, atol=1e-12, rtol=0)


@given(st.floats(0.1, 10))
def test_strength_bounds_the_scores(strength):
    q, k, w_query, w_key = draw(2, 3, 5, 7), draw(2, 3, 11, 2, seed=1), draw(13, 7, seed=2), draw(13, 2, seed=3)
    scores = content(q, k, w_query, w_key, strength)
    assert scores.abs().max() <= strength * (1 + 1e-12)
    assert torch.allclose(content(q * 3, k, w_query * 2, w_key, strength), scores)


def test_weights_that_do_not_fit():
    with pytest.raises(FovealError, match=r"w_key: expected \(13, 2\), hidden width and input, got \(13, 7\)"):
        content(draw(2, 3, 5, 7), draw(2, 3, 11, 2), draw(13, 7), draw(13, 7))
