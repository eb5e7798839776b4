import pytest
import torch
from oracle.location import score as oracle

from foveal.core.score.location import location
from foveal.errors import FovealError


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_by_hand():
    state, weight = torch.tensor([[[[2.0, 1.0]]]]), torch.tensor([[1.0, 0.0], [0.0, 3.0], [1.0, -1.0]])
    assert location(state, weight).tolist() == [[[[2.0, 3.0, 1.0]]]]


@pytest.mark.parametrize("keys", [None, 0, 3, 11])
def test_it_is_the_oracle(keys):
    state, weight = draw(2, 3, 5, 7), draw(11, 7, seed=1)
    got = location(state, weight, keys)
    assert got.shape == (2, 3, 5, 11 if keys is None else keys)
    want = torch.tensor(oracle(state.tolist(), weight.tolist(), keys), dtype=torch.float64).reshape(got.shape)
    assert torch.allclose(got, want, atol=1e-12, rtol=0)


def test_more_positions_than_it_knows():
    with pytest.raises(
        FovealError, match="location's keys: expected at most 11, the positions that weight knows, got 13"
    ):
        location(draw(2, 3, 5, 7), draw(11, 7), 13)
    with pytest.raises(FovealError, match=r"location's weight: expected \(M, 7\), got \(7, 11\)"):
        location(draw(2, 3, 5, 7), draw(7, 11))
    with pytest.raises(FovealError, match="state: expected 4 axes"):
        location(draw(2, 5, 7), draw(11, 7))
