"""Divided space-time attention beside transformers' TimeSformer. What holds for all modules: tests/test_every.py."""

import pytest
import torch
from case import error
from layers.carry import fill, scatter
from oracle.space_time import like
from torch import nn

from foveal.core.watch import watch
from foveal.errors import FovealError
from foveal.layers.feed_forward import FeedForward
from foveal.layers.multihead import MultiHead
from foveal.layers.residual import PostNorm, Residual
from foveal.mask import causal, padding
from foveal.vision.space_time import SpaceTime
from foveal.vision.temporal import TemporalAttention


def video(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


class WithoutClass(nn.Module):
    """Their attention within a frame, whose first token is the class's: nobody sees it, and it sees nobody."""

    def __init__(self, attention):
        super().__init__()
        self.attention = attention

    def forward(self, tokens, output_attentions=False):
        (y,) = self.attention(tokens[:, 1:])
        return (torch.cat([torch.zeros_like(tokens[:, :1]), y], 1),)


def test_it_equals_transformers():
    from transformers import TimesformerConfig
    from transformers.models.timesformer.modeling_timesformer import TimesformerLayer

    config = TimesformerConfig(
        image_size=7,
        patch_size=1,
        num_frames=5,
        hidden_size=6,
        num_attention_heads=2,
        intermediate_size=11,
        layer_norm_eps=1e-5,
    )
    theirs = scatter(TimesformerLayer(config, 0).double().eval())
    ours = SpaceTime(MultiHead(6, 2), MultiHead(6, 2), FeedForward(6, 11, activation=nn.GELU())).double()
    for layer, other, after in (
        (ours.time, theirs.temporal_attention, theirs.temporal_dense),
        (ours.space, theirs.attention, None),
    ):
        q, k, v = zip(other.attention.qkv.weight.chunk(3), other.attention.qkv.bias.chunk(3), strict=True)
        out = other.output.dense
        joined = out if after is None else (after.weight @ out.weight, after.weight @ out.bias + after.bias)
        fill(layer.layer, q, k, v, joined)
    for norm, other in zip(
        (ours.time.norm, ours.space.norm, ours.feed_forward.norm),
        (theirs.temporal_layernorm, theirs.layernorm_before, theirs.layernorm_after),
        strict=True,
    ):
        norm.load_state_dict(other.state_dict())
    ours.feed_forward.layer.inner.load_state_dict(theirs.intermediate.dense.state_dict())
    ours.feed_forward.layer.outer.load_state_dict(theirs.output.dense.state_dict())
    theirs.attention = WithoutClass(theirs.attention)

    frames = video(2, 5, 6, 3, 7)
    tokens = frames.permute(0, 3, 4, 1, 2).reshape(2, 3 * 7 * 5, 6)  # theirs: by place, then by frame
    with torch.no_grad():
        (expected,) = theirs(torch.cat([video(2, 1, 6), tokens], 1))
    y = ours(frames).permute(0, 3, 4, 1, 2).reshape(2, 3 * 7 * 5, 6)
    assert error(y, expected[:, 1:]) < 1e-12


def test_time_comes_first():
    # Time adds 2 to everything, and space the mean of a frame's places, which has those 2 in it if time was first.
    block = SpaceTime(MultiHead(1, 1), MultiHead(1, 1), norm=Residual).double()
    nothing = [(torch.zeros(1, 1), torch.zeros(1))] * 2
    one = torch.ones(1, 1), torch.zeros(1)
    fill(block.time.layer, *nothing, (torch.zeros(1, 1), torch.tensor([2.0])), one)
    fill(block.space.layer, *nothing, one, one)  # the mean of a frame's places
    y = block(torch.tensor([[[[[1.0, 3.0]]], [[[5.0, 9.0]]]]], dtype=torch.float64))
    # Frame 0: 1 and 3 → 3 and 5 → + their mean 4. Frame 1: 5 and 9 → 7 and 11 → + 9.
    assert error(y, torch.tensor([[[[[7.0, 9.0]]], [[[16.0, 20.0]]]]], dtype=torch.float64)) < 1e-12


@pytest.mark.parametrize("network", [None, FeedForward(6, 11)])
def test_a_mask_is_for_time(network):
    block = scatter(SpaceTime(MultiHead(6, 3), MultiHead(6, 2), network).double())
    frames = video(2, 5, 6, 2, 3)
    expected = like(block, frames, lambda t, s: s <= t)
    assert error(block(frames, mask=causal), torch.tensor(expected, dtype=torch.float64)) < 1e-12
    # What comes after the end of a video changes nothing before it.
    other = torch.cat([frames[:, :3], video(2, 2, 6, 2, 3)], 1)
    short = padding([3, 3])
    assert error(block(other, mask=short)[:, :3], block(frames, mask=short)[:, :3]) < 1e-12


def test_watch_sees_both():
    block = SpaceTime(MultiHead(6, 3), MultiHead(6, 2))
    with watch(block) as seen:
        block(torch.rand(2, 5, 6, 3, 7))
    assert {name: record.weights.shape for name, record in seen.items()} == {
        "time.layer": (2 * 3 * 7, 3, 5, 5),
        "space.layer": (2 * 5, 2, 21, 21),
    }
    for record in seen.values():
        assert error(record.weights.sum(-1), torch.ones(record.weights.shape[:3])) < 1e-5


def test_its_parts_are_those_of_temporal_attention():
    time, frames = scatter(TemporalAttention(6, 3).double()), video(2, 5, 6, 3, 7)
    block = SpaceTime(time.attention, MultiHead(6, 2), norm=Residual).double()
    with torch.no_grad():
        block.space.layer.out.weight.zero_()
        block.space.layer.out.bias.zero_()
    assert error(block(frames), frames + time(frames)) < 1e-12


def test_the_norm_is_a_part_and_dropout_drops():
    frames = video(2, 5, 6, 3, 7)
    after = SpaceTime(MultiHead(6, 3), MultiHead(6, 2), norm=PostNorm).double()
    assert error(after(frames).mean(2), torch.zeros(2, 5, 3, 7)) < 1e-12
    dropping = SpaceTime(MultiHead(6, 3), MultiHead(6, 2), dropout=0.5).double()
    assert error(dropping(frames), dropping.eval()(frames)) > 1e-3


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda: SpaceTime(MultiHead(6, 3), MultiHead(8, 2)),
            "a block's layers: expected one width, got MultiHead 6, MultiHead 8",
        ),
        (lambda: SpaceTime(MultiHead(6, 3), 6), "a block's layers: expected layers (torch.nn.Module), got 6"),
        (
            lambda: SpaceTime(MultiHead(6, 3), MultiHead(6, 3), norm=nn.LayerNorm),
            "SpaceTime's norm: expected the class",
        ),
        (
            lambda: SpaceTime(MultiHead(6, 3), MultiHead(6, 3))(torch.rand(2, 6, 3, 3)),
            "SpaceTime's video: expected (B, T, 6, h, w), got (2, 6, 3, 3)",
        ),
        (
            lambda: SpaceTime(MultiHead(6, 3), MultiHead(6, 3))(torch.rand(2, 5, 6, 3, 3), mask=padding([5, 4, 3])),
            "padding's lengths: expected 2, one for each sample, got 3",
        ),
        (lambda: SpaceTime(MultiHead(6, 3), MultiHead(6, 3))(torch.ones(2, 5, 6, 3, 3).long()), "torch.int64"),
    ],
)
def test_bad_input_is_one_line(call, says):
    with pytest.raises(FovealError) as caught:
        call()
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
