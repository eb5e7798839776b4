"""The kernel of tiles: its gradients, its dropout, its terms, and that it really skips what a mask drops."""

import math

import pytest
import torch
from core.heads import MASKS, heads, near, with_gradients
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from foveal import attend
from foveal.core.term import Sum, Term, Written
from foveal.errors import FovealError
from foveal.mask import causal, local, longformer, padding, prefix, random, strided

JOINED = strided(5) | local(2)  # a row stands in two tiles


# gradients


@pytest.mark.parametrize(
    "mask",
    [
        None,
        local(1),
        JOINED,
        causal & (strided(3) | local(1)),
        (strided(3) | strided(2) | local(1)) & padding([4, 0]),
        causal & ~local(0),
    ],
    ids=str,
)
def test_gradients_are_those_of_the_function(mask):
    tensors = heads(6, 7, count=2, groups=1, width=2, value_width=3)
    assert torch.autograd.gradcheck(lambda *x: attend(*x, mask=mask, kernel="blocks"), tensors)


@pytest.mark.parametrize("mask", [local(90), JOINED, longformer(70, 3), causal & padding([200, 131])], ids=str)
def test_many_tiles_give_what_one_gives(mask):
    tensors = heads(211, 211, count=2, groups=1)
    near(with_gradients(tensors, mask=mask, kernel="blocks"), with_gradients(tensors, mask=mask, kernel="explicit"))


def test_a_gradient_is_asked_of_some_inputs_only():
    q, k, v = (x.detach() for x in heads())
    for learned in range(3):
        tensors = [q, k, v]
        tensors[learned] = tensors[learned].clone().requires_grad_()
        for mask in (local(3), JOINED):
            found, expected = (
                torch.autograd.grad(attend(*tensors, mask=mask, kernel=kernel).square().sum(), tensors[learned])
                for kernel in ("blocks", "explicit")
            )
            near(found, expected)


def test_a_second_derivative_is_refused_and_not_wrong():
    q, k, v = heads(5, 5)
    for mask in (local(1), JOINED):
        for loss in (lambda y: y.sum(), lambda y: y.square().sum()):
            with pytest.raises(
                FovealError, match=r"expected a first derivative only, got create_graph=True; use `with foveal.kernel"
            ):
                torch.autograd.grad(loss(attend(q, k, v, mask=mask, kernel="blocks")), q, create_graph=True)
    assert torch.autograd.gradgradcheck(
        lambda *x: attend(*x, mask=local(1), kernel="explicit"), heads(3, 3, batch=1, count=1, width=2)
    )


def test_it_goes_through_checkpointing():
    tensors = heads()
    for reentrant in (True, False):
        torch.manual_seed(3)
        y = checkpoint(
            lambda *x: attend(*x, mask=JOINED, dropout=0.3, kernel="blocks"), *tensors, use_reentrant=reentrant
        )
        found = torch.autograd.grad(y.sum(), tensors) if not reentrant else _backward(y.sum(), tensors)
        torch.manual_seed(3)
        near(found, torch.autograd.grad(attend(*tensors, mask=JOINED, dropout=0.3, kernel="blocks").sum(), tensors))


def _backward(loss, tensors):
    for x in tensors:
        x.grad = None
    loss.backward()
    return [x.grad for x in tensors]


# dropout


@pytest.mark.parametrize("mask", [None, local(3), JOINED, causal & padding([20, 0])], ids=str)
@pytest.mark.parametrize("kernel", ["blocks", "explicit", "auto"])
def test_dropout_drops_weights_and_lifts_the_others(mask, kernel):
    q, k, _ = heads(count=4, groups=2)
    v = torch.eye(37, dtype=torch.float64).expand(2, 2, 37, 37)  # y is then the weights themselves
    torch.manual_seed(0)
    y, alpha = attend(q, k, v, mask=mask, dropout=0.25, weights=True, kernel=kernel)
    seen = alpha > 0
    share = (y[seen] / alpha[seen]).round(decimals=6)
    assert set(share.unique().tolist()) == {0.0, round(1 / 0.75, 6)}
    dropped = float((share == 0).double().mean())
    assert abs(dropped - 0.25) < 5 * math.sqrt(0.25 * 0.75 / int(seen.sum()))
    assert (y[~seen] == 0).all()


@pytest.mark.parametrize("kernel", ["blocks", "explicit", "auto"])
def test_dropout_keeps_the_mean_and_follows_the_seed(kernel):
    q, k, v = (x.detach() for x in heads(7, 11, batch=1, count=2))
    torch.manual_seed(0)
    runs = torch.stack([attend(q, k, v, mask=JOINED, dropout=0.3, kernel=kernel) for _ in range(600)])
    exact = attend(q, k, v, mask=JOINED)
    spread = runs.std(0) / math.sqrt(len(runs))
    assert ((runs.mean(0) - exact).abs() <= 5 * spread + 1e-9).all()
    assert not torch.equal(runs[0], runs[1])
    torch.manual_seed(0)
    assert torch.equal(attend(q, k, v, mask=JOINED, dropout=0.3, kernel=kernel), runs[0])


