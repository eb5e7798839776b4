import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from layers.carry import near
from oracle.linformer import linformer as oracle

from foveal.core.pattern.causal import causal
from foveal.core.pattern.local import local
from foveal.core.pattern.padding import padding
from foveal.errors import FovealError
from foveal.layers.linformer import Linformer
from foveal.layers.multihead import MultiHead


def tokens(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def made(length=17, projected=5):
    torch.manual_seed(0)
    return Linformer(15, heads=3, length=length, projected=projected).double()


def parts(layer):
    return [(part.weight.tolist(), part.bias.tolist()) for part in (layer.qkv, layer.out)]


def test_by_hand():
    # q = k = 0, so the two projected keys weigh 1/2 each; F = ((1, 1, 0), (0, 0, 4)) makes values 1 + 2 and 4·3 of the
    # tokens 1, 2, 3.
    layer = Linformer(1, heads=1, length=3, projected=2)
    layer.qkv.weight.data, layer.qkv.bias.data = torch.tensor([[0.0], [0.0], [1.0]]), torch.zeros(3)
    layer.out.weight.data, layer.out.bias.data = torch.ones(1, 1), torch.zeros(1)
    layer.f.data = torch.tensor([[1.0, 1.0, 0.0], [0.0, 0.0, 4.0]])
    assert torch.allclose(layer(torch.tensor([[[1.0], [2.0], [3.0]]])), torch.full((1, 3, 1), 7.5))
    # shorter: the first two columns
    assert torch.allclose(layer(torch.tensor([[[1.0], [2.0]]])), torch.full((1, 2, 1), 1.5))


@pytest.mark.parametrize("length", [17, 11, 1])
def test_it_is_the_oracle(length):
    layer, x = made(), tokens(2, length, 15)
    want = [oracle(one, *parts(layer), layer.e.tolist(), layer.f.tolist(), 3) for one in x.tolist()]
    assert near(layer(x), torch.tensor(want, dtype=torch.float64))


def test_padding_is_the_oracle():
    layer, x, lengths = made(), tokens(2, 11, 15), [4, 11]
    weights = layer.e.tolist(), layer.f.tolist(), 3
    kept = [[j < length for j in range(11)] for length in lengths]
    want = [oracle(one, *parts(layer), *weights, real) for one, real in zip(x.tolist(), kept, strict=True)]
    assert near(layer(x, mask=padding(lengths)), torch.tensor(want, dtype=torch.float64))
    assert near(layer(x, mask=torch.tensor(kept)[:, None, None]), torch.tensor(want, dtype=torch.float64))


def test_without_reduction_it_is_multi_head_attention():
    layer, exact, x = made(length=11, projected=11), MultiHead(15, 3).double(), tokens(2, 11, 15)
    layer.load_state_dict(exact.state_dict(), strict=False)
    layer.e.data, layer.f.data = torch.eye(11).double(), torch.eye(11).double()
    assert near(layer(x), exact(x))


@given(st.integers(1, 11))
def test_padding_is_the_shorter_input(length):
    layer, x = made(), tokens(2, 11, 15)
    other = x.clone()
    other[:, length:] = 99.0
    y = layer(x, mask=padding([length, length]))
    assert near(y[:, :length], layer(x[:, :length]))
    assert near(y[:, :length], layer(other, mask=padding([length, length]))[:, :length])


def test_it_begins_with_keys_of_the_size_of_a_key():
    torch.manual_seed(0)
    layer = Linformer(16, heads=1, length=1000, projected=50)
    assert abs((layer.e @ torch.randn(1000, 16)).std() - 1) < 0.1


def test_no_tokens_give_none():
    assert made()(tokens(2, 0, 15)).shape == (2, 0, 15)
    assert made()(tokens(0, 11, 15)).shape == (0, 11, 15)


def test_dropout_only_in_training():
    layer, x = Linformer(15, 3, 17, 5, dropout=0.5), tokens(2, 11, 15).float()
    torch.manual_seed(0)
    assert not near(layer(x), layer(x))
    layer.eval()
    assert near(layer(x), layer(x), 0)


def test_bad_input():
    with pytest.raises(
        FovealError, match="Linformer's x: expected at most 17 tokens, got 19; build it with a larger length"
    ):
        made()(tokens(2, 19, 15))
    with pytest.raises(FovealError, match="Linformer's mask: expected none or padding, got causal"):
        made()(tokens(2, 11, 15), mask=causal)
    with pytest.raises(FovealError, match="mask: expected none, causal, padding"):
        made()(tokens(2, 11, 15), mask=local(2))
    with pytest.raises(FovealError, match=r"Linformer's x: expected \(B, N, 15\), got \(11, 15\)"):
        made()(tokens(11, 15))
    with pytest.raises(FovealError, match="Linformer's projected: expected an integer, at least 1, got 0"):
        made(projected=0)
    with pytest.raises(FovealError, match="Linformer's heads: expected a divisor of the width 15, got 2"):
        Linformer(15, 2, 17, 5)
