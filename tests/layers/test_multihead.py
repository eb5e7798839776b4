import copy
import inspect
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from layers.carry import fill, fill_from_torch, near, parts, scatter
from oracle.multihead import multihead
from torch import nn

import foveal.layers.multihead as source
from foveal.core.mask import Mask
from foveal.core.pattern.causal import causal
from foveal.core.pattern.local import local
from foveal.core.pattern.padding import padding
from foveal.core.pattern.random import random
from foveal.errors import FovealError
from foveal.layers.cache import Memory
from foveal.layers.multihead import MultiHead
from foveal.position.bias_table import BiasTable
from foveal.position.buckets import Buckets
from foveal.position.learned import Learned
from foveal.position.learned_2d import Learned2d
from foveal.position.polar import Polar
from foveal.position.position import Position
from foveal.position.relative import Relative
from foveal.position.rotary import Rotary
from foveal.position.sinusoidal import Sinusoidal
from foveal.position.sinusoidal_2d import Sinusoidal2d


def tokens(*shape, dtype=torch.float64, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def double(*arguments, **options):
    return scatter(MultiHead(*arguments, **options).double().eval())


# --- by hand ----------------------------------------------------------------------------------------------------------


def test_by_hand():
    layer = MultiHead(2, 1, key_width=2, bias=False).double()
    identity = (torch.eye(2), None)
    fill(layer, identity, identity, identity, identity)
    y = layer(torch.tensor([[[0.0, math.sqrt(2)]]], dtype=torch.float64), torch.eye(2, dtype=torch.float64)[None])
    assert near(y[0, 0], torch.tensor([1, math.e], dtype=torch.float64) / (1 + math.e))


def test_two_heads_by_hand():
    # Head 0 reads channel 0 and sees scores (0, ln 3): weights 1/4, 3/4. Head 1 reads channel 1 and sees (0, 0):
    # weights 1/2, 1/2.
    layer = MultiHead(2, 2, key_width=2, bias=False).double()
    identity = (torch.eye(2), None)
    fill(layer, identity, identity, (torch.diag(torch.tensor([4.0, 10.0])), None), identity)
    memory = torch.tensor([[[0.0, 2.0], [1.0, 2.0]]], dtype=torch.float64)
    y = layer(torch.tensor([[[math.log(3), 0.0]]], dtype=torch.float64), memory)
    assert near(y[0, 0], torch.tensor([3.0, 20.0], dtype=torch.float64))


# --- the oracle -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("heads", "groups", "bias"), [(3, 3, True), (6, 3, True), (6, 2, False), (5, 1, True)])
def test_self_attention_is_the_oracle(heads, groups, bias):
    layer = double(11, heads, groups=groups, head_width=7, bias=bias)
    x = tokens(2, 5, 11)
    expected = [multihead(sample, sample, *parts(layer), heads, groups) for sample in x.tolist()]
    assert near(layer(x), torch.tensor(expected, dtype=torch.float64), 1e-9)


@pytest.mark.parametrize(("heads", "groups", "key_width"), [(3, 3, 13), (6, 2, 13), (6, 1, 11), (6, 3, None)])
def test_cross_attention_is_the_oracle(heads, groups, key_width):
    layer = double(11, heads, groups=groups, head_width=7, key_width=key_width)
    x, memory = tokens(2, 5, 11), tokens(2, 3, key_width or 11, seed=2)
    expected = [multihead(a, b, *parts(layer), heads, groups) for a, b in zip(x.tolist(), memory.tolist(), strict=True)]
    assert near(layer(x, memory), torch.tensor(expected, dtype=torch.float64), 1e-9)
    assert near(layer(x, layer.remember(memory)), layer(x, memory))


@pytest.mark.parametrize(("heads", "groups", "key_width"), [(3, 3, 13), (6, 2, 13), (6, 3, None)])
def test_keys_and_values_of_two_sources_are_the_oracle(heads, groups, key_width):
    layer = double(11, heads, groups=groups, head_width=7, key_width=key_width)
    x, keys, values = (tokens(2, size, width, seed=size) for size, width in ((5, 11), *[(3, key_width or 11)] * 2))
    values = values + 1
    expected = [
        multihead(a, b, *parts(layer), heads, groups, source=c)
        for a, b, c in zip(x.tolist(), keys.tolist(), values.tolist(), strict=True)
    ]
    assert near(layer(x, layer.remember(keys, values)), torch.tensor(expected, dtype=torch.float64), 1e-9)
    assert near(layer(x, layer.remember(keys, keys)), layer(x, keys))
    with pytest.raises(FovealError, match=r"values: expected \(2, 3, \d+\), as its keys, got \(2, 2, \d+\)"):
        layer.remember(keys, values[:, :2])
    with pytest.raises(FovealError, match=r"MultiHead's values: expected \(B, N, \d+\), got \(2, 3, 1\)"):
        layer.remember(keys, values[..., :1])


def test_a_layer_for_two_sources_of_one_width_does_self_attention_too():
    for position in (None, Rotary(8), Relative(8, max_distance=2).double()):
        layer = double(11, 3, key_width=11, head_width=8, position=position)
        x = tokens(2, 5, 11)
        assert near(layer(x), layer(x, x))


@pytest.mark.parametrize("own", [None, causal])
@pytest.mark.parametrize("call", [None, local(1), "tensor"])
def test_the_layers_mask_and_the_callers_are_both_obeyed(own, call):
    layer = double(11, 3, head_width=5, mask=own)
    x = tokens(2, 7, 11)
    dense = torch.rand(7, 7, generator=torch.Generator().manual_seed(3)) < 0.6
    given_mask = dense if call == "tensor" else call

    def keeps(i, j):
        return (own is None or j <= i) and (
            call is None or (dense[i, j].item() if call == "tensor" else abs(i - j) <= 1)
        )

    expected = [multihead(sample, sample, *parts(layer), 3, 3, keeps) for sample in x.tolist()]
    assert near(layer(x, mask=given_mask), torch.tensor(expected, dtype=torch.float64), 1e-9)


# --- the seven classic mistakes ---------------------------------------------------------------------------------------


def test_mistake_dropout_is_off_in_evaluation():
    torch.manual_seed(0)
    layer, plain = double(11, 3, head_width=5, dropout=0.5), double(11, 3, head_width=5)
    x = tokens(2, 7, 11)
    assert torch.equal(layer.eval()(x), plain(x))
    layer.train()
    assert not near(layer(x), plain(x))
    assert not near(layer(x), layer(x))


@pytest.mark.parametrize("form", ["pattern", "tensor"])
def test_mistake_true_means_may_look(form):
    layer = double(11, 3, key_width=13, head_width=5)
    x, memory = tokens(2, 5, 11), tokens(2, 7, 13, seed=2)
    mask = padding([4, 7]) if form == "pattern" else padding([4, 7]).dense(5, 7, batch=2)
    y = layer(x, memory, mask=mask)
    hidden, seen = memory.clone(), memory.clone()
    hidden[0, 4:] += 10  # what is hidden may change,
    seen[0, 3] += 10  # and what is seen may not.
    assert torch.equal(layer(x, hidden, mask=mask), y)
    assert not near(layer(x, seen, mask=mask)[0], y[0])
    assert near(y[0], layer(x[:1], memory[:1, :4])[0])


def test_mistake_scores_are_divided_by_the_root_of_the_heads_width():
    # One head is 4 wide, two stand side by side: q·k = 4, so the scores are (0, 4/√4) and the weights σ(−2), σ(2).
    layer = MultiHead(8, 2, key_width=8, bias=False).double()
    identity = (torch.eye(8), None)
    fill(layer, identity, identity, identity, identity)
    query, memory = torch.zeros(1, 1, 8, dtype=torch.float64), torch.zeros(1, 2, 8, dtype=torch.float64)
    query[..., 0] = 2
    memory[0, 1, 0] = 2
    assert layer(query, memory)[0, 0, 0].item() == pytest.approx(2 / (1 + math.exp(-2)))


@pytest.mark.parametrize("form", ["pattern", "tensor"])
def test_mistake_a_row_that_sees_nothing_gives_the_output_bias_and_finite_gradients(form):
    layer = double(11, 3, head_width=5)
    x = tokens(2, 5, 11).requires_grad_()
    mask = padding([0, 5]) if form == "pattern" else padding([0, 5]).dense(5, 5, batch=2)
    y = layer(x, mask=mask)
    assert near(y[0], layer.out.bias.expand(5, 11))
    y.square().sum().backward()
    assert all(torch.isfinite(grad).all() for grad in [x.grad, *(parameter.grad for parameter in layer.parameters())])


CACHED = {
    "plain": {},
    "grouped": {"groups": 2},
    "multi-query": {"groups": 1},
    "rotary": {"position": Rotary(8)},
    "relative": {"position": Relative(8, max_distance=3)},
    "grouped rotary": {"groups": 3, "position": Rotary(8)},
    "local": {"mask": causal & local(2)},
    "two projections": {"key_width": 11},
}


@pytest.mark.parametrize("name", CACHED)
@pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
def test_mistake_cached_decoding_is_the_full_pass(name, dtype, close):
    layer = MultiHead(11, 6, head_width=8, **{"mask": causal, **CACHED[name]}).to(dtype).eval()
    x = tokens(2, 13, 11, dtype=dtype)
    with torch.no_grad():
        full = layer(x)
        for steps in ([1] * 13, [5, 1, 1, 4, 2]):
            cache = layer.new_cache(2, 13)
            y = torch.cat([layer(part, cache=cache) for part in x.split(steps, 1)], 1)
            assert (y - full).abs().max() <= close


@pytest.mark.parametrize(
    ("own", "mask"), [(None, causal & padding([13, 9])), (causal, local(2)), (causal, padding([13, 9]))]
)
def test_mistake_cached_decoding_with_a_mask_in_the_call(own, mask):
    layer = double(11, 6, head_width=8, mask=own)
    x = tokens(2, 13, 11)
    with torch.no_grad():
        cache = layer.new_cache(2, 13)
        y = torch.cat([layer(part, mask=mask, cache=cache) for part in x.split([3, 1, 4, 5], 1)], 1)
        assert near(y, layer(x, mask=mask))


def test_mistake_heads_and_tokens_are_not_mixed_up():
    # With as many tokens as heads every reshape fits, also the wrong one.
    layer = double(15, 5)
    x = tokens(3, 5, 15)
    expected = [multihead(sample, sample, *parts(layer), 5, 5) for sample in x.tolist()]
    assert near(layer(x), torch.tensor(expected, dtype=torch.float64), 1e-9)


def test_mistake_it_says_where_it_departs_from_its_paper():
    departs = [line for line in inspect.getdoc(source).splitlines() if line.startswith("Departs from the paper:")]
    assert "bias" in departs[0]  # the paper has none, and without them there are exactly the paper's weights:
    assert sum(parameter.numel() for parameter in MultiHead(21, 7, bias=False).parameters()) == 4 * 21**2
    assert sum(parameter.numel() for parameter in MultiHead(21, 7).parameters()) == 4 * 21**2 + 4 * 21
    assert sum(parameter.numel() for parameter in MultiHead(21, 7, key_width=21).parameters()) == 4 * 21**2 + 4 * 21
    assert (
        sum(parameter.numel() for parameter in MultiHead(24, 6, groups=2, bias=False).parameters())
        == 2 * 24**2 + 2 * 24 * 8
    )


# --- properties -------------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(order=st.permutations(range(7)), groups=st.sampled_from([1, 2, 4]))
def test_without_positions_it_is_permutation_equivariant(order, groups):
    layer, x = double(12, 4, groups=groups), tokens(2, 7, 12)
    assert near(layer(x[:, order]), layer(x)[:, order])


def test_with_positions_it_is_not_permutation_equivariant():
    layer, x = double(12, 3, position=Rotary(4)), tokens(2, 7, 12)
    order = [2, 0, 1, 3, 4, 5, 6]
    assert not near(layer(x[:, order]), layer(x)[:, order])


@settings(max_examples=25, deadline=None)
@given(row=st.integers(0, 6), position=st.sampled_from([None, Rotary(4), Relative(4, max_distance=3).double()]))
def test_causal_the_gradient_of_a_row_with_respect_to_later_tokens_is_exactly_0(row, position):
    layer, x = double(12, 3, mask=causal, position=position), tokens(2, 7, 12).requires_grad_()
    (grad,) = torch.autograd.grad(layer(x)[:, row].sum(), x)
    assert torch.equal(grad[:, row + 1 :], torch.zeros_like(grad[:, row + 1 :]))
    assert (grad[:, : row + 1] != 0).any(-1).all()


def test_gradients():
    layer = double(6, 4, groups=2, head_width=3, mask=causal)
    assert torch.autograd.gradcheck(layer, tokens(1, 3, 6).requires_grad_())


def test_in_cross_attention_a_position_counts_from_start():
    layer = double(12, 3, key_width=12, position=Rotary(4), mask=local(3))
    x, memory = tokens(2, 7, 12), tokens(2, 5, 12, seed=2)
    once = layer.remember(memory)
    steps = [layer(x[:, at : at + 1], once, start=at) for at in range(7)]
    assert near(torch.cat(steps, 1), layer(x, memory))
    assert not near(layer(x[:, 3:4], once), steps[3])


@pytest.mark.parametrize("options", [{}, {"groups": 2, "position": Rotary()}, {"mask": causal}, {"key_width": 11}])
@pytest.mark.parametrize(("batch", "queries", "keys"), [(2, 0, 3), (2, 5, 0), (2, 0, 0), (0, 5, 3)])
def test_nothing_to_look_for_and_nothing_to_look_at(options, batch, queries, keys):
    layer = double(11, 6, head_width=8, **options)
    y = layer(tokens(batch, queries, 11), tokens(batch, keys, 11))
    want = layer.out.bias.expand(batch, queries, 11)  # 0, projected
    assert y.shape == want.shape
    assert keys > 0 or torch.equal(y, want)
    assert layer(tokens(batch, 0, 11)).shape == (batch, 0, 11)


# --- heads cut out ----------------------------------------------------------------------------------------------------

CUTS = [
    ({}, [1, 4]),
    ({"groups": 2}, [0, 1, 2]),  # a whole group
    ({"groups": 2}, [1, 3]),  # one of each
    ({"groups": 3}, [0, 1, 2, 5]),  # a whole group, and one of each other
    ({"groups": 1, "bias": False}, [0, 2, 5]),
    ({"key_width": 13}, [3]),
    ({"groups": 2, "key_width": 13}, [3, 4, 5]),
]


@pytest.mark.parametrize(("options", "dropped"), CUTS)
def test_dropped_heads_are_as_heads_whose_output_is_0(options, dropped):
    layer = double(11, 6, head_width=5, position=Relative(5, max_distance=2).double(), **options)
    x = tokens(2, 7, 11)
    more = (tokens(2, 3, 13, seed=2),) if "key_width" in options else ()
    silenced = copy.deepcopy(layer)
    with torch.no_grad():
        for head in dropped:
            silenced.out.weight[:, head * 5 : head * 5 + 5] = 0
    before = sum(parameter.numel() for parameter in layer.parameters())
    layer.drop_heads(dropped)
    assert near(layer(x, *more), silenced(x, *more))
    assert sum(parameter.numel() for parameter in layer.parameters()) < before
    assert layer.heads == 6 - len(dropped)
    assert layer.out.in_features == layer.heads * 5
    rebuilt = MultiHead(
        11, layer.heads, **{**options, "groups": layer.groups}, head_width=5, position=Relative(5, max_distance=2)
    ).double()
    rebuilt.load_state_dict(layer.state_dict())
    assert torch.equal(rebuilt(x, *more), layer(x, *more))


def test_dropped_heads_leave_a_layer_that_trains_and_caches():
    layer = double(11, 6, groups=2, head_width=5, mask=causal)
    layer.out.weight.requires_grad_(False)
    layer.drop_heads([0, 1, 2])
    x = tokens(2, 7, 11)
    layer(x).sum().backward()
    assert layer.qkv.weight.grad is not None
    assert not layer.out.weight.requires_grad
    with torch.no_grad():
        cache = layer.new_cache(2, 7)
        assert near(torch.cat([layer(part, cache=cache) for part in x.split(1, 1)], 1), layer(x))


def test_dropped_heads_are_dropped_from_a_position_that_has_heads():
    class PerHead(Rotary):
        def drop_heads(self, indices):
            self.dropped = indices

    layer = double(12, 6, position=PerHead())
    layer.drop_heads({4, 1})
    assert layer.position.dropped == [1, 4]


# --- outside witnesses ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [True, False])
def test_witness_torch_self_attention(bias):
    theirs = scatter(nn.MultiheadAttention(21, 3, bias=bias, batch_first=True).double().eval())
    ours = fill_from_torch(MultiHead(21, 3, bias=bias).double(), theirs)
    x = tokens(2, 5, 21)
    lengths = padding([5, 3])
    hidden = ~torch.tensor([[True] * 5, [True] * 3 + [False] * 2])  # torch's True = may not look
    y, _ = theirs(
        x,
        x,
        x,
        key_padding_mask=hidden,
        attn_mask=nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64) < 0,
    )
    assert near(ours(x, mask=causal & lengths), y)


