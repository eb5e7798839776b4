import pytest
import torch
from layers.carry import fill_from_torch, near, pair, parts, scatter
from oracle.decoder import decoder
from torch import nn

from foveal.core.pattern.causal import causal
from foveal.core.pattern.padding import padding
from foveal.errors import FovealError
from foveal.layers.cache import Memory
from foveal.layers.decoder import Decoder
from foveal.layers.feed_forward import FeedForward
from foveal.layers.multihead import MultiHead
from foveal.layers.residual import PostNorm, PreNorm
from foveal.position.relative import Relative
from foveal.position.rotary import Rotary


def tokens(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def block(norm, dropout=0.0, *, key_width=7, cross=None, **options):
    asks = MultiHead(12, 3, key_width=key_width, **(cross or {}))
    own = MultiHead(12, 3, **{"mask": causal, **options})
    return scatter(Decoder(own, asks, FeedForward(12, 17), norm=norm, dropout=dropout).double())


def test_by_hand():
    # All layers answer 0 but the cross-attention, which answers with its bias (4, −4): (1, 5) becomes (5, 1).
    whole = Decoder(MultiHead(2, 1), MultiHead(2, 1, key_width=3), FeedForward(2, 3), norm=PreNorm)
    for linear in (whole.self_attention.layer.out, whole.cross_attention.layer.out, whole.feed_forward.layer.outer):
        nn.init.zeros_(linear.weight)
        nn.init.zeros_(linear.bias)
    whole.cross_attention.layer.out.bias.data = torch.tensor([4.0, -4.0])
    assert whole(torch.tensor([[[1.0, 5.0]]]), torch.ones(1, 2, 3)).tolist() == [[[5, 1]]]


@pytest.mark.parametrize("norm", [PreNorm, PostNorm])
def test_it_is_the_oracle(norm):
    whole = block(norm)
    x, memory = tokens(2, 5, 12), tokens(2, 3, 7, seed=2)
    own, cross, network = whole.self_attention.layer, whole.cross_attention.layer, whole.feed_forward.layer
    norms = pair(whole.self_attention.norm), pair(whole.cross_attention.norm), pair(whole.feed_forward.norm)
    rest = parts(own), parts(cross), 3, pair(network.inner), pair(network.outer), norms, norm is PreNorm
    expected = [decoder(a, b, *rest) for a, b in zip(x.tolist(), memory.tolist(), strict=True)]
    assert near(whole(x, memory), torch.tensor(expected, dtype=torch.float64), 1e-9)


@pytest.mark.parametrize("norm_first", [False, True])
def test_witness_torch(norm_first):
    theirs = nn.TransformerDecoderLayer(12, 3, 17, dropout=0.0, batch_first=True, norm_first=norm_first)
    theirs = scatter(theirs.double())
    ours = block(PreNorm if norm_first else PostNorm, key_width=12, mask=None)
    fill_from_torch(ours.self_attention.layer, theirs.self_attn)
    fill_from_torch(ours.cross_attention.layer, theirs.multihead_attn)
    ours.feed_forward.layer.inner.load_state_dict(theirs.linear1.state_dict())
    ours.feed_forward.layer.outer.load_state_dict(theirs.linear2.state_dict())
    for mine, norm in (
        (ours.self_attention, theirs.norm1),
        (ours.cross_attention, theirs.norm2),
        (ours.feed_forward, theirs.norm3),
    ):
        mine.norm.load_state_dict(norm.state_dict())
    x, memory = tokens(2, 5, 12), tokens(2, 7, 12, seed=2)
    later = torch.ones(5, 5).triu(1).bool()
    hidden = torch.tensor([[False] * 7, [False] * 4 + [True] * 3])
    y = theirs(x, memory, tgt_mask=later, memory_key_padding_mask=hidden)
    assert near(ours(x, memory, mask=causal, memory_mask=padding([7, 4])), y)
    assert near(ours(x, memory), theirs(x, memory))


OPTIONS = [
    {},
    {"groups": 1, "position": Rotary(4)},
    {"position": Relative(4, max_distance=2)},
    {"cross": {"position": Rotary(4)}},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_step_by_step_it_is_the_full_pass(options):
    whole = block(PostNorm, **options)
    x, memory = tokens(2, 7, 12), tokens(2, 5, 7, seed=2)
    with torch.no_grad():
        full = whole(x, memory, memory_mask=padding([5, 2]))
        for steps in ([1] * 7, [3, 1, 2, 1]):
            cache, once = whole.new_cache(2, 7), whole.remember(memory)
            assert isinstance(once, Memory)
            y = [whole(part, once, memory_mask=padding([5, 2]), cache=cache) for part in x.split(steps, 1)]
            assert near(torch.cat(y, 1), full)


def test_beams_are_followed():
    whole = block(PostNorm)
    x, memory = tokens(3, 5, 12), tokens(1, 5, 7, seed=2).expand(3, 5, 7)
    order = torch.tensor([2, 2, 0])
    with torch.no_grad():
        cache, once = whole.new_cache(3, 5), whole.remember(memory)
        whole(x[:, :4], once, cache=cache)
        cache.reorder(order)
        last = whole(x[:, 4:], once, cache=cache)
        assert near(last, whole(torch.cat([x[order, :4], x[:, 4:]], 1), memory)[:, 4:])


@torch.no_grad()
def test_beams_that_share_a_memory_see_what_copies_of_it_show():
    whole = block(PostNorm).eval()
    memory, mask = tokens(2, 5, 7, seed=2), padding([5, 2])
    shared, copied = whole.remember(memory), whole.remember(memory.repeat_interleave(3, 0))
    caches = [whole.new_cache(6, 4) for _ in range(2)]
    for step in range(4):
        x = tokens(6, 1, 12, seed=step)
        y = whole.step(x, shared, memory_mask=mask, cache=caches[0])
        assert y.shape == (6, 1, 12)
        assert near(y, whole(x, copied, memory_mask=padding([5, 5, 5, 2, 2, 2]), cache=caches[1]))
    with pytest.raises(FovealError, match="Decoder's rows: expected a multiple of the 2 sources, got 5"):
        whole.step(tokens(5, 1, 12), shared, cache=whole.new_cache(5, 4))


def test_the_gradient_with_respect_to_later_tokens_is_exactly_0():
    whole = block(PreNorm)
    x, memory = tokens(2, 5, 12).requires_grad_(), tokens(2, 3, 7, seed=2)
    (grad,) = torch.autograd.grad(whole(x, memory)[:, 2].sum(), x)
    assert not grad[:, 3:].any()
    assert grad[:, :3].any()


def test_dropout_is_off_in_evaluation():
    torch.manual_seed(0)
    whole, plain = block(PreNorm, dropout=0.5), block(PreNorm)
    x, memory = tokens(2, 5, 12), tokens(2, 3, 7, seed=2)
    assert [part.dropout for part in (whole.self_attention, whole.cross_attention, whole.feed_forward)] == [0.5] * 3
    assert not near(whole(x, memory), whole(x, memory))
    assert torch.equal(whole.eval()(x, memory), plain(x, memory))


def test_compile_with_and_without_a_cache_and_bfloat16():
    torch.compiler.reset()
    whole, x, memory = block(PreNorm), tokens(2, 5, 12), tokens(2, 3, 7, seed=2)
    fast = torch.compile(whole, fullgraph=True, backend="eager")
    with torch.no_grad():
        assert near(fast(x, memory), whole(x, memory))
        cache, once = whole.new_cache(2, 5), whole.remember(memory)
        assert near(torch.cat([fast(part, once, cache=cache) for part in x.split(1, 1)], 1), whole(x, memory))
    assert whole.bfloat16()(x.bfloat16(), memory.bfloat16()).dtype == torch.bfloat16


def test_bad_input():
    with pytest.raises(FovealError, match="expected one width, got MultiHead 12, MultiHead 10, FeedForward 12"):
        Decoder(MultiHead(12, 3), MultiHead(10, 2), FeedForward(12, 17))
    whole = block(PreNorm)
    with pytest.raises(FovealError, match=r"memory: expected \(B, M, 7\)"):
        whole(tokens(2, 5, 12), tokens(2, 3, 12))
    with pytest.raises(FovealError, match=r"at most 4 tokens, got 0 \+ 5"):
        whole(tokens(2, 5, 12), tokens(2, 3, 7), cache=whole.new_cache(2, 4))
