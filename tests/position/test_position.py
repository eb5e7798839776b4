"""No position at all: what it leaves alone, and what self-attention cannot know without one."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import foveal.position as room
from foveal.core.attend import attend
from foveal.position import Position
from foveal.position.bias_table import BiasTable
from foveal.position.buckets import Buckets
from foveal.position.learned import Learned
from foveal.position.relative import Relative
from foveal.position.rotary import Rotary
from foveal.position.sinusoidal import Sinusoidal

HEADS, TOKENS, WIDTH = 3, 11, 10


def attention(position, x):
    """Self-attention with nothing learned: (B, N, H·D), its heads cut from its channels."""
    embedded = position.embed(x)
    heads = embedded.unflatten(-1, (HEADS, WIDTH)).transpose(1, 2)
    q, k = position.rotate(heads, heads)
    return attend(q, k, heads, bias=position.term()).transpose(1, 2).flatten(2)


@settings(max_examples=25, deadline=None)
@given(st.permutations(range(TOKENS)))
def test_without_positions_attention_is_permutation_equivariant(order):
    x = torch.randn(2, TOKENS, HEADS * WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    torch.testing.assert_close(
        attention(Position(), x[:, order]), attention(Position(), x)[:, order], atol=1e-12, rtol=0
    )


@pytest.mark.parametrize(
    "position",
    [
        Sinusoidal(HEADS * WIDTH),
        Learned(HEADS * WIDTH, TOKENS),
        Rotary(WIDTH),
        Relative(WIDTH, 4),
        BiasTable(HEADS, 1, TOKENS),
        Buckets(HEADS, 8, 16),
    ],
    ids=lambda position: type(position).__name__,
)
def test_every_position_breaks_the_equivariance(position):
    torch.manual_seed(0)
    for parameter in position.parameters():
        torch.nn.init.normal_(parameter)
    x = torch.randn(2, TOKENS, HEADS * WIDTH)
    order = torch.arange(TOKENS).roll(3)
    assert (attention(position, x[:, order]) - attention(position, x)[:, order]).abs().max() > 0.01


def test_no_position_leaves_everything_as_it_is():
    x, q, k = torch.randn(2, 7, 5), torch.randn(2, 3, 7, 5), torch.randn(2, 1, 11, 5)
    position = Position()
    assert position(x) is x
    assert position.rotate(q, k) == (q, k)
    assert position.term() is None


@pytest.mark.parametrize(
    "position", [Relative(WIDTH, 4, HEADS), BiasTable(HEADS, 1, TOKENS), Buckets(HEADS)], ids=lambda p: type(p).__name__
)
@pytest.mark.parametrize("learns", [True, False])
def test_what_is_left_of_a_table_learns_if_the_table_did(position, learns):
    position.requires_grad_(learns).drop_heads([0])
    assert position.heads < HEADS
    assert position.table.requires_grad == learns


def test_the_room_finds_its_positions_by_name():
    for name in dir(room):
        assert getattr(room, name).__name__ == name
    with pytest.raises(AttributeError, match="no position is called 'Rotari'; the nearest is 'Rotary'"):
        _ = room.Rotari
