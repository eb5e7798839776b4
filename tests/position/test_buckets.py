"""T5's buckets: which distance is in which, through the kernels, against the formula and T5."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.buckets import buckets
from torch import nn
from torch.nn.attention.flex_attention import flex_attention
from transformers.models.t5.modeling_t5 import T5Attention

from foveal.core import mask
from foveal.core.attend import attend
from foveal.errors import FovealError
from foveal.position.buckets import Buckets, CausalBuckets, bucket

DOUBLE = torch.float64
WAYS = {Buckets: True, CausalBuckets: False}


def numbered(kind, *arguments):
    """A position whose bias is the bucket's number."""
    position = kind(*arguments).double()
    with torch.no_grad():
        position.table.copy_(torch.arange(float(position.buckets))[:, None].expand_as(position.table))
    return position


def test_by_hand():
    # 8 buckets of one side up to 16: 0 1 2 3 have their own; from 4 on a bucket is √2 times as wide: 4–5, 6–7, 8–11 (8
    # = 4·2), 12 and more (11.3 = 4·2√2).
    assert [bucket(distance, 8, 16) for distance in (0, 3, 4, 5, 6, 7, 8, 11, 12, 16, 99)] == [
        0,
        3,
        4,
        4,
        5,
        5,
        6,
        6,
        7,
        7,
        7,
    ]
    # Both sides, 4 buckets: 0 and 1 … behind, 2 + 1 … ahead.
    assert numbered(Buckets, 1, 4, 3).bias(torch.zeros(1, 1, 3, 2, dtype=DOUBLE), 3).tolist() == [
        [[[0, 3, 3], [1, 0, 3], [1, 1, 0]]]
    ]
    assert numbered(CausalBuckets, 1, 4, 3).bias(torch.zeros(1, 1, 3, 2, dtype=DOUBLE), 3).tolist() == [
        [[[0, 0, 0], [1, 0, 0], [2, 1, 0]]]
    ]


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(list(WAYS)), st.integers(2, 20), st.integers(0, 60))
def test_equals_the_oracle(kind, pairs, further):
    count, max_distance = 2 * pairs, 2 * pairs + further
    position = numbered(kind, 3, count, max_distance)
    got = position.bias(torch.zeros(2, 3, 89, 2, dtype=DOUBLE), 97)[0]
    want = [[buckets(j - i, count, max_distance, WAYS[kind]) for j in range(97)] for i in range(89)]
    assert torch.equal(got, torch.tensor(want, dtype=DOUBLE).expand(3, -1, -1))


@pytest.mark.parametrize("kind", WAYS)
@pytest.mark.parametrize(("count", "max_distance"), [(32, 128), (32, 256), (320, 800), (16, 64)])
def test_equals_t5(kind, count, max_distance):
    offsets = torch.arange(-max_distance - 7, max_distance + 8)
    want = T5Attention._relative_position_bucket(offsets, WAYS[kind], count, max_distance)
    position = numbered(kind, 1, count, max_distance)
    term = position.term(query_start=3)
    got = term.scores(
        torch.zeros(1, 1, 1, 2, dtype=DOUBLE), torch.zeros(1, dtype=torch.long), offsets + 3, *term.tensors
    )
    assert torch.equal(got.flatten(), want.double())


def test_equals_the_bias_of_a_t5_encoder_with_its_weights():
    from transformers import T5Config

    t5 = T5Attention(T5Config(d_model=12, d_kv=4, num_heads=3), has_relative_attention_bias=True)
    position = Buckets(3)
    position.load_state_dict({"table": t5.relative_attention_bias.weight})
    want = t5.compute_bias(83, 211)
    torch.testing.assert_close(position.bias(torch.zeros(1, 3, 83, 4), 211), want, atol=0, rtol=0)