@pytest.mark.parametrize("key_width", [21, 13])
def test_witness_torch_cross_attention(key_width):
    theirs = scatter(nn.MultiheadAttention(21, 7, kdim=key_width, vdim=key_width, batch_first=True).double().eval())
    ours = fill_from_torch(MultiHead(21, 7, key_width=key_width).double(), theirs)
    x, memory = tokens(2, 5, 21), tokens(2, 3, key_width, seed=2)
    assert near(ours(x, memory), theirs(x, memory, memory)[0])


def test_witness_transformers_llama():
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding

    config = LlamaConfig(
        hidden_size=48,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=64,
        attn_implementation="eager",
    )
    theirs = scatter(LlamaAttention(config, 0).double().eval())
    ours = MultiHead(48, 6, groups=2, position=Rotary(8, base=10000.0), mask=causal, bias=False).double()
    fill(ours, theirs.q_proj, theirs.k_proj, theirs.v_proj, theirs.o_proj)
    x = tokens(2, 11, 48)
    turn = LlamaRotaryEmbedding(config)(x, torch.arange(11)[None])
    hidden = torch.full((11, 11), -torch.inf, dtype=torch.float64).triu(1)
    y, _ = theirs(x, position_embeddings=turn, attention_mask=hidden[None, None])
    assert near(ours(x), y, 1e-5)  # their angles are computed in float32


