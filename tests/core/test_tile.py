"""The tiles of a mask hold each kept pair once, and little else."""

import pytest
import torch
from core.expressions import masks
from hypothesis import given, settings
from hypothesis import strategies as st

from foveal.core.algebra import Everything
from foveal.core.tile import plan, strips
from foveal.mask import bigbird, causal, local, longformer, padding, prefix, random, strided, to_global, window


def whole(tile):
    """Which pairs of the tile are kept, (n, m)."""
    kept = torch.ones(len(tile.row_positions), len(tile.positions), dtype=torch.bool)
    if tile.kept is not None:
        assert ((tile.kept == 0) | (tile.kept == -torch.inf)).all()
        kept[:, tile.partly] = tile.kept == 0
    return kept


def written(tiles, queries, keys):
    """How many tiles keep each pair: (N, M)."""
    times = torch.zeros(queries, keys, dtype=torch.long)
    for tile in tiles:
        times[tile.row_positions[:, None], tile.positions] += whole(tile).long()
    return times


def memory(made):
    """The numbers that a plan stores: tiles that share a mask share its memory."""
    stored = {tile.kept.data_ptr(): tile.kept.numel() for tile in made.tiles if tile.kept is not None}
    return sum(stored.values()) + sum(
        len(tile.columns) for tile in made.tiles if isinstance(tile.columns, torch.Tensor)
    )


@settings(max_examples=200)
@given(masks, st.integers(0, 150), st.integers(0, 83), st.sampled_from([1, 3, 8, 64]))
def test_tiles_hold_each_kept_pair_exactly_once(mask, queries, keys, height):
    made = plan(mask, queries, keys, "cpu", height)
    assert torch.equal(written(made.tiles, queries, keys), mask.dense(queries, keys).long())


@settings(max_examples=100)
@given(masks, st.integers(0, 150), st.integers(0, 83))
def test_what_a_tile_says_of_itself_is_true(mask, queries, keys):
    made = plan(mask, queries, keys, "cpu", 16)
    standing = torch.zeros(queries, dtype=torch.long)
    for tile in made.tiles:
        assert torch.equal(torch.arange(queries)[tile.rows], tile.row_positions)
        assert torch.equal(torch.arange(keys)[tile.columns], tile.positions)
        assert len(tile.row_positions) <= 16
        assert len(tile.positions) > 0
        kept = whole(tile)
        assert kept.any(0).all(), "a column that no row keeps is left out"
        assert tile.bare == (not kept.any(1).all())
        assert (tile.kept is None) == bool(kept.all())
        standing[tile.row_positions] += 1
    assert not made.once or (standing <= 1).all()
    assert made.work == sum(len(tile.row_positions) * len(tile.positions) for tile in made.tiles)


@settings(max_examples=100)
@given(masks, st.integers(0, 150), st.integers(0, 83))
def test_strips_hold_every_pair(mask, queries, keys):
    found = torch.zeros(queries, keys, dtype=torch.bool)
    for rows, columns in strips(mask, queries, keys, height=16):
        found[rows[:, None], columns] = True
    assert not (mask.dense(queries, keys) & ~found).any()


def test_tiles_by_hand():
    first, second = plan(local(1), 4, 4, "cpu", 2).tiles
    assert (first.rows, first.columns) == (slice(0, 2, 1), slice(0, 3, 1))
    assert (second.rows, second.columns) == (slice(2, 4, 1), slice(1, 4, 1))
    assert whole(first).tolist() == [[True, True, False], [True, True, True]]
    assert (first.kept.tolist(), first.partly) == ([[-torch.inf], [0]], slice(2, 3))
    even, odd = plan(strided(2), 4, 5, "cpu", 2).tiles
    assert (even.rows, even.columns, even.kept) == (slice(0, 4, 2), slice(0, 5, 2), None)
    assert (odd.rows, odd.columns, odd.kept) == (slice(1, 4, 2), slice(1, 4, 2), None)


def test_nothing_to_look_at_means_no_tile():
    for mask, queries, keys in [
        (causal & ~causal, 70, 70),
        (prefix(0), 70, 70),
        (local(3), 0, 5),
        (local(3), 5, 0),
        (Everything(), 5, 0),
    ]:
        assert plan(mask, queries, keys).tiles == ()


def test_the_tiles_along_a_diagonal_share_one_mask():
    made = plan(local(8), 64 * 40, 64 * 40)
    assert len({tile.kept.data_ptr() for tile in made.tiles}) <= 3


def test_a_causal_plan_stores_no_more_than_its_diagonal():
    short, long = (memory(plan(causal | prefix(5), length, length)) for length in (640, 1280))
    assert short <= 64 * 64 * 3
    assert long <= short


LINEAR = {
    "local": local(16),
    "local and causal": local(16) & causal,
    "strided and near": strided(8) & local(64),
    "random": random(2, seed=1),
    "random blocks": random(2, seed=1, block=32),
    "longformer": longformer(16, 2),
    "bigbird": bigbird(16, 2, 1, block=32),
    "causal longformer": longformer(16, 2) & causal,
    "three kinds": local(8) | (strided(8) & local(64)) | prefix(1),
}


@pytest.mark.parametrize("name", sorted(LINEAR))
def test_work_and_memory_grow_with_the_length_and_not_with_its_square(name):
    short, long = (plan(LINEAR[name], length, length) for length in (2048, 4096))
    assert long.work <= 2.2 * short.work
    assert memory(long) <= 2.2 * memory(short)
    assert short.work < 2048 * 2048 / 4


@pytest.mark.parametrize(
    ("mask", "most"),
    [
        (causal, 1.1),
        (strided(32), 1.0),
        (strided(32) & causal, 2.1),
        (local(64) | strided(32), 1.7),
        (strided(32) | local(8) | to_global(1), 3.5),
        (causal & (local(32) | strided(32)), 3.0),
        ((causal & (local(32) | strided(32))).starting_at(7), 3.0),
        (local(8) | strided(32) | strided(48), 2.5),
        (window(32, 32, size=8), 4.1),
    ],
)
def test_the_work_is_near_the_pairs_also_where_periods_meet(mask, most):
    made = plan(mask, 1024, 1024)
    assert made.work <= most * mask.pairs(1024, 1024)


def test_work_counts_strided_once_for_each_residue():
    made = plan(strided(32), 1024, 1024)
    assert made.work == strided(32).pairs(1024, 1024) == 1024 * 1024 // 32
    assert all(tile.kept is None and isinstance(tile.columns, slice) for tile in made.tiles)


def test_a_batch_is_planned_by_its_structure():
    mask = causal & padding([3, 200])
    assert plan(mask.structure(), 200, 200).work == plan(causal, 200, 200).work


def test_the_same_mask_is_planned_once():
    assert plan(local(5) & causal, 211, 211) is plan(local(5) & causal, 211, 211)


def test_a_plan_made_while_inferring_serves_training():
    with torch.inference_mode():
        made = plan(local(5) | strided(9), 97, 97)
    assert not any(
        t.is_inference()
        for tile in made.tiles
        for t in (tile.row_positions, tile.positions, tile.kept)
        if t is not None
    )


def test_a_plan_does_not_care_which_device_is_the_default():
    with torch.device("meta"):
        made = plan(local(7) | strided(10), 97, 97)
    assert {tile.positions.device.type for tile in made.tiles} == {"cpu"}
