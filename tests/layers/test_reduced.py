import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from layers.carry import fill, near, parts, scatter
from oracle.reduced import reduced
from torch import nn

from foveal.errors import FovealError
from foveal.layers.attention import cut_off, filled_up
from foveal.layers.reduced import Reduced


def grid(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def test_by_hand():
    # The whole grid becomes one cell, so every token gets that cell's value. The kernel is a mean: cell = (2, 6),
    # LN(cell) = (−1, 1).
    layer = Reduced(2, 1, reduction=2).double()
    with torch.no_grad():
        layer.reduce.weight.copy_(torch.eye(2)[:, :, None, None].expand(2, 2, 2, 2) / 4)
        layer.reduce.bias.zero_()
        fill(layer.attention, *[(torch.eye(2), torch.zeros(2))] * 4)
    x = torch.tensor([[[[1.0, 0.0], [3.0, 8.0]], [[2.0, 10.0], [2.0, 6.0]]]], dtype=torch.float64)
    assert near(layer(x), torch.tensor([-1.0, 1.0], dtype=torch.float64).expand(1, 2, 2, 2), 1e-5)


@pytest.mark.parametrize(("h", "w", "reduction"), [(4, 6, 2), (5, 7, 3), (3, 2, 5), (3, 5, 1)])
def test_it_is_the_oracle(h, w, reduction):
    layer = scatter(Reduced(6, 2, reduction).double())
    x = grid(2, h, w, 6)
    coarse = ()
    if reduction > 1:
        coarse = (layer.reduce.weight, layer.reduce.bias, layer.norm.weight, layer.norm.bias)
    lists = [tensor.tolist() for tensor in coarse]
    expected = [reduced(sample, *parts(layer.attention), 2, reduction, *lists) for sample in x.tolist()]
    assert near(layer(x), torch.tensor(expected, dtype=torch.float64), 1e-9)


@pytest.mark.parametrize("reduction", [1, 2, 4])
def test_witness_transformers_pvt(reduction):
    from transformers import PvtConfig
    from transformers.models.pvt.modeling_pvt import PvtAttention

    theirs = scatter(PvtAttention(PvtConfig(layer_norm_eps=1e-5), 10, 2, reduction).double().eval())
    ours = Reduced(10, 2, reduction).double()
    old = theirs.self
    fill(ours.attention, old.query, old.key, old.value, theirs.output.dense)
    if reduction > 1:
        ours.reduce.load_state_dict(old.sequence_reduction.state_dict())
        ours.norm.load_state_dict(old.layer_norm.state_dict())
    x = grid(2, 8, 12, 10)
    (y,) = theirs(x.flatten(1, 2), 8, 12)
    assert near(ours(x).flatten(1, 2), y, 1e-12)


@pytest.mark.parametrize(("h", "w", "reduction"), [(5, 7, 3), (11, 13, 4), (8, 12, 4)])
def test_witness_transformers_pvt_on_a_grid_that_is_not_divided(h, w, reduction):
    from transformers import PvtConfig
    from transformers.models.pvt.modeling_pvt import PvtAttention

    theirs = scatter(PvtAttention(PvtConfig(layer_norm_eps=1e-5), 10, 2, reduction).double().eval())
    ours, filled = (Reduced(10, 2, reduction, border=border).double() for border in (cut_off, filled_up))
    old = theirs.self
    for layer in (ours, filled):
        fill(layer.attention, old.query, old.key, old.value, theirs.output.dense)
        layer.reduce.load_state_dict(old.sequence_reduction.state_dict())
        layer.norm.load_state_dict(old.layer_norm.state_dict())
    x = grid(2, h, w, 10)
    (y,) = theirs(x.flatten(1, 2), h, w)
    assert ours.memory(x).shape == (2, (h // reduction) * (w // reduction), 10)
    assert near(ours(x).flatten(1, 2), y, 1e-12)
    assert near(filled(x), ours(x), 1e-3) == (h % reduction == w % reduction == 0)


@settings(max_examples=25, deadline=None)
@given(h=st.integers(1, 7), w=st.integers(1, 7), reduction=st.integers(1, 4))
def test_every_token_is_seen(h, w, reduction):
    layer = scatter(Reduced(4, 2, reduction).double())
    x = grid(1, h, w, 4).requires_grad_()
    assert layer.memory(x).shape == (1, -(-h // reduction) * -(-w // reduction), 4)
    y = layer(x)
    assert y.shape == x.shape
    (grad,) = torch.autograd.grad(layer.memory(x).square().sum(), x)
    assert grad.flatten(0, 2).any(-1).all()


def test_dropout_heads_compile_and_bfloat16():
    torch.manual_seed(0)
    layer, plain = scatter(Reduced(6, 3, 2, dropout=0.5).double()), scatter(Reduced(6, 3, 2).double())
    x = grid(2, 5, 7, 6)
    assert not near(layer(x), plain(x))
    assert torch.equal(layer.eval()(x), plain(x))
    assert near(torch.compile(plain, fullgraph=True, backend="eager")(x), plain(x))
    with torch.no_grad():
        plain.attention.out.weight[:, :2] = 0
    layer.drop_heads([0])
    assert near(layer(x), plain(x))
    assert layer.bfloat16()(x.bfloat16()).dtype == torch.bfloat16


def test_a_layer_with_fewer_heads_is_rebuilt_and_loaded():
    layer = scatter(Reduced(6, 3, 2).double())
    layer.drop_heads([1])
    rebuilt = Reduced(6, 2, 2, head_width=2).double()
    rebuilt.load_state_dict(layer.state_dict())
    x = grid(2, 5, 7, 6)
    assert torch.equal(rebuilt(x), layer(x))


def test_a_reduction_of_1_has_no_weights_of_its_own():
    names = {name.split(".")[0] for name, _ in Reduced(6, 2, 1).named_parameters()}
    assert names == {"attention"}
    assert isinstance(Reduced(6, 2, 2).norm, nn.LayerNorm)


def test_gradients():
    layer = scatter(Reduced(2, 1, 2).double())
    assert torch.autograd.gradcheck(layer, grid(1, 3, 2, 2).requires_grad_())


def test_bad_input():
    with pytest.raises(FovealError, match=r"Reduced's grid: expected \(B, h, w, 6\), got \(2, 5, 6\)"):
        Reduced(6, 2, 2)(torch.zeros(2, 5, 6))
    with pytest.raises(FovealError, match=r"Reduced's border: expected a function .*, got 'zeros'"):
        Reduced(6, 2, 2, border="zeros")
    with pytest.raises(FovealError, match="Reduced's reduction: expected at least 1, got 0"):
        Reduced(6, 2, 0)
    with pytest.raises(FovealError, match="expected a divisor of the width 6, got 4"):
        Reduced(6, 4, 2)