@pytest.mark.parametrize("groups", [6, 2, 1])
def test_witness_x_transformers(groups):
    from x_transformers.x_transformers import Attention

    theirs = scatter(Attention(21, dim_head=5, heads=6, kv_heads=groups, causal=True).double().eval())
    ours = MultiHead(21, 6, groups=groups, head_width=5, mask=causal, bias=False).double()
    # Their head i reads keys i mod groups, ours ⌊i·groups/heads⌋: the same heads in another order.
    order = torch.arange(30).view(6 // groups, groups, 5).transpose(0, 1).flatten()
    out = theirs.to_out.weight[:, order]
    fill(ours, (theirs.to_q.weight[order], None), theirs.to_k, theirs.to_v, (out, None))
    x = tokens(2, 7, 21)
    assert near(ours(x), theirs(x), 1e-4)  # their softmax is computed in float32


# --- compiled, exported, saved ----------------------------------------------------------------------------------------


@pytest.fixture
def _afresh():
    # Otherwise what other layers were compiled for decides how this one is.
    torch.compiler.reset()


@pytest.mark.usefixtures("_afresh")
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"groups": 2, "mask": causal},
        {"position": Rotary(8)},
        {"position": Relative(8, 3), "mask": causal & local(3)},
    ],
)
def test_compiled_whole(options):
    layer = MultiHead(11, 6, head_width=8, **options).eval()
    x = tokens(2, 7, 11, dtype=torch.float32)
    whole = torch.compile(layer, fullgraph=True, backend="eager")
    assert near(whole(x), layer(x), 1e-6)
    with torch.no_grad():
        memory = layer.remember(tokens(2, 3, 11, dtype=torch.float32, seed=2))
        assert near(whole(x, memory, mask=local(2)), layer(x, memory, mask=local(2)), 1e-6)


