"""Whatever is given: a right answer, or one line that says what was expected and what was found."""

import math
import operator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from foveal import attend, weigh, which
from foveal.core.term import Term
from foveal.errors import FovealError
from foveal.mask import bigbird, causal, local, longformer, padding, prefix, random, strided, to_global, window

B, H, N, M, D = 2, 6, 5, 7, 3
objects = st.sampled_from(
    [None, 3, 2.5, "a", True, [1.0], {}, object(), b"x", lambda: 0, float, math.nan, 1j, (), torch.nn.Identity()]
)
numbers = st.one_of(
    st.integers(-3, 9),
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([2**31, 2**63, 10**30, -(10**30), 10**400]),
)


def heads(dtype=torch.float32, device="cpu"):
    return [torch.randn(shape).to(device, dtype) for shape in ((B, H, N, D), (B, 2, M, D), (B, 2, M, D))]


def says(error, *words):
    """The message is one line, with what was expected and what was found, or with the nearest name."""
    message = str(error.value if hasattr(error, "value") else error)
    assert "\n" not in message
    assert len(message) < 400
    assert ("expected" in message and "got" in message) or "; there are " in message or "these can:" in message
    for word in words:
        assert word in message, f"{word!r} is not in {message!r}"


def right_or_said(call):
    """The result, or None if it was refused in words. Anything else is a failure."""
    try:
        return call()
    except FovealError as error:
        says(error)
        return None


def refused(call, *words):
    with pytest.raises(FovealError) as error:
        call()
    says(error, *words)


# tensors


@settings(max_examples=300)
@given(
    st.lists(st.lists(st.sampled_from([0, 1, 2, 3, 4, 6]), min_size=2, max_size=5), min_size=3, max_size=3),
    st.booleans(),
)
def test_any_shapes(shapes, masked):
    q, k, v = (torch.ones(shape) for shape in shapes)
    y = right_or_said(lambda: attend(q, k, v, mask=local(1) if masked else None))
    fits = (
        all(x.dim() == 4 for x in (q, k, v))
        and k.shape[0] == q.shape[0]
        and k.shape[3] == q.shape[3] > 0
        and v.shape[:3] == k.shape[:3]
    )
    fits = fits and k.shape[1] > 0 and q.shape[1] % k.shape[1] == 0
    assert (y is not None) == fits
    if fits:
        assert y.shape == (*q.shape[:3], v.shape[3])
        assert y.isfinite().all()


@settings(max_examples=200)
@given(st.integers(0, 2), st.sampled_from(range(4)), st.integers(1, 7))
def test_one_axis_that_does_not_fit(which_tensor, axis, size):
    tensors = heads()
    shape = list(tensors[which_tensor].shape)
    shape[axis] = size
    tensors[which_tensor] = torch.ones(shape)
    y = right_or_said(lambda: attend(*tensors))
    q, k, v = tensors
    fits = (
        k.shape[0] == q.shape[0]
        and k.shape[3] == q.shape[3]
        and v.shape[:3] == k.shape[:3]
        and q.shape[1] % k.shape[1] == 0
    )
    assert (y is not None) == fits


@given(st.integers(0, 2), objects)
def test_something_that_is_no_tensor(place, thing):
    tensors = heads()
    tensors[place] = thing
    refused(lambda: attend(*tensors), f"{'qkv'[place]}: expected a tensor, got {type(thing).__name__}")
    refused(lambda: which(*tensors), f"{'qkv'[place]}: expected a tensor")


@given(
    st.integers(0, 2),
    st.sampled_from(
        [torch.int64, torch.int8, torch.bool, torch.complex64, torch.float8_e4m3fn, torch.float16, torch.float64]
    ),
)
def test_dtypes_that_do_not_fit(place, dtype):
    tensors = heads()
    tensors[place] = tensors[place].to(dtype)
    refused(lambda: attend(*tensors), "expected", "torch.")


