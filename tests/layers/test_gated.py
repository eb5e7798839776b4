import math

import pytest
import torch
from layers.carry import near, scatter
from oracle.gated import gated
from torch import nn

from foveal.errors import FovealError
from foveal.layers.gated import Gated


def tokens(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def test_by_hand():
    layer = Gated(1, 1, nn.SiLU(), bias=False).double()
    with torch.no_grad():
        layer.inner.weight.copy_(torch.tensor([[1.0], [3.0]]))  # W, then V
        layer.outer.weight.copy_(torch.tensor([[5.0]]))
    x = math.log(3)  # σ(ln 3) = 3/4, so the gate is 3/4·ln 3
    y = layer(torch.tensor([[x]], dtype=torch.float64))
    assert y.item() == pytest.approx(0.75 * x * 3 * x * 5)


@pytest.mark.parametrize("bias", [True, False])
def test_it_is_the_oracle(bias):
    layer = scatter(Gated(7, 11, bias=bias).double())
    x = tokens(2, 5, 7)
    gate, passed = layer.inner.weight.chunk(2)
    biases = layer.inner.bias.chunk(2) if bias else (None, None)
    pairs = [
        (weight.tolist(), None if offset is None else offset.tolist())
        for weight, offset in ((gate, biases[0]), (passed, biases[1]), (layer.outer.weight, layer.outer.bias))
    ]
    expected = [gated(token, *pairs) for token in x.flatten(0, 1).tolist()]
    assert near(layer(x).flatten(0, 1), torch.tensor(expected, dtype=torch.float64), 1e-9)


def test_witness_transformers_llama():
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaMLP

    theirs = scatter(
        LlamaMLP(LlamaConfig(hidden_size=8, intermediate_size=11, hidden_act="silu", num_attention_heads=1)).double()
    )
    ours = Gated(8, 11, nn.SiLU(), bias=False).double()
    ours.inner.weight.data = torch.cat([theirs.gate_proj.weight, theirs.up_proj.weight])
    ours.outer.weight.data = theirs.down_proj.weight
    x = tokens(2, 5, 8)
    assert near(ours(x), theirs(x))


def test_dropout_is_off_in_evaluation():
    torch.manual_seed(0)
    layer, plain = scatter(Gated(7, 13, dropout=0.5).double()), scatter(Gated(7, 13).double())
    x = tokens(2, 5, 7)
    assert not near(layer(x), layer(x))
    assert torch.equal(layer.eval()(x), plain(x))


def test_weights_compile_gradients_and_bfloat16():
    assert sum(parameter.numel() for parameter in Gated(7, 13, bias=False).parameters()) == 3 * 7 * 13
    # ICAM's network of ratio 2: 24 → 2·24 → 24
    assert sum(parameter.numel() for parameter in Gated(24, 24).parameters()) == 1800
    layer, x = Gated(7, 13), tokens(2, 5, 7)
    assert near(torch.compile(layer, fullgraph=True, backend="eager")(x.float()), layer(x.float()), 1e-6)
    assert torch.autograd.gradcheck(scatter(Gated(7, 3).double()), x[:1, :2].requires_grad_())
    assert layer.bfloat16()(x.bfloat16()).dtype == torch.bfloat16


def test_bad_input():
    with pytest.raises(FovealError, match=r"last axis of 7, got shape \(2, 6\)"):
        Gated(7, 13)(torch.zeros(2, 6))
    with pytest.raises(FovealError, match="hidden width: expected at least 1, got 0"):
        Gated(7, 0)
    with pytest.raises(FovealError, match="Gated's width: expected at least 1, got 0"):
        Gated(0, 7)
    with pytest.raises(FovealError, match="dropout: expected at least 0 and below 1, got 1"):
        Gated(7, 13, dropout=1)
