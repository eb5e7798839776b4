"""Masks: their signs, their forms, and the hints that save work."""

import copy
import pickle

import pytest
import torch
from core.expressions import masks, meaning, patterns, samples, with_padding
from hypothesis import given, settings
from hypothesis import strategies as st

import foveal
from foveal.core.algebra import Everything, Given
from foveal.core.mask import Mask
from foveal.errors import FovealError
from foveal.mask import bigbird, causal, local, longformer, padding, prefix, random, strided, to_global, window

sizes = st.tuples(st.integers(0, 37), st.integers(0, 41))
B = 3
multi_label = settings(max_examples=150)


def rows_of(lines):
    return torch.tensor([[sign == "#" for sign in line] for line in lines])


# by hand


def test_and_or_not_by_hand():
    band = causal & local(1)
    assert torch.equal(band.dense(4, 5), rows_of(["#....", "##...", ".##..", "..##."]))
    assert torch.equal((causal | prefix(2)).dense(4, 5), rows_of(["##...", "##...", "###..", "####."]))
    assert torch.equal((~causal).dense(3, 4), rows_of([".###", "..##", "...#"]))
    assert band.pairs(4, 5) == 7


def test_the_start_moves_the_rows():
    assert torch.equal(causal.starting_at(2).dense(2, 5), rows_of(["###..", "####."]))
    assert causal.starting_at(0) is causal
    assert torch.equal(
        window(3, 2, size=2).starting_at(4).dense(2, 6), rows_of(["....##", "....##"])
    )  # a grid is checked from its first row


def test_a_batch_by_hand():
    mask = causal & padding([2, 0])
    expected = torch.stack([rows_of(["#..", "##.", "##."]), rows_of(["...", "...", "..."])])[:, None]
    assert torch.equal(mask.dense(3, 3, batch=2), expected)
    assert mask.pairs(3, 3, batch=2) == 5


# the algebra


@multi_label
@given(masks, masks, sizes)
def test_signs_mean_and_or_not(a, b, size):
    one, other = meaning(a, *size)[0], meaning(b, *size)[0]
    assert torch.equal((a & b).dense(*size), one & other)
    assert torch.equal((a | b).dense(*size), one | other)
    assert torch.equal((~a).dense(*size), ~one)


@multi_label
@given(masks, masks, sizes)
def test_de_morgan_and_double_negation(a, b, size):
    assert torch.equal((~(a & b)).dense(*size), (~a | ~b).dense(*size))
    assert torch.equal((~(a | b)).dense(*size), (~a & ~b).dense(*size))
    assert torch.equal((~~a).dense(*size), a.dense(*size))


@multi_label
@given(with_padding(B), sizes)
def test_signs_mean_the_same_where_samples_differ(mask, size):
    dense = mask.dense(*size, batch=B)
    assert dense.shape == ((B, 1, *size) if mask.batched else size)
    assert torch.equal(samples(dense, B), meaning(mask, *size, batch=B))


@multi_label
@given(masks, st.integers(0, 9), sizes)
def test_starting_at_cuts_off_the_rows_before(mask, row, size):
    queries, keys = size
    assert torch.equal(mask.starting_at(row).dense(queries, keys), mask.dense(queries + row, keys)[row:])


def test_a_mask_has_no_truth_value():
    for wrong in (lambda: causal and local(2), lambda: causal or local(2), lambda: not causal, lambda: bool(~causal)):
        with pytest.raises(FovealError, match=r"expected & \| ~ .* got 'and', 'or' or 'not'"):
            wrong()


@pytest.mark.parametrize("other", [None, True, 3, "causal", torch.ones(2, 2, dtype=torch.bool), [[True]]])
def test_a_sign_takes_masks_only_on_either_side(other):
    for wrong in (lambda: causal & other, lambda: causal | other, lambda: other & causal, lambda: other | causal):
        with pytest.raises(FovealError, match=f"expected masks on both sides, got {type(other).__name__}"):
            wrong()


# the forms agree


@multi_label
@given(with_padding(B), sizes)
def test_pairs_counts_the_dense_form(mask, size):
    assert mask.pairs(*size, batch=B) == int(mask.dense(*size, batch=B).sum())


@multi_label
@given(with_padding(B), st.tuples(st.integers(1, 37), st.integers(1, 41)), st.data())
def test_a_part_is_cut_out_of_the_dense_form(mask, size, data):
    queries, keys = size
    rows = torch.tensor(data.draw(st.lists(st.integers(0, queries - 1), max_size=5)), dtype=torch.long)
    columns = torch.tensor(data.draw(st.lists(st.integers(0, keys - 1), max_size=5)), dtype=torch.long)
    part = mask.part(rows, columns, keys, batch=B)
    assert torch.equal(part, mask.dense(*size, batch=B)[..., rows, :][..., columns])


