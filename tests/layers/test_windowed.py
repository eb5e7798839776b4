import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from layers.carry import fill, near, parts, scatter
from oracle.windowed import windowed
from torch import nn

from foveal.core.pattern.window import window
from foveal.errors import FovealError
from foveal.layers.attention import filled_up
from foveal.layers.feed_forward import FeedForward
from foveal.layers.multihead import MultiHead
from foveal.layers.residual import PreNorm
from foveal.layers.windowed import Windowed
from foveal.position.bias_table import BiasTable
from foveal.position.polar import Polar


def grid(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def test_by_hand():
    # Windows of one token: a token sees itself alone. Windows as large as the grid: every token sees the mean of all,
    # if scores are 0.
    x = grid(1, 2, 2, 3)
    alone = scatter(Windowed(3, 1, window=1).double())
    value = alone.attention.qkv(x)[..., 6:]
    assert near(alone(x), alone.attention.out(value))
    together = Windowed(3, 1, window=2).double()
    nn.init.zeros_(together.attention.qkv.weight[:3])
    mean = together.attention.qkv(x)[..., 6:].mean((1, 2), keepdim=True)
    assert near(together(x), together.attention.out(mean).expand(1, 2, 2, 3))


@pytest.mark.parametrize(("h", "w"), [(6, 9), (5, 7), (2, 4)])
@pytest.mark.parametrize("shift", [0, 1, 2])
@pytest.mark.parametrize("table", [False, True])
def test_it_is_the_oracle(h, w, shift, table):
    position = BiasTable(2, 3, 3) if table else None
    layer = scatter(Windowed(10, 2, window=3, shift=shift, position=position).double())
    x = grid(2, h, w, 10)

    def bias(head, down, right):
        return position.table[(down + 2) * 5 + right + 2, head].item()

    expected = [
        windowed(sample, *parts(layer.attention), 2, 3, shift, bias if table else None) for sample in x.tolist()
    ]
    assert near(layer(x), torch.tensor(expected, dtype=torch.float64), 1e-9)


@settings(max_examples=25, deadline=None)
@given(h=st.integers(1, 8), w=st.integers(1, 8), size=st.integers(1, 4), data=st.data())
def test_it_is_multi_head_attention_with_the_window_mask(h, w, size, data):
    shift = data.draw(st.integers(0, size - 1))
    layer = scatter(Windowed(6, 2, window=size, shift=shift).double())
    x = grid(2, h, w, 6)
    whole = layer.attention(x.flatten(1, 2), mask=window(h=h, w=w, shift=shift, size=size))
    assert near(layer(x).flatten(1, 2), whole)


@settings(max_examples=25, deadline=None)
@given(y=st.integers(0, 4), x=st.integers(0, 6), shift=st.integers(0, 2))
def test_a_token_depends_on_its_window_only(y, x, shift):
    layer = scatter(Windowed(6, 2, window=3, shift=shift).double())
    tokens = grid(1, 5, 7, 6).requires_grad_()
    (grad,) = torch.autograd.grad(layer(tokens)[0, y, x].sum(), tokens)
    for r in range(5):
        for c in range(7):
            together = (r - shift) // 3 == (y - shift) // 3 and (c - shift) // 3 == (x - shift) // 3
            assert bool(grad[0, r, c].any()) == together


@pytest.mark.parametrize("shift", [0, 2])
def test_witness_transformers_swin(shift):
    from transformers import SwinConfig
    from transformers.models.swin.modeling_swin import SwinLayer

    config = SwinConfig(window_size=4, mlp_ratio=3, hidden_act="gelu", attn_implementation="eager")
    theirs = scatter(SwinLayer(config, 10, (8, 12), 2, shift_size=shift).double().eval())
    attention = PreNorm(Windowed(10, 2, window=4, shift=shift, position=BiasTable(2, 4, 4)), 10).double()
    network = PreNorm(FeedForward(10, 30, nn.GELU()), 10).double()
    old = theirs.attention
    fill(attention.layer.attention, old.q_proj, old.k_proj, old.v_proj, old.o_proj)
    attention.layer.attention.position.load_state_dict(
        {"table": old.relative_position_bias.relative_position_bias_table}
    )
    network.layer.inner.load_state_dict(theirs.mlp.fc1.state_dict())
    network.layer.outer.load_state_dict(theirs.mlp.fc2.state_dict())
    attention.norm.load_state_dict(theirs.layernorm_before.state_dict())
    network.norm.load_state_dict(theirs.layernorm_after.state_dict())
    x = grid(2, 8, 12, 10)
    y, _ = theirs(x.flatten(1, 2), (8, 12))
    assert near(network(attention(x)).flatten(1, 2), y, 1e-5)  # their softmax is computed in float32


def test_another_shift_may_be_given():
    moved, still = (scatter(Windowed(6, 2, window=3, shift=shift).double()) for shift in (2, 0))
    x = grid(2, 5, 7, 6)
    assert near(moved(x, shift=0), still(x))
    assert near(still(x, shift=2), moved(x))
    assert not near(moved(x), still(x), 1e-3)
    for shift in (3, -1, "a"):
        with pytest.raises(FovealError, match=r"Windowed's shift: expected .*at least 0 and below the window 3"):
            moved(x, shift=shift)


def test_dropout_is_off_in_evaluation():
    torch.manual_seed(0)
    layer, plain = scatter(Windowed(6, 2, 3, dropout=0.5).double()), scatter(Windowed(6, 2, 3).double())
    x = grid(2, 5, 7, 6)
    assert not near(layer(x), plain(x))
    assert torch.equal(layer.eval()(x), plain(x))


def test_heads_can_be_dropped():
    layer = scatter(Windowed(6, 3, window=3, shift=1).double())
    silenced = scatter(Windowed(6, 3, window=3, shift=1).double())
    with torch.no_grad():
        silenced.attention.out.weight[:, 2:4] = 0
    layer.drop_heads([1])
    x = grid(2, 5, 7, 6)
    assert near(layer(x), silenced(x))


def test_a_layer_with_fewer_heads_is_rebuilt_and_loaded():
    layer = scatter(Windowed(6, 3, window=3, shift=1, position=BiasTable(3, 3, 3)).double())
    layer.drop_heads([1])
    rebuilt = Windowed(6, 2, window=3, shift=1, position=BiasTable(2, 3, 3), head_width=2).double()
    rebuilt.load_state_dict(layer.state_dict())
    x = grid(2, 5, 7, 6)
    assert torch.equal(rebuilt(x), layer(x))


@pytest.mark.parametrize("position", [None, BiasTable(2, 3, 3)])
def test_compiled_whole(position):
    torch.compiler.reset()
    layer = Windowed(6, 2, window=3, shift=1, position=position)
    x = grid(2, 5, 7, 6).float()
    assert near(torch.compile(layer, fullgraph=True, backend="eager")(x), layer(x), 1e-6)


def test_gradients_and_bfloat16():
    layer = scatter(Windowed(2, 1, window=2, shift=1, position=BiasTable(1, 2, 2)).double())
    assert torch.autograd.gradcheck(layer, grid(1, 2, 3, 2).requires_grad_())
    layer(grid(1, 2, 3, 2)).square().sum().backward()
    assert layer.attention.position.table.grad.abs().sum() > 0
    assert layer.bfloat16()(grid(1, 2, 3, 2).bfloat16()).dtype == torch.bfloat16
    assert isinstance(layer.attention, MultiHead)


def test_a_grid_that_is_not_contiguous():
    layer = scatter(Windowed(6, 2, window=3, shift=1).double())
    x = grid(2, 6, 5, 7).permute(0, 2, 3, 1)
    assert near(layer(x), layer(x.contiguous()))


def test_a_grid_of_whole_windows_is_not_copied():
    x = grid(2, 6, 9, 5)
    assert filled_up(x, 3) is x
    assert filled_up(x, 4).shape == (2, 8, 12, 5)


def test_bad_input():
    with pytest.raises(FovealError, match=r"Windowed's grid: expected \(B, h, w, 6\), got \(2, 5, 6\)"):
        Windowed(6, 2, 3)(torch.zeros(2, 5, 6))
    with pytest.raises(FovealError, match=r"Windowed's grid: expected \(B, h, w, 6\), got \(2, 6, 5, 5\)"):
        Windowed(6, 2, 3)(torch.zeros(2, 6, 5, 5))
    with pytest.raises(FovealError, match="Windowed's shift: expected at least 0 and below the window 3, got 3"):
        Windowed(6, 2, 3, shift=3)
    with pytest.raises(FovealError, match="Windowed's window: expected at least 1, got 0"):
        Windowed(6, 2, 0)
    with pytest.raises(FovealError, match="expected a divisor of the width 6, got 4"):
        Windowed(6, 4, 3)
    with pytest.raises(FovealError, match="position: expected one that rotates or adds a term, got Polar"):
        Windowed(6, 2, 3, position=Polar(6))
