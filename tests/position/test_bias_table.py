"""Swin's relative bias: every offset of a window, through the kernels, against loops and Swin."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.bias_table import bias_table
from torch import nn
from torch.nn.attention.flex_attention import flex_attention
from transformers.models.swin.modeling_swin import SwinRelativePositionBias

from foveal.core import mask
from foveal.core.attend import attend
from foveal.errors import FovealError
from foveal.position.bias_table import BiasTable

DOUBLE = torch.float64


def filled(heads, height, width):
    """A table with no two numbers alike."""
    position = BiasTable(heads, height, width).double()
    nn.init.normal_(position.table)
    return position


def test_by_hand():
    # A window of 1 × 2: offsets −1, 0, 1 along the line.
    position = BiasTable(1, 1, 2).double()
    with torch.no_grad():
        position.table.copy_(torch.tensor([[5.0], [6.0], [7.0]]))
    q = torch.zeros(1, 1, 2, 3, dtype=DOUBLE)
    assert position.bias(q, keys=2).tolist() == [[[[6, 5], [7, 6]]]]


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 5))
def test_equals_the_oracle(heads, height, width):
    position = filled(heads, height, width)
    q = torch.zeros(2, heads, height * width, 7, dtype=DOUBLE)
    want = torch.tensor(bias_table(position.table.tolist(), height, width), dtype=DOUBLE)
    torch.testing.assert_close(position.bias(q, height * width)[0].detach(), want, atol=1e-9, rtol=0)


def test_equals_swin():
    swin = SwinRelativePositionBias(3, (5, 2))
    nn.init.normal_(swin.relative_position_bias_table)
    position = BiasTable(3, 5, 2)
    position.load_state_dict({"table": swin.relative_position_bias_table})
    torch.testing.assert_close(position.bias(torch.zeros(1, 3, 10, 7), 10), swin(), atol=0, rtol=0)


def test_some_rows_and_columns_are_those_of_the_whole():
    position = filled(3, 5, 2)
    q = torch.zeros(2, 3, 10, 7, dtype=DOUBLE)
    whole = position.bias(q, 10)
    rows, columns = torch.tensor([1, 4, 7]), torch.tensor([9, 0, 2, 2])
    term = position.term()
    assert torch.equal(term.scores(q[:, :, rows], rows, columns, *term.tensors), whole[:, :, rows][..., columns])
    assert torch.equal(position.bias(q[:, :, 6:], 10, query_start=6), whole[:, :, 6:])


@pytest.mark.parametrize(
    "which", [None, mask.causal, mask.strided(3), mask.window(7, 11, size=3, shift=1), mask.padding([77, 0])], ids=repr
)
def test_blocks_equal_the_explicit_twin_with_their_gradients(which):
    torch.manual_seed(0)
    position = filled(4, 7, 11)
    tensors = [torch.randn(2, heads, 77, 5, dtype=DOUBLE) for heads in (4, 2, 2)]
    found = []
    for kernel in ("blocks", "explicit"):
        leaves = [tensor.clone().requires_grad_() for tensor in tensors]
        y = attend(*leaves, mask=which, bias=position.term(), kernel=kernel)
        found.append([y, *torch.autograd.grad(y.square().sum(), [*leaves, position.table])])
    assert found[0][-1].abs().sum() > 0
    for got, want in zip(*found, strict=True):
        torch.testing.assert_close(got, want, atol=1e-9, rtol=0)


@pytest.mark.parametrize("which", [None, mask.causal, mask.strided(3), mask.padding([77, 0])], ids=repr)
@torch.no_grad()
def test_written_out_it_is_the_same(which):
    torch.manual_seed(0)
    position = filled(4, 7, 11)
    tensors = [torch.randn(2, heads, 77, 5, dtype=DOUBLE) for heads in (4, 2, 2)]
    written, exact = (attend(*tensors, mask=which, bias=position.term(), kernel=name) for name in ("flash", "explicit"))
    torch.testing.assert_close(written, exact, atol=1e-9, rtol=0)


@pytest.mark.filterwarnings("ignore:.*without torch.compile")
def test_the_form_for_flex_attention():
    position = filled(3, 2, 5).float().requires_grad_(False)
    q, k, v = torch.randn(2, 3, 7, 16), torch.randn(2, 3, 10, 16), torch.randn(2, 3, 10, 16)
    with torch.no_grad():
        got = flex_attention(q, k, v, score_mod=position.term(3).score_mod(q))
    torch.testing.assert_close(got, attend(q, k, v, bias=position.term(3), kernel="explicit"), atol=1e-5, rtol=1e-5)


class Attention(nn.Module):
    def __init__(self, position):
        super().__init__()
        self.position = position

    def forward(self, q):
        return attend(q, q, q, bias=self.position.term())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_compiles_and_exports(dtype):
    layer = Attention(filled(3, 2, 5)).to(dtype)
    q = torch.randn(2, 3, 10, 8, dtype=dtype)
    want = layer(q)
    assert want.dtype == dtype
    torch.testing.assert_close(torch.compile(layer, fullgraph=True, backend="aot_eager")(q), want)
    torch.testing.assert_close(torch.export.export(layer, (q,)).module()(q), want)


def test_bad_input():
    with pytest.raises(FovealError, match="BiasTable's heads: expected at least 1"):
        BiasTable(0, 2, 3)
    with pytest.raises(FovealError, match="window: expected at least 1 × 1, got 2 × 0"):
        BiasTable(3, 2, 0)
    with pytest.raises(FovealError, match="BiasTable's heads: expected 3, got 2"):
        BiasTable(3, 2, 2).bias(torch.zeros(1, 2, 4, 5), 4)
    with pytest.raises(
        FovealError, match="at most 2 × 2 = 4 tokens, got queries 0 to 5 and 4 keys; cut the grid into windows"
    ):
        BiasTable(3, 2, 2).bias(torch.zeros(1, 3, 5, 5), 4)
    with pytest.raises(FovealError, match="got queries 0 to 4 and 5 keys"):
        BiasTable(3, 2, 2).bias(torch.zeros(1, 3, 4, 5), 5)
    with pytest.raises(FovealError, match="got queries 1 to 5"):
        BiasTable(3, 2, 2).bias(torch.zeros(1, 3, 4, 5), 4, query_start=1)
