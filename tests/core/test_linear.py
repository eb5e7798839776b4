import math
from contextlib import contextmanager

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from oracle.linear import features, weights
from oracle.linear import linear as oracle
from torch.utils._python_dispatch import TorchDispatchMode

import foveal.core.linear as source
from foveal.core import observe
from foveal.core.linear import linear, orthogonal
from foveal.core.pattern.causal import causal
from foveal.core.pattern.local import local
from foveal.core.pattern.padding import padding
from foveal.errors import FovealError


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def heads(queries=11, keys=11, width=5, values=3, dtype=torch.float64):
    return (
        draw(2, 3, queries, width, dtype=dtype),
        draw(2, 3, keys, width, seed=1, dtype=dtype),
        draw(2, 3, keys, values, seed=2, dtype=dtype),
    )


OMEGA = orthogonal(features=7, width=5, seed=3).double()
LENGTHS = (4, 9)
MASKS = {
    "none": (None, None),
    "causal": (causal, lambda b, i, j: j <= i),
    "padding": (padding(LENGTHS), lambda b, i, j: j < LENGTHS[b]),
    "both": (causal & padding(LENGTHS), lambda b, i, j: j <= i and j < LENGTHS[b]),
    "both, the other way round": (padding(LENGTHS) & causal, lambda b, i, j: j <= i and j < LENGTHS[b]),
    "padded twice": (padding([11, 2]) & padding(LENGTHS), lambda b, i, j: j < (4, 2)[b]),
}


@contextmanager
def looks():
    """What attention reports, while this lasts."""
    seen = []
    observe.observers.append(seen.append)
    try:
        yield seen
    finally:
        observe.observers.pop()


@pytest.fixture
def tiny(monkeypatch):
    """Chunks of 3 rows, one at a time, so that a few tokens take every path."""
    monkeypatch.setattr(source, "CHUNK", 3)
    monkeypatch.setattr(source, "AT_ONCE", {"cpu": 1, "other": 1})


def test_by_hand():
    # One feature, ω = 1, so φ(q) cancels: the weights are exp(k − k²/2) = 1, √e, 1 for the keys 0, 1, 2.
    q, k = torch.tensor([[[[0.7]]]]), torch.tensor([0.0, 1.0, 2.0]).view(1, 1, 3, 1)
    y = linear(q, k, torch.tensor([1.0, 10.0, 100.0]).view(1, 1, 3, 1), torch.ones(1, 1))
    assert math.isclose(y.item(), (1 + 10 * math.exp(0.5) + 100) / (2 + math.exp(0.5)), rel_tol=1e-6)


def assert_is_the_oracle(name, keys):
    mask, keeps = MASKS[name]
    q, k, v = heads(keys=keys)
    want = torch.tensor(oracle(q.tolist(), k.tolist(), v.tolist(), OMEGA.tolist(), keeps), dtype=torch.float64)
    assert torch.allclose(linear(q, k, v, OMEGA, mask=mask), want, atol=1e-12, rtol=0)


@pytest.mark.parametrize("keys", [11, 5, 17])
@pytest.mark.parametrize("name", MASKS)
def test_it_is_the_oracle(name, keys):
    assert_is_the_oracle(name, keys)


@pytest.mark.parametrize("keys", [11, 5, 17])
@pytest.mark.parametrize("name", MASKS)
def test_in_many_parts_it_is_the_oracle_too(tiny, name, keys):
    assert_is_the_oracle(name, keys)


@pytest.mark.parametrize("name", MASKS)
def test_gradients_in_many_parts_are_those_of_one(name, monkeypatch):
    inputs = [x.requires_grad_() for x in heads()]
    mask = MASKS[name][0]
    whole = torch.autograd.grad(linear(*inputs, OMEGA, mask=mask).square().sum(), inputs)
    monkeypatch.setattr(source, "CHUNK", 3)
    monkeypatch.setattr(source, "AT_ONCE", {"cpu": 1, "other": 1})
    parts = torch.autograd.grad(linear(*inputs, OMEGA, mask=mask).square().sum(), inputs)
    for one, other in zip(whole, parts, strict=True):
        assert torch.allclose(one, other, atol=1e-12, rtol=0)


@pytest.mark.parametrize("mask", [None, causal], ids=str)
def test_gradients(tiny, mask):
    q, k, v = (x[:1, :1, :5, :2].detach().requires_grad_() for x in heads())
    omega = OMEGA[:, :2]
    assert torch.autograd.gradcheck(lambda *inputs: linear(*inputs, omega, mask=mask), (q, k, v))