@pytest.mark.usefixtures("_afresh")
def test_compiled_whole_with_a_cache():
    layer = MultiHead(11, 6, head_width=8, groups=2, position=Rotary(8), mask=causal).eval()
    x = tokens(2, 7, 11, dtype=torch.float32)
    whole = torch.compile(layer, fullgraph=True, backend="eager")
    with torch.no_grad():
        cache = layer.new_cache(2, 7)
        y = torch.cat([whole(part, cache=cache) for part in x.split(1, 1)], 1)
        assert near(y, layer(x), 1e-6)
    assert cache.length == 7


@pytest.mark.slow
@pytest.mark.usefixtures("_afresh")
def test_compiled_by_inductor():
    layer = MultiHead(12, 4, groups=2, mask=causal).eval()
    x = tokens(2, 7, 12, dtype=torch.float32)
    assert near(torch.compile(layer, fullgraph=True)(x), layer(x), 1e-5)


def test_exported_with_any_batch():
    layer = MultiHead(12, 4, key_width=12).eval()
    batch = torch.export.Dim("batch")
    x, memory = tokens(2, 5, 12, dtype=torch.float32), tokens(2, 3, 12, dtype=torch.float32, seed=2)
    program = torch.export.export(
        layer, (x, memory), dynamic_shapes={"query": {0: batch}, "memory": {0: batch}}, strict=False
    )
    more, others = tokens(7, 5, 12, dtype=torch.float32, seed=3), tokens(7, 3, 12, dtype=torch.float32, seed=4)
    assert near(program.module()(more, others), layer(more, others), 1e-6)


