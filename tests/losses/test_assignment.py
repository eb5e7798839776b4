"""Assignments: by hand, and against all permutations."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from oracle import set_prediction as oracle

from foveal.errors import FovealError
from foveal.losses.assignment import assign

costs = st.tuples(st.integers(1, 5), st.integers(1, 6)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.integers(-3, 3) | st.floats(-9, 9, width=16))
)


def test_by_hand():
    """The dearest of all is in no pair, though each row would take the first column."""
    rows, columns = assign(np.array([[1.0, 2.0, 9.0], [1.0, 4.0, 9.0], [1.0, 9.0, 3.0]]))
    assert (rows.tolist(), columns.tolist()) == ([0, 1, 2], [1, 0, 2])
    # more rows than columns: two of three
    rows, columns = assign(np.array([[5.0, 1.0], [0.0, 9.0], [1.0, 0.5]]))
    assert (rows.tolist(), columns.tolist()) == ([1, 2], [0, 1])


@given(costs)
def test_no_permutation_is_cheaper(cost):
    expect_cheapest(cost)


@pytest.mark.parametrize("seed", range(200))
def test_no_permutation_of_random_costs_is_cheaper(seed):
    """Every second one of few different costs, whose rows want the same columns."""
    random = np.random.default_rng(seed)
    shape = random.integers(3, 7, 2)
    expect_cheapest(random.integers(-3, 4, shape).astype(float) if seed % 2 else random.random(shape))


def expect_cheapest(cost):
    rows, columns = assign(cost)
    assert rows.tolist() == sorted(set(rows.tolist()))
    assert len(set(columns.tolist())) == len(columns) == len(rows) == min(cost.shape)
    lying = cost if cost.shape[0] <= cost.shape[1] else cost.T
    best = oracle.best_assignment(lying.tolist())
    assert cost[rows, columns].sum() == pytest.approx(sum(lying[row, column] for row, column in enumerate(best)))


def test_larger_ones_have_prices_that_prove_them():
    """No exchange of two or three makes a large one cheaper."""
    cost = np.random.default_rng(0).random((13, 101))
    rows, columns = assign(cost)
    total = cost[rows, columns].sum()
    free = np.setdiff1d(np.arange(101), columns)
    assert (cost[rows][:, free].min(1) >= cost[rows, columns] - 1e-12).all()
    for some in itertools.permutations(range(13), 3):
        moved = columns.copy()
        moved[list(some)] = np.roll(columns[list(some)], 1)
        assert cost[rows, moved].sum() >= total - 1e-12


def test_what_is_no_number_is_avoided():
    bad = np.array([[np.nan, 1.0], [np.inf, 2.0], [7.0, 3.0]])
    rows, columns = assign(bad)
    assert (rows.tolist(), columns.tolist()) == ([0, 2], [1, 0])
    assert len(assign(np.full((2, 3), np.nan))[0]) == 2
    assert [one.tolist() for one in assign(np.zeros((3, 0)))] == [[], []]


def test_bad_input():
    with pytest.raises(FovealError, match=r"costs: expected \(n, m\)"):
        assign(np.zeros(3))