def test_more_than_one_chunk_at_its_real_size():
    q, k, v = (draw(1, 1, 300, 4, seed=s) for s in range(3))
    omega = orthogonal(8, 4).double()
    alpha = torch.tensor(
        weights(q[0, 0].tolist(), k[0, 0].tolist(), omega.tolist(), 0, lambda b, i, j: j <= i), dtype=torch.float64
    )
    assert torch.allclose(linear(q, k, v, omega, mask=causal)[0, 0], alpha @ v[0, 0], atol=1e-12, rtol=0)


def test_no_gradient_comes_from_later_tokens(tiny):
    inputs = [x.requires_grad_() for x in heads()]
    y = linear(*inputs, OMEGA, mask=causal)
    for row in range(11):
        for grad in torch.autograd.grad(y[:, :, row].square().sum(), inputs, retain_graph=True):
            assert grad[:, :, row + 1 :].eq(0).all()
            assert grad[:, :, row].ne(0).any() or row == 0  # the first row looks at itself alone: only its value counts


def test_the_error_falls_as_features_grow():
    q, k, v = draw(1, 2, 31, 8) / 2, draw(1, 2, 31, 8, seed=1) / 2, draw(1, 2, 31, 8, seed=2)
    errors = []
    for count in (16, 128, 1024):
        for mask in (None, causal):
            exact = F.scaled_dot_product_attention(q, k, v, is_causal=mask is causal)
            drawn = [linear(q, k, v, orthogonal(count, 8, seed).double(), mask=mask) - exact for seed in range(5)]
            errors.append(torch.stack(drawn).square().mean().sqrt().item())
    few, some, multi_label = ((both + causal_) / 2 for both, causal_ in zip(errors[::2], errors[1::2], strict=True))
    # With independent draws the error falls as 1/√F: by 2.8 from each to the next.
    assert few > 2 * some > 4 * multi_label
    assert multi_label < 0.1


def test_orthogonal_features_beat_independent_ones():
    q, k, v = draw(1, 2, 31, 8) / 2, draw(1, 2, 31, 8, seed=1) / 2, draw(1, 2, 31, 8, seed=2)
    exact = F.scaled_dot_product_attention(q, k, v)
    ours = torch.stack([linear(q, k, v, orthogonal(64, 8, seed).double()) - exact for seed in range(20)])
    others = torch.stack([linear(q, k, v, draw(64, 8, seed=seed)) - exact for seed in range(20)])
    assert ours.square().mean() < 0.8 * others.square().mean()


def test_features_stand_for_the_exponential():
    q, k = draw(6), draw(6, seed=1)
    exact = math.exp(q.dot(k).item() / math.sqrt(6))
    found = []
    for seed in range(400):
        omega = orthogonal(12, 6, seed).tolist()
        found.append(sum(a * b for a, b in zip(features(q.tolist(), omega), features(k.tolist(), omega), strict=True)))
    spread = torch.tensor(found).std().item() / math.sqrt(len(found))
    assert abs(sum(found) / len(found) - exact) < 4 * spread
    assert spread < 0.1 * exact


def test_the_projection():
    omega = orthogonal(features=17, width=5, seed=1)
    assert omega.shape == (17, 5)
    assert omega.dtype == torch.float32
    for start in range(0, 17, 5):
        block = F.normalize(omega[start : start + 5].double(), dim=1)
        assert torch.allclose(block @ block.T, torch.eye(len(block), dtype=torch.float64), atol=1e-6)
    assert torch.equal(omega, orthogonal(17, 5, 1))
    assert not torch.equal(omega, orthogonal(17, 5, 2))
    lengths = orthogonal(4000, 5).double().square().sum(1)
    assert abs(lengths.mean() - 5) < 0.3  # as a Gaussian vector: mean D, variance 2·D
    assert abs(lengths.var() - 10) < 2


@given(st.integers(0, 1000), st.floats(0.1, 30))
def test_a_mean_stays_between_the_values(seed, size):
    q, k, v = (draw(1, 2, 13, 4, seed=seed + s) * size for s in range(3))
    omega = orthogonal(8, 4, seed).double()
    for mask in (None, causal, padding([5])):
        y = linear(q, k, v, omega, mask=mask)
        assert y.isfinite().all()
        assert (y <= v.amax(2, keepdim=True) + 1e-9).all()
        assert (y >= v.amin(2, keepdim=True) - 1e-9).all()


@given(st.permutations(range(11)))
def test_the_order_of_keys_does_not_matter(order):
    q, k, v = heads()
    assert torch.allclose(linear(q, k[:, :, order], v[:, :, order], OMEGA), linear(q, k, v, OMEGA))