@multi_label
@given(with_padding(B), sizes)
def test_the_predicate_keeps_what_the_mask_keeps(mask, size):
    queries, keys = size
    at = torch.arange(B)[:, None, None], torch.zeros(1, dtype=torch.long), torch.arange(queries)[:, None], torch.arange(keys)
    kept = mask.predicate(keys, torch.device("cpu"))(*at)
    assert torch.equal(kept.expand(B, queries, keys), meaning(mask, queries, keys, batch=B))


@multi_label
@given(with_padding(B), sizes)
def test_structure_keeps_no_less_and_the_remainder_says_the_rest(mask, size):
    structure, rest = mask.structure(), mask.remainder()
    assert not structure.batched
    whole, exact = structure.dense(*size), samples(mask.dense(*size, batch=B), B)
    assert not (exact & ~whole).any()
    assert (rest is None) == (not mask.batched)
    if rest is not None:
        assert torch.equal(samples(rest.dense(*size, batch=B), B) & whole, exact)


def test_the_structure_of_causal_and_padding_is_causal():
    mask = causal & padding([3, 1])
    assert torch.equal(mask.structure().dense(7, 7), causal.dense(7, 7))
    assert isinstance(mask.remainder(), padding)


def test_the_picture_is_the_share_of_samples():
    assert torch.equal(local(1).picture(5, 7), local(1).dense(5, 7).float())
    assert local(1).picture(5).shape == (5, 5)
    assert causal.picture().shape == (32, 32)
    assert torch.equal(padding([3, 1]).picture(2, 4, batch=2), torch.tensor([[1, 0.5, 0.5, 0]] * 2))
    assert torch.equal(Given(torch.tensor([[True, False, True]])).picture(2, 3), torch.tensor([[1.0, 0, 1]] * 2))


# the hints are sound


@multi_label
@given(with_padding(B), st.integers(1, 37), st.integers(0, 41), st.data())
def test_no_kept_pair_lies_outside_reach_or_candidates(mask, queries, keys, data):
    first = data.draw(st.integers(0, queries - 1))
    step = data.draw(st.integers(1, 4))
    last = data.draw(st.integers(first + 1, queries))
    rows = torch.arange(first, last, step)
    kept = samples(mask.dense(queries, keys, batch=B), B).any(0)  # (N, M)
    low, high = mask.reach(first, last, keys)
    columns = torch.arange(keys)
    assert not kept[first:last, (columns < low) | (columns >= high)].any()
    candidates = mask.candidates(rows, keys)
    assert candidates.tolist() == sorted(set(candidates.tolist()))
    assert ((candidates >= 0) & (candidates < keys)).all()
    assert not kept[rows][:, ~torch.isin(columns, candidates)].any()


@pytest.mark.parametrize(
    "mask",
    [
        causal, local(2), prefix(3), to_global(2), strided(3), random(2), random(1, block=4), longformer(1, 2), bigbird(1, 1, 1), window(3, 7, 1, 2),
        causal & local(2), ~local(2), local(0) | prefix(2), prefix(2) | local(0), causal.starting_at(4), (local(1) | prefix(1)).starting_at(3),
        (causal & ~local(1)) | to_global(1), local(1) & to_global(1), (causal & ~causal) | local(1), local(1) | (prefix(0) & local(2)),
    ],
    ids=str,
)  # fmt: skip
def test_no_kept_pair_lies_outside_reach_for_any_rows(mask):
    size = 21
    kept, columns = mask.dense(size, size), torch.arange(size)
    for first in range(size):
        for last in range(first + 1, size + 1):
            low, high = mask.reach(first, last, size)
            assert not kept[first:last, (columns < low) | (columns >= high)].any()
            assert not mask.full(first, last, size) or kept[first:last].all()
            assert not kept[first:last][:, ~torch.isin(columns, mask.candidates(torch.arange(first, last), size))].any()


@multi_label
@given(with_padding(B), st.integers(0, 37), st.integers(0, 41), st.data())
def test_full_means_that_all_is_kept(mask, queries, keys, data):
    first = data.draw(st.integers(0, queries))
    last = data.draw(st.integers(first, queries))
    if mask.full(first, last, keys):
        assert mask.dense(queries, keys, batch=B)[..., first:last, :].all()


@pytest.mark.parametrize(
    ("mask", "queries", "keys", "full"),
    [
        (causal, 5, 1, True), (causal, 5, 2, False), (local(4), 5, 5, True), (local(3), 5, 5, False), (local(4), 5, 6, False),
        (prefix(5), 3, 5, True), (prefix(4), 3, 5, False), (strided(1), 5, 7, True), (strided(2), 5, 7, False),
        (to_global(5), 7, 5, True), (to_global(5), 5, 7, True), (to_global(4), 5, 5, False), (random(7), 5, 7, True), (random(6), 5, 7, False),
        (random(2, block=4), 9, 7, True), (Everything(), 3, 5, True), (causal | local(4), 5, 5, True), (causal & local(4), 5, 5, False),
        (causal.starting_at(4), 3, 5, True), (causal.starting_at(3), 3, 5, False),
    ],
)  # fmt: skip
def test_a_mask_that_keeps_all_knows_it(mask, queries, keys, full):
    assert mask.full(0, queries, keys) == full == bool(mask.dense(queries, keys).all())


