"""Properties that hold for any sizes: blocks without positions do not know the order of tokens,
and scores treat rows alike.
"""

import torch
from hypothesis import given
from hypothesis import strategies as st

from foveal.core.score.additive import additive
from foveal.core.score.location import location
from foveal.layers import Decoder, Encoder, FeedForward, Gated, MultiHead, PostNorm, PreNorm

sizes = st.integers(1, 7)
seeds = st.integers(0, 2**16)


def drawn(seed, *shapes):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


def same(one, other):
    assert one.shape == other.shape
    assert (one - other).abs().max() < 1e-10


@given(seeds, sizes, st.sampled_from([FeedForward, Gated]))
def test_a_feed_forward_layer_treats_each_token_by_itself(seed, tokens, kind):
    torch.manual_seed(seed)
    layer = kind(6, 10).double()
    (x,) = drawn(seed, (2, tokens, 6))
    with torch.no_grad():
        same(layer(x), torch.cat([layer(x[:, i : i + 1]) for i in range(tokens)], 1))


@given(seeds, sizes, st.sampled_from([PreNorm, PostNorm]))
def test_an_encoder_without_positions_moves_with_its_tokens(seed, tokens, norm):
    torch.manual_seed(seed)
    layer = Encoder(MultiHead(6, 2), FeedForward(6, 10), norm=norm).double().eval()
    (x,) = drawn(seed, (2, tokens, 6))
    order = torch.randperm(tokens, generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        same(layer(x[:, order]), layer(x)[:, order])


@given(seeds, sizes, sizes, st.sampled_from([PreNorm, PostNorm]))
def test_a_decoder_does_not_know_the_order_of_its_memory(seed, tokens, keys, norm):
    torch.manual_seed(seed)
    layer = Decoder(MultiHead(6, 2), MultiHead(6, 2, key_width=5), FeedForward(6, 10), norm=norm).double().eval()
    x, memory = drawn(seed, (2, tokens, 6), (2, keys, 5))
    order = torch.randperm(keys, generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        same(layer(x, memory[:, order]), layer(x, memory))


@given(seeds, sizes, sizes)
def test_additive_scores_turn_round_with_their_sides(seed, queries, keys):
    q, k, w_query, w_key, v = drawn(seed, (2, 3, queries, 5), (2, 3, keys, 4), (6, 5), (6, 4), (6,))
    same(additive(q, k, w_query, w_key, v), additive(k, q, w_key, w_query, v).mT)


@given(seeds, sizes, sizes)
def test_location_scores_come_from_each_state_alone(seed, queries, keys):
    state, weight = drawn(seed, (2, 3, queries, 5), (keys, 5))
    scores = location(state, weight)
    same(scores, torch.cat([location(state[:, :, i : i + 1], weight) for i in range(queries)], 2))
