import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from layers.carry import near
from oracle.performer import performer as oracle

from foveal.core import observe
from foveal.core.linear import orthogonal
from foveal.core.pattern.causal import causal
from foveal.core.pattern.local import local
from foveal.core.pattern.padding import padding
from foveal.errors import FovealError
from foveal.layers.multihead import MultiHead
from foveal.layers.performer import Performer


def tokens(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def made(*, mask=None, features=7):
    torch.manual_seed(0)
    return Performer(15, heads=3, features=features, mask=mask).double()


def parts(layer):
    return [(part.weight.tolist(), part.bias.tolist()) for part in (layer.qkv, layer.out)]


def test_by_hand():
    # One feature ω = 1 and identity projections: the weights of the tokens 0, 1, 2 are exp(k − k²/2) = 1, √e, 1 for
    # every query.
    layer = Performer(1, heads=1, features=1)
    layer.qkv.weight.data, layer.qkv.bias.data = torch.ones(3, 1), torch.zeros(3)
    layer.out.weight.data, layer.out.bias.data = torch.ones(1, 1), torch.zeros(1)
    layer.projection.fill_(1)
    y = layer(torch.tensor([[[0.0], [1.0], [2.0]]]))
    assert torch.allclose(y, torch.full((1, 3, 1), (math.exp(0.5) + 2) / (2 + math.exp(0.5))))
    later = layer(torch.tensor([[[0.0], [1.0], [2.0]]]), mask=causal)
    assert torch.allclose(later[0, :2], torch.tensor([[0.0], [math.exp(0.5) / (1 + math.exp(0.5))]]))


@pytest.mark.parametrize(
    ("mask", "keeps"),
    [(None, None), (causal, lambda b, i, j: j <= i), (padding([4, 4]), lambda b, i, j: j < 4)],
    ids=["both ways", "causal", "padded"],
)
def test_it_is_the_oracle(mask, keeps):
    layer, x = made(mask=mask), tokens(2, 11, 15)
    want = [oracle(one, one, *parts(layer), layer.projection.tolist(), 3, keeps) for one in x.tolist()]
    assert near(layer(x), torch.tensor(want, dtype=torch.float64))


def test_cross_attention_is_the_oracle():
    layer, x, memory = made(), tokens(2, 11, 15), tokens(2, 13, 15, seed=2)
    both = zip(x.tolist(), memory.tolist(), strict=True)
    want = [oracle(one, two, *parts(layer), layer.projection.tolist(), 3) for one, two in both]
    assert near(layer(x, memory), torch.tensor(want, dtype=torch.float64))


@pytest.mark.parametrize("mask", [None, causal], ids=str)
def test_with_many_features_it_is_multi_head_attention(mask):
    torch.manual_seed(0)
    exact, x = MultiHead(16, 4, mask=mask).double(), tokens(2, 23, 16) / 2
    errors = []
    for features in (16, 256, 4096):
        layer = Performer(16, 4, features, mask=mask).double()
        kept = layer.load_state_dict(exact.state_dict(), strict=False)
        assert kept.missing_keys == ["projection"]
        errors.append((layer(x) - exact(x)).square().mean().sqrt().item())
    assert errors[0] > 2 * errors[1] > 4 * errors[2]
    assert errors[2] < 0.01


def test_the_layers_mask_and_the_callers_hold_both():
    x = tokens(2, 11, 15)
    always, never = made(mask=causal), made()
    kept = torch.arange(11) < torch.tensor([7, 11])[:, None]
    for mask in (padding([7, 11]), kept[:, None, None]):
        assert near(always(x, mask=mask), never(x, mask=causal & padding([7, 11])))


@given(st.integers(0, 10))
def test_no_gradient_comes_from_later_tokens(row):
    layer, x = made(mask=causal), tokens(2, 11, 15).requires_grad_()
    (grad,) = torch.autograd.grad(layer(x)[:, row].square().sum(), x)
    assert grad[:, row + 1 :].eq(0).all()
    assert grad[:, : row + 1].ne(0).any(-1).all()


def test_no_gradient_comes_from_later_chunks():
    layer, x = made(mask=causal), tokens(1, 300, 15).requires_grad_()
    (grad,) = torch.autograd.grad(layer(x)[:, 127:129].square().sum(), x)
    assert grad[:, 129:].eq(0).all()
    assert grad[:, :129].ne(0).any(-1).all()


def test_a_prefix_does_not_hear_of_the_rest():
    layer, x = made(mask=causal), tokens(2, 300, 15)
    assert near(layer(x)[:, :131], layer(x[:, :131]))


@given(st.permutations(range(11)))
def test_without_positions_it_does_not_know_the_order(order):
    layer, x = made(), tokens(2, 11, 15)
    assert near(layer(x[:, order]), layer(x)[:, order])


def test_the_seed_decides_the_features():
    layer = Performer(15, heads=3, features=7, seed=3)
    assert torch.equal(layer.projection, orthogonal(7, 5, seed=3))
    x = tokens(2, 11, 15).float()
    before = layer(x)
    layer.redraw(4)
    assert torch.equal(layer.projection, orthogonal(7, 5, seed=4))
    assert not near(layer(x), before)
    layer.redraw(3)
    assert torch.equal(layer(x), before)


def test_the_features_are_saved():
    layer = Performer(15, heads=3, features=7, seed=3)
    other = Performer(15, heads=3, features=7, seed=4)
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other.projection, layer.projection)


def test_its_weights_can_be_seen():
    layer, x, seen = made(mask=causal), tokens(2, 11, 15), []
    observe.observers.append(seen.append)
    try:
        y = layer(x)
    finally:
        observe.observers.pop()
    alpha = seen[0].rows(torch.arange(11))
    assert alpha.shape == (2, 3, 11, 11)
    assert torch.allclose(alpha.sum(-1), torch.ones(2, 3, 11, dtype=torch.float64))
    assert alpha.triu(1).eq(0).all()
    v = layer.qkv(x)[..., 30:].view(2, 11, 3, 5).transpose(1, 2)
    assert near(layer.out((alpha @ v).transpose(1, 2).flatten(2)), y)


def test_bad_input():
    with pytest.raises(FovealError, match="Performer's heads: expected a divisor of the width 15, got 4"):
        Performer(15, heads=4)
    with pytest.raises(FovealError, match="Performer's features: expected an integer, at least 1, got 0"):
        Performer(15, heads=3, features=0)
    with pytest.raises(FovealError, match=r"Performer's query: expected \(B, N, 15\), got \(2, 11, 14\)"):
        made()(tokens(2, 11, 14))
    with pytest.raises(
        FovealError,
        match=r"mask: expected none, causal, padding or causal & padding.*got local.*; MultiHead takes any mask",
    ):
        made()(tokens(2, 11, 15), mask=local(3))