def test_a_row_that_sees_nothing_is_0_with_finite_gradients():
    q, k, v = (x.requires_grad_() for x in heads())
    for mask in (padding([0, 11]), causal & padding([0, 11])):
        y = linear(q, k, v, OMEGA, mask=mask)
        assert y[0].eq(0).all()
        assert y[1].ne(0).all()
        for grad in torch.autograd.grad(y.square().sum(), (q, k, v)):
            assert grad.isfinite().all()
            assert grad[0].eq(0).all()


def test_a_key_far_weaker_than_all_later_ones_still_counts_where_it_is_alone():
    q, k, v = heads(dtype=torch.float32)
    k[:, :, 0] *= 100  # φ(k) falls by e^(−‖k‖²/2): to 0, if compared with the others
    y = linear(q, k, v, OMEGA.float(), mask=causal)
    assert torch.allclose(y[:, :, 0], v[:, :, 0])


@pytest.mark.parametrize("first", [100, 128, 131, 256])
@pytest.mark.parametrize("size", [1, 2, 5, 10])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_prefix_of_weaker_keys_does_not_hear_of_the_rest(first, size, dtype):
    inputs, omega = fading(300, first, size, dtype), orthogonal(64, 32).to(dtype)
    early = [x[:, :, :first].detach().requires_grad_() for x in inputs]
    with looks() as seen:
        y, alone = (linear(*some, omega, mask=causal) for some in (inputs, early))
    tolerance = 1e-5 if dtype == torch.float32 else 1e-13
    assert torch.allclose(y[:, :, :first], alone, atol=tolerance, rtol=0)
    alpha, alpha_alone = (look.rows(torch.arange(first)) for look in seen)
    assert torch.allclose(alpha[..., :first], alpha_alone, atol=tolerance, rtol=0)
    assert alpha[..., first:].eq(0).all()
    assert torch.allclose(alpha_alone @ early[2], alone, atol=tolerance, rtol=0)
    grads, grads_alone = (
        torch.autograd.grad(rows[:, :, :first].square().sum(), some) for rows, some in ((y, inputs), (alone, early))
    )
    for grad, grad_alone in zip(grads, grads_alone, strict=True):
        assert torch.allclose(grad[:, :, :first], grad_alone, atol=tolerance, rtol=10 * tolerance)
        assert grad[:, :, first:].eq(0).all()


def fading(tokens, first, size, dtype):
    """Heads whose first keys are so many times as long: weaker by e^(−size²·‖k‖²/2)."""
    q, k, v = (draw(1, 2, tokens, 32, seed=s, dtype=dtype) for s in range(3))
    k[:, :, :first] *= size
    return [x.requires_grad_() for x in (q, k, v)]


def test_a_prefix_of_weaker_keys_does_not_hear_of_the_rest_across_parts(tiny):
    for size in (1, 3, 10):
        for first in (5, 6, 7, 8):
            q, k, v = (x.detach() for x in fading(17, first, size, torch.float32))
            omega = orthogonal(64, 32)
            y = linear(q, k, v, omega, mask=causal)
            assert torch.allclose(
                y[:, :, :first], linear(*(x[:, :, :first] for x in (q, k, v)), omega, mask=causal), atol=1e-5, rtol=0
            )


@pytest.mark.parametrize("name", [name for name in MASKS if "both" in name or name == "causal"])
def test_with_weaker_keys_first_it_is_the_oracle(tiny, name):
    mask, keeps = MASKS[name]
    q, k, v = heads()
    k[:, :, :4] *= 10
    want = torch.tensor(oracle(q.tolist(), k.tolist(), v.tolist(), OMEGA.tolist(), keeps), dtype=torch.float64)
    assert torch.allclose(linear(q, k, v, OMEGA, mask=mask), want, atol=1e-12, rtol=0)
    omega = OMEGA[:, :2]
    few = [x[:1, :1, :5, :2].detach().requires_grad_() for x in (q, k, v)]
    assert torch.autograd.gradcheck(lambda *inputs: linear(*inputs, omega, mask=causal), few)


