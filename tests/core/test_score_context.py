import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle.context import score as oracle

from foveal.core.score.context import context, history
from foveal.errors import FovealError


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def weights():
    return draw(13, 7, seed=2), draw(13, 7, seed=3), draw(13, 2, seed=4)


def test_history_by_hand():
    q = torch.tensor([6.0, 2.0, 1.0, 7.0]).view(1, 1, 4, 1)
    assert history(q).flatten().tolist() == [0, 6, 4, 3]
    assert history(q[:, :, 2:], earlier=q[:, :, :2]).flatten().tolist() == [4, 3]


def test_by_hand():
    # A = 1, W_h = −1/2: the second query 1 stands after a first of 2, so c = tanh(1 − 1) = 0; the first has c =
    # tanh(2).
    q, k, one = torch.tensor([[[[2.0], [1.0]]]]), torch.tensor([[[[1.0], [3.0]]]]), torch.ones(1, 1)
    scores = context(q, k, one, -one / 2, one)
    assert torch.allclose(scores, torch.tensor([[[[math.tanh(2), 3 * math.tanh(2)], [0.0, 0.0]]]]))


def test_it_is_the_oracle_with_shared_keys_and_two_widths():
    q, k = draw(2, 6, 5, 7), draw(2, 3, 11, 2, seed=1)
    want = torch.tensor(oracle(*(x.tolist() for x in (q, k, *weights()))), dtype=torch.float64)
    assert torch.allclose(context(q, k, *weights()), want, atol=1e-12, rtol=0)


@given(st.integers(0, 5))
def test_step_by_step_is_the_whole(cut):
    q, k = draw(2, 3, 5, 7), draw(2, 3, 11, 2, seed=1)
    whole = context(q, k, *weights())
    assert torch.allclose(context(q[:, :, cut:], k, *weights(), earlier=q[:, :, :cut]), whole[:, :, cut:])


def test_a_query_hears_of_earlier_ones_only():
    q, k = draw(1, 1, 5, 7).requires_grad_(), draw(1, 1, 11, 2, seed=1)
    (grad,) = torch.autograd.grad(context(q, k, *weights())[:, :, 2].sum(), q)
    assert grad[:, :, 3:].eq(0).all()
    assert grad[:, :, :3].ne(0).all()


def test_a_long_past_is_summed_in_full_precision():
    ones = torch.ones(1, 1, 1000, 1, dtype=torch.bfloat16)
    assert history(ones)[0, 0, 1:].eq(1).all()


def test_bad_input():
    q, k = draw(2, 3, 5, 7), draw(2, 3, 11, 2)
    with pytest.raises(FovealError, match=r"w_history: expected \(13, 7\)"):
        context(q, k, draw(13, 7), draw(13, 5), draw(13, 2))
    with pytest.raises(FovealError, match="earlier: expected queries like q"):
        context(q, k, *weights(), earlier=draw(2, 1, 5, 7))
