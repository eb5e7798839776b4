"""Masks: their signs, their forms, and the hints that save work."""

import copy
import pickle
import re
import time

import pytest
import torch
from core.expressions import masks, meaning, patterns, samples, with_padding
from hypothesis import given, settings
from hypothesis import strategies as st

import foveal
from foveal import attend
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
    # a grid is checked from its first row
    assert torch.equal(window(3, 2, size=2).starting_at(4).dense(2, 6), rows_of(["....##", "....##"]))


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


@pytest.mark.parametrize("other", [None, True, 3, "causal", [[True]]])
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
    at = (
        torch.arange(B)[:, None, None],
        torch.zeros(1, dtype=torch.long),
        torch.arange(queries)[:, None],
        torch.arange(keys),
    )
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
        causal, local(2), prefix(3), to_global(2), strided(3), random(2), random(1, block=4), longformer(1, 2),
        bigbird(1, 1, 1), window(3, 7, 1, 2), causal & local(2), ~local(2), local(0) | prefix(2), prefix(2) | local(0),
        causal.starting_at(4), (local(1) | prefix(1)).starting_at(3), (causal & ~local(1)) | to_global(1),
        local(1) & to_global(1), (causal & ~causal) | local(1), local(1) | (prefix(0) & local(2)),
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
        (causal, 5, 1, True), (causal, 5, 2, False),
        (local(4), 5, 5, True), (local(3), 5, 5, False), (local(4), 5, 6, False),
        (prefix(5), 3, 5, True), (prefix(4), 3, 5, False), (strided(1), 5, 7, True), (strided(2), 5, 7, False),
        (to_global(5), 7, 5, True), (to_global(5), 5, 7, True), (to_global(4), 5, 5, False),
        (random(7), 5, 7, True), (random(6), 5, 7, False), (random(2, block=4), 9, 7, True),
        (Everything(), 3, 5, True), (causal | local(4), 5, 5, True), (causal & local(4), 5, 5, False),
        (causal.starting_at(4), 3, 5, True), (causal.starting_at(3), 3, 5, False),
    ],
)  # fmt: skip
def test_a_mask_that_keeps_all_knows_it(mask, queries, keys, full):
    assert mask.full(0, queries, keys) == full == bool(mask.dense(queries, keys).all())


