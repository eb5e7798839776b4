"""The order of a set: a function of seed and epoch alone, cut into batches, and each batch among processes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveal.data.order import Order, rarity
from foveal.errors import FovealError


def epochs(order, *numbers):
    seen = []
    for number in numbers:
        order.set_epoch(number)
        seen.append([part.tolist() for part in order])
    return seen


def test_by_hand():
    order = Order(np.array([3, 5, 7, 11, 13]), 2, shuffle=False)
    assert [part.tolist() for part in order] == [[3, 5], [7, 11], [13]]
    assert len(order) == 3
    assert [part.tolist() for part in Order(order.indices, 2, shuffle=False, rank=1, world=2)] == [[5], [11], []]


def test_seed_and_epoch_alone():
    first = epochs(Order(np.arange(23), 5, seed=3), 0, 1, 2)
    # whatever was seen before
    assert epochs(Order(np.arange(23), 5, seed=3), 2, 0, 1) == [first[2], first[0], first[1]]
    np.random.default_rng(0).random(7)
    np.random.seed(1)
    assert epochs(Order(np.arange(23), 5, seed=3), 1) == [first[1]]
    assert first[0] != first[1]
    assert epochs(Order(np.arange(23), 5, seed=4), 0) != [first[0]]


@given(st.integers(1, 41), st.integers(1, 13), st.integers(0, 5), st.booleans())
def test_each_once(count, batch, epoch, shuffle):
    order = Order(np.arange(count) * 3 + 1, batch, seed=1, shuffle=shuffle)
    order.set_epoch(epoch)
    parts = list(order)
    assert len(parts) == len(order)
    seen = np.concatenate(parts)
    assert len(np.unique(seen)) == len(seen)
    assert np.isin(seen, order.indices).all()
    if shuffle:  # what is left over has its turn in another epoch
        assert {len(part) for part in parts} == {min(batch, count)}
        assert count - len(seen) < batch
    else:
        assert seen.tolist() == order.indices.tolist()


def test_what_is_left_over_has_its_turn():
    order = Order(np.arange(7), 4)
    seen = set(np.concatenate([part for epoch in range(19) for part in (order.set_epoch(epoch), *order)[1:]]).tolist())
    assert seen == set(range(7))


@given(st.integers(1, 41), st.sampled_from([1, 2, 3]), st.integers(1, 5), st.booleans())
def test_processes_share_each_batch(count, world, share, shuffle):
    batch, indices = share * world, np.arange(count)
    alone = list(Order(indices, batch, shuffle=shuffle))
    slices = [list(Order(indices, batch, shuffle=shuffle, rank=rank, world=world)) for rank in range(world)]
    assert {len(one) for one in slices} == {len(alone)}  # as many steps for everyone, or one would wait for ever
    for whole, *parts in zip(alone, *slices, strict=True):
        together = np.concatenate(parts)
        assert len(np.unique(together)) == len(together)
        assert np.isin(together, whole).all()
        if not shuffle:
            assert sorted(together.tolist()) == whole.tolist()  # none is left out, none twice
        elif count >= world:
            assert len({len(part) for part in parts}) == 1
            assert len(whole) - len(together) < world


def test_batches_come_again_after_a_period():
    def epochs(period):
        order = Order(np.arange(23), 5, seed=3, period=period)
        for epoch in range(7):
            order.set_epoch(epoch)
            yield [part.tolist() for part in order]

    ever_new, again = list(epochs(0)), list(epochs(3))
    assert again == [ever_new[epoch % 3] for epoch in range(7)]
    assert ever_new[3] != ever_new[0]


def test_rarity_by_hand():
    assert rarity(np.array([0, 0, 0, 1]), multi_label=False).tolist() == [1 / 3, 1 / 3, 1 / 3, 1]
    labels = np.array([[1, 0], [1, 1], [1, 0], [0, 0], [0, 0]], np.uint8)
    assert rarity(labels, multi_label=True).tolist() == [1 / 3, 1, 1 / 3, 1 / 2, 1 / 2]


def test_rare_classes_are_drawn_as_often():
    labels = np.array([0] * 97 + [1] * 3)
    order = Order(np.arange(100) + 1000, 10, seed=5, weight=rarity(labels, multi_label=False))
    drawn = np.concatenate([part for epoch in range(40) for part in (order.set_epoch(epoch), *order)[1:]]) - 1000
    assert len(drawn) == 4000
    assert abs((labels[drawn] == 1).mean() - 0.5) < 0.03
    order.set_epoch(3)
    assert [part.tolist() for part in order] == [part.tolist() for part in order]


def test_bad_input():
    with pytest.raises(FovealError, match="the split: expected at least one image that can be read, got none"):
        Order(np.arange(0), 5)
    with pytest.raises(FovealError, match="batch"):
        Order(np.arange(3), 0)
