"""Polar positions: the clock, no seam at 12, and what a turn of the image does."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.polar import polar

from foveal.errors import FovealError
from foveal.position.polar import Polar, clock, harmonics


def test_the_clock_by_hand():
    radius, angle = clock(3, 3, torch.device("cpu"), torch.float64)
    hours = (angle % (2 * math.pi)) * 12 / (2 * math.pi)
    assert radius[1, 1] == 0
    corner = math.sqrt(2)
    want_radius = torch.tensor([[corner, 1, corner], [1, 0, 1], [corner, 1, corner]], dtype=torch.float64)
    torch.testing.assert_close(radius, want_radius)
    around = [hours[0, 1], hours[0, 2], hours[1, 2], hours[2, 2], hours[2, 1], hours[2, 0], hours[1, 0], hours[0, 0]]
    torch.testing.assert_close(
        torch.stack(around), torch.tensor([0, 1.5, 3, 4.5, 6, 7.5, 9, 10.5], dtype=torch.float64)
    )


def test_the_channels_by_hand():
    # Three o'clock, one token from the centre: r = 1, θ = π/2.
    got = Polar(8)(torch.zeros(1, 3, 3, 8, dtype=torch.float64))[0]
    want = [math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01), 1, 0, 0, -1]
    torch.testing.assert_close(got[1, 2], torch.tensor(want, dtype=torch.float64), atol=1e-15, rtol=0)
    assert got[1, 1].tolist() == [0, 1, 0, 1, 0, 0, 0, 0]


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 7), st.integers(1, 7), st.integers(4, 17))
def test_equals_the_oracle(height, width, channels):
    x = torch.randn(2, height, width, channels, dtype=torch.float64)
    want = x + torch.tensor(polar(height, width, channels), dtype=torch.float64)
    torch.testing.assert_close(Polar(channels)(x), want, atol=1e-9, rtol=0)


@settings(max_examples=25, deadline=None)
@given(st.floats(-7, 7), st.integers(2, 11))
def test_a_full_turn_changes_nothing(angle, width):
    angles = torch.tensor([angle, angle + 2 * math.pi], dtype=torch.float64)
    before, after = harmonics(angles, width)
    torch.testing.assert_close(before, after, atol=1e-12, rtol=0)
    near = harmonics(torch.tensor([-1e-6, 1e-6], dtype=torch.float64), width)  # the two sides of 12 o'clock
    assert (near[0] - near[1]).abs().max() < 1e-4


def test_a_quarter_turn_of_the_image_keeps_the_radius_and_adds_three_hours():
    grid = Polar(8)(torch.zeros(1, 6, 6, 8, dtype=torch.float64))[0]
    turned = grid.rot90(-1, (0, 1))  # clockwise: what was at 12 o'clock is now at 3
    torch.testing.assert_close(turned[..., :4], grid[..., :4], atol=1e-12, rtol=0)
    sin, cos = grid[..., 4], grid[..., 5]
    torch.testing.assert_close(turned[..., 4], -cos, atol=1e-12, rtol=0)  # sin(θ − π/2)
    torch.testing.assert_close(turned[..., 5], sin, atol=1e-12, rtol=0)


def test_compiles_and_keeps_bfloat16():
    position, x = Polar(14), torch.randn(2, 5, 6, 14, dtype=torch.bfloat16)
    got = torch.compile(position, fullgraph=True, backend="aot_eager")(x)
    assert got.dtype == torch.bfloat16
    torch.testing.assert_close(got, position(x))


def test_bad_input():
    with pytest.raises(FovealError, match="Polar's width: expected at least 4"):
        Polar(3)
    with pytest.raises(FovealError, match=r"a grid \(B, h, w, 6\), got \(2, 7, 6\)"):
        Polar(6)(torch.zeros(2, 7, 6))
    with pytest.raises(FovealError, match="Polar's start: expected 0"):
        Polar(6)(torch.zeros(2, 3, 5, 6), 2)