@pytest.mark.parametrize("mask", [None, causal], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_weak_key_weighs_no_more_than_it_should_where_the_strong_ones_are_faint_too(mask, dtype):
    # The last query meets the first key in e⁻⁵⁰ of its features; the second key is e⁻⁶⁰ of the first, and all the
    # query's own way.
    root = 2**0.25
    omega = torch.tensor([[25.0, 0.0], [-25.0, 0.0]], dtype=dtype)
    k = torch.tensor([[1.0, 0.0], [-1.0, math.sqrt(120)]], dtype=dtype) * root
    q, v = k[:1].neg().expand(2, 2), torch.tensor([[1.0], [2.0]], dtype=dtype)
    y = linear(*(x[None, None] for x in (q, k, v)), omega, mask=mask)
    weak = math.exp(-60) / (2 * math.exp(-50) + math.exp(-60))  # 2e⁻⁵⁰: the first key by either feature
    assert math.isclose(y[0, 0, 1].item() - 1, weak, abs_tol=1e-6)


def test_hidden_keys_do_not_matter_however_strong():
    q, k, v = heads()
    k[0, :, 4:], k[1, :, 9:] = k[0, :, 4:] * 1e-6, k[1, :, 9:] * 1e-6
    k[0, :, :4], k[1, :, :9] = k[0, :, :4] * 50, k[1, :, :9] * 50
    y = linear(q, k, v, OMEGA, mask=padding(LENGTHS))
    assert torch.allclose(y[0], linear(q[:1], k[:1, :, :4], v[:1, :, :4], OMEGA)[0])


@pytest.mark.parametrize("mask", [None, causal], ids=str)
def test_half_precision_is_computed_in_float32(mask):
    q, k, v = heads(queries=37, keys=37, dtype=torch.bfloat16)
    exact = linear(q.double(), k.double(), v.double(), OMEGA, mask=mask)
    y = linear(q, k, v, OMEGA.bfloat16(), mask=mask)
    assert y.dtype == torch.bfloat16
    omega = OMEGA.float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = linear(q.float(), k.float(), v.float(), omega, mask=mask)
    assert (mixed - exact).abs().max() < 1e-5
    assert (y - exact).abs().max() < 0.1


def test_nothing_is_as_large_as_all_pairs():
    sizes = []

    class Sizes(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            if isinstance(result, torch.Tensor):
                sizes.append(result.numel())
            return result

    tokens, width, count = 2048, 16, 32
    q, k, v = (draw(1, 1, tokens, width, seed=s) for s in range(3))
    omega = orthogonal(count, width).double()
    for mask in (None, causal):
        with Sizes():
            linear(q, k, v, omega, mask=mask)
    assert max(sizes) <= tokens * source.CHUNK  # all pairs are 4,194,304 and N·F·D 1,048,576


@pytest.mark.parametrize("name", MASKS)
def test_the_weights_can_be_seen(name):
    mask, keeps = MASKS[name]
    q, k, v = heads()
    with looks() as seen:
        y = linear(q, k, v, OMEGA, mask=mask)
    (look,) = seen
    assert (look.batch, look.heads, look.queries, look.keys, look.kernel) == (2, 3, 11, 11, "linear")
    assert torch.allclose(look.rows(torch.arange(11)) @ v, y)
    some = look.rows(torch.tensor([7, 2]))
    want = torch.tensor(weights(q[1, 2].tolist(), k[1, 2].tolist(), OMEGA.tolist(), 1, keeps), dtype=torch.float64)
    assert torch.allclose(some[1, 2], want[[7, 2]], atol=1e-12, rtol=0)


def test_a_tensor_that_hides_keys_is_padding():
    q, k, v = heads()
    kept = (torch.arange(11) < torch.tensor(LENGTHS)[:, None])[:, None, None]  # (B, 1, 1, M)
    assert torch.equal(linear(q, k, v, OMEGA, mask=kept), linear(q, k, v, OMEGA, mask=padding(LENGTHS)))


@pytest.mark.parametrize(
    "mask",
    [local(3), causal & local(3), causal | padding(LENGTHS), ~causal, torch.ones(11, 11, dtype=torch.bool)],
    ids=repr,
)
def test_other_masks_are_refused(mask):
    with pytest.raises(
        FovealError,
        match="mask: expected none, causal, padding or causal & padding, as no pair is ever formed here, got",
    ):
        linear(*heads(), OMEGA, mask=mask)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda q, k, v, o: (q[0], k, v, o), "q: expected 4 axes"),
        (lambda q, k, v, o: (q, k[:, :1], v[:, :1], o), "k: expected batch, heads and width of q"),
        (lambda q, k, v, o: (q, k, v[:, :, 1:], o), "v: expected batch, heads and keys of k"),
        (lambda q, k, v, o: (q, k, v, o[:, 1:]), r"projection: expected \(F, 5\), got \(7, 4\)"),
    ],
)
def test_bad_input(change, words):
    with pytest.raises(FovealError, match=words):
        linear(*change(*heads(), OMEGA))
    with pytest.raises(FovealError, match="the number of features: expected at least 1, got 0"):
        orthogonal(0, 5)
