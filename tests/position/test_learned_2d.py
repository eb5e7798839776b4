"""Learned positions on a grid: its cells, and the grid stretched, against loops and ViT."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.learned_2d import learned_2d
from transformers import ViTConfig
from transformers.models.vit.modeling_vit import ViTEmbeddings

from foveal.errors import FovealError
from foveal.position.learned_2d import Learned2d, stretched_2d


def test_by_hand():
    position = Learned2d(1, 1, 2).double()
    with torch.no_grad():
        position.table.copy_(torch.tensor([[[0.0], [8.0]]]))
    assert position(torch.ones(1, 1, 2, 1, dtype=torch.float64)).flatten().tolist() == [1, 9]
    # One cell over the extent of two: half way, both inner weights 0.59375 and both outer −0.09375, the border
    # repeated.
    assert position(torch.zeros(1, 1, 1, 1, dtype=torch.float64)).item() == pytest.approx(8 * (0.59375 - 0.09375))


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 7), st.integers(1, 7))
def test_stretching_equals_the_oracle(rows, columns, height, width):
    table = torch.randn(rows, columns, 3, dtype=torch.float64)
    want = torch.tensor(learned_2d(table.tolist(), height, width), dtype=torch.float64)
    torch.testing.assert_close(stretched_2d(table, height, width), want, atol=1e-9, rtol=0)


def test_equals_vit_on_a_larger_image():
    vit = ViTEmbeddings(ViTConfig(hidden_size=6, image_size=12, patch_size=4)).eval()
    position = Learned2d(6, 3, 3)
    with torch.no_grad():
        position.table.copy_(vit.position_embeddings[0, 1:].view(3, 3, 6))
    tokens = torch.zeros(1, 1 + 5 * 7, 6)
    want = vit.interpolate_pos_encoding(tokens, 20, 28)[0, 1:].view(5, 7, 6)
    torch.testing.assert_close(position(torch.zeros(1, 5, 7, 6))[0], want, atol=1e-6, rtol=0)


def test_bilinear_by_hand():
    position = Learned2d(1, 1, 2, interpolation="bilinear").double()
    with torch.no_grad():
        position.table.copy_(torch.tensor([[[0.0], [8.0]]]))
    # Four cells over the extent of two: their middles lie a quarter and three quarters of a cell behind the borders.
    for stretched in (position, position.resized(1, 4)):
        assert stretched(torch.zeros(1, 1, 4, 1, dtype=torch.float64)).flatten().tolist() == [0, 2, 6, 8]
    assert position.resized(1, 4).interpolation == "bilinear"
    with pytest.raises(FovealError, match="no interpolation is called 'cubic'; the nearest is 'bicubic'"):
        Learned2d(1, 1, 2, interpolation="cubic")


def test_resized_is_a_position_of_its_own():
    position = Learned2d(5, 3, 2).double()
    other = position.resized(7, 5)
    x = torch.randn(2, 7, 5, 5, dtype=torch.float64)
    assert (other.height, other.grid_width) == (7, 5)
    torch.testing.assert_close(other(x), position(x), atol=1e-12, rtol=0)


def test_resized_a_frozen_table_stays_frozen():
    assert Learned2d(5, 3, 2).resized(7, 5).table.requires_grad
    assert not Learned2d(5, 3, 2).requires_grad_(False).resized(7, 5).table.requires_grad


def test_gradients_and_the_state():
    position = Learned2d(2, 2, 3).double()
    torch.autograd.gradcheck(lambda table: stretched_2d(table, 3, 5), (position.table,))
    other = Learned2d(2, 2, 3).double()
    other.load_state_dict(position.state_dict())
    x = torch.randn(2, 2, 3, 2, dtype=torch.float64)
    assert torch.equal(other(x), position(x))


def test_compiles_and_takes_bfloat16():
    position = Learned2d(14, 3, 4).bfloat16()
    x = torch.randn(2, 5, 6, 14, dtype=torch.bfloat16)
    got = torch.compile(position, fullgraph=True, backend="aot_eager")(x)
    assert got.dtype == torch.bfloat16
    torch.testing.assert_close(got, position(x), atol=0.01, rtol=0.01)


def test_bad_input():
    with pytest.raises(FovealError, match="Learned2d's width: expected at least 1, got 0"):
        Learned2d(0, 3, 3)
    with pytest.raises(FovealError, match="grid: expected at least 1 × 1, got 0 × 3"):
        Learned2d(5, 0, 3)
    with pytest.raises(FovealError, match=r"a grid \(B, h, w, 5\), got \(2, 9, 5\)"):
        Learned2d(5, 3, 3)(torch.zeros(2, 9, 5))
    with pytest.raises(FovealError, match="start: expected 0"):
        Learned2d(5, 3, 3)(torch.zeros(2, 3, 3, 5), 4)
