import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from layers.carry import fill_from_torch, near, parts, scatter
from oracle.two_way import two_way
from torch import nn

from foveal.core.pattern.padding import padding
from foveal.errors import FovealError
from foveal.layers.two_way import TwoWay


def tokens(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_by_hand():
    # One token in each source: it gets the other's value whole, whatever the scores are.
    layer = scatter(TwoWay(2, 3, 1).double())
    a, b = tokens(1, 1, 2), tokens(1, 1, 3, seed=2)
    new_a, new_b = layer(a, b)
    for new, other, way in ((new_a, b, layer.a_asks), (new_b, a, layer.b_asks)):
        value = way.kv(other)[..., way.width :]
        assert near(new, way.out(value))


def test_it_is_the_oracle():
    layer = scatter(TwoWay(9, 15, 3).double())
    a, b = tokens(2, 5, 9), tokens(2, 7, 15, seed=2)
    a_mask = torch.rand(5, 7, generator=torch.Generator().manual_seed(3)) < 0.7
    b_mask = torch.rand(7, 5, generator=torch.Generator().manual_seed(4)) < 0.7
    ways = parts(layer.a_asks), parts(layer.b_asks)
    ours = layer(a, b, a_mask=a_mask, b_mask=b_mask)
    for sample in range(2):
        theirs = two_way(
            a[sample].tolist(),
            b[sample].tolist(),
            *ways,
            3,
            lambda i, j: a_mask[i, j].item(),
            lambda i, j: b_mask[i, j].item(),
        )
        for mine, other in zip(ours, theirs, strict=True):
            assert near(mine[sample], torch.tensor(other, dtype=torch.float64), 1e-9)


def test_a_mask_says_where_its_source_may_look():
    layer = scatter(TwoWay(9, 15, 3).double())
    a, b = tokens(2, 5, 9), tokens(2, 7, 15, seed=2)
    changed = b.clone()
    changed[0, 4:] += 1
    before, after = layer(a, b, a_mask=padding([4, 7])), layer(a, changed, a_mask=padding([4, 7]))
    assert torch.equal(before[0], after[0])  # a does not look there,
    assert torch.equal(before[1][0, :4], after[1][0, :4])
    assert not near(before[1][0, 4:], after[1][0, 4:])  # but these tokens of b still ask.


def test_witness_torch():
    theirs = [
        scatter(nn.MultiheadAttention(9, 3, kdim=15, vdim=15, batch_first=True).double()),
        scatter(nn.MultiheadAttention(15, 3, kdim=9, vdim=9, batch_first=True).double(), seed=1),
    ]
    ours = TwoWay(9, 15, 3).double()
    fill_from_torch(ours.a_asks, theirs[0])
    fill_from_torch(ours.b_asks, theirs[1])
    a, b = tokens(2, 5, 9), tokens(2, 7, 15, seed=2)
    new_a, new_b = ours(a, b)
    assert near(new_a, theirs[0](a, b, b)[0])
    assert near(new_b, theirs[1](b, a, a)[0])


@settings(max_examples=25, deadline=None)
@given(order=st.permutations(range(7)))
def test_the_order_of_one_source_is_nothing_to_the_other(order):
    layer = scatter(TwoWay(9, 15, 3).double())
    a, b = tokens(2, 5, 9), tokens(2, 7, 15, seed=2)
    new_a, new_b = layer(a, b)
    with_order = layer(a, b[:, order])
    assert near(with_order[0], new_a)
    assert near(with_order[1], new_b[:, order])


def test_dropout_compile_gradients_and_bfloat16():
    torch.manual_seed(0)
    layer, plain = scatter(TwoWay(9, 15, 3, dropout=0.5).double()), scatter(TwoWay(9, 15, 3).double())
    a, b = tokens(2, 5, 9), tokens(2, 7, 15, seed=2)
    assert not near(layer(a, b)[0], plain(a, b)[0])
    assert torch.equal(layer.eval()(a, b)[1], plain(a, b)[1])
    whole = torch.compile(plain, fullgraph=True, backend="eager")
    assert near(whole(a, b)[0], plain(a, b)[0])
    small = scatter(TwoWay(2, 3, 1).double())
    assert torch.autograd.gradcheck(small, (tokens(1, 2, 2).requires_grad_(), tokens(1, 2, 3).requires_grad_()))
    assert all(y.dtype == torch.bfloat16 for y in plain.bfloat16()(a.bfloat16(), b.bfloat16()))


def test_bad_input():
    with pytest.raises(FovealError, match="TwoWay's heads: expected a divisor of 9 and of 14, got 3"):
        TwoWay(9, 14, 3)
    with pytest.raises(FovealError, match="TwoWay's other_width: expected at least 1, got 0"):
        TwoWay(9, 0, 3)
    with pytest.raises(FovealError, match=r"expected \(B, N, 9\)"):
        TwoWay(9, 15, 3)(torch.zeros(2, 5, 15), torch.zeros(2, 7, 9))
