"""Learned positions: rows of a table, and the table stretched."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.learned import learned

from foveal.errors import FovealError
from foveal.position.learned import Learned, stretched


def test_by_hand():
    position = Learned(1, 2).double()
    with torch.no_grad():
        position.table.copy_(torch.tensor([[0.0], [4.0]]))
    # Four places over the extent of two: middles at −¼, ¼, ¾, 1¼ of the old places; the ends hold.
    assert position(torch.zeros(1, 4, 1, dtype=torch.float64)).flatten().tolist() == [0, 1, 3, 4]
    assert position(torch.zeros(1, 1, 1, dtype=torch.float64), 1).flatten().tolist() == [4]


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 11), st.integers(1, 23), st.integers(1, 5))
def test_stretching_equals_the_oracle(rows, length, width):
    table = torch.randn(rows, width, dtype=torch.float64)
    want = torch.tensor(learned(table.tolist(), length), dtype=torch.float64)
    torch.testing.assert_close(stretched(table, length), want, atol=1e-9, rtol=0)


def test_a_shorter_sequence_reads_the_first_rows_and_a_longer_one_the_stretched_table():
    position = Learned(5, 7).double()
    x = torch.randn(2, 11, 5, dtype=torch.float64)
    torch.testing.assert_close(position(x[:, :3]), x[:, :3] + position.table[:3])
    torch.testing.assert_close(position(x[:, :7]), x[:, :7] + position.table)
    want = torch.tensor(learned(position.table.tolist(), 11), dtype=torch.float64)
    torch.testing.assert_close(position(x), x + want, atol=1e-9, rtol=0)


def test_step_by_step_equals_the_whole():
    x, position = torch.randn(2, 7, 5), Learned(5, 11)
    steps = [position.embed(x[:, i : i + 1], start=i) for i in range(7)]
    torch.testing.assert_close(torch.cat(steps, 1), position(x), atol=0, rtol=0)


def test_resized_is_a_position_of_its_own():
    position = Learned(5, 11).double()
    shorter = position.resized(7)
    want = torch.tensor(learned(position.table.tolist(), 7), dtype=torch.float64)
    assert shorter.length == 7
    torch.testing.assert_close(shorter.table.detach(), want, atol=1e-9, rtol=0)
    assert shorter.table.requires_grad


def test_resized_a_frozen_table_stays_frozen():
    assert not Learned(5, 11).requires_grad_(False).resized(7).table.requires_grad


def test_gradients_reach_the_table_and_the_state_round_trips():
    position = Learned(3, 5).double()
    torch.autograd.gradcheck(lambda table: stretched(table, 7), (position.table,))
    x = torch.randn(2, 4, 3, dtype=torch.float64)
    position(x).sum().backward()
    assert position.table.grad.tolist() == [[2, 2, 2]] * 4 + [[0, 0, 0]]
    other = Learned(3, 5).double()
    other.load_state_dict(position.state_dict())
    assert torch.equal(other(x), position(x))


def test_compiles_and_takes_bfloat16():
    position = Learned(14, 7).bfloat16()
    compiled = torch.compile(position, fullgraph=True, backend="aot_eager")
    for length in (11, 5):
        x = torch.randn(2, length, 14, dtype=torch.bfloat16)
        assert compiled(x).dtype == torch.bfloat16
        # a fused sum is rounded once, this one twice
        torch.testing.assert_close(compiled(x), position(x), atol=0.01, rtol=0.01)


def test_bad_input():
    with pytest.raises(FovealError, match="Learned's length: expected at least 1, got 0"):
        Learned(3, 0)
    with pytest.raises(FovealError, match="Learned's width: expected at least 1, got 0"):
        Learned(0, 3)
    with pytest.raises(FovealError, match=r"expected \(B, N, 5\), got \(2, 7, 3\)"):
        Learned(5, 7)(torch.zeros(2, 7, 3))
    with pytest.raises(FovealError, match=r"expected at most 7, got 8; make it longer, or use resized\(\)"):
        Learned(5, 7)(torch.zeros(2, 1, 5), start=7)
    with pytest.raises(FovealError, match="start: expected at least 0, got -1"):
        Learned(5, 7)(torch.zeros(2, 1, 5), start=-1)
