"""No samples, no tokens, no keys: every layer answers with an empty tensor or with what 0 gives,
and its gradients are finite.
"""

import pytest
import torch

from foveal.layers import DynamicConvolution, LocationAware, Performer, Reduced, Windowed
from foveal.mask import causal, padding

C = 14


def tokens(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), requires_grad=True)


def finite_gradients(layer, *outputs):
    sum(y.sum() for y in outputs).backward()
    for name, parameter in layer.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


@pytest.mark.parametrize("mask", [None, causal])
@pytest.mark.parametrize(("batch", "queries", "keys"), [(0, 5, 3), (2, 0, 3), (2, 5, 0), (2, 0, 0)])
def test_performer(mask, batch, queries, keys):
    layer = Performer(C, 7, 5, mask=mask)
    alone = layer(tokens(batch, queries, C))
    y = layer(tokens(batch, queries, C), tokens(batch, keys, C), mask=padding([keys] * batch))
    assert alone.shape == y.shape == (batch, queries, C)
    if not keys:
        assert torch.equal(y, layer.out.bias.expand_as(y))  # 0, projected
    finite_gradients(layer, alone, y)


@pytest.mark.parametrize("ahead", [0, 1])
@pytest.mark.parametrize(("batch", "length"), [(0, 5), (2, 0), (0, 0)])
def test_dynamic_convolution(ahead, batch, length):
    layer = DynamicConvolution(C, 7, 3, ahead=ahead)
    y = layer(tokens(batch, length, C), mask=padding([length] * batch))
    assert y.shape == (batch, length, C)
    finite_gradients(layer, y)


@pytest.mark.parametrize(("batch", "keys"), [(0, 5), (2, 0), (0, 0)])
def test_location_aware(batch, keys):
    layer = LocationAware(C, 10, 5, filters=3, taps=7)
    y, alpha = layer(tokens(batch, C), tokens(batch, keys, 10))
    assert y.shape == (batch, 10)
    assert alpha.shape == (batch, keys)
    assert (y == 0).all()
    finite_gradients(layer, y, alpha)


@pytest.mark.parametrize("shape", [(0, 5, 6), (2, 0, 6), (2, 6, 0), (2, 0, 0)])
@pytest.mark.parametrize(
    "make",
    [lambda: Reduced(C, 7, 1), lambda: Reduced(C, 7, 2), lambda: Windowed(C, 7, 3), lambda: Windowed(C, 7, 3, 1)],
)
def test_layers_of_a_grid(make, shape):
    layer = make()
    y = layer(tokens(*shape, C))
    assert y.shape == (*shape, C)
    finite_gradients(layer, y)
