"""The loss in chunks is torch's cross-entropy, and so is its gradient."""

import pytest
import torch
from torch.nn import functional as F

from foveal.errors import FovealError
from foveal.losses.token_loss import token_loss


def both(dtype, smoothing, chunk, bias, autocast=False):
    torch.manual_seed(0)
    hidden = torch.randn(23, 8, dtype=dtype, requires_grad=True)
    table = torch.randn(31, 8, dtype=dtype, requires_grad=True)
    extra = torch.randn(31, dtype=dtype, requires_grad=True) if bias else None
    tokens = torch.randint(31, (23,))
    inputs = [one for one in (hidden, table, extra) if one is not None]
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        ours = token_loss(hidden, table, tokens, smoothing, extra, chunk)
        theirs = F.cross_entropy(
            F.linear(hidden, table, extra).float() if autocast else F.linear(hidden, table, extra),
            tokens,
            label_smoothing=smoothing,
        )
    return (ours, *torch.autograd.grad(3 * ours, inputs)), (theirs, *torch.autograd.grad(3 * theirs, inputs))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("chunk", [1, 7, 23, 4096])
@pytest.mark.parametrize("bias", [False, True])
def test_it_is_cross_entropy(smoothing, chunk, bias):
    for one, other in zip(*both(torch.float64, smoothing, chunk, bias), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)
    for one, other in zip(*both(torch.float32, smoothing, chunk, bias), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_in_mixed_precision():
    for one, other in zip(*both(torch.float32, 0.1, 7, False, autocast=True), strict=True):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one, other, rtol=0.05, atol=0.03)


def test_without_gradient_it_is_the_same():
    hidden, table, tokens = torch.randn(9, 4), torch.randn(11, 4, requires_grad=True), torch.randint(11, (9,))
    with torch.no_grad():
        value = token_loss(hidden, table, tokens, 0.1, chunk=2)
    assert not value.requires_grad
    torch.testing.assert_close(value, F.cross_entropy(hidden @ table.mT, tokens, label_smoothing=0.1).detach())


@pytest.mark.parametrize("chunk", [1, 7, 4096])
def test_words_that_do_not_count(chunk):
    torch.manual_seed(0)
    hidden, table = (torch.randn(rows, 8, dtype=torch.float64, requires_grad=True) for rows in (23, 31))
    tokens, counts = torch.randint(31, (23,)), torch.rand(23) < 0.6
    ours = token_loss(hidden, table, tokens, 0.1, chunk=chunk, counts=counts)
    theirs = F.cross_entropy((hidden @ table.mT)[counts], tokens[counts], label_smoothing=0.1)
    with torch.no_grad():
        torch.testing.assert_close(token_loss(hidden, table, tokens, 0.1, chunk=chunk, counts=counts), theirs.detach())
    for one, other in zip(*(torch.autograd.grad(value, (hidden, table)) for value in (ours, theirs)), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("chunk", [7, 4096])
@pytest.mark.parametrize("r_drop", [0.0, 5.0])
def test_two_passes_agree(chunk, r_drop):
    """Held against R-Drop as it is written down: the mean of both losses,
    and the mean of both divergences times α/2.
    """
    torch.manual_seed(0)
    passes = torch.randn(2, 23, 8, dtype=torch.float64, requires_grad=True)
    table = torch.randn(31, 8, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(31, dtype=torch.float64, requires_grad=True)
    tokens, counts = torch.randint(31, (23,)), torch.rand(23) < 0.6
    ours = token_loss(passes, table, tokens, 0.1, bias, chunk=chunk, counts=counts, r_drop=r_drop)
    one, two = (F.linear(hidden[counts], table, bias).log_softmax(1) for hidden in passes)
    losses = [F.cross_entropy(log_p, tokens[counts], label_smoothing=0.1) for log_p in (one, two)]
    divergences = [
        F.kl_div(log_p, other, log_target=True, reduction="batchmean") for log_p, other in ((one, two), (two, one))
    ]
    theirs = sum(losses) / 2 + r_drop / 2 * sum(divergences) / 2
    torch.testing.assert_close(ours, theirs)
    for mine, other in zip(
        *(torch.autograd.grad(value, (passes, table, bias)) for value in (ours, theirs)), strict=True
    ):
        torch.testing.assert_close(mine, other)


def test_compiled_it_is_the_same():
    torch.manual_seed(0)
    hidden, table = (torch.randn(rows, 8, requires_grad=True) for rows in (23, 31))
    tokens, counts = torch.randint(31, (23,)), torch.rand(23) < 0.6

    def loss(hidden, table):
        return token_loss(hidden, table, tokens, 0.1, chunk=16, counts=counts)

    for one, other in zip(
        *(
            torch.autograd.grad(of(hidden, table), (hidden, table))
            for of in (torch.compile(loss, backend="aot_eager"), loss)
        ),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


def test_a_bias_may_be_all_that_learns():
    hidden, table, tokens = torch.randn(9, 4), torch.randn(11, 4), torch.randint(11, (9,))
    bias = torch.randn(11, requires_grad=True)
    (ours,) = torch.autograd.grad(token_loss(hidden, table, tokens, 0.1, bias, chunk=4), bias)
    (theirs,) = torch.autograd.grad(F.cross_entropy(F.linear(hidden, table, bias), tokens, label_smoothing=0.1), bias)
    torch.testing.assert_close(ours, theirs)


def test_a_scaled_loss_has_a_finite_gradient_in_float16():
    """Lightning begins with a scale of 65,536, which float16 does not hold."""
    hidden = torch.randn(64, 8, dtype=torch.float16, requires_grad=True)
    table = torch.randn(31, 8, requires_grad=True)
    loss = token_loss(hidden, table, torch.randint(31, (64,)), 0.1)
    for gradient in torch.autograd.grad(65536 * loss, (hidden, table)):
        assert gradient.isfinite().all()


def test_what_it_refuses():
    table = torch.randn(11, 4, requires_grad=True)
    with pytest.raises(FovealError, match="at least one"):
        token_loss(torch.randn(0, 4), table, torch.zeros(0, dtype=torch.int64), 0.1)
    for passes in (1, 3):
        with pytest.raises(FovealError, match="two passes"):
            token_loss(torch.randn(passes, 9, 4), table, torch.randint(11, (9,)), 0.1, r_drop=1.0)


def test_where_no_word_counts_it_is_zero():
    hidden, table = torch.randn(9, 4, requires_grad=True), torch.randn(11, 4)
    loss = token_loss(hidden, table, torch.randint(11, (9,)), 0.1, counts=torch.zeros(9, dtype=torch.bool))
    (gradient,) = torch.autograd.grad(loss, hidden)
    assert loss == 0
    assert not gradient.any()