@pytest.mark.parametrize("mask", [None, local(3), JOINED, (strided(3) | local(1)) & padding([5, 0])], ids=str)
def test_the_gradient_under_dropout_is_that_of_the_kept_weights(mask):
    q, k, v = heads(7, 11, count=4, groups=2)

    def dropped(values):
        torch.manual_seed(5)
        return attend(q, k, values, mask=mask, dropout=0.4, kernel="blocks")

    alpha = attend(q, k, v, mask=mask, weights=True)[1].detach()
    eye = torch.eye(11, dtype=torch.float64).expand(2, 2, 11, 11)
    survivors = torch.nan_to_num(dropped(eye).detach() / alpha, nan=0.0)  # 0 or 1/(1 − p), read out of the values
    weights = attend(q, k, v, mask=mask, weights=True)[1]
    expected = (weights * survivors) @ v.repeat_interleave(2, 1)
    y = dropped(v)
    near([y], [expected])
    upstream = torch.randn(y.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    near(torch.autograd.grad(y, (q, k, v), upstream), torch.autograd.grad(expected, (q, k, v), upstream))


def test_gradients_under_dropout_are_those_of_the_function():
    def run(*tensors):
        torch.manual_seed(1)
        return attend(*tensors, mask=strided(3) | local(1), dropout=0.5, kernel="blocks")

    assert torch.autograd.gradcheck(run, heads(6, 7, count=2, groups=1, width=2))


def test_every_tile_draws_for_itself():
    q = k = torch.zeros(1, 1, 128, 2)
    kept = attend(q, k, torch.eye(128)[None, None], dropout=0.5, kernel="blocks")[0, 0] > 0
    assert len({tuple(row) for row in kept.tolist()}) == 128


def test_nothing_is_drawn_without_dropout():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    attend(*heads(), mask=JOINED, kernel="blocks")
    assert torch.equal(torch.get_rng_state(), before)


# terms


class ByDistance(Term):
    """A learned number for each distance, and a learned vector that the query scores, more for each key."""

    def __init__(self, table, vector):
        self.tensors = (table, vector)

    def scores(self, q, rows, columns, *tensors):
        table, vector = (tensor.to(q.dtype) for tensor in tensors)
        place = (rows[:, None] - columns).clamp(-3, 3) + 3
        return table[place] + (q @ vector)[..., None] * columns.to(q.dtype) / 10


class ByRow(Term):
    """Indexes what it learns by the row itself."""

    def __init__(self, table):
        self.tensors = (table,)

    def scores(self, q, rows, columns, *tensors):
        return tensors[0][rows][:, None] * columns.to(q.dtype)


def a_term(dtype=torch.float64):
    generator = torch.Generator().manual_seed(4)
    table, vector = (
        torch.randn(size, generator=generator, dtype=torch.float64).to(dtype).requires_grad_() for size in (7, 5)
    )
    return ByDistance(table, vector)


@pytest.mark.parametrize("mask", [None, *MASKS[1:9], JOINED & padding([9, 30])], ids=str)
def test_a_term_learns_through_tiles(mask):
    term, tensors = a_term(), heads(count=4, groups=2)
    found, expected = (
        with_gradients(tensors, also=term.tensors, mask=mask, bias=term, kernel=kernel)
        for kernel in ("blocks", "explicit")
    )
    near(found, expected)


def test_terms_add_up():
    written = torch.randn(37, 37, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    term, tensors = a_term(), heads()
    both = Sum(term, Written(written))
    scores = term.scores(tensors[0], torch.arange(37), torch.arange(37), *term.tensors) + written
    for kernel in ("blocks", "explicit"):
        near(
            [attend(*tensors, bias=both, mask=JOINED, kernel=kernel)],
            [attend(*tensors, bias=scores, mask=JOINED, kernel="explicit")],
        )
    near([attend(*tensors, bias=Sum(), kernel="blocks")], [attend(*tensors)])
    with pytest.raises(
        FovealError, match=r"bias: expected a shape that broadcasts to \(2, 3, 37, 37\), got \(1, 1, 36, 37\)"
    ):
        attend(*tensors, bias=Sum(term, Written(written[1:])))


def test_a_term_in_half_precision():
    term, tensors = a_term(torch.bfloat16), heads(dtype=torch.bfloat16)
    exact_term, exact = a_term(), [x.detach().double().requires_grad_() for x in tensors]
    exact_term.tensors = tuple(x.detach().double().requires_grad_() for x in term.tensors)
    found = with_gradients(tensors, also=term.tensors, mask=JOINED, bias=term, kernel="blocks")
    assert all(x.dtype == torch.bfloat16 for x in found)
    near(found, with_gradients(exact, also=exact_term.tensors, mask=JOINED, bias=exact_term, kernel="explicit"), 3e-2)


def test_training_goes_on_after_inference():
    q, k, v = heads(97, 97)
    table = torch.randn(97, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_()
    mask = local(11) | strided(13)
    with torch.inference_mode():
        attend(q.detach(), k.detach(), v.detach(), mask=mask, bias=ByRow(table.detach()), kernel="blocks")
    found, expected = (
        with_gradients([q, k, v], also=[table], mask=mask, bias=ByRow(table), kernel=kernel)
        for kernel in ("blocks", "explicit")
    )
    near(found, expected)


# precision


@pytest.mark.parametrize("kernel", ["blocks", "explicit"])
def test_mixed_precision_does_not_reach_the_scores(kernel):
    tensors = heads(dtype=torch.float32)
    for mask in (local(3), JOINED):
        y = attend(*tensors, mask=mask, kernel=kernel)
        expected = [y, *torch.autograd.grad(y.sum(), tensors)]
        with torch.autocast("cpu", torch.bfloat16):
            z = attend(*tensors, mask=mask, kernel=kernel)
        found = [z, *torch.autograd.grad(z.sum(), tensors)]
        assert all(x.dtype == torch.float32 for x in found)
        near(found, expected, 1e-6)


def test_mixed_precision_does_not_reach_the_backward_pass_of_tiles():
    tensors = heads(dtype=torch.float32)
    expected = with_gradients(tensors, mask=JOINED, kernel="blocks")
    with torch.autocast("cpu", torch.bfloat16):
        near(with_gradients(tensors, mask=JOINED, kernel="blocks"), expected, 1e-6)


def test_shapes_can_be_had_without_numbers():
    q, k, v = (torch.empty(2, 3, 37, 5, device="meta") for _ in range(3))
    for mask in (None, JOINED, padding([3, 4]), random(2)):
        for dropout in (0.0, 0.5):
            assert attend(q, k, v, mask=mask, dropout=dropout).shape == (2, 3, 37, 5)
            assert attend(q, k, v, mask=mask, dropout=dropout, kernel="explicit").device.type == "meta"


# the work is skipped


class Largest(TorchDispatchMode):
    """The most numbers that an operation wrote anew, and the multiplications of all products."""

    def __init__(self):
        super().__init__()
        self.numbers = self.products = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and not any(_share(x, result) for x in args):
            self.numbers = max(self.numbers, result.numel())
            if function._overloadpacket in (torch.ops.aten.bmm, torch.ops.aten.baddbmm):
                inner = args[-1].shape[-2]
                self.products += result.numel() * inner
        return result


def _share(x, y):
    return isinstance(x, torch.Tensor) and x.untyped_storage()._cdata == y.untyped_storage()._cdata


@pytest.mark.parametrize(
    "mask", [local(16), longformer(16, 1), random(2, seed=1, block=32), (strided(16) & local(128)) | local(8)], ids=str
)
def test_neither_pass_touches_the_pairs_that_a_mask_drops(mask):
    length, width = 2048, 8
    q, k, v = (torch.randn(1, 1, length, width, requires_grad=True) for _ in range(3))
    attend(q, k, v, mask=mask, kernel="blocks")  # the plan is made once
    with Largest() as seen:
        attend(q, k, v, mask=mask, kernel="blocks").sum().backward()
    assert seen.numbers < length * length / 8
    assert seen.products < 7 * length * length * width / 4  # seven products of N × M × D are two passes without a mask


def test_a_bias_that_learns_nothing_costs_no_gradient_as_large_as_itself():
    q, k, v = heads(256, 256, batch=1, count=1)
    bias = torch.zeros(256, 256, dtype=torch.float64)
    y = attend(q, k, v, bias=bias, mask=local(5), kernel="blocks").sum()
    with Largest() as seen:
        y.backward()
    assert seen.numbers < 256 * 256


def test_a_prefix_is_read_by_all_and_the_rest_by_nobody():
    q, k, v = heads(130, 300)
    y = attend(q, k, v, mask=prefix(3), kernel="blocks")
    near([y], [attend(q, k[:, :, :3], v[:, :, :3])])
    gradient = torch.autograd.grad(y.sum(), v)[0]
    assert (gradient[:, :, 3:] == 0).all()
