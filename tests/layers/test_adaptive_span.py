import copy
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from layers.carry import near
from oracle.adaptive_span import adaptive_span as oracle

from foveal.core.pattern.causal import causal
from foveal.core.pattern.local import local
from foveal.core.pattern.padding import padding
from foveal.errors import FovealError
from foveal.layers.adaptive_span import AdaptiveSpan, SpanTerm
from foveal.layers.multihead import MultiHead
from foveal.position.buckets import Buckets
from foveal.position.rotary import Rotary
from foveal.position.sinusoidal import Sinusoidal


def tokens(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def made(*, max_span=7, ramp=3, mask=None, position=None):
    torch.manual_seed(0)
    layer = AdaptiveSpan(12, heads=3, max_span=max_span, ramp=ramp, mask=mask, position=position).double()
    layer.position.p.data = torch.tensor([-2.0, 0.3, 1.1], dtype=torch.float64)  # spans of 0.8, 4.0 and 5.3
    return layer


def parts(layer):
    return [(part.weight.tolist(), part.bias.tolist()) for part in (layer.qkv, layer.out)]


def test_the_soft_mask_by_hand():
    # z = 1, R = 2: m = (3 − d)/2 is 1, 1, 1/2, 0, 0 at the distances 0 … 4.
    term = SpanTerm(torch.tensor([1.0]), ramp=2)
    scores = term.scores(torch.zeros(1, 1, 1, 4), torch.tensor([0]), torch.arange(5), *term.tensors)
    assert torch.allclose(scores.exp(), torch.tensor([[[1.0, 1.0, 0.5, 0.0, 0.0]]]))
    late = SpanTerm(torch.tensor([1.0]), ramp=2, query_start=4)
    assert torch.allclose(
        late.scores(torch.zeros(1, 1, 1, 4), torch.tensor([0]), torch.arange(5), *late.tensors), scores.flip(-1)
    )


def test_by_hand():
    # Equal scores, so the weights are m over its sum: from the first of three tokens, 1, 1, 1/2 by 5/2.
    layer = AdaptiveSpan(1, heads=1, max_span=2, ramp=2)  # p = 0, so z = 1
    layer.qkv.weight.data, layer.qkv.bias.data = torch.tensor([[0.0], [0.0], [1.0]]), torch.zeros(3)
    layer.out.weight.data, layer.out.bias.data = torch.ones(1, 1), torch.zeros(1)
    y = layer(torch.tensor([[[1.0], [10.0], [100.0]]]))
    assert torch.allclose(y[0, 0], torch.tensor([(1 + 10 + 50) / 2.5]))


@pytest.mark.parametrize("mask", [None, causal], ids=str)
@pytest.mark.parametrize("kernel", ["auto", "explicit", "blocks"])
def test_it_is_the_oracle(mask, kernel):
    layer, x = made(mask=mask), tokens(2, 17, 12)
    spans = [7 / (1 + math.exp(-p)) for p in (-2.0, 0.3, 1.1)]
    keeps = None if mask is None else lambda i, j: j <= i
    want = [oracle(one, *parts(layer), spans, 3, 3, keeps) for one in x.tolist()]
    assert near(layer(x, kernel=kernel), torch.tensor(want, dtype=torch.float64))


@pytest.mark.parametrize("kernel", ["explicit", "blocks"])
def test_the_spans_learn(kernel):
    layer, x = made(), tokens(1, 11, 12)

    def loss(p):
        layer.position.p.data = p
        return layer(x, kernel=kernel).square().sum()

    p = layer.position.p.detach().clone()
    loss(p).backward()
    grad = layer.position.p.grad
    assert grad.abs().min() > 0
    for head in range(3):
        step = torch.zeros(3, dtype=torch.float64)
        step[head] = 1e-6
        slope = (loss(p + step) - loss(p - step)) / 2e-6
        assert math.isclose(slope.item(), grad[head].item(), rel_tol=1e-5)


def test_gradients_are_finite_where_the_soft_mask_ends():
    layer = AdaptiveSpan(12, heads=3, max_span=4, ramp=2)  # z = 2 exactly, so m is exactly 0 at distance 4
    layer(tokens(2, 17, 12).float()).square().sum().backward()
    for parameter in layer.parameters():
        assert parameter.grad.isfinite().all()


def test_penalty_and_spans():
    layer = AdaptiveSpan(12, heads=3, max_span=8, ramp=2)
    assert layer.spans().tolist() == [4.0, 4.0, 4.0]
    assert layer.penalty().item() == 4.0
    layer.penalty().backward()
    # the slope of 8·σ at 0, a third for each head
    assert torch.allclose(layer.position.p.grad, torch.full((3,), 8 / 4 / 3))
    torch.optim.SGD(layer.parameters(), lr=1.0).step()
    assert (layer.spans() < 4).all()


@given(st.floats(-6, 6), st.integers(1, 5))
def test_trimmed_changes_nothing_and_drops_what_nobody_sees(p, ramp):
    layer, x = made(max_span=9, ramp=ramp), tokens(2, 23, 12)
    layer.position.p.data.fill_(p)
    mask = layer.trimmed()
    assert near(layer(x), layer(x, mask=mask))
    # No wider than needed: the last key inside still has weight.
    assert 0 <= ramp + layer.spans()[0].item() - mask.radius <= 1
    assert mask.pairs(23, 23) <= local(9 + ramp - 1).pairs(23, 23)


def test_a_span_beyond_the_input_is_multi_head_attention():
    layer, x = made(max_span=1000), tokens(2, 17, 12)
    exact = MultiHead(12, 3).double()
    exact.load_state_dict(layer.state_dict(), strict=False)
    assert near(layer(x), exact(x))


def test_nothing_is_seen_beyond_the_span():
    layer, x = made(), tokens(2, 31, 12).requires_grad_()
    (grad,) = torch.autograd.grad(layer(x)[:, 15].square().sum(), x)
    reach = math.ceil(layer.spans().max().item() + 3) - 1
    assert grad[:, : 15 - reach].eq(0).all()
    assert grad[:, 15 + reach + 1 :].eq(0).all()
    assert grad[:, 15 - reach : 15 + reach + 1].ne(0).any(-1).all()


def test_masks_and_a_position_are_kept():
    layer, x = made(mask=causal, position=Rotary(4)), tokens(2, 17, 12)
    kept = (torch.arange(17) < torch.tensor([5, 17])[:, None])[:, None, None]
    assert near(layer(x, mask=padding([5, 17])), layer(x, mask=kept))
    plain = made(mask=causal)
    plain.load_state_dict(layer.state_dict(), strict=False)
    assert not near(layer(x), plain(x))
    (grad,) = torch.autograd.grad(layer(x.requires_grad_())[:, 4].sum(), x)
    assert grad[:, 5:].eq(0).all()


def test_step_by_step_is_the_whole():
    layer, x = made(mask=causal), tokens(2, 17, 12)
    cache = layer.new_cache(2, 17)
    steps = [layer(x[:, i : i + 1], cache=cache) for i in range(17)]
    assert near(torch.cat(steps, 1), layer(x))


def test_heads_that_are_dropped_lose_their_spans():
    layer, x = made(), tokens(2, 17, 12)
    silent = made()
    silent.out.weight.data[:, 4:8] = 0
    layer.drop_heads([1])
    assert layer.spans().shape == (2,)
    assert near(layer(x), silent(x))


def test_heads_that_are_dropped_are_dropped_from_the_inner_position_too():
    layer, x = made(position=Buckets(3, 8, 9)), tokens(2, 17, 12)
    torch.nn.init.normal_(layer.position.inner.table)
    silent = copy.deepcopy(layer)
    silent.out.weight.data[:, 4:8] = 0
    layer.position.requires_grad_(False)
    layer.drop_heads([1])
    assert near(layer(x), silent(x))
    assert not any(parameter.requires_grad for parameter in layer.position.parameters())
    rebuilt = AdaptiveSpan(12, heads=2, max_span=7, ramp=3, position=Buckets(2, 8, 9), head_width=4).double()
    rebuilt.load_state_dict(layer.state_dict())
    assert torch.equal(rebuilt(x), layer(x))


def test_bad_input():
    with pytest.raises(
        FovealError,
        match="AdaptiveSpan's position: expected one that rotates or adds a term, got Sinusoidal; it is added",
    ):
        made(position=Sinusoidal(12))
    with pytest.raises(FovealError, match="AdaptiveSpan's ramp: expected an integer, at least 1, got 0"):
        AdaptiveSpan(12, 3, max_span=7, ramp=0)
    with pytest.raises(FovealError, match="AdaptiveSpan's max_span: expected an integer, at least 1, got -3"):
        AdaptiveSpan(12, 3, max_span=-3, ramp=2)
    layer = made()
    layer.position.p = torch.nn.Parameter(torch.zeros(2))
    with pytest.raises(FovealError, match="AdaptiveSpan's spans: expected one for each of 3 heads, got 2"):
        layer(tokens(2, 17, 12))
