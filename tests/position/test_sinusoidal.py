"""Sinusoidal positions against their formula, their rotation and Marian's table."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.sinusoidal import sinusoidal
from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding

from foveal.errors import FovealError
from foveal.position.sinusoidal import Sinusoidal, sinusoid


def test_by_hand():
    # Width 4: the second pair turns at 1/√10000 = 1/100.
    x = torch.ones(1, 2, 4, dtype=torch.float64)
    want = [[0, 1, 0, 1], [math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01)]]
    torch.testing.assert_close(Sinusoidal(4)(x)[0] - 1, torch.tensor(want, dtype=torch.float64), atol=1e-15, rtol=0)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 17), st.integers(0, 13), st.integers(0, 1000))
def test_equals_the_oracle_for_any_width_length_and_start(width, length, start):
    got = Sinusoidal(width).embed(torch.zeros(2, length, width, dtype=torch.float64), start)
    want = torch.tensor(sinusoidal(range(start, start + length), width), dtype=torch.float64).reshape(length, width)
    torch.testing.assert_close(got, want.expand(2, -1, -1), atol=1e-9, rtol=0)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 11), st.integers(-50, 50), st.floats(-500, 500))
def test_a_shift_is_one_rotation_of_the_pairs_wherever_it_starts(pairs, shift, position):
    width = 2 * pairs
    turn = torch.zeros(width, width, dtype=torch.float64)  # M_k
    for pair in range(0, width, 2):
        angle = shift / 10000 ** (pair / width)
        turn[pair, pair] = turn[pair + 1, pair + 1] = math.cos(angle)
        turn[pair, pair + 1], turn[pair + 1, pair] = math.sin(angle), -math.sin(angle)
    here, there = sinusoid(torch.tensor([position, position + shift], dtype=torch.float64), width)
    torch.testing.assert_close(turn @ here, there, atol=1e-9, rtol=0)


def test_equals_marian_whose_cosines_stand_in_the_second_half():
    marian = MarianSinusoidalPositionalEmbedding(23, 13)
    want = marian.create_weight()
    got = sinusoid(torch.arange(23), 13)
    torch.testing.assert_close(torch.cat((got[:, 0::2], got[:, 1::2]), 1), want, atol=2e-6, rtol=0)


def test_step_by_step_equals_the_whole():
    x, position = torch.randn(2, 7, 5), Sinusoidal(5)
    steps = [position.embed(x[:, i : i + 1], start=i) for i in range(7)]
    torch.testing.assert_close(torch.cat(steps, 1), position(x), atol=0, rtol=0)


def test_in_bfloat16_far_positions_stay_apart():
    far = Sinusoidal(8).embed(torch.zeros(1, 2, 8, dtype=torch.bfloat16), start=1001)
    want = torch.tensor(sinusoidal([1001, 1002], 8))
    assert far.dtype == torch.bfloat16
    torch.testing.assert_close(far[0].float(), want, atol=0.005, rtol=0)


def test_compiles_and_exports_with_any_length():
    position = Sinusoidal(14)
    assert not position.state_dict()
    compiled = torch.compile(position, fullgraph=True, backend="aot_eager", dynamic=True)
    for length in (11, 7):
        x = torch.randn(2, length, 14)
        torch.testing.assert_close(compiled(x), position(x))
    length = torch.export.Dim("length", min=2, max=100)
    exported = torch.export.export(position, (torch.randn(2, 11, 14),), dynamic_shapes=({1: length},)).module()
    x = torch.randn(2, 5, 14)
    torch.testing.assert_close(exported(x), position(x))


def test_bad_input():
    with pytest.raises(FovealError, match="Sinusoidal's width: expected at least 1, got 0"):
        Sinusoidal(0)
    with pytest.raises(FovealError, match=r"expected \(B, N, 5\), got \(2, 7, 3\)"):
        Sinusoidal(5)(torch.zeros(2, 7, 3))
    with pytest.raises(FovealError, match="use Sinusoidal2d for a grid"):
        Sinusoidal(5)(torch.zeros(2, 7, 3, 5))