@pytest.mark.parametrize(
    "dtype", [torch.int64, torch.uint8, torch.bool, torch.complex64, torch.float8_e4m3fn, torch.float8_e5m2], ids=str
)
def test_dtypes_that_attention_does_not_have(dtype):
    refused(lambda: attend(*heads(dtype)), "q: expected a floating dtype of 16, 32 or 64 bits", str(dtype))


def test_tensors_on_two_devices():
    q, k, v = heads()
    refused(lambda: attend(q, k.to("meta"), v), "k: expected torch.float32 on cpu as q, got torch.float32 on meta")
    refused(lambda: attend(q.to("meta"), k, v), "k: expected torch.float32 on meta as q")
    refused(
        lambda: attend(q, k, v, mask=torch.ones(N, M, dtype=torch.bool, device="meta")), "mask", "on cpu", "on meta"
    )
    refused(lambda: attend(q, k, v, bias=torch.ones(N, M, device="meta")), "bias", "on cpu", "on meta")


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_tensors_that_are_not_dense():
    q, k, v = heads()
    refused(lambda: attend(q.to_sparse(), k, v), "q: expected a dense tensor, got torch.sparse_coo")
    refused(lambda: attend(torch.nested.nested_tensor(list(q)), k, v), "q: expected a dense tensor, got a nested one")
    refused(lambda: attend(q, k, v, bias=torch.ones(N, M).to_sparse()), "bias: expected a dense tensor")
    refused(
        lambda: attend(q, k, v, mask=torch.ones(N, M, dtype=torch.bool).to_sparse()), "mask: expected a dense tensor"
    )


def test_the_words_for_a_shape_name_all_that_is_needed():
    q, k, v = heads()
    refused(lambda: attend(q[0], k, v), "q: expected 4 axes (B, H, N, D), got shape (6, 5, 3)")
    refused(lambda: attend(q, k[..., :2], v), "k: expected batch 2 and width 3 as q (2, 6, 5, 3), got (2, 2, 7, 2)")
    refused(lambda: attend(q, k[:1], v), "k: expected batch 2")
    refused(lambda: attend(q, k, v[:, :, 1:]), "v: expected batch, heads and keys (2, 2, 7) as k, got (2, 2, 6, 3)")
    refused(lambda: attend(q[:, :5], k, v), "k: expected a number of heads that divides q's 5 heads")


# mask and bias


@settings(max_examples=150)
@given(
    st.lists(st.sampled_from([1, 2, 5, 6, 7]), max_size=6), st.sampled_from([torch.bool, torch.float32, torch.int64])
)
def test_a_mask_of_any_shape_and_dtype(shape, dtype):
    y = right_or_said(lambda: attend(*heads(), mask=torch.ones(shape).to(dtype)))
    fits = len(shape) in (2, 4) and all(
        size in (1, want) for size, want in zip(reversed(shape), (M, N, H, B), strict=False)
    )
    assert (y is not None) == (fits and dtype == torch.bool)
    assert y is None or y.shape == (B, H, N, D)


@settings(max_examples=150)
@given(
    st.lists(st.sampled_from([1, 2, 5, 6, 7]), max_size=6),
    st.sampled_from([torch.bool, torch.float32, torch.float64, torch.int64, torch.complex64]),
)
def test_a_bias_of_any_shape_and_dtype(shape, dtype):
    y = right_or_said(lambda: attend(*heads(), bias=torch.ones(shape).to(dtype)))
    fits = len(shape) in (2, 4) and all(
        size in (1, want) for size, want in zip(reversed(shape), (M, N, H, B), strict=False)
    )
    assert (y is not None) == (fits and dtype.is_floating_point)
    assert y is None or y.shape == (B, H, N, D)


@given(objects)
def test_a_mask_or_a_bias_that_is_neither(thing):
    if thing is not None:
        refused(
            lambda: attend(*heads(), mask=thing),
            f"mask: expected a mask or a boolean tensor, got {type(thing).__name__}",
        )
        refused(lambda: attend(*heads(), bias=thing), f"bias: expected a tensor or a term, got {type(thing).__name__}")
    refused(lambda: attend(*heads(), mask=causal & thing), "expected masks on both sides")


