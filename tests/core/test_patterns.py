"""Each pattern against plain loops, and the published patterns against transformers' own models."""

import operator

import oracle.bigbird
import oracle.causal
import oracle.local
import oracle.longformer
import oracle.padding
import oracle.prefix
import oracle.random
import oracle.strided
import oracle.to_global
import oracle.window
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import BigBirdConfig, LongformerConfig, SwinConfig
from transformers.models.big_bird.modeling_big_bird import BigBirdBlockSparseAttention, BigBirdModel
from transformers.models.longformer.modeling_longformer import LongformerSelfAttention
from transformers.models.swin.modeling_swin import SwinLayer, window_partition

from foveal.mask import bigbird, causal, local, longformer, padding, prefix, random, strided, to_global, window

PRIMES = [(37, 41), (41, 37), (1, 7), (7, 1), (29, 29), (0, 5), (5, 0)]
some = settings(max_examples=60)


def agrees(mask, loops, *arguments, sizes=PRIMES, **options):
    for queries, keys in sizes:
        expected = torch.tensor(loops(*arguments, **options, queries=queries, keys=keys), dtype=torch.bool).reshape(
            queries, keys
        )
        assert torch.equal(mask.dense(queries, keys), expected), f"{mask} at {queries} × {keys}"


def test_causal():
    agrees(causal, oracle.causal.causal)


@some
@given(st.integers(0, 50))
def test_local(radius):
    agrees(local(radius), oracle.local.local, radius)


@some
@given(st.integers(0, 50))
def test_prefix(n):
    agrees(prefix(n), oracle.prefix.prefix, n)


@some
@given(st.integers(1, 50))
def test_strided(step):
    agrees(strided(step), oracle.strided.strided, step)


@some
@given(st.integers(0, 50))
def test_to_global(n):
    agrees(to_global(n), oracle.to_global.to_global, n)


@some
@given(st.integers(0, 12), st.integers(0, 5))
def test_longformer(radius, n):
    agrees(longformer(radius, n), oracle.longformer.longformer, radius, n)


@pytest.mark.parametrize(
    ("count", "seed", "block"), [(3, 1, 1), (2, 7, 4), (0, 0, 1), (5, 2**31 - 1, 3), (13, 5, 3), (14, 5, 3), (50, 0, 1)]
)
def test_random(count, seed, block):
    agrees(
        random(count, seed, block), oracle.random.random, count, seed, block, sizes=[(37, 41), (29, 29), (0, 5), (5, 0)]
    )


def test_bigbird():
    agrees(bigbird(2, 3, 2, seed=7, block=2), oracle.bigbird.bigbird, 2, 3, 2, 7, 2, sizes=[(37, 41), (29, 29)])
    agrees(bigbird(2, 2), oracle.bigbird.bigbird, 2, 2, sizes=[(29, 29)])


@given(st.lists(st.integers(0, 50), min_size=3, max_size=3))
def test_padding(lengths):
    for queries, keys in PRIMES:
        expected = torch.tensor(oracle.padding.padding(lengths, queries, keys), dtype=torch.bool).reshape(
            3, 1, queries, keys
        )
        for given_as in (lengths, tuple(lengths), torch.tensor(lengths), torch.tensor(lengths, dtype=torch.int32)):
            assert torch.equal(padding(given_as).dense(queries, keys, batch=3), expected)


@some
@given(st.integers(1, 11), st.integers(1, 13), st.integers(1, 14), st.data())
def test_window(h, w, size, data):
    shift = data.draw(st.integers(0, size - 1))
    agrees(window(h, w, shift, size), oracle.window.window, h=h, w=w, shift=shift, size=size, sizes=[(h * w, h * w)])


# by hand: what a file says of itself


