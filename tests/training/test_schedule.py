"""The learning rate over a run."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveal.training.schedule import FLOOR, cosine


def test_by_hand():
    # 11 steps, 3 of them warm up: 1/4, 2/4, 3/4, then from 1 down to the floor at the end of the run
    assert [cosine(step, 11, 3) for step in range(3)] == [0.25, 0.5, 0.75]
    assert cosine(3, 11, 3) == 1.0
    assert cosine(7, 11, 3) == pytest.approx((1 + FLOOR) / 2)
    assert cosine(11, 11, 3) == pytest.approx(FLOOR)
    assert cosine(5, 11, 3) == pytest.approx(FLOOR + (1 - FLOOR) * (1 + math.cos(math.pi / 4)) / 2)


@given(st.integers(1, 97), st.floats(0, 1))
def test_up_then_down(steps, share):
    warmup = round(share * steps)
    values = [cosine(step, steps, warmup) for step in range(steps + 3)]
    assert all(0 < value <= 1 for value in values)
    assert values[:warmup] == sorted(values[:warmup])
    assert values[warmup:] == sorted(values[warmup:], reverse=True)
    assert min(values[warmup:]) >= FLOOR


def test_all_warm_up():
    assert cosine(7, 7, 7) == 1.0
    assert cosine(1, 1, 0) == pytest.approx(FLOOR)
