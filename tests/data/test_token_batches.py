"""Batches by tokens: every pair once, none above the limit, and the order a function of seed and epoch alone."""

import itertools
import time

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from foveal.data import token_batches
from foveal.data.parallel import Pairs
from foveal.data.token_batches import TokenBatches, TokenPairs, Tokens, collate
from foveal.errors import FovealError
from foveal.runtime.vocabulary import learn

LENGTHS = st.lists(st.tuples(st.integers(0, 19), st.integers(0, 19)), min_size=1, max_size=61)


def split(lengths):
    return np.array(lengths).T


def seen(batches, *epochs):
    found = []
    for epoch in epochs:
        batches.set_epoch(epoch)
        found.append([part.tolist() for part in batches])
    return found


def test_by_hand():
    # Widths with the mark: 3 4 6 6 3. In their order 3 3 4 | 6 6: three pairs of 4 are 12, four of 6 would be 24.
    batches = TokenBatches([2, 3, 1, 5, 2], [1, 2, 5, 4, 2], 13, shuffle=False)
    assert [part.tolist() for part in batches] == [[0, 4, 1], [2, 3]]
    # Room: 3 pairs of 4 + 3, and 2 of 6 + 6; held: 10 + 8 and 8 + 11.
    assert batches.padding() == pytest.approx(1 - 37 / 45)
    assert batches.summary() == "2 batches per epoch, 2 to 3 pairs each, 17.8% padding"


@given(LENGTHS, st.integers(20, 67), st.integers(0, 3), st.booleans())
def test_every_pair_in_one_batch_and_none_above_the_limit(lengths, tokens, epoch, shuffle):
    source, target = split(lengths)
    batches = TokenBatches(source, target, tokens, seed=1, shuffle=shuffle)
    batches.set_epoch(epoch)
    parts = list(batches)
    assert len(parts) == len(batches)
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(source)))
    for part in parts:
        assert len(part) * (max(source[part].max(), target[part].max()) + 1) <= tokens
    batches.set_epoch(epoch + 1)
    assert len(list(batches)) == len(parts)  # Lightning asks once for the number of batches
    widths = np.sort(np.maximum(source, target))  # no batch could have had the next pair, too
    cuts = np.cumsum([0, *(len(part) for part in TokenBatches(source, target, tokens, shuffle=False))])
    for start, end in itertools.pairwise(cuts[:-1]):
        assert (end - start + 1) * (widths[end] + 1) > tokens


@given(LENGTHS, st.integers(1, 13))
def test_a_number_of_sentences(lengths, sentences):
    batches = TokenBatches(*split(lengths), 1, sentences=sentences)
    sizes = [len(part) for part in batches]
    assert sum(sizes) == len(lengths)
    assert sum(size != sentences for size in sizes) <= 1
    assert max(sizes) <= sentences


def test_seed_and_epoch_alone():
    source, target = np.random.default_rng(0).integers(1, 7, (2, 97))
    first = seen(TokenBatches(source, target, 41, seed=3), 0, 1, 2)
    assert seen(TokenBatches(source, target, 41, seed=3), 2, 0) == [first[2], first[0]]  # whatever was seen before
    assert first[0] != first[1]
    # other company, not just another order
    assert {frozenset(part) for part in first[0]} != {frozenset(part) for part in first[1]}
    assert seen(TokenBatches(source, target, 41, seed=4), 0) != [first[0]]
    turns = [max(source[part].max(), target[part].max()) for part in first[0]]
    assert turns != sorted(turns)


@given(LENGTHS, st.integers(20, 67), st.integers(1, 4), st.booleans())
def test_processes_share_each_batch(lengths, tokens, world, shuffle):
    alone = TokenBatches(*split(lengths), tokens, shuffle=shuffle)
    slices = [
        list(TokenBatches(*split(lengths), tokens, shuffle=shuffle, rank=rank, world=world)) for rank in range(world)
    ]
    assert {len(one) for one in slices} == {len(alone)}  # as many steps for everyone, or one would wait for ever
    for whole, *parts in zip(alone, *slices, strict=True):
        together = np.concatenate(parts).tolist()
        if len(whole) >= world or not shuffle:
            assert sorted(together) == sorted(whole.tolist())
        else:
            assert set(together) == set(whole.tolist())
            assert all(len(part) == 1 for part in parts)


def test_long_pairs_are_left_out_and_counted():
    batches = TokenBatches([3, 11, 2], [3, 2, 12], 23, max_length=11, shuffle=False)
    assert [part.tolist() for part in batches] == [[0], [1]]
    assert batches.left_out == 1
    assert batches.summary().endswith("1 pairs left out as too long")


def test_pairs_of_one_length_have_no_padding():
    assert TokenBatches([7] * 31, [7] * 31, 64).padding() == 0


