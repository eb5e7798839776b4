"""Rotary positions: the turn, that only the distance counts, and Llama's."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.rotary import rotary
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

from foveal.errors import FovealError
from foveal.position.rotary import Rotary, turned


def test_by_hand():
    # Width 4: channels 0 and 2 turn by the position, 1 and 3 by a hundredth of it.
    x = torch.tensor([1.0, 0.0, 0.0, 1.0], dtype=torch.float64).view(1, 1, 1, 4)
    want = [math.cos(3), -math.sin(0.03), math.sin(3), math.cos(0.03)]
    torch.testing.assert_close(
        turned(x, start=3).flatten(), torch.tensor(want, dtype=torch.float64), atol=1e-15, rtol=0
    )


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 5), st.integers(1, 7), st.integers(0, 1000), st.sampled_from([10000.0, 500.0]))
def test_equals_the_oracle(pairs, length, start, base):
    x = torch.randn(2, 3, length, 2 * pairs, dtype=torch.float64)
    want = [[rotary(head, start, base) for head in sample] for sample in x.tolist()]
    torch.testing.assert_close(turned(x, start, base), torch.tensor(want, dtype=torch.float64), atol=1e-9, rtol=0)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 100), st.integers(0, 100), st.integers(0, 1000))
def test_only_the_distance_counts_and_lengths_stay(i, j, shift):
    generator = torch.Generator().manual_seed(i)
    q, k = torch.randn(2, 1, 1, 1, 10, dtype=torch.float64, generator=generator)
    position = Rotary(10)
    here, there = position.rotate(q, k, i, j), position.rotate(q, k, i + shift, j + shift)
    torch.testing.assert_close((here[0] * here[1]).sum(), (there[0] * there[1]).sum(), atol=1e-9, rtol=0)
    torch.testing.assert_close(here[0].norm(), q.norm(), atol=1e-12, rtol=0)
    assert torch.equal(position.rotate(q, k)[0], q)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_equals_llama(dtype):
    config = LlamaConfig(
        hidden_size=60,
        num_attention_heads=6,
        head_dim=10,
        rope_parameters={"rope_type": "default", "rope_theta": 500.0},
    )
    q, k = torch.randn(2, 6, 11, 10, dtype=dtype), torch.randn(2, 2, 11, 10, dtype=dtype)
    cos, sin = LlamaRotaryEmbedding(config)(q, torch.arange(13, 24)[None])
    want = apply_rotary_pos_emb(q, k, cos, sin)
    tolerance = 1e-5 if dtype == torch.float32 else 0.05  # Llama multiplies in bfloat16
    for got, wanted in zip(Rotary(10, base=500.0).rotate(q, k, 13, 13), want, strict=True):
        assert got.dtype == dtype
        torch.testing.assert_close(got, wanted, atol=tolerance, rtol=tolerance)


def test_in_bfloat16_only_the_result_is_rounded():
    x = torch.randn(1, 1, 5, 8, dtype=torch.bfloat16)
    want = turned(x.double(), 1001).bfloat16()
    torch.testing.assert_close(turned(x, 1001), want, atol=0, rtol=2**-7)


def test_queries_and_keys_have_their_own_start():
    q, k = torch.randn(2, 6, 11, 8), torch.randn(2, 2, 7, 8)
    whole_q, whole_k = Rotary(8).rotate(q, k)
    last, late = Rotary(8).rotate(q[:, :, 10:], k[:, :, 3:], 10, 3)
    torch.testing.assert_close(last, whole_q[:, :, 10:], atol=0, rtol=0)
    torch.testing.assert_close(late, whole_k[:, :, 3:], atol=0, rtol=0)


def test_the_width_is_that_of_the_head():
    for width in (8, 10):
        q, k = torch.randn(2, 6, 11, width), torch.randn(2, 2, 7, width)
        for got, want in zip(Rotary().rotate(q, k, 3, 1), Rotary(width).rotate(q, k, 3, 1), strict=True):
            assert torch.equal(got, want)
    assert repr(Rotary()) == "Rotary(base=10000)"
    assert repr(Rotary(8)) == "Rotary(8, base=10000)"


def test_gradients_and_compile():
    x = torch.randn(1, 1, 3, 4, dtype=torch.float64, requires_grad=True)
    torch.autograd.gradcheck(lambda x: turned(x, 2), (x,))
    assert not Rotary(8).state_dict()
    q, k = torch.randn(2, 6, 11, 8), torch.randn(2, 2, 7, 8)
    compiled = torch.compile(Rotary(8).rotate, fullgraph=True, backend="aot_eager", dynamic=True)
    for start in (0, 5, 6):
        for got, want in zip(compiled(q, k, start, 0), Rotary(8).rotate(q, k, start, 0), strict=True):
            torch.testing.assert_close(got, want)


def test_bad_input():
    with pytest.raises(FovealError, match="Rotary's width: expected an even number"):
        Rotary(7)
    with pytest.raises(FovealError, match="Rotary's base: expected above 0, got 0"):
        Rotary(8, base=0)
    with pytest.raises(FovealError, match=r"Rotary's k: expected heads \(B, H, N, 8\), got \(2, 2, 7, 6\)"):
        Rotary(8).rotate(torch.zeros(2, 2, 7, 8), torch.zeros(2, 2, 7, 6))
    with pytest.raises(
        FovealError, match=r"Rotary's q: expected heads \(B, H, N, D\) with an even D, got \(2, 2, 7, 5\)"
    ):
        Rotary().rotate(torch.zeros(2, 2, 7, 5), torch.zeros(2, 2, 7, 5))
    with pytest.raises(FovealError, match=r"Rotary's k: expected heads \(B, H, N, 8\), got \(2, 2, 7, 6\)"):
        Rotary().rotate(torch.zeros(2, 2, 7, 8), torch.zeros(2, 2, 7, 6))