@pytest.mark.parametrize("options", [{}, {"key_width": 13}])
def test_state_is_saved_and_loaded(options):
    layer, other = double(11, 3, head_width=5, **options), MultiHead(11, 3, head_width=5, **options).double()
    assert all(isinstance(value, torch.Tensor) for value in layer.state_dict().values())
    other.load_state_dict(layer.state_dict())
    x, more = tokens(2, 5, 11), (tokens(2, 3, 13),) if options else ()
    assert torch.equal(layer(x, *more), other(x, *more))


def test_bfloat16():
    layer = double(12, 3, position=Rotary(4), mask=causal)
    x = tokens(2, 7, 12)
    expected = layer(x)
    y = layer.bfloat16()(x.bfloat16())
    assert y.dtype == torch.bfloat16
    assert near(y.double(), expected, 0.2)


def test_a_cache_follows_autocast():
    layer = MultiHead(12, 3, mask=causal, position=Rotary(4)).eval()
    x = tokens(2, 3, 12, dtype=torch.float32)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        cache = layer.new_cache(2, 3)
        y = torch.cat([layer(part, cache=cache) for part in x.split(1, 1)], 1)
    assert near(y.float(), layer(x), 0.05)


def test_weights_begin_after_glorot():
    torch.manual_seed(0)
    layer = MultiHead(64, 8, groups=2)
    for weight, fan in zip(layer.qkv.weight.split([64, 16, 16]), (128, 80, 80), strict=True):
        assert weight.abs().max().item() == pytest.approx(math.sqrt(6 / fan), rel=0.01)
    assert not layer.qkv.bias.any()
    assert not layer.out.bias.any()


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((12, 5), {}, "heads: expected a divisor of the width 12, got 5"),
        ((0, 1), {}, "width: expected at least 1, got 0"),
        ((12, 0), {}, "heads: expected at least 1, got 0"),
        ((12, 4), {"groups": 3}, "groups: expected a divisor of the 4 heads, got 3"),
        ((12, 4), {"groups": 0}, "groups: expected at least 1, got 0"),
        ((12, 4), {"key_width": 0}, "key_width: expected at least 1, got 0"),
        ((12, 4), {"head_width": 0}, "head_width: expected at least 1, got 0"),
        ((12, 4), {"dropout": 1.0}, "dropout: expected at least 0 and below 1, got 1.0"),
    ],
)
def test_bad_construction(arguments, options, words):
    with pytest.raises(FovealError, match=words):
        MultiHead(*arguments, **options)