@pytest.mark.parametrize(
    ("mask", "rows", "columns"),
    [
        (causal, [3, 4], range(5)), (local(2), [5, 6], range(3, 9)), (prefix(3), [5], range(3)), (to_global(2), [5, 9], range(2)),
        (to_global(2), [1, 9], range(23)), (causal & local(2), [5, 6], range(3, 7)), (local(1) | prefix(2), [8], [0, 1, 7, 8, 9]),
        (causal & ~causal, [50], range(23)), (local(1), [90], []), (window(5, 5, size=2), [0, 6], range(10)),
    ],
)  # fmt: skip
def test_candidates_leave_out_what_they_can(mask, rows, columns):
    keys = 25 if isinstance(mask, window) else 23
    assert mask.candidates(torch.tensor(rows), keys).tolist() == list(columns)


# masks as values


@multi_label
@given(masks)
def test_equal_masks_are_equal_also_after_a_copy(mask):
    for other in (copy.copy(mask), copy.deepcopy(mask), pickle.loads(pickle.dumps(mask))):
        assert other == mask
        assert hash(other) == hash(mask)
        assert repr(other) == repr(mask)


def test_padding_survives_a_copy():
    mask = pickle.loads(pickle.dumps(copy.deepcopy(causal & padding([3, 1]))))
    assert torch.equal(mask.dense(4, 4, batch=2), (causal & padding([3, 1])).dense(4, 4, batch=2))


def test_a_mask_can_be_read():
    assert repr(causal & ~local(2) | padding([3, 1])) == "((causal & ~local(radius=2)) | padding([3, 1]))"
    assert repr(Given(torch.ones(2, 3, dtype=torch.bool))) == "given(1, 1, 2, 3)"


def test_a_mask_is_found_by_its_name():
    assert foveal.mask.local is local
    names = ["bigbird", "causal", "local", "longformer", "padding", "prefix", "random", "strided", "to_global", "window"]
    assert set(names) <= set(dir(foveal.mask))
    with pytest.raises(AttributeError, match=r"no mask is called 'locl'; the nearest is 'local'; there are bigbird, causal"):
        foveal.mask.locl  # noqa: B018
    assert not hasattr(foveal.mask, "_nothing")


def test_a_new_mask_needs_its_rule_alone():
    class even(Mask):
        def keeps(self, b, h, i, j, keys):
            return (i + j) % 2 == 0

    mask = even() & causal
    assert torch.equal(mask.dense(5, 5), torch.tensor([[j <= i and (i + j) % 2 == 0 for j in range(5)] for i in range(5)]))
    assert mask.pairs(5, 5) == 9
    with pytest.raises(NotImplementedError):
        Mask().dense(2, 2)


def test_masks_do_not_care_which_device_is_the_default():
    with torch.device("meta"):
        for mask in (causal & padding([3, 1]), bigbird(2, 2, seed=991), longformer(1) | strided(3)):
            assert mask.pairs(4, 4, batch=2) > 0


# masks of tensors


def test_a_given_mask_stands_for_what_it_broadcasts_to():
    given = Given(torch.tensor([[True, False, True]]))
    assert given.pairs(5, 3) == 10
    assert given.pairs(5, 3, batch=2) == 20
    assert Given(torch.ones(2, 4, 1, 1, dtype=torch.bool)).pairs(5, 3, batch=2) == 2 * 4 * 5 * 3


@pytest.mark.parametrize("shape", [(5, 7), (1, 7), (5, 1), (1, 1, 5, 7), (2, 1, 1, 7), (2, 3, 5, 7), (1, 3, 1, 1)])
def test_a_given_mask_keeps_what_its_tensor_says(shape):
    tensor = torch.rand(shape, generator=torch.Generator().manual_seed(1)) < 0.5
    given, full = Given(tensor), tensor.expand(2, 3, 5, 7)
    b, h, i, j = torch.meshgrid(*(torch.arange(size) for size in full.shape), indexing="ij")
    assert torch.equal(given.keeps(b, h, i, j, 7), full)
    rows, columns = torch.tensor([4, 0, 2]), torch.tensor([1, 6])
    part = given.part(rows, columns, 7, batch=2)
    assert torch.equal(part.expand(2, 3, 3, 2), full[:, :, rows][..., columns])


def test_a_given_mask_is_not_combined():
    given = Given(torch.ones(2, 3, dtype=torch.bool))
    for wrong in (lambda: given & causal, lambda: causal & given, lambda: causal | given, lambda: ~given, lambda: given.starting_at(1)):
        with pytest.raises(FovealError, match=r"expected patterns of foveal.mask, got a mask of a tensor"):
            wrong()


@multi_label
@given(patterns, sizes)
def test_every_pattern_is_without_batch_and_has_a_period(mask, size):
    assert not mask.batched
    assert mask.period >= 1
    assert mask.dense(*size).dtype == torch.bool
    assert mask.dense(*size).shape == size