@pytest.mark.parametrize(
    ("mask", "rows", "columns"),
    [
        (causal, [3, 4], range(5)), (local(2), [5, 6], range(3, 9)), (prefix(3), [5], range(3)),
        (to_global(2), [5, 9], range(2)), (to_global(2), [1, 9], range(23)),
        (causal & local(2), [5, 6], range(3, 7)), (local(1) | prefix(2), [8], [0, 1, 7, 8, 9]),
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
    names = [
        "bigbird",
        "causal",
        "local",
        "longformer",
        "padding",
        "prefix",
        "random",
        "strided",
        "to_global",
        "window",
    ]
    assert set(names) <= set(dir(foveal.mask))
    with pytest.raises(
        AttributeError, match=r"no mask is called 'locl'; the nearest is 'local'; there are Mask, bigbird, causal"
    ):
        foveal.mask.locl  # noqa: B018
    assert not hasattr(foveal.mask, "_nothing")


def test_a_new_mask_needs_its_rule_alone():
    class even(Mask):
        def keeps(self, b, h, i, j, keys):
            return (i + j) % 2 == 0

    mask = even() & causal
    assert torch.equal(
        mask.dense(5, 5), torch.tensor([[j <= i and (i + j) % 2 == 0 for j in range(5)] for i in range(5)])
    )
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


TENSORS = [(5, 7), (1, 7), (2, 1, 1, 7), (2, 3, 5, 7), (1, 3, 1, 1)]


@pytest.mark.parametrize("shape", TENSORS)
def test_a_tensor_joins_patterns(shape):
    tensor = torch.rand(shape, generator=torch.Generator().manual_seed(1)) < 0.5
    full, lower = tensor.expand(2, 3, 5, 7), torch.ones(5, 7, dtype=torch.bool).tril()
    for mask, want in (
        (causal & tensor, full & lower),
        (tensor & causal, full & lower),
        (causal | tensor, full | lower),
        (tensor | causal, full | lower),
        (~(causal & tensor), ~(full & lower)),
        (
            Given(tensor) & causal & padding([7, 4]),
            full & lower & (torch.arange(7) < torch.tensor([7, 4])[:, None, None, None]),
        ),
    ):
        assert torch.equal(mask.dense(5, 7, batch=2).expand(2, 3, 5, 7), want)
        assert mask.pairs(5, 7, batch=2) == want[:, : mask.heads].sum()
        q, k, v = (torch.randn(2, 3, n, 8, generator=torch.Generator().manual_seed(n)) for n in (5, 7, 7))
        exact = attend(q, k, v, mask=want, kernel="explicit")
        for kernel in ("auto", "explicit", "blocks", "flash"):
            assert torch.allclose(attend(q, k, v, mask=mask, kernel=kernel), exact, atol=1e-6)
        indices = torch.meshgrid(*map(torch.arange, (2, 3, 5, 7)), indexing="ij")
        assert torch.equal(mask.predicate(7, torch.device("cpu"))(*indices), want)


def test_a_tensor_that_does_not_fit_is_named():
    mask = causal & torch.ones(4, 7, dtype=torch.bool)
    with pytest.raises(
        FovealError, match=r"mask: expected a shape that broadcasts to \(1, H, 5, 7\), got \(1, 1, 4, 7\)"
    ):
        mask.dense(5, 7)
    with pytest.raises(FovealError, match=r"a boolean tensor, True = may look"):
        causal & torch.ones(4, 7)
    q = torch.randn(1, 2, 5, 8)
    with pytest.raises(FovealError, match=r"mask: expected one for all heads, or for 2 as q has, got one for 3"):
        attend(q, q, q, mask=causal & torch.ones(1, 3, 5, 5, dtype=torch.bool))


# sizes and depths


def test_a_mask_that_no_memory_holds_is_refused():
    for mask in (causal, causal & padding([3, 4]), ~local(2)):
        with pytest.raises(
            FovealError,
            match=r"^dense 10,000,000 × 10,000,000 mask: expected at most [\d,]+ bytes, this machine's memory, got",
        ):
            mask.dense(10**7, 10**7, batch=2)


CLOSED = [
    causal,
    local(0),
    local(3),
    local(50),
    prefix(4),
    strided(1),
    strided(5),
    to_global(2),
    to_global(50),
    ~causal,
    ~strided(3),
    Everything(),
]


@pytest.mark.parametrize("mask", CLOSED, ids=repr)
def test_pairs_are_counted_by_a_formula(mask):
    for queries, keys in ((0, 5), (5, 0), (1, 1), (7, 7), (7, 11), (11, 7), (13, 13), (70, 3), (3, 70)):
        assert mask.counted(1, queries, keys) == mask.dense(queries, keys).sum()
    assert mask.pairs(10**9, 10**9) >= 0


def test_pairs_of_padding_are_counted_by_a_formula():
    for mask in (padding([3, 0, 99]), ~padding([3, 0, 99])):
        assert mask.counted(3, 5, 7) == mask.dense(5, 7, batch=3).expand(3, 1, 5, 7).sum()


@pytest.mark.parametrize(
    "mask", [causal & strided(3), bigbird(2, 2), longformer(2, 1), random(3), causal & local(5)], ids=repr
)
@pytest.mark.parametrize("size", [(10**9, 10**9), (10**6, 3), (3, 10**9), (2 * 10**6, 2 * 10**6)])
def test_too_many_pairs_are_refused_or_counted_within_seconds(mask, size):
    start, answer = time.process_time(), ""
    try:
        answer = str(mask.pairs(*size))
    except FovealError as error:
        answer = str(error)
    refused = (
        r"pairs of .*: expected at most [\d,]+ pairs to look at one by one, got .*; "
        "ask for a smaller size, a pattern repeats itself"
    )
    assert re.fullmatch(rf"\d+|{refused}", answer)
    assert time.process_time() - start < 10  # about one


def test_a_long_chain_is_not_a_deep_one():
    chain = either = causal
    for step in range(10_000):
        chain, either = chain & local(step), either | prefix(step % 3)
    assert torch.equal(chain.dense(5, 5), (causal & local(0)).dense(5, 5))
    assert torch.equal(either.dense(5, 5), (causal | prefix(2)).dense(5, 5))
    assert chain.depth == 2
    assert len(repr(chain)) < 300
    q = torch.randn(1, 2, 5, 8)
    assert torch.equal(attend(q, q, q, mask=chain, kernel="blocks"), attend(q, q, q, mask=local(0), kernel="blocks"))


def test_what_says_the_same_again_adds_nothing():
    assert causal & causal is causal
    assert causal & local(2) & causal == causal & local(2)
    assert (local(1) | causal) | local(1) == local(1) | causal
    assert ~~causal is causal
    assert causal.starting_at(2).starting_at(3) == causal.starting_at(5)
    assert causal & local(2) & strided(3) == causal & (local(2) & strided(3))


def test_a_mask_nested_too_deeply_is_refused_in_one_line():
    mask = causal
    for step in range(49):
        mask = mask & local(step) | prefix(step)
    with pytest.raises(
        FovealError, match=r"^mask: expected at most 100 levels of & \| ~ inside each other, got 101; write it as one"
    ):
        ~(~(mask & local(1)) | prefix(1))
    assert mask.depth == 99
    assert mask.dense(5, 5).shape == (5, 5)
    assert repr(mask)
    assert hash(mask) == hash(copy.deepcopy(mask))
    q = torch.randn(1, 2, 5, 8)
    assert attend(q, q, q, mask=mask, kernel="blocks").isfinite().all()


@multi_label
@given(patterns, sizes)
def test_every_pattern_is_without_batch_and_has_a_period(mask, size):
    assert not mask.batched
    assert mask.period >= 1
    assert mask.dense(*size).dtype == torch.bool
    assert mask.dense(*size).shape == size