def test_bad_calls():
    layer, cross = MultiHead(12, 4), MultiHead(12, 4, key_width=10)
    x = torch.zeros(2, 3, 12)
    with pytest.raises(FovealError, match=r"query: expected \(B, N, 12\), got \(2, 3, 11\)"):
        layer(torch.zeros(2, 3, 11))
    with pytest.raises(FovealError, match=r"query: expected \(B, N, 12\), got \(3, 12\)"):
        layer(torch.zeros(3, 12))
    with pytest.raises(FovealError, match=r"memory: expected \(B, M, 10\), got \(2, 5, 12\)"):
        cross(x, torch.zeros(2, 5, 12))
    with pytest.raises(FovealError, match="memory: expected one of width 10, got none"):
        cross(x)
    with pytest.raises(FovealError, match="cache: expected none in cross-attention"):
        layer(x, x, cache=layer.new_cache(2, 4))
    with pytest.raises(FovealError, match="start: expected 0 in self-attention, got 2"):
        layer(x, start=2)
    with pytest.raises(FovealError, match="at most 4 tokens, got 0 \\+ 5"):
        layer(torch.zeros(2, 5, 12), cache=layer.new_cache(2, 4))
    with pytest.raises(FovealError, match="mask: expected a boolean tensor"):
        MultiHead(12, 4, mask=causal)(x, mask=torch.zeros(3, 3))
    with pytest.raises(FovealError, match="k: expected batch 2"):
        layer(x, Memory(torch.zeros(1, 4, 5, 3), torch.zeros(1, 4, 5, 3)))