def test_prefix_language_model_by_hand():
    expected = [[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]
    assert (causal | prefix(2)).dense(4, 4).int().tolist() == expected


def test_windows_by_hand():
    # a grid of 2 × 3 cut after column 1: the left token of each row sees the left column, the others see the right
    # block
    mask = window(2, 3, shift=1, size=2).dense(6, 6).int().tolist()
    assert mask == [
        [1, 0, 0, 0, 0, 0],
        [0, 1, 1, 0, 0, 0],
        [0, 1, 1, 0, 0, 0],
        [0, 0, 0, 1, 0, 0],
        [0, 0, 0, 0, 1, 1],
        [0, 0, 0, 0, 1, 1],
    ]


def test_the_costs_that_the_files_state():
    assert causal.pairs(37, 37) == 37 * 38 // 2
    assert local(5).pairs(101, 101) == 101 * 11 - 5 * 6
    assert prefix(4).pairs(37, 41) == 37 * 4
    assert strided(7).pairs(49, 91) == 49 * 91 // 7
    assert to_global(3).pairs(37, 41) == 3 * (37 + 41) - 9
    assert random(3, block=2).pairs(40, 50) == 40 * 3 * 2
    assert padding([7, 4, 0]).pairs(5, 11, batch=3) == 5 * 11
    assert window(6, 6, size=3).pairs(36, 36) == 36 * 9


# the draw


@given(st.integers(0, 9), st.integers(0, 3), st.integers(1, 5), st.integers(1, 60))
def test_each_row_draws_that_many_distinct_blocks(count, seed, block, keys):
    kept = random(count, seed, block).dense(43, keys)
    columns = -(-keys // block)
    padded = torch.nn.functional.pad(kept, (0, columns * block - keys))
    by_block = padded.unflatten(1, (columns, block))
    whole = by_block[:, :-1] if keys % block else by_block
    assert (whole.any(2) == whole.all(2)).all()
    assert (by_block.any(2).sum(1) == min(count, columns)).all()


def test_the_draw_depends_on_the_seed_and_on_nothing_else():
    torch.manual_seed(1)
    one = random(3, seed=5).dense(211, 211)
    torch.manual_seed(2)
    state = torch.get_rng_state()
    again = random(3, seed=5).dense(211, 211)
    assert torch.equal(one, again)
    assert torch.equal(torch.get_rng_state(), state)
    assert not torch.equal(one, random(3, seed=6).dense(211, 211))
    assert torch.equal(one[:100], again[:100])
    assert torch.equal(random(3, seed=5).dense(100, 211), one[:100])


def test_every_key_is_drawn_equally_often():
    drawn = random(3, seed=11).dense(20000, 10).float().mean(0)
    assert (drawn - 0.3).abs().max() < 5 * (0.3 * 0.7 / 20000) ** 0.5


def test_rows_draw_for_themselves():
    kept = random(5, seed=3).dense(400, 97)
    assert len({tuple(row) for row in kept.tolist()}) == 400


def test_the_table_stays_a_plain_tensor_after_a_trace():
    class Dense(torch.nn.Module):
        def forward(self, x):
            return x + random(2, seed=4711).dense(13, 17)

    exported = torch.export.export(Dense(), (torch.zeros(13, 17),)).module()(torch.zeros(13, 17))
    eager = random(2, seed=4711).dense(13, 17)
    assert type(eager) is torch.Tensor
    assert torch.equal(exported, eager.float())


# outside witnesses


@pytest.mark.parametrize(("radius", "globals_"), [(2, 0), (3, 0), (2, 1), (3, 4)])
def test_longformer_keeps_what_transformers_keeps(radius, globals_):
    torch.manual_seed(0)
    tokens = 2 * radius * 7
    config = LongformerConfig(
        hidden_size=6, num_attention_heads=2, attention_window=[2 * radius], attention_probs_dropout_prob=0.0
    )
    attention = LongformerSelfAttention(config, 0).eval()
    is_global = torch.arange(tokens)[None] < globals_
    output = attention(
        torch.randn(1, tokens, 6),
        attention_mask=is_global * 10000.0,
        is_index_masked=torch.zeros(1, tokens, dtype=torch.bool),
        is_index_global_attn=is_global,
        is_global_attn=globals_ > 0,
        output_attentions=True,
    )
    probabilities = output[1][0, :, 0]  # (N, globals + window): keys by distance, after the global ones
    kept = torch.zeros(tokens, tokens, dtype=torch.bool)
    for i in range(globals_, tokens):
        kept[i, :globals_] = probabilities[i, :globals_] > 0
        for place in range(2 * radius + 1):
            j = i - radius + place
            if 0 <= j < tokens:
                kept[i, j] |= bool(probabilities[i, globals_ + place] > 0)
            else:
                assert probabilities[i, globals_ + place] == 0
    if globals_:
        kept[:globals_] = output[2][0, 0] > 0
    assert torch.equal(longformer(radius, globals_).dense(tokens, tokens), kept)


def test_bigbird_keeps_the_kinds_of_keys_that_transformers_keeps():
    # transformers' window is of three blocks, its globals are the first and the last block, and its draw avoids both,
    # as in the paper. The file says where ours departs, so what is left to compare: ours holds no window or global key
    # that theirs does not, and as many drawn.
    block, count, blocks, seed = 4, 2, 13, 3
    tokens = block * blocks
    torch.manual_seed(0)
    config = BigBirdConfig(
        hidden_size=6,
        num_attention_heads=1,
        block_size=block,
        num_random_blocks=count,
        attention_probs_dropout_prob=0.0,
        use_cache=False,
    )
    attention = BigBirdBlockSparseAttention(config, seed=seed).train()  # in evaluation it draws block 0 every time
    blocked, band, from_mask, to_mask = BigBirdModel.create_masks_for_block_sparse_attn(torch.ones(1, tokens), block)
    _, probabilities = attention(torch.randn(1, tokens, 6), band, from_mask, to_mask, blocked, blocked)
    kept = probabilities[0, 0] > 0
    middle = slice(2 * block, -2 * block)
    fixed = (local(block) | to_global(block)).dense(tokens, tokens)
    assert not (fixed & ~kept)[middle].any()
    drawn_there = kept[middle].sum(1) - 5 * block  # besides three blocks of window and two of globals
    drawn_here = random(count, seed, block).dense(tokens, tokens)[middle].sum(1)
    assert torch.equal(drawn_there, drawn_here)


@pytest.mark.parametrize(
    ("h", "w", "size", "shift"), [(6, 9, 3, 0), (6, 9, 3, 1), (6, 9, 3, 2), (10, 5, 5, 2), (8, 4, 2, 1)]
)
def test_windows_keep_what_transformers_swin_keeps(h, w, size, shift):
    layer = SwinLayer(SwinConfig(window_size=size), dim=6, input_resolution=(h, w), num_heads=1, shift_size=shift)
    layer.shift_size = shift
    allowed = layer.get_attn_mask(h, w, torch.float32, "cpu")  # (windows, size², size²), None without a shift
    tokens = torch.arange(h * w).view(1, h, w, 1)
    rolled = torch.roll(tokens, (-shift, -shift), (1, 2))
    inside = window_partition(rolled, size).flatten(1)  # (windows, size²): which token stands where
    kept = torch.zeros(h * w, h * w, dtype=torch.bool)
    for number, members in enumerate(inside):
        open_ = torch.ones(size**2, size**2, dtype=torch.bool) if allowed is None else allowed[number] == 0
        kept[members[:, None], members[None, :]] = open_
    assert torch.equal(window(h, w, shift, size).dense(h * w, h * w), kept)


def test_sparse_transformer_by_its_paper():
    # Child et al., equation for the strided pattern: i attends to t … i with t = max(0, i − l), and to j with (i − j)
    # mod l = 0
    steps = 5
    mask = causal & (local(steps) | strided(steps))
    expected = [[j <= i and (j >= i - steps or operator.mod(i - j, steps) == 0) for j in range(29)] for i in range(29)]
    assert mask.dense(29, 29).tolist() == expected
