import pytest
import torch
from layers.carry import near, pair, scatter
from oracle.feed_forward import feed_forward
from torch import nn

from foveal.errors import FovealError
from foveal.layers.feed_forward import FeedForward


def tokens(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def test_by_hand():
    layer = FeedForward(1, 2)
    with torch.no_grad():
        layer.inner.weight.copy_(torch.tensor([[1.0], [-1.0]]))
        layer.inner.bias.copy_(torch.tensor([1.0, 0.0]))
        layer.outer.weight.copy_(torch.tensor([[2.0, 3.0]]))
        layer.outer.bias.copy_(torch.tensor([10.0]))
    # max(0, (2+1, −2)) = (3, 0) → 6 + 10;   max(0, (−2+1, 2)) = (0, 2) → 6 + 10;   0 → (1, 0) → 12
    assert layer(torch.tensor([[2.0], [-2.0], [0.0]])).flatten().tolist() == [16, 16, 12]


@pytest.mark.parametrize("shape", [(2, 5, 7), (2, 3, 5, 7)])
def test_it_is_the_oracle(shape):
    layer = scatter(FeedForward(7, 13).double())
    x = tokens(*shape)
    expected = [feed_forward(token, pair(layer.inner), pair(layer.outer)) for token in x.flatten(0, -2).tolist()]
    assert near(layer(x).flatten(0, -2), torch.tensor(expected, dtype=torch.float64), 1e-9)


def test_the_activation_is_a_part():
    layer = scatter(FeedForward(7, 13, nn.Tanh()).double())
    x = tokens(2, 5, 7)
    assert near(layer(x), layer.outer(torch.tanh(layer.inner(x))))


def test_dropout_is_off_in_evaluation():
    torch.manual_seed(0)
    layer = scatter(FeedForward(7, 13, dropout=0.5).double())
    x = tokens(2, 5, 7)
    assert not near(layer(x), layer(x))
    layer.eval()
    assert near(layer(x), layer.outer(layer.inner(x).relu()))


def test_weights_compile_gradients_and_bfloat16():
    layer = FeedForward(7, 13)
    assert sum(parameter.numel() for parameter in layer.parameters()) == 2 * 7 * 13 + 13 + 7
    x = tokens(2, 5, 7)
    assert near(torch.compile(layer, fullgraph=True, backend="eager")(x.float()), layer(x.float()), 1e-6)
    assert torch.autograd.gradcheck(scatter(FeedForward(7, 3, nn.Tanh()).double()), x[:1, :2].requires_grad_())
    assert layer.bfloat16()(x.bfloat16()).dtype == torch.bfloat16


def test_bad_input():
    with pytest.raises(FovealError, match=r"last axis of 7, got shape \(2, 6\)"):
        FeedForward(7, 13)(torch.zeros(2, 6))
    with pytest.raises(FovealError, match="hidden width: expected at least 1, got 0"):
        FeedForward(7, 0)
    with pytest.raises(FovealError, match="width: expected at least 1, got 0"):
        FeedForward(0, 7)
    with pytest.raises(FovealError, match="dropout: expected at least 0 and below 1, got -1"):
        FeedForward(7, 13, dropout=-1)
