"""Attention: by hand, against plain loops, against torch, and every kernel against the explicit one."""

import math

import oracle.attend
import pytest
import torch
import torch.nn.functional as F
from core.expressions import with_padding
from core.heads import KERNELS, MASKS, TOLERANCE, heads, near, with_gradients
from hypothesis import given, settings
from hypothesis import strategies as st

from foveal import attend, weigh
from foveal.core.observe import observers
from foveal.errors import FovealError
from foveal.mask import causal, local, longformer, padding, prefix, random, strided, window

INF = math.inf


# by hand


@pytest.mark.parametrize("kernel", ["explicit", *KERNELS])
def test_one_query_and_two_keys_by_hand(kernel):
    # q = [0, √2], k = the unit vectors: scores [0, √2/√2] = [0, 1], weights [1, e]/(1 + e)
    q = torch.tensor([[[[0.0, math.sqrt(2)]]]], dtype=torch.float64)
    k = torch.eye(2, dtype=torch.float64)[None, None]
    v = torch.tensor([[3.0, 7.0], [5.0, 7.0]], dtype=torch.float64)[None, None]
    y, alpha = attend(q, k, v, weights=True, kernel=kernel)
    first, second = 1 / (1 + math.e), math.e / (1 + math.e)
    assert alpha.flatten().tolist() == pytest.approx([first, second], abs=1e-12)
    assert y.flatten().tolist() == pytest.approx([3 * first + 5 * second, 7], abs=1e-12)
    seen = attend(q, k, v, mask=causal, kernel=kernel)  # the one query stands at key 0
    assert seen.flatten().tolist() == pytest.approx([3, 7], abs=1e-12)
    flat = attend(q, k, v, scale=0.0, kernel=kernel)
    assert flat.flatten().tolist() == pytest.approx([4, 7], abs=1e-12)
    moved = attend(q, k, v, bias=torch.tensor([[1.0, 0.0]], dtype=torch.float64), kernel=kernel)  # scores [1, 1]
    assert moved.flatten().tolist() == pytest.approx([4, 7], abs=1e-12)


def test_true_means_may_look():
    q, k, v = heads(1, 2, batch=1, count=1)
    y = attend(q, k, v, mask=torch.tensor([[True, False]]))
    torch.testing.assert_close(y, v[:, :, :1])


def test_heads_come_before_tokens():
    # (B, N, H, D) taken for (B, H, N, D) would mix tokens of different heads
    q, k, v = heads(5, 5, count=3)
    y = attend(q, k, v)
    for head in range(3):
        one = slice(head, head + 1)
        torch.testing.assert_close(y[:, one], attend(q[:, one], k[:, one], v[:, one]))


# against plain loops


