import math

import pytest
import torch
from oracle.additive import score as oracle

from foveal.core.score.additive import additive, joined
from foveal.errors import FovealError


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def weights(hidden=5, query=7, key=3):
    return draw(hidden, query, seed=2), draw(hidden, key, seed=3), draw(hidden, seed=4)


def test_by_hand():
    # One hidden unit: e = 2·tanh(3·1 − 1·j) for keys j = 1, 3.
    q, k = torch.tensor([[[[1.0]]]]), torch.tensor([[[[1.0], [3.0]]]])
    scores = additive(q, k, torch.tensor([[3.0]]), torch.tensor([[-1.0]]), torch.tensor([2.0]))
    assert torch.allclose(scores, torch.tensor([[[[2 * math.tanh(2), 0.0]]]]))


def test_it_is_the_oracle_with_shared_keys_and_two_widths():
    q, k = draw(2, 6, 5, 7), draw(2, 3, 11, 3, seed=1)
    want = torch.tensor(oracle(q.tolist(), k.tolist(), *(w.tolist() for w in weights())), dtype=torch.float64)
    assert torch.allclose(additive(q, k, *weights()), want, atol=1e-12, rtol=0)


def test_what_is_projected_already_gives_the_same():
    q, k = draw(2, 3, 5, 7), draw(2, 3, 11, 3, seed=1)
    w_query, w_key, v = weights()
    assert torch.allclose(joined(q @ w_query.T, k @ w_key.T, v), additive(q, k, w_query, w_key, v))


def test_gradients():
    q, k = draw(1, 2, 3, 2).requires_grad_(), draw(1, 1, 2, 3, seed=1).requires_grad_()
    torch.autograd.gradcheck(additive, (q, k, *(w.requires_grad_() for w in weights(hidden=2, query=2))))


@pytest.mark.parametrize("wrong", [0, 1])
def test_weights_that_do_not_fit(wrong):
    given = list(weights())
    given[wrong] = given[wrong].T
    with pytest.raises(FovealError, match=("w_query: expected", "w_key: expected")[wrong]):
        additive(draw(2, 3, 5, 7), draw(2, 3, 11, 3), *given)