def test_a_mask_that_belongs_to_another_size():
    refused(lambda: attend(*heads(), mask=padding([3])), "padding's lengths: expected 2, one for each sample, got 1")
    refused(lambda: attend(*heads(), mask=causal & ~padding([3, 1, 2])), "padding's lengths: expected 2")
    refused(lambda: attend(*heads(), mask=window(5, 1)), "window's grid: expected 5 × 1 = 5 tokens, got N=5, M=7")
    refused(lambda: attend(*heads(), mask=(window(5, 1) | causal).starting_at(2)), "window's grid")
    refused(lambda: padding([3]).dense(2, 3, batch=2), "padding's lengths: expected 2")


def test_booleans_and_numbers_are_not_mixed_up():
    refused(
        lambda: attend(*heads(), mask=torch.zeros(N, M)),
        "mask: expected a boolean tensor, True = may look",
        "put additive scores into bias=",
    )
    refused(
        lambda: attend(*heads(), bias=torch.ones(N, M, dtype=torch.bool)),
        "bias: expected a floating dtype",
        "put booleans into mask=",
    )


def test_a_term_that_says_what_it_needs_is_heard():
    class Picky(Term):
        def check(self, q, keys):
            raise FovealError(f"picky: expected 3 keys, got {keys}")

    refused(lambda: attend(*heads(), bias=Picky()), "picky: expected 3 keys, got 7")


# numbers


@settings(max_examples=150)
@given(st.one_of(numbers, objects, st.just(torch.tensor(0.5))))
def test_any_scale(scale):
    y = right_or_said(lambda: attend(*heads(), scale=scale))
    good = scale is None or (
        isinstance(scale, (int, float)) and not isinstance(scale, bool) and abs(scale) < 1e300 and math.isfinite(scale)
    )
    if not good and not (isinstance(scale, float) and math.isfinite(scale)):
        assert y is None
    if good and (scale is None or abs(scale) < 100):
        assert y.isfinite().all()


@settings(max_examples=150)
@given(st.one_of(numbers, objects, st.just(torch.tensor(0.5))))
def test_any_dropout(dropout):
    y = right_or_said(lambda: attend(*heads(), dropout=dropout))
    assert (y is not None) == (isinstance(dropout, (int, float)) and not isinstance(dropout, bool) and 0 <= dropout < 1)
    scores = torch.zeros(B, H, N, M)
    assert (right_or_said(lambda: weigh(scores, heads()[2], dropout=dropout)) is not None) == (y is not None)


@given(st.one_of(objects, st.text(max_size=9)))
def test_any_kernel_name(kernel):
    refused(lambda: attend(*heads(), kernel=kernel), "kernel")


@pytest.mark.parametrize(
    "number", [2.5, -1, True, False, "3", None, math.nan, math.inf, 2**31, 10**30, [1], torch.tensor(2), 1j]
)
@pytest.mark.parametrize(
    ("build", "what"),
    [
        (local, "local's radius"),
        (prefix, "prefix's n"),
        (to_global, "to_global's n"),
        (strided, "strided's step"),
        (random, "random's count"),
        (lambda x: random(2, seed=x), "random's seed"),
        (lambda x: random(2, block=x), "random's block"),
        (lambda x: longformer(x), "local's radius"),
        (lambda x: longformer(2, x), "to_global's n"),
        (lambda x: bigbird(x, 2), "local's radius"),
        (lambda x: bigbird(2, x), "random's count"),
        (lambda x: window(x, 5), "window's h"),
        (lambda x: window(5, x), "window's w"),
        (lambda x: window(5, 5, size=x), "window's size"),
        (lambda x: window(5, 5, shift=x), "window's shift"),
        (lambda x: causal.starting_at(x), "the first query's position"),
        (lambda x: causal.dense(x, 3), "the mask's queries"),
        (lambda x: causal.pairs(3, x), "the mask's keys"),
        (lambda x: local(1).block_mask(x, 128), "the mask's queries"),
        (lambda x: padding([3, x]), "padding's length of sample 1"),
        (lambda x: causal.dense(3, 3, batch=x), "the mask's batch"),
    ],
)
def test_a_number_that_is_no_whole_number(build, what, number):
    refused(lambda: build(number), f"{what}: expected an integer, at least ")


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: strided(0), "strided's step: expected an integer, at least 1"),
        (lambda: random(1, block=0), "random's block: expected an integer, at least 1"),
        (lambda: window(0, 3), "window's h: expected an integer, at least 1"),
        (lambda: window(3, 3, size=0), "window's size: expected an integer, at least 1"),
        (lambda: window(3, 3, size=2, shift=2), "window's shift: expected below its size 2, got 2"),
    ],
)
def test_a_number_that_is_too_small(build, words):
    refused(build, words)


