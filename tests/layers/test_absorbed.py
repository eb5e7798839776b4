import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from layers.carry import fill, near, pair, scatter
from oracle.absorbed import absorbed

import foveal
from foveal.core.pattern.causal import causal
from foveal.core.pattern.padding import padding
from foveal.errors import FovealError
from foveal.layers.absorbed import Absorbed
from foveal.layers.multihead import MultiHead


def tokens(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def twins(width=15, heads=3, key_width=7, **options):
    """An absorbed layer, and multi-head attention with the same weights."""
    layer = scatter(Absorbed(width, heads, key_width=key_width, **options).double().eval())
    other = MultiHead(width, heads, key_width=key_width, **options).double().eval()
    other.load_state_dict(layer.state_dict())
    return layer, other


def parts(layer):
    """(q, k, v, out) as lists."""
    (weight, bias), width = pair(layer.kv), layer.width
    k, v = ((weight[cut], None if bias is None else bias[cut]) for cut in (slice(0, width), slice(width, None)))
    return pair(layer.q), k, v, pair(layer.out)


# --- by hand, and the oracle ------------------------------------------------------------------------------------------


def test_by_hand():
    # Head 0 reads channel 0: scores (0, ln 3), weights 1/4 and 3/4, values 4·(0, 1), and 1 for its bias. Head 1 reads
    # channel 1: scores (0, 0), weights 1/2 each, values 10·(2, 2).
    layer = Absorbed(2, 2, key_width=2).double()
    layer.qkv = None
    identity, zero = torch.eye(2), torch.zeros(2)
    fill(
        layer,
        (identity, zero),
        (identity, zero),
        (torch.diag(torch.tensor([4.0, 10.0])), torch.tensor([1.0, 0.0])),
        (identity, zero),
    )
    memory = torch.tensor([[[0.0, 2.0], [1.0, 2.0]]], dtype=torch.float64)
    y = layer(torch.tensor([[[math.log(3), 0.0]]], dtype=torch.float64), memory)
    assert near(y[0, 0], torch.tensor([4.0, 20.0], dtype=torch.float64))


@pytest.mark.parametrize(("heads", "key_width", "bias"), [(3, 7, True), (5, 15, True), (1, 11, True), (3, 7, False)])
def test_it_is_the_oracle(heads, key_width, bias):
    layer, _ = twins(15, heads, key_width, bias=bias)
    x, memory = tokens(2, 5, 15), tokens(2, 13, key_width, seed=2)
    want = [absorbed(a, b, *parts(layer), heads) for a, b in zip(x.tolist(), memory.tolist(), strict=True)]
    assert near(layer(x, memory), torch.tensor(want, dtype=torch.float64), 1e-9)


@pytest.mark.parametrize("bias", [True, False])
def test_heads_of_a_width_of_their_own_as_pruning_leaves_them(bias):
    layer, other = twins(15, 2, 7, head_width=4, bias=bias)
    x, memory = tokens(2, 5, 15), tokens(2, 13, 7, seed=2)
    mask = padding(torch.tensor([13, 6]))
    assert layer.q.weight.shape == (8, 15)
    assert near(layer(x, memory), other(x, memory), 1e-9)
    assert near(layer(x, memory, mask=mask), other(x, memory, mask=mask), 1e-9)


@pytest.mark.parametrize("form", ["pattern", "per head", "one row for all queries"])
def test_masks_are_the_oracle_also_where_a_head_sees_nothing(form):
    layer, _ = twins()
    x, memory = tokens(2, 5, 15), tokens(2, 7, 7, seed=2)
    dense = torch.rand(2, 3, 5, 7, generator=torch.Generator().manual_seed(3)) < 0.4
    dense[0, 1, 2] = dense[1, :, 4] = False
    patterns = {"pattern": padding([0, 4]), "per head": dense, "one row for all queries": dense[:, :1, 4:]}
    mask = patterns[form]
    kept = (mask.dense(5, 7, batch=2) if form == "pattern" else mask).expand(2, 3, 5, 7)
    want = [
        absorbed(x[b].tolist(), memory[b].tolist(), *parts(layer), 3, lambda i, j, h: bool(kept[b, h, i, j]))
        for b in range(2)
    ]
    assert near(layer(x, memory, mask=mask), torch.tensor(want, dtype=torch.float64), 1e-9)


# --- multi-head attention as a witness --------------------------------------------------------------------------------


@given(
    heads=st.sampled_from([1, 2, 4]),
    key_width=st.integers(1, 9),
    queries=st.integers(1, 5),
    keys=st.integers(1, 7),
    bias=st.booleans(),
    masked=st.booleans(),
)
def test_it_is_multi_head_attention(heads, key_width, queries, keys, bias, masked):
    layer, other = twins(12, heads, key_width, bias=bias)
    x, memory = tokens(3, queries, 12), tokens(3, keys, key_width, seed=2)
    mask = causal & padding([0, 1, keys]) if masked else None
    assert near(layer(x, memory, mask=mask), other(x, memory, mask=mask))


def test_its_gradients_are_multi_head_attentions():
    layer, other = twins()
    found = []
    for each in (layer, other):
        x, memory = tokens(2, 5, 15).requires_grad_(), tokens(2, 13, 7, seed=2).requires_grad_()
        (each(x, memory, mask=padding([13, 4])) * tokens(2, 5, 15, seed=4)).sum().backward()
        found.append([x.grad, memory.grad, *(parameter.grad for parameter in each.parameters())])
    assert all(near(a, b) for a, b in zip(*found, strict=True))
    assert layer.kv.bias.grad[:15].eq(0).all()  # the keys' bias changes nothing
    assert layer.kv.bias.grad[15:].ne(0).all()


def test_it_begins_with_the_weights_of_multi_head_attention():
    states = []
    for kind in (Absorbed, MultiHead):
        torch.manual_seed(3)
        states.append(kind(15, 3, key_width=7).state_dict())
    assert list(states[0]) == list(states[1])
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_dropout_is_off_in_evaluation_and_leaves_the_bias_of_values_alone():
    layer, other = twins(dropout=0.5)
    x, memory = tokens(2, 5, 15), tokens(2, 13, 7, seed=2)
    plain = twins()[0](x, memory)
    assert torch.equal(layer(x, memory), plain)
    torch.manual_seed(0)
    assert not near(layer.train()(x, memory), plain)
    with torch.no_grad():
        for each in (layer, other.train()):
            each.kv.weight[15:] = 0  # nothing is left to say but the bias of values
    expected = layer.out.weight @ layer.kv.bias[15:] + layer.out.bias
    assert near(layer(x, memory), expected.expand(2, 5, 15))
    assert not near(other(x, memory), expected.expand(2, 5, 15))


def test_watch_sees_every_head():
    layer, other = twins()
    x, memory = tokens(2, 5, 15), tokens(2, 13, 7, seed=2)
    with foveal.watch(layer) as seen, torch.no_grad():
        layer(x, memory)
    with foveal.watch(other) as known, torch.no_grad():
        other(x, memory)
    (mine,), (theirs,) = seen.values(), known.values()
    assert near(mine.weights, theirs.weights)
    assert tuple(mine.weights.shape) == (2, 3, 5, 13)


def test_autocast():
    layer = scatter(Absorbed(16, 2, key_width=8).eval())
    x, memory = tokens(2, 5, 16).float(), tokens(2, 13, 8, seed=2).float()
    with torch.no_grad():
        exact = layer(x, memory)
        with torch.autocast("cpu", torch.bfloat16):
            rounded = layer(x, memory)
    assert rounded.dtype == torch.bfloat16
    assert 0 < (rounded.float() - exact).abs().max() < 0.05 * exact.abs().max()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Absorbed(15, 4, key_width=7), "Absorbed's heads: expected a divisor of the width 15, got 4"),
        (lambda: Absorbed(15, 3, key_width=0), "Absorbed's key_width: expected an integer, at least 1, got 0"),
        (lambda: Absorbed("a", 3, key_width=7), "Absorbed's width: expected an integer, at least 1, got 'a'"),
        (lambda: Absorbed(15, 3, key_width=7, dropout=1), "Absorbed's dropout: expected at least 0 and below 1, got 1"),
        (
            lambda: twins()[0](tokens(2, 5, 14), tokens(2, 3, 7)),
            "Absorbed's query: expected (B, N, 15), got (2, 5, 14)",
        ),
        (lambda: twins()[0](tokens(2, 5, 15), tokens(2, 3, 8)), "Absorbed's memory: expected (B, N, 7), got (2, 3, 8)"),
        (lambda: twins()[0](tokens(2, 5, 15), None), "Absorbed's memory: expected a tensor (B, N, 7), got None"),
        (lambda: twins()[0](tokens(2, 5, 15), tokens(3, 3, 7)), "k: expected batch 2"),
        (
            lambda: twins()[0](tokens(2, 5, 15), tokens(2, 3, 7), mask=3),
            "mask: expected a mask or a boolean tensor, got int",
        ),
    ],
)
def test_bad_input_is_named_in_one_line(call, message):
    with pytest.raises(FovealError) as caught:
        call()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
