"""Sinusoidal positions on a grid against their formula and DETR's."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.sinusoidal_2d import sinusoidal_2d
from transformers.models.detr.modeling_detr import DetrSinePositionEmbedding

from foveal.errors import FovealError
from foveal.position.sinusoidal_2d import Sinusoidal2d


def test_by_hand():
    # Width 4: a sine and a cosine of the row, a sine and a cosine of the column.
    got = Sinusoidal2d(4)(torch.zeros(1, 2, 3, 4, dtype=torch.float64))[0]
    assert got[0, 0].tolist() == [0, 1, 0, 1]
    want = [math.sin(1), math.cos(1), math.sin(2), math.cos(2)]
    torch.testing.assert_close(got[1, 2], torch.tensor(want, dtype=torch.float64), atol=1e-15, rtol=0)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 7), st.integers(1, 7), st.integers(2, 13))
def test_equals_the_oracle(height, width, channels):
    x = torch.randn(2, height, width, channels, dtype=torch.float64)
    want = x + torch.tensor(sinusoidal_2d(height, width, channels), dtype=torch.float64)
    torch.testing.assert_close(Sinusoidal2d(channels)(x), want, atol=1e-9, rtol=0)


def test_equals_detr_which_counts_from_one():
    detr = DetrSinePositionEmbedding(6)(torch.Size((1, 12, 5, 7)), "cpu", torch.float32)
    got = Sinusoidal2d(12)(torch.zeros(1, 6, 8, 12))[0, 1:, 1:]
    torch.testing.assert_close(got, detr[0].permute(1, 2, 0), atol=1e-6, rtol=0)


def test_compiles_and_keeps_bfloat16():
    position, x = Sinusoidal2d(14), torch.randn(2, 5, 6, 14, dtype=torch.bfloat16)
    got = torch.compile(position, fullgraph=True, backend="aot_eager")(x)
    assert got.dtype == torch.bfloat16
    torch.testing.assert_close(got, position(x))


def test_bad_input():
    with pytest.raises(FovealError, match="at least 2, for a row and a column, got 1"):
        Sinusoidal2d(1)
    with pytest.raises(FovealError, match=r"a grid \(B, h, w, 6\), got \(2, 7, 6\); use Sinusoidal for"):
        Sinusoidal2d(6)(torch.zeros(2, 7, 6))
    with pytest.raises(FovealError, match="start: expected 0"):
        Sinusoidal2d(6)(torch.zeros(2, 3, 5, 6), 1)