@given(st.one_of(objects, st.lists(st.one_of(numbers, objects), max_size=4)))
def test_any_lengths(lengths):
    mask = right_or_said(lambda: padding(lengths))
    if mask is not None:
        assert all(isinstance(length, int) and length >= 0 for length in lengths)
        assert mask.dense(2, 3, batch=len(mask.lengths)).shape == (len(mask.lengths), 1, 2, 3)


def test_lengths_of_a_wrong_kind():
    refused(lambda: padding(torch.tensor([1.0])), "one integer for each sample, (B,)", "torch.float32")
    refused(lambda: padding(torch.tensor([True])), "torch.bool")
    refused(lambda: padding(torch.tensor([1j])), "torch.complex64")
    refused(lambda: padding(torch.ones(2, 2, dtype=torch.long)), "shape (2, 2)")
    refused(lambda: padding("abc"), "got str")
    refused(lambda: padding(torch.tensor([-3, 99])), "at least 0", "-3")
    assert padding(torch.tensor([0, 99])).dense(2, 3, batch=2).sum((1, 2, 3)).tolist() == [0, 6]
    refused(lambda: causal(), "causal: expected no call")


def test_whole_numbers_of_other_libraries_are_whole_numbers():
    numpy = pytest.importorskip("numpy")
    assert torch.equal(local(numpy.int64(2)).dense(5, 5), local(2).dense(5, 5))
    assert torch.equal(padding(numpy.array([3, 1])).dense(5, 5, batch=2), padding([3, 1]).dense(5, 5, batch=2))


# any scores


@settings(max_examples=150)
@given(st.lists(st.lists(st.sampled_from([0, 1, 2, 3, 6]), min_size=3, max_size=5), min_size=2, max_size=2))
def test_weigh_takes_what_fits(shapes):
    scores, v = (torch.ones(shape) for shape in shapes)
    y = right_or_said(lambda: weigh(scores, v))
    fits = (
        scores.dim() == v.dim() == 4
        and scores.shape[0] == v.shape[0]
        and scores.shape[3] == v.shape[2]
        and v.shape[1] > 0
    )
    assert (y is not None) == (fits and scores.shape[1] % v.shape[1] == 0)
    assert y is None or y.shape == (*scores.shape[:3], v.shape[3])


@given(objects)
def test_weigh_takes_tensors(thing):
    refused(lambda: weigh(thing, torch.ones(1, 1, 1, 1)), "scores: expected a tensor")
    refused(lambda: weigh(torch.ones(1, 1, 1, 1), thing), "v: expected a tensor")
    refused(lambda: weigh(torch.ones(1, 1, 1, 1), torch.ones(1, 1, 1, 1, device="meta")), "on cpu", "on meta")


# signs


@given(st.sampled_from([operator.and_, operator.or_]), objects)
def test_signs_between_a_mask_and_anything(sign, thing):
    refused(lambda: sign(causal, thing), "expected masks on both sides")
    refused(lambda: sign(thing, causal), "expected masks on both sides")