@pytest.mark.parametrize("kernel", ["explicit", *KERNELS])
@pytest.mark.parametrize(("count", "groups"), [(3, 3), (6, 2), (5, 1)])
def test_it_equals_plain_loops_at_prime_sizes(kernel, count, groups):
    value_width = 5 if kernel == "flash" else 3  # flash has one width on a CPU
    q, k, v = heads(7, 11, count=count, groups=groups, width=5, value_width=value_width)
    generator = torch.Generator().manual_seed(1)
    mask = torch.rand(2, count, 7, 11, generator=generator) < 0.4
    mask[0, 0, 2] = mask[1, :, 5] = False
    bias = torch.randn(2, count, 7, 11, generator=generator, dtype=torch.float64)
    bias[0, 0, 3, 4] = -INF
    lists = [x.tolist() for x in (q, k, v)]
    for options in ({}, {"mask": mask}, {"bias": bias}, {"mask": mask, "bias": bias, "scale": 0.3}):
        plain = {name: value.tolist() if isinstance(value, torch.Tensor) else value for name, value in options.items()}
        expected = torch.tensor(oracle.attend.like(*lists, **plain), dtype=torch.float64)
        near([attend(q, k, v, **options, kernel=kernel)], [expected], 1e-12)
    if kernel == "explicit":
        alpha = attend(q, k, v, mask=mask, bias=bias, weights=True)[1]
        share = count // groups
        loops = [
            [oracle.attend.alpha(lists[0][b][h], lists[1][b][h // share], mask[b, h], bias[b, h]) for h in range(count)]
            for b in range(2)
        ]
        near([alpha], [torch.tensor(loops, dtype=torch.float64)], 1e-12)


# against torch


@pytest.mark.parametrize(
    "options", [{}, {"is_causal": True}, {"scale": 0.7}, {"attn_mask": "boolean"}, {"attn_mask": "bias"}]
)
@pytest.mark.parametrize(("count", "groups"), [(3, 3), (6, 2)])
@pytest.mark.parametrize("value_width", [5, 7])
def test_it_equals_torch(options, count, groups, value_width):
    tensors = heads(13, 17, count=count, groups=groups, value_width=value_width)
    ours, theirs = dict(options), dict(options)
    if "attn_mask" in options:
        kept = torch.rand(2, 1, 13, 17, generator=torch.Generator().manual_seed(3)) < 0.5
        theirs["attn_mask"] = kept if options["attn_mask"] == "boolean" else kept.double()
        ours["mask" if options["attn_mask"] == "boolean" else "bias"] = theirs["attn_mask"]
        del ours["attn_mask"]
    if ours.pop("is_causal", False):
        ours["mask"] = causal
    expected = F.scaled_dot_product_attention(*tensors, **theirs, enable_gqa=count != groups)
    upstream = torch.randn(expected.shape, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    wanted = [expected, *torch.autograd.grad(expected, tensors, upstream)]
    for kernel in ("explicit", *KERNELS):
        if kernel != "flash" or value_width == 5:
            near(with_gradients(tensors, **ours, kernel=kernel), wanted)


# every kernel is the explicit one


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("mask", MASKS, ids=str)
def test_every_kernel_equals_the_explicit_one(mask, kernel):
    for count, groups in ((3, 3), (6, 2)):
        tensors = heads(count=count, groups=groups)
        near(with_gradients(tensors, mask=mask, kernel=kernel), with_gradients(tensors, mask=mask, kernel="explicit"))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_every_kernel_is_near_the_exact_answer_in_every_precision(dtype, kernel):
    for mask in (None, causal, local(3), strided(5) | local(2), causal & padding([20, 0])):
        tensors = heads(dtype=dtype, groups=1)
        exact = [x.detach().double().requires_grad_() for x in tensors]
        found = with_gradients(tensors, mask=mask, kernel=kernel)
        assert all(x.dtype == dtype for x in found)
        near(found, with_gradients(exact, mask=mask, kernel="explicit"), TOLERANCE[dtype])


@settings(max_examples=60)
@given(
    with_padding(2),
    st.sampled_from([(37, 37), (70, 11), (5, 83), (1, 7), (7, 1)]),
    st.sampled_from([(2, 2), (4, 2), (3, 1)]),
)
def test_every_kernel_equals_the_explicit_one_for_any_mask(mask, size, shared):
    for value_width, kernels in ((2, KERNELS), (3, ["blocks", "auto"])):
        tensors = heads(*size, count=shared[0], groups=shared[1], width=2, value_width=value_width)
        expected = with_gradients(tensors, mask=mask, kernel="explicit")
        for kernel in kernels:
            near(with_gradients(tensors, mask=mask, kernel=kernel), expected)


def test_a_window_attends_within_itself():
    tensors = heads(35, 35)
    mask = window(5, 7, shift=1, size=3)
    expected = with_gradients(tensors, mask=mask.dense(35, 35), kernel="explicit")
    for kernel in ("explicit", *KERNELS):
        near(with_gradients(tensors, mask=mask, kernel=kernel), expected)


@pytest.mark.parametrize(
    "shape", [(37, 37), (1, 37), (37, 1), (1, 1, 37, 37), (2, 1, 1, 37), (2, 3, 37, 37), (1, 3, 1, 1), (2, 1, 37, 1)]
)
def test_a_mask_of_a_tensor_broadcasts(shape):
    tensor = torch.rand(shape, generator=torch.Generator().manual_seed(1)) < 0.5
    tensors = heads()
    expected = with_gradients(tensors, mask=tensor.expand(2, 3, 37, 37).contiguous(), kernel="explicit")
    for kernel in ("explicit", *KERNELS):
        near(with_gradients(tensors, mask=tensor, kernel=kernel), expected)


@pytest.mark.parametrize("kernel", ["explicit", *KERNELS])
@pytest.mark.parametrize(("count", "groups"), [(6, 2), (6, 3), (5, 1)])
@pytest.mark.parametrize("queries", [1, 13])
def test_shared_keys_are_repeated_keys(kernel, count, groups, queries):
    for mask in (None, causal, local(3), causal & padding([4, 9]), strided(3) | local(1)):
        q, k, v = heads(queries, 17, count=count, groups=groups)
        y, dq, dk, dv = with_gradients([q, k, v], mask=mask, kernel=kernel)
        repeated = [x.detach().repeat_interleave(count // groups, 1).requires_grad_() for x in (k, v)]
        z, eq, ek, ev = with_gradients([q, *repeated], mask=mask, kernel="explicit")
        summed = [x.unflatten(1, (groups, count // groups)).sum(2) for x in (ek, ev)]
        near([y, dq, dk, dv], [z, eq, *summed])


# rows that see nothing


@pytest.mark.parametrize("kernel", ["explicit", *KERNELS])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_a_row_that_sees_nothing_gives_zero_and_finite_gradients(kernel, dtype):
    nobody = torch.ones(11, 11, dtype=torch.bool)
    nobody[4] = False
    hiding = torch.zeros(11, 11, dtype=dtype).masked_fill(~nobody, -INF)
    cases = [
        ({"mask": nobody}, (slice(None), slice(None), 4)),
        ({"bias": hiding}, (slice(None), slice(None), 4)),
        ({"mask": causal, "bias": hiding}, (slice(None), slice(None), 4)),
        ({"mask": padding([11, 0])}, (1,)),
        ({"mask": causal & padding([3, 0])}, (1,)),
        ({"mask": ~causal}, (slice(None), slice(None), 10)),
        ({"mask": causal & ~causal}, (slice(None),)),
        ({"mask": (strided(4) | local(1)) & padding([11, 0])}, (1,)),
        ({"mask": (strided(4) | local(1)) & ~strided(1)}, (slice(None),)),
    ]
    for options, empty in cases:
        tensors = heads(11, 11, dtype=dtype)
        y, *gradients = with_gradients(tensors, **options, kernel=kernel)
        assert (y[empty] == 0).all()
        assert (gradients[0][empty] == 0).all()
        assert all(gradient.isfinite().all() for gradient in gradients)
        assert (attend(*tensors, **options, weights=True, kernel=kernel)[1][empty] == 0).all()
        near([y], [with_gradients(tensors, **options, kernel="explicit")[0]], TOLERANCE[dtype])


@pytest.mark.parametrize("kernel", ["explicit", *KERNELS])
def test_what_lies_in_the_future_has_no_influence(kernel):
    q, k, v = heads(13, 13)
    for i in (0, 5, 11):
        for mask in (causal, causal & longformer(2, 1), causal & (strided(3) | local(1))):
            gradients = torch.autograd.grad(attend(q, k, v, mask=mask, kernel=kernel)[:, :, i].sum(), (k, v))
            assert all((gradient[:, :, i + 1 :] == 0).all() for gradient in gradients)
            assert (gradients[1][:, :, i] != 0).any()


# sizes


@pytest.mark.parametrize("kernel", ["explicit", *KERNELS])
@pytest.mark.parametrize(("queries", "keys"), [(1, 13), (13, 1), (1, 1), (5, 200), (200, 5), (0, 7), (7, 0), (0, 0)])
def test_any_number_of_queries_and_keys(kernel, queries, keys):
    for mask in (
        None,
        causal,
        local(2),
        strided(3) | local(1),
        random(2),
        ~local(1),
        padding([3, 0]),
        causal & padding([3, 0]),
    ):
        for count, groups in ((3, 3), (4, 2)):
            tensors = heads(queries, keys, count=count, groups=groups)
            found = with_gradients(tensors, mask=mask, kernel=kernel)
            assert found[0].shape == (2, count, queries, 5)
            near(found, with_gradients(tensors, mask=mask, kernel="explicit"))
            if keys == 0:
                assert (found[0] == 0).all()
    biased = attend(*heads(queries, keys), bias=torch.zeros(queries, keys, dtype=torch.float64), kernel=kernel)
    near([biased], [attend(*heads(queries, keys), kernel="explicit")])


@pytest.mark.parametrize("kernel", ["explicit", *KERNELS])
def test_an_empty_batch_and_an_empty_value_are_answered(kernel):
    for mask in (None, causal, strided(3) | local(1)):
        assert attend(*heads(5, 7, batch=0), mask=mask, kernel=kernel).shape == (0, 3, 5, 5)
        assert attend(*heads(5, 7, count=4, groups=2, batch=0), mask=mask, kernel=kernel).shape == (0, 4, 5, 5)
        if kernel != "flash":
            assert attend(*heads(5, 7, value_width=0), mask=mask, kernel=kernel).shape == (2, 3, 5, 0)


@pytest.mark.parametrize("kernel", ["explicit", *KERNELS])
def test_tensors_may_lie_in_memory_as_they_like(kernel):
    for mask in (None, causal, local(3), strided(5) | local(2)):
        plain = heads(13, 13, count=4, groups=2)
        expected = with_gradients(plain, mask=mask, kernel="explicit")
        # of shape (B, N, H, D) in memory
        by_token = [x.detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_() for x in plain]
        by_channel = [x.detach().mT.contiguous().mT.requires_grad_() for x in plain]
        skipping = [torch.stack([x.detach(), x.detach()], -1)[..., 0].requires_grad_() for x in plain]
        for tensors in (by_token, by_channel, skipping):
            assert not tensors[0].is_contiguous()
            if kernel == "flash" and tensors is not by_token:
                with pytest.raises(FovealError, match="last axis lies together"):
                    attend(*tensors, mask=mask, kernel=kernel)
            else:
                near(with_gradients(tensors, mask=mask, kernel=kernel), expected)
    q, k, v = heads(13, 13, batch=1)
    shared = [q, k.expand(4, -1, -1, -1), v.expand(4, -1, -1, -1)]
    near(
        [attend(q.expand(4, -1, -1, -1), *shared[1:], mask=local(3), kernel=kernel)[2:3]],
        [attend(q, k, v, mask=local(3))],
    )


# bias, scale, weights


@pytest.mark.parametrize("kernel", ["explicit", *KERNELS])
@pytest.mark.parametrize(
    "shape", [(13, 17), (1, 17), (13, 1), (1, 3, 13, 17), (2, 1, 13, 17), (1, 3, 1, 17), (2, 3, 13, 17), (1, 1, 1, 1)]
)
def test_a_bias_broadcasts_and_is_added_to_the_scores(kernel, shape):
    bias = torch.randn(shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    tensors = heads(13, 17)
    for mask in (None, causal, local(4), strided(3) | local(1), padding([17, 5])):
        scores = (tensors[0] @ tensors[1].mT / math.sqrt(5) + bias).detach()
        kept = torch.ones(1, dtype=torch.bool) if mask is None else mask.dense(13, 17, batch=2)
        expected = torch.nan_to_num(scores.masked_fill(~kept, -INF).softmax(-1), nan=0.0) @ tensors[2]
        found = with_gradients(tensors, mask=mask, bias=bias, kernel=kernel)
        near(found[:1], [expected])
        near(found, with_gradients(tensors, mask=mask, bias=bias, kernel="explicit"))


def test_a_learned_bias_gets_its_gradient():
    q, k, v = heads(7, 11)
    for shape in ((7, 11), (1, 3, 1, 11), (2, 1, 7, 1)):
        bias = torch.randn(shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64).requires_grad_()
        for mask in (None, causal, padding([11, 0])):
            for kernel in ("auto", "explicit"):

                def run(bias, mask=mask, kernel=kernel):
                    return attend(q.detach(), k.detach(), v.detach(), mask=mask, bias=bias, kernel=kernel)

                assert torch.autograd.gradcheck(run, (bias,))


def test_a_bias_may_be_of_another_precision():
    q, k, v = heads(7, 11, dtype=torch.float32)
    bias = torch.randn(7, 11, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    for kernel in ("explicit", *KERNELS):
        for dtype in (torch.float64, torch.float32):
            y = attend(q, k, v, bias=bias.to(dtype), kernel=kernel)
            assert y.dtype == torch.float32
            near([y], [attend(q.double(), k.double(), v.double(), bias=bias)], 1e-5)


@pytest.mark.parametrize("kernel", ["explicit", *KERNELS])
@pytest.mark.parametrize("scale", [0.0, 1, 2.5, -0.7])
def test_the_scale_multiplies_the_scores(kernel, scale):
    tensors = heads(7, 11)
    for mask in (None, local(3), strided(3) | local(1)):
        expected = with_gradients([tensors[0] * scale * math.sqrt(5), *tensors[1:]], mask=mask, kernel="explicit")
        near(with_gradients(tensors, mask=mask, scale=scale, kernel=kernel)[:1], expected[:1])


def test_large_scores_stay_finite():
    for dtype in (torch.float32, torch.float16):
        q, k, v = (x * 40 for x in heads(37, 37, dtype=dtype))
        for mask in (None, causal, strided(5) | local(2)):
            for kernel in ("explicit", *KERNELS):
                near(
                    [attend(q, k, v, mask=mask, kernel=kernel)],
                    [attend(q.double(), k.double(), v.double(), mask=mask, kernel="explicit")],
                    5e-3,
                )


@pytest.mark.parametrize("kernel", ["explicit", *KERNELS])
@pytest.mark.parametrize("mask", [None, causal, local(3), strided(5) | local(2), causal & padding([20, 0])], ids=str)
def test_weights_come_back_from_any_kernel(kernel, mask):
    q, k, v = heads(count=4, groups=2)
    y, alpha = attend(q, k, v, mask=mask, weights=True, kernel=kernel)
    assert alpha.shape == (2, 4, 37, 37)
    near([alpha @ v.repeat_interleave(2, 1)], [y])
    total = alpha.sum(-1)
    assert (((total - 1).abs() < 1e-12) | (total == 0)).all()
    if mask is not None:
        assert (alpha.masked_select(~mask.dense(37, 37, batch=2)) == 0).all()


def test_weights_come_back_before_dropout():
    q, k, v = heads()
    near([attend(q, k, v, weights=True, dropout=0.5)[1]], [attend(q, k, v, weights=True)[1]])


# properties


@settings(max_examples=25)
@given(st.permutations(range(11)), st.sampled_from(["explicit", *KERNELS]))
def test_the_order_of_keys_does_not_matter_without_a_mask(order, kernel):
    q, k, v = heads(7, 11)
    near([attend(q, k[:, :, order], v[:, :, order], kernel=kernel)], [attend(q, k, v)])


@settings(max_examples=25)
@given(st.floats(-50, 50), st.sampled_from(["explicit", *KERNELS]))
def test_a_constant_added_to_a_row_of_scores_changes_nothing(constant, kernel):
    q, k, v = heads(7, 11)
    bias = torch.full((7, 1), constant, dtype=torch.float64)
    near([attend(q, k, v, bias=bias, mask=local(3), kernel=kernel)], [attend(q, k, v, mask=local(3))])


@settings(max_examples=25)
@given(st.sampled_from([mask for mask in MASKS if mask is not None]), st.sampled_from(["explicit", *KERNELS]))
def test_what_is_hidden_has_no_influence(mask, kernel):
    q, k, v = (x.detach() for x in heads())
    hidden = ~mask.dense(37, 37, batch=2).reshape(-1, 37, 37).any(1).expand(2, 37)  # keys that no query sees
    noise = (
        torch.randn(2, 1, 37, 1, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
        * hidden[:, None, :, None]
    )
    assert torch.equal(
        attend(q, k + noise, v + noise, mask=mask, kernel=kernel), attend(q, k, v, mask=mask, kernel=kernel)
    )


# any scores


def test_weigh_by_hand():
    scores = torch.tensor([[[[0.0, 1.0, -INF], [-INF, -INF, -INF]]]], dtype=torch.float64, requires_grad=True)
    v = torch.tensor([[[[1.0], [2.0], [100.0]]]], dtype=torch.float64)
    y = weigh(scores, v)
    assert y.flatten().tolist() == pytest.approx([(1 + 2 * math.e) / (1 + math.e), 0], abs=1e-12)
    (gradient,) = torch.autograd.grad(y.sum(), scores)
    assert gradient.isfinite().all()
    assert (gradient[0, 0, 1] == 0).all()


def test_weigh_is_what_attend_does_with_scores():
    q, k, v = heads(7, 11, count=4, groups=2)
    scores = (q @ k.repeat_interleave(2, 1).mT / math.sqrt(5)).masked_fill(~local(3).dense(7, 11), -INF)
    near([weigh(scores, v)], [attend(q, k, v, mask=local(3))])
    half = weigh(scores.float(), v.to(torch.bfloat16))
    assert half.dtype == torch.bfloat16
    dropped = weigh(scores, torch.ones_like(v), dropout=0.5)
    assert len(dropped.unique()) > 1
    assert (weigh(scores, torch.ones_like(v), dropout=0.0) - 1).abs().max() < 1e-12


# what an observer gets to see


@pytest.mark.parametrize("kernel", ["explicit", "flash", "blocks"])
def test_every_attention_reports_itself_once_with_its_weights(kernel):
    q, k, v = heads(count=4, groups=2)
    looks = []
    observers.append(looks.append)
    try:
        alpha = attend(q, k, v, mask=causal & padding([20, 3]), weights=True, kernel=kernel)[1]
    finally:
        observers.remove(looks.append)
    (look,) = looks
    assert (look.batch, look.heads, look.queries, look.keys, look.kernel) == (2, 4, 37, 37, kernel)
    rows = torch.tensor([30, 2, 2])
    near([look.rows(rows)], [alpha[:, :, rows]])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("keys", [1, 2, 5, 7, 8, 9, 15, 16, 17, 33])
def test_a_query_that_is_nan_stays_nan_and_the_others_do_not_notice(dtype, keys):
    # torch's CPU kernel finds the largest of fewer keys than a vector holds by comparisons, in which NaN loses: the
    # row seemed empty.
    for pattern in (None, causal, local(50) & prefix(1)):
        for groups in (6, 2):
            generator = torch.Generator().manual_seed(keys)
            q = torch.randn(2, 6, 5, 8, generator=generator, dtype=torch.float64).to(dtype)
            k, v = (
                torch.randn(2, groups, keys, 8, generator=generator, dtype=torch.float64).to(dtype) for _ in range(2)
            )
            clean = attend(q, k, v, mask=pattern)
            q[0, 1, 3, 2] = torch.nan
            q[1, 0, 2, 0] = -torch.inf  # no NaN: its row is what the kernel makes of it
            y = attend(q, k, v, mask=pattern)
            wrong = torch.zeros(2, 6, 5, dtype=torch.bool)
            wrong[0, 1, 3] = True
            assert y[wrong].isnan().all()
            wrong[1, 0, 2] = True
            assert torch.equal(y[~wrong], clean[~wrong])
            one = attend(q[:, :, 3:4], k, v)
            assert one[0, 1].isnan().all()
            assert one.isfinite().sum() == one.numel() - 8


def test_a_nan_query_is_seen_by_the_gradient_too():
    q, k, v = (torch.randn(1, 1, 5, 4, generator=torch.Generator().manual_seed(0)) for _ in range(3))
    q[0, 0, 2, 1] = torch.nan
    attend(q.requires_grad_(), k, v).sum().backward()
    assert q.grad[0, 0, 2].isnan().all()
    assert q.grad[0, 0, [0, 1, 3, 4]].isfinite().all()
