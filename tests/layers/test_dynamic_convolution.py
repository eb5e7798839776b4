import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from layers.carry import near
from oracle.dynamic_convolution import dynamic_convolution as oracle

from foveal.core import observe
from foveal.core.pattern.causal import causal
from foveal.core.pattern.local import local
from foveal.core.pattern.padding import padding
from foveal.errors import FovealError
from foveal.layers.dynamic_convolution import DynamicConvolution


def tokens(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def made(kernel_size=5, ahead=0):
    torch.manual_seed(0)
    return DynamicConvolution(6, heads=3, kernel_size=kernel_size, ahead=ahead).double()


def weights(layer):
    gate, out = ((part.weight.tolist(), part.bias.tolist()) for part in (layer.gate, layer.out))
    return gate, layer.kernel.weight.tolist(), out, layer.heads, layer.kernel_size, layer.ahead


def plain(kernel_size, ahead):
    """One channel, an open gate (the token as it is), and taps that weigh the same for every token."""
    layer = DynamicConvolution(1, heads=1, kernel_size=kernel_size, ahead=ahead)
    layer.gate.weight.data, layer.gate.bias.data = torch.tensor([[1.0], [0.0]]), torch.tensor([0.0, 50.0])
    layer.kernel.weight.data.zero_()
    layer.out.weight.data, layer.out.bias.data = torch.ones(1, 1), torch.zeros(1)
    return layer


def test_by_hand():
    # Three taps of 1/3; what lies outside of the sequence is 0.
    x = torch.tensor([[[3.0], [6.0], [12.0], [24.0]]])
    assert torch.allclose(plain(3, ahead=0)(x).flatten(), torch.tensor([1.0, 3.0, 7.0, 14.0]))
    assert torch.allclose(plain(3, ahead=1)(x).flatten(), torch.tensor([3.0, 7.0, 14.0, 12.0]))
    assert torch.allclose(plain(3, ahead=2)(x).flatten(), torch.tensor([7.0, 14.0, 12.0, 8.0]))


@pytest.mark.parametrize(("kernel_size", "ahead"), [(5, 0), (5, 2), (5, 4), (4, 1), (1, 0), (13, 3)])
def test_it_is_the_oracle(kernel_size, ahead):
    layer, x = made(kernel_size, ahead), tokens(2, 11, 6)
    want = [oracle(one, *weights(layer)) for one in x.tolist()]
    assert near(layer(x), torch.tensor(want, dtype=torch.float64))


def test_padding_is_the_oracle():
    layer, x, lengths = made(ahead=2), tokens(2, 11, 6), [4, 11]
    kept = [[j < length for j in range(11)] for length in lengths]
    want = [oracle(one, *weights(layer), real) for one, real in zip(x.tolist(), kept, strict=True)]
    assert near(layer(x, mask=padding(lengths)), torch.tensor(want, dtype=torch.float64))
    assert near(layer(x, mask=torch.tensor(kept)[:, None, None]), torch.tensor(want, dtype=torch.float64))


@pytest.mark.parametrize("ahead", [0, 2])
def test_unfold_is_a_witness(ahead):
    layer, x = made(5, ahead), tokens(2, 11, 6)
    gated = F.glu(layer.gate(x), -1)
    image = F.pad(gated.transpose(1, 2), (4 - ahead, ahead))[:, :, None]  # (B, C, 1, N + 4)
    windows = F.unfold(image, (1, 5)).view(2, 3, 2, 5, 11)  # (B, H, D, K, N)
    alpha = layer.kernel(gated).view(2, 11, 3, 5).softmax(-1)
    y = torch.einsum("bhdkn,bnhk->bnhd", windows, alpha).flatten(2)
    assert near(layer(x), layer.out(y))


def test_conv1d_is_a_witness_when_all_tokens_agree():
    # A constant kernel, the same for every token: a depthwise convolution (the paper's lightweight one).
    layer, x = made(5, ahead=2), tokens(2, 11, 6)
    layer.kernel.weight.data.zero_()
    gated = F.glu(layer.gate(x), -1).transpose(1, 2)
    y = F.conv1d(gated, torch.full((6, 1, 5), 0.2, dtype=torch.float64), padding=2, groups=6)
    assert near(layer(x), layer.out(y.transpose(1, 2)))


@given(st.integers(1, 6), st.integers(0, 10), st.data())
def test_a_token_hears_of_its_window_only(kernel_size, row, data):
    ahead = data.draw(st.integers(0, kernel_size - 1))
    layer, x = made(kernel_size, ahead), tokens(2, 11, 6).requires_grad_()
    (grad,) = torch.autograd.grad(layer(x)[:, row].square().sum(), x)
    heard = grad.ne(0).any(-1).all(0)
    first, last = max(row + ahead - kernel_size + 1, 0), min(row + ahead, 10)
    assert heard.nonzero().flatten().tolist() == list(range(first, last + 1))


def test_causal_means_exactly_no_gradient_from_later_tokens():
    layer, x = made(ahead=0), tokens(2, 11, 6).requires_grad_()
    y = layer(x, mask=causal)
    assert near(y, layer(x), 0)
    for row in range(11):
        (grad,) = torch.autograd.grad(y[:, row].square().sum(), x, retain_graph=True)
        assert grad[:, row + 1 :].eq(0).all()


@given(st.integers(1, 11))
def test_padding_is_the_shorter_input(length):
    layer, x = made(ahead=2), tokens(2, 11, 6)
    assert near(layer(x, mask=padding([length, length]))[:, :length], layer(x[:, :length]))


def test_its_weights_can_be_seen():
    layer, x, seen = made(5, ahead=2), tokens(2, 11, 6), []
    observe.observers.append(seen.append)
    try:
        y = layer(x, mask=padding([7, 11]))
    finally:
        observe.observers.pop()
    (look,) = seen
    assert (look.batch, look.heads, look.queries, look.keys) == (2, 3, 11, 11)
    alpha = look.rows(torch.arange(11))
    v = F.glu(layer.gate(x), -1).view(2, 11, 3, 2).transpose(1, 2)
    assert near(layer.out((alpha @ v).transpose(1, 2).flatten(2)), y)
    assert near(look.rows(torch.tensor([8, 3])), alpha[:, :, [8, 3]])
    assert alpha[0, :, :, 7:].eq(0).all()


def test_dropout_falls_on_the_weights_and_only_in_training():
    layer, x = DynamicConvolution(6, 3, 5, dropout=0.5), tokens(2, 11, 6).float()
    torch.manual_seed(0)
    assert not near(layer(x), layer(x))
    layer.eval()
    assert near(layer(x), layer(x), 0)


def test_bad_input():
    with pytest.raises(FovealError, match="DynamicConvolution's ahead: expected 0 to 4, as it has 5 taps, got 5"):
        made(5, ahead=5)
    with pytest.raises(
        FovealError,
        match="DynamicConvolution's mask: expected padding, got causal with 2 taps ahead; build it with ahead=0",
    ):
        made(5, ahead=2)(tokens(2, 11, 6), mask=causal)
    with pytest.raises(FovealError, match="mask: expected none, causal, padding"):
        made()(tokens(2, 11, 6), mask=local(2))
    with pytest.raises(FovealError, match="DynamicConvolution's heads: expected a divisor of the width 6, got 4"):
        DynamicConvolution(6, 4, 5)
    with pytest.raises(FovealError, match="DynamicConvolution's kernel_size: expected an integer, at least 1, got 0"):
        made(0)