def test_collate_by_hand():
    pairs = TokenPairs.of([[5, 6], [7], []], [[8], [9, 10, 11], [12]])
    batch = collate(pairs[[1, 0]])
    assert batch.source.tolist() == [[7, 2, 0], [5, 6, 2]]
    assert batch.target_in.tolist() == [[1, 9, 10, 11], [1, 8, 0, 0]]
    assert batch.target_out.tolist() == [[9, 10, 11, 2], [8, 2, 0, 0]]
    assert batch.places.tolist() == [0, 1, 2, 3, 4, 5]
    assert batch.target_out.flatten()[batch.places].tolist() == [9, 10, 11, 2, 8, 2]
    assert {tensor.dtype for tensor in batch} == {torch.int64}
    assert collate(pairs[[2]], pad=20, begin=21, end=22).source.tolist() == [[22]]
    assert collate(pairs[[0, 1]], pad=20, begin=21, end=22).target_in.tolist() == [[21, 8, 20, 20], [21, 9, 10, 11]]
    assert collate(pairs).source.shape == (3, 3)
    # a process may have nothing of a last batch
    assert [tuple(tensor.shape) for tensor in collate(pairs[[]])] == [(0, 1)] * 3 + [(0,)]


@given(
    st.lists(
        st.tuples(st.lists(st.integers(4, 99), max_size=7), st.lists(st.integers(4, 99), max_size=7)),
        min_size=1,
        max_size=11,
    ),
    st.randoms(),
)
def test_collate_against_loops(rows, chance):
    pairs = TokenPairs.of(*zip(*rows, strict=True))
    chosen = [chance.randrange(len(rows)) for _ in range(5)]
    batch = collate(pairs[chosen])
    longest = max(len(rows[index][0]) for index in chosen) + 1, max(len(rows[index][1]) for index in chosen) + 1
    for place, index in enumerate(chosen):
        source, target = rows[index]
        assert batch.source[place].tolist() == source + [2] + [0] * (longest[0] - len(source) - 1)
        assert batch.target_in[place].tolist() == [1, *target] + [0] * (longest[1] - len(target) - 1)
        assert batch.target_out[place].tolist() == [*target, 2] + [0] * (longest[1] - len(target) - 1)


def test_rows_are_kept_in_one_array():
    tokens = Tokens.of([[3, 5], [], [7]])
    assert tokens.values.tolist() == [3, 5, 7]
    assert [tokens[index].tolist() for index in range(3)] == [[3, 5], [], [7]]
    assert tokens.lengths.tolist() == [2, 0, 1]
    pairs = TokenPairs(tokens, tokens)
    assert pairs[[2, 0]][[1]].indices.tolist() == [0]
    assert len(pairs[[2, 0]]) == 2


def test_sentences_are_encoded_some_at_a_time(monkeypatch):
    pairs = Pairs([f"the dog number {number}" for number in range(11)], [f"Hund {number}" for number in range(11)])
    vocabulary = learn(pairs.source + pairs.target, 300)
    monkeypatch.setattr(token_batches, "AT_A_TIME", 3)
    found, expected = (
        TokenPairs.encoded(pairs, vocabulary, vocabulary),
        TokenPairs.of(*map(vocabulary.encode, (pairs.source, pairs.target))),
    )
    for one, other in ((found.source, expected.source), (found.target, expected.target)):
        assert one.values.tolist() == other.values.tolist()
        assert one.offsets.tolist() == other.offsets.tolist()
    assert len(Tokens.encoded([], vocabulary)) == 0


def test_an_epoch_is_planned_and_collated_in_no_time():
    draw = np.random.default_rng(0)
    source, target = draw.integers(4, 40, (2, 29000))
    batches = TokenBatches(source, target)
    assert fastest(batches.batches) < 0.05
    pairs = TokenPairs.of([[5] * length for length in source], [[6] * length for length in target])
    parts = list(batches)
    assert fastest(lambda: [collate(pairs[part]) for part in parts]) < 0.5


def fastest(what):
    def seconds():
        start = time.process_time()
        what()
        return time.process_time() - start

    return min(seconds() for _ in range(5))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (
            {"tokens": 10},
            "tokens: expected at least 11, the longest sentence with its mark, got 10; give more, or give max_length",
        ),
        ({"tokens": 0}, "tokens"),
        (
            {"max_length": 1},
            "pairs: expected at least one to put into a batch, got none of 2; give a larger max_length",
        ),
        ({"sentences": 0}, "sentences"),
        ({"seed": -1}, "seed"),
        ({"rank": 2, "world": 2}, "rank: expected below 2, the number of processes, got 2"),
    ],
)
def test_bad_input(how, message):
    with pytest.raises(FovealError) as error:
        TokenBatches([3, 10], [2, 5], **how)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


def test_sides_that_do_not_match():
    with pytest.raises(FovealError, match="lengths: expected one for each pair on both sides"):
        TokenBatches([3, 10], [2])
    with pytest.raises(FovealError, match="at least one to put into a batch, got none of 0"):
        TokenBatches([], [])
    with pytest.raises(FovealError, match="pairs: expected as many targets as the 2 sources, got 1"):
        TokenPairs.of([[1], [2]], [[1]])
