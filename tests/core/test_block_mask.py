"""FlexAttention's form of a mask: the blocks it would visit, and what it computes with them."""

import warnings

import pytest
import torch
from core.expressions import masks, samples, with_padding
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention.flex_attention import flex_attention

from foveal import attend
from foveal.core.algebra import Given
from foveal.mask import bigbird, causal, local, longformer, padding, prefix, random, strided, to_global, window

SIZE = 128  # a block's side
MASKS = [
    causal, local(7), local(200), prefix(5), strided(9), random(3, seed=8001), random(2, seed=8002, block=64),
    to_global(3), longformer(11, 2), bigbird(9, 2, block=32), window(16, 16, shift=1, size=4), ~local(7),
    causal & local(31), causal | prefix(130), strided(5) | local(3), causal & padding([200, 3]), padding([256, 0]),
    local(3).starting_at(5), random(256),
]  # fmt: skip


def blocks(dense, rows, columns):
    """Which blocks hold a kept pair: (B, N', M')."""
    padded = torch.nn.functional.pad(dense, (0, columns * SIZE - dense.shape[-1], 0, rows * SIZE - dense.shape[-2]))
    return padded.unflatten(2, (columns, SIZE)).unflatten(1, (rows, SIZE)).any(4).any(2)


def agrees(mask, queries, keys, batch):
    made = mask.block_mask(queries, keys, batch=batch)
    there = made.to_dense()[:, 0].bool()  # (B, N', M')
    expected = blocks(samples(mask.dense(queries, keys, batch=batch), batch), *there.shape[1:])
    assert torch.equal(there.expand(batch, -1, -1), expected)


@pytest.mark.parametrize("mask", MASKS, ids=str)
def test_its_blocks_are_those_that_hold_a_pair(mask):
    agrees(mask, 256, 256, 2)


@settings(max_examples=20)
@given(masks, st.sampled_from([(128, 256), (130, 300), (1, 129), (257, 7)]))
def test_its_blocks_are_those_that_hold_a_pair_for_any_expression(mask, size):
    agrees(mask, *size, 1)


@settings(max_examples=10)
@given(with_padding(2))
def test_its_blocks_are_those_that_hold_a_pair_where_samples_differ(mask):
    agrees(mask, 256, 128, 2)


@pytest.mark.parametrize("mask", MASKS, ids=str)
def test_uncompiled_flex_attention_with_it_equals_attend(mask):
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 2, 256, 16) for _ in range(3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns that it stores all scores
        y = flex_attention(q, k, v, block_mask=mask.block_mask(256, 256, batch=2))
    torch.testing.assert_close(y, attend(q, k, v, mask=mask, kernel="explicit"), atol=1e-5, rtol=1e-5)


def test_a_given_mask_may_differ_in_every_head():
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, 128, 16) for _ in range(3))
    tensor = torch.rand(2, 3, 128, 128) < 0.05
    tensor[0, 0] = tensor[1, 2] = False
    assert Given(tensor).block_mask(128, 128, batch=2).to_dense().flatten().tolist() == [0, 1, 1, 1, 1, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = flex_attention(q, k, v, block_mask=Given(tensor).block_mask(128, 128, batch=2))
    torch.testing.assert_close(y, attend(q, k, v, mask=tensor, kernel="explicit"), atol=1e-5, rtol=1e-5)
    assert (y[0, 0] == 0).all()