@pytest.mark.parametrize(
    "position",
    [Sinusoidal(12), Sinusoidal2d(12), Polar(12), Learned(12, 5), Learned2d(12, 2, 2)],
    ids=lambda position: type(position).__name__,
)
def test_a_position_that_is_added_to_the_input_is_refused(position):
    name = type(position).__name__
    words = (
        f"MultiHead's position: expected one that rotates or adds a term, got {name}; "
        "it is added to the input: call it on the tokens"
    )
    with pytest.raises(FovealError, match=f"{words} before the first block"):
        MultiHead(12, 4, position=position)


def test_no_position_may_be_written_out():
    layer, plain = double(12, 4, position=Position()), double(12, 4)
    assert torch.equal(layer(tokens(2, 5, 12)), plain(tokens(2, 5, 12)))


@pytest.mark.parametrize("mask", [random(count=2), causal & random(count=2), ~(random(count=2) | local(1))], ids=repr)
def test_a_cache_and_a_mask_that_is_drawn_for_the_number_of_keys_are_refused(mask):
    x = torch.zeros(2, 3, 12)
    for layer, given_mask in (
        (MultiHead(12, 4, mask=mask), None),
        (MultiHead(12, 4), mask),
        (MultiHead(12, 4, mask=mask), causal),
    ):
        cache = layer.new_cache(2, 7)
        with pytest.raises(
            FovealError,
            match=r"MultiHead's cache: expected a mask that keeps the same pairs when keys are added, got .*random",
        ):
            layer(x, mask=given_mask, cache=cache)
        assert cache.length == 0
        assert layer(x, mask=given_mask).shape == x.shape


@pytest.mark.parametrize(
    ("groups", "dropped", "words"),
    [
        (6, [6], "heads to drop: expected 0 to 5, got \\[6\\]"),
        (6, [-1], "heads to drop: expected 0 to 5, got \\[-1\\]"),
        (6, range(6), "expected at least one head left, got none left"),
        (
            2,
            [0],
            "expected whole groups of 3 or the same number from every group, got groups with \\[2, 3\\] heads left",
        ),
    ],
)
def test_bad_cuts(groups, dropped, words):
    layer = MultiHead(12, 6, groups=groups)
    with pytest.raises(FovealError, match=words):
        layer.drop_heads(dropped)
    assert layer.heads == 6
    assert isinstance(layer(torch.zeros(1, 2, 12)), torch.Tensor)


def test_it_says_what_it_is():
    assert "groups=2" in repr(MultiHead(12, 4, groups=2, mask=causal))
    assert "mask=causal" in repr(MultiHead(12, 4, mask=causal))
    assert isinstance(causal, Mask)


@pytest.mark.parametrize(
    "make", [lambda: Relative(8, 3, heads=4), lambda: Relative(8, 3), lambda: Buckets(4), lambda: BiasTable(4, 2, 4)]
)
def test_a_layer_that_drops_heads_drops_them_in_its_position_too(make):
    torch.manual_seed(0)
    layer = MultiHead(32, 4, position=make()).double().eval()
    x = torch.randn(2, 8, 32, dtype=torch.float64)
    with torch.no_grad():
        layer.out.weight[:, 8:16] = 0  # head 1 says nothing
        before = layer(x)
        layer.drop_heads([1])
        assert (layer(x) - before).abs().max() < 1e-12
