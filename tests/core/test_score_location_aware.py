import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from oracle.location_aware import score as oracle

from foveal.core.score.additive import additive
from foveal.core.score.location_aware import location_aware
from foveal.errors import FovealError


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def weights(hidden=5, query=7, key=2, filters=3, taps=5):
    shapes = (hidden, query), (hidden, key), (hidden, filters), (filters, taps), (hidden,), (hidden,)
    return [draw(*shape, seed=10 + number) for number, shape in enumerate(shapes)]


def test_by_hand():
    # Only the place counts: one filter (1, 2, 4) slides over α = (0, 1, 0), so f = (4·1, 2·1, 1·1).
    zero, one = torch.zeros(1, 1), torch.ones(1, 1)
    previous = torch.tensor([[[[0.0, 1.0, 0.0]]]])
    scores = location_aware(
        torch.ones(1, 1, 1, 1),
        torch.ones(1, 1, 3, 1),
        previous,
        zero,
        zero,
        one,
        torch.tensor([[1.0, 2.0, 4.0]]),
        zero[0],
        one[0] * 3,
    )
    assert torch.allclose(scores, torch.tensor([[[[3 * math.tanh(f) for f in (4, 2, 1)]]]]))


def test_it_is_the_oracle_with_shared_keys():
    q, k, previous = draw(2, 6, 3, 7), draw(2, 3, 11, 2, seed=1), draw(2, 6, 3, 11, seed=2).softmax(-1)
    want = torch.tensor(oracle(*(x.tolist() for x in (q, k, previous, *weights()))), dtype=torch.float64)
    assert torch.allclose(location_aware(q, k, previous, *weights()), want, atol=1e-12, rtol=0)


def test_einsum_is_a_witness():
    q, k, previous = draw(2, 3, 1, 7), draw(2, 3, 11, 2, seed=1), draw(2, 3, 1, 11, seed=2)
    w_query, w_key, w_location, filters, bias, v = weights()
    windows = F.pad(previous, (2, 2)).unfold(-1, 5, 1)  # (B, H, N, M, T)
    place = torch.einsum("bhnmt,rt,ar->bhnma", windows, filters, w_location)
    inside = (
        torch.einsum("bhnd,ad->bhna", q, w_query)[:, :, :, None]
        + torch.einsum("bhmd,ad->bhma", k, w_key)[:, :, None]
        + place
        + bias
    )
    assert torch.allclose(location_aware(q, k, previous, *weights()), torch.tanh(inside) @ v)


def test_without_a_past_it_is_additive():
    q, k = draw(2, 3, 5, 7), draw(2, 3, 11, 2, seed=1)
    w_query, w_key, w_location, filters, bias, v = weights()
    scores = location_aware(q, k, torch.zeros(2, 3, 5, 11).double(), w_query, w_key, w_location, filters, bias * 0, v)
    assert torch.allclose(scores, additive(q, k, w_query, w_key, v))


@given(st.integers(1, 4))
def test_it_follows_where_the_past_went(steps):
    # With equal keys nothing but the past tells positions apart: away from the ends, moving it moves the scores.
    q, k = draw(1, 1, 1, 7), torch.ones(1, 1, 23, 2, dtype=torch.float64)
    past = torch.zeros(1, 1, 1, 23, dtype=torch.float64)
    past[..., 9] = 1
    here, there = (location_aware(q, k, p, *weights()) for p in (past, past.roll(steps, -1)))
    assert torch.allclose(here.roll(steps, -1), there)
    assert not torch.allclose(here, there)


def test_bad_input():
    q, k, previous = draw(2, 3, 5, 7), draw(2, 3, 11, 2), draw(2, 3, 5, 11)
    with pytest.raises(
        FovealError, match=r"previous: expected the weights of the step before, \(2, 3, 5, 11\), got \(2, 3, 5, 7\)"
    ):
        location_aware(q, k, previous[..., :7], *weights())
    with pytest.raises(FovealError, match=r"filters: expected \(R, T\) with an odd number of taps T, got \(3, 4\)"):
        location_aware(q, k, previous, *weights(taps=4))
    with pytest.raises(FovealError, match=r"w_location: expected \(5, 3\)"):
        location_aware(q, k, previous, *weights()[:2], draw(5, 2), *weights()[3:])