@pytest.mark.parametrize("kind", WAYS)
@pytest.mark.parametrize("which", [None, mask.causal, mask.local(5), mask.strided(3), mask.padding([71, 0])], ids=repr)
def test_blocks_equal_the_explicit_twin_with_their_gradients(kind, which):
    torch.manual_seed(0)
    position = kind(4, 8, 20).double()
    nn.init.normal_(position.table)
    tensors = [torch.randn(2, heads, length, 5, dtype=DOUBLE) for heads, length in ((4, 67), (2, 71), (2, 71))]
    found = []
    for kernel in ("blocks", "explicit"):
        leaves = [tensor.clone().requires_grad_() for tensor in tensors]
        y = attend(*leaves, mask=which, bias=position.term(), kernel=kernel)
        found.append([y, *torch.autograd.grad(y.square().sum(), [*leaves, position.table])])
    assert found[0][-1].abs().sum() > 0
    for got, want in zip(*found, strict=True):
        torch.testing.assert_close(got, want, atol=1e-9, rtol=0)


@pytest.mark.filterwarnings("ignore:.*without torch.compile")
def test_the_form_for_flex_attention():
    position = Buckets(3, 8, 9).requires_grad_(False)
    nn.init.normal_(position.table)
    q, k, v = torch.randn(2, 3, 7, 16), torch.randn(2, 3, 11, 16), torch.randn(2, 3, 11, 16)
    with torch.no_grad():
        got = flex_attention(q, k, v, score_mod=position.term(2).score_mod(q))
    torch.testing.assert_close(got, attend(q, k, v, bias=position.term(2), kernel="explicit"), atol=1e-5, rtol=1e-5)


class Attention(nn.Module):
    def __init__(self, position):
        super().__init__()
        self.position = position

    def forward(self, q):
        return attend(q, q, q, bias=self.position.term(), scale=1.0)


@pytest.mark.parametrize("kind", WAYS)
@pytest.mark.parametrize("way", ["assign", "to_empty"])
def test_a_model_built_without_memory_has_the_same_buckets(kind, way):
    filled = kind(3, 8, 9)
    with torch.device("meta"):
        bare = kind(3, 8, 9)
    if way == "to_empty":
        bare = bare.to_empty(device="cpu")
    bare.load_state_dict(filled.state_dict(), assign=way == "assign")
    q = torch.zeros(1, 3, 11, 2)
    assert torch.equal(bare.bias(q, 13), filled.bias(q, 13))


def test_buckets_first_asked_for_in_another_mode_serve_everyone():
    first = Buckets(1, 6, 37)  # sizes that no other test has: its buckets are remembered from here on
    q = torch.zeros(1, 1, 5, 2)
    with torch.inference_mode(), torch.device("meta"):
        first.bias(q, 5)
    y = first.bias(q, 5)
    y.sum().backward()
    assert y.device.type == "cpu"
    assert first.table.grad.sum() == 25


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_compiles_and_exports(dtype):
    layer = Attention(Buckets(3, 8, 9)).to(dtype)
    q = torch.randn(2, 3, 11, 8, dtype=dtype)
    want = layer(q)
    assert want.dtype == dtype
    assert list(layer.state_dict()) == ["position.table"]
    torch.testing.assert_close(torch.compile(layer, fullgraph=True, backend="aot_eager")(q), want)
    torch.testing.assert_close(torch.export.export(layer, (q,)).module()(q), want)


def test_bad_input():
    with pytest.raises(FovealError, match="Buckets's heads: expected at least 1"):
        Buckets(0)
    with pytest.raises(FovealError, match="Buckets's buckets: expected an even number, at least 4, got 7"):
        Buckets(3, 7)
    with pytest.raises(FovealError, match="CausalBuckets's buckets: expected at least 2, got 1"):
        CausalBuckets(3, 1)
    with pytest.raises(FovealError, match="max_distance: expected above 8, the distances with their own bucket, got 8"):
        Buckets(3, 32, 8)
    with pytest.raises(FovealError, match="Buckets's heads: expected 3, got 2"):
        Buckets(3).bias(torch.zeros(1, 2, 4, 5), 4)
