"""Whatever a layer, a position or a watch is given: a right answer,
or one line that says what was expected and what was found.
"""

import numpy as np
import pytest
import torch
from torch import nn

from foveal import watch
from foveal.core.watch import Statistics
from foveal.errors import FovealError
from foveal.layers import (
    AdaptiveSpan,
    Additive,
    Attention,
    Cache,
    Decoder,
    DynamicConvolution,
    Encoder,
    FeedForward,
    Gated,
    Linformer,
    LocationAware,
    MultiHead,
    Performer,
    PreNorm,
    Reduced,
    Residual,
    TwoWay,
    Windowed,
)
from foveal.mask import causal
from foveal.position import BiasTable, Buckets, Learned, Learned2d, Polar, Relative, Rotary, Sinusoidal, Sinusoidal2d

x = torch.randn(2, 3, 8)


def watched(**options):
    with watch(**options):
        MultiHead(8, 2)(x)


CONSTRUCTORS = [
    (lambda: MultiHead(8.0, 2), "MultiHead's width: expected an integer, at least 1, got 8.0"),
    (lambda: MultiHead("8", 2), "MultiHead's width: expected an integer, at least 1, got '8'"),
    (lambda: MultiHead(8, None), "MultiHead's heads: expected an integer, at least 1, got None"),
    (lambda: MultiHead(8, True), "MultiHead's heads: expected an integer, at least 1, got True"),
    (lambda: MultiHead(8, 2, groups="a"), "MultiHead's groups: expected an integer, at least 1, got 'a'"),
    (lambda: MultiHead(2**31, 2), "MultiHead's width: expected a number below 2³¹, got 2147483648"),
    (lambda: MultiHead(10**5000, 2), "MultiHead's width: expected a number below 2³¹, got int"),
    (lambda: MultiHead(torch.ones(2), 2), "MultiHead's width: expected an integer, at least 1, got Tensor"),
    (lambda: MultiHead(8, 2, mask=3), "MultiHead's mask: expected a mask, such as foveal.mask.causal, got 3"),
    (
        lambda: MultiHead(8, 2, mask=torch.ones(3, 3) > 0),
        "MultiHead's mask: expected a mask, such as foveal.mask.causal, got Tensor",
    ),
    (
        lambda: MultiHead(8, 2, position=3),
        "MultiHead's position: expected one of foveal.position, such as Rotary(), got 3",
    ),
    (
        lambda: MultiHead(8, 2, position=Rotary),
        "MultiHead's position: expected one of foveal.position, such as Rotary(), got the class Rotary",
    ),
    (lambda: MultiHead(8, 2, dropout="a"), "MultiHead's dropout: expected at least 0 and below 1, got 'a'"),
    (lambda: Additive(8, 8, 2.5), "Additive's hidden: expected an integer, at least 1, got 2.5"),
    (lambda: TwoWay(8, "a", 2), "TwoWay's other_width: expected an integer, at least 1, got 'a'"),
    (lambda: Windowed(8, 2, window="a"), "Windowed's window: expected an integer, at least 1, got 'a'"),
    (
        lambda: Windowed(8, 2, window=2, shift=0.5),
        "Windowed's shift: expected an integer, at least 0 and below the window 2, got 0.5",
    ),
    (lambda: Reduced(8, 2, reduction=2.0), "Reduced's reduction: expected an integer, at least 1, got 2.0"),
    (lambda: Performer(8, 2, features="a"), "Performer's features: expected an integer, at least 1, got 'a'"),
    (lambda: Performer(8, 2, mask=3), "Performer's mask: expected a mask, such as foveal.mask.causal, got 3"),
    (lambda: Performer(8, 2, seed="a"), "Performer's seed: expected an integer, got 'a'"),
    (
        lambda: Linformer(8, 2, length=True, projected=3),
        "Linformer's length: expected an integer, at least 1, got True",
    ),
    (
        lambda: AdaptiveSpan(8, 2, max_span=4.0, ramp=2),
        "AdaptiveSpan's max_span: expected an integer, at least 1, got 4.0",
    ),
    (lambda: AdaptiveSpan(8, 2, 4, 2, mask=3), "expected masks on both sides, got int"),
    (
        lambda: DynamicConvolution(8, 2, kernel_size="a"),
        "DynamicConvolution's kernel_size: expected an integer, at least 1, got 'a'",
    ),
    (
        lambda: DynamicConvolution(8, 2, 3, ahead="a"),
        "DynamicConvolution's ahead: expected an integer, 0 to 2, as it has 3 taps, got 'a'",
    ),
    (lambda: Cache("a", 2, 4, 4), "the cache's batch: expected an integer, at least 1, got 'a'"),
    (lambda: Cache(1, 2, 4.0, 4), "the cache's capacity: expected an integer, at least 1, got 4.0"),
    (lambda: FeedForward(8, "a"), "FeedForward's hidden width: expected an integer, at least 1, got 'a'"),
    (
        lambda: FeedForward(8, 8, activation="x"),
        "FeedForward's activation: expected a layer, such as torch.nn.ReLU(), got 'x'",
    ),
    (lambda: Gated(8, 8, nn.SiLU), "Gated's activation: expected a layer, such as torch.nn.ReLU(), got the class SiLU"),
    (lambda: Gated(8.5, 8), "Gated's width: expected an integer, at least 1, got 8.5"),
    (lambda: PreNorm(3, 4), "PreNorm's layer: expected a layer (torch.nn.Module), got 3"),
    (lambda: Residual(nn.Identity(), "a"), "Residual's width: expected an integer, at least 1, got 'a'"),
    (lambda: Encoder(MultiHead(8, 2), 3), "a block's layers: expected layers (torch.nn.Module), got 3"),
    (
        lambda: Encoder(MultiHead(8, 2), FeedForward(8, 8), norm=3),
        "Encoder's norm: expected the class PreNorm, PostNorm or Residual, got 3",
    ),
    (
        lambda: Encoder(MultiHead(8, 2), FeedForward(8, 8), norm=nn.LayerNorm),
        "PreNorm, PostNorm or Residual, got the class LayerNorm",
    ),
    (
        lambda: Encoder(nn.Identity(), nn.Identity(), width=8.0),
        "a block's width: expected an integer, at least 1, got 8.0",
    ),
    (
        lambda: Decoder(MultiHead(8, 2), MultiHead(8, 2), FeedForward(8, 8), norm=3),
        "Decoder's norm: expected the class PreNorm",
    ),
    (lambda: Rotary("a"), "Rotary's width: expected an even number of channels in a head, at least 2, got 'a'"),
    (lambda: Rotary(8.0), "Rotary's width: expected an even number of channels in a head, at least 2, got 8.0"),
    (lambda: Rotary(8, base="a"), "Rotary's base: expected above 0, got 'a'"),
    (lambda: Relative(8, max_distance="a"), "Relative's max_distance: expected an integer, at least 0, got 'a'"),
    (lambda: Relative(8, 4, scale="a"), "Relative's scale: expected a finite number, got 'a'"),
    (lambda: Sinusoidal("a"), "Sinusoidal's width: expected an integer, at least 1, got 'a'"),
    (
        lambda: Sinusoidal2d(6.0),
        "Sinusoidal2d's width: expected an integer, at least 2, for a row and a column, got 6.0",
    ),
    (lambda: Polar(None), "Polar's width: expected an integer, at least 4"),
    (lambda: Learned(8, "a"), "Learned's length: expected an integer, at least 1, got 'a'"),
    (lambda: Learned2d(8, "a", 2), "Learned2d's grid: expected at least 1 × 1, got 'a' × 2"),
    (lambda: BiasTable(2, 2.0, 3), "BiasTable's window: expected at least 1 × 1, got 2.0 × 3"),
    (lambda: Buckets(2, buckets="a"), "Buckets's buckets: expected an even number, at least 4, got 'a'"),
    (lambda: Buckets(2, max_distance=128.0), "Buckets's max_distance: expected an integer, above 8"),
    (lambda: Statistics(chunk="a"), "Statistics' chunk: expected an integer, at least 1 row, got 'a'"),
]

INPUTS = [
    (
        lambda: MultiHead(8, 2)(x.double()),
        "MultiHead's query: expected torch.float32, as its weights, got torch.float64; convert one",
    ),
    (
        lambda: MultiHead(8, 2)(x, x.double()),
        "MultiHead's memory: expected torch.float32, as its weights, got torch.float64",
    ),
    (lambda: MultiHead(8, 2)(x.long()), "MultiHead's query: expected torch.float32, as its weights, got torch.int64"),
    (lambda: MultiHead(8, 2)(None), "MultiHead's query: expected a tensor (B, N, 8), got None"),
    (lambda: MultiHead(8, 2)("a"), "MultiHead's query: expected a tensor (B, N, 8), got 'a'"),
    (lambda: MultiHead(8, 2)(x, "a"), "MultiHead's memory: expected a tensor (B, N, 8), got 'a'"),
    (lambda: MultiHead(8, 2)(x, cache=3), "MultiHead's cache: expected one of new_cache(), got 3"),
    (lambda: MultiHead(8, 2)(x, x, start="a"), "MultiHead's start: expected an integer, at least 0, got 'a'"),
    (lambda: MultiHead(8, 2)(x, mask=3), "mask: expected a mask or a boolean tensor, got int"),
    (lambda: MultiHead(8, 2, mask=causal)(x, mask=3), "mask: expected a mask or a boolean tensor, got 3"),
    (lambda: MultiHead(8, 2).drop_heads(3), "MultiHead's heads to drop: expected some of 0 to 1, got 3"),
    (lambda: MultiHead(8, 2).drop_heads(["a", 1]), "MultiHead's heads to drop: expected 0 to 1, got [1, 'a']"),
    (lambda: Cache(1, 2, 4, 4).append(1, 2), "cache: expected k and v to be tensors (B, G, n, D), got 1 and 2"),
    (lambda: Cache(1, 2, 4, 4).reorder([0]), "the cache's new order: expected a tensor of integers, got [0]"),
    (lambda: Attention(lambda q, k: 3)(x, x), "Attention's score: expected e of shape (2, 1, 3, 3), got 3"),
    (lambda: Attention()(x, 3), "Attention's memory: expected a tensor (B, N, C), got 3"),
    (lambda: Attention()(x.long()), "Attention's query: expected a floating dtype, got torch.int64"),
    (lambda: Additive(8, 8, 4)(x, x, keys=3), "Additive's keys: expected a tensor (B, N, C), got 3"),
    (lambda: LocationAware(8, 8, 4)(3, x), "LocationAware's state: expected (B, 8), one step, got 3"),
    (lambda: LocationAware(8, 8, 4)(x[:, 0], x, 3), "LocationAware's previous: expected a tensor (B, M), got 3"),
    (
        lambda: Performer(8, 2)(x.double()),
        "Performer's query: expected torch.float32, as its weights, got torch.float64",
    ),
    (lambda: Performer(8, 2, mask=causal)(x, mask=3), "Performer's mask: expected a mask or a boolean tensor, got 3"),
    (lambda: Linformer(8, 2, 5, 3)(x.long()), "Linformer's x: expected torch.float32, as its weights, got torch.int64"),
    (lambda: FeedForward(8, 8)(None), "FeedForward's input: expected a tensor (…, 8), got None"),
    (lambda: Gated(8, 8)(x.half()), "Gated's input: expected torch.float32, as its weights, got torch.float16"),
    (lambda: Windowed(8, 2, 2)(None), "Windowed's grid: expected (B, h, w, 8), got None"),
    (
        lambda: Reduced(8, 2, 2)(x[None].double()),
        "Reduced's grid: expected torch.float32, as its weights, got torch.float64",
    ),
    (lambda: PreNorm(nn.Linear(8, 8), 8)(None), "PreNorm's input: expected a tensor (…, 8), got None"),
    (
        lambda: PreNorm(nn.Linear(8, 8), 8)(x[..., :5]),
        "PreNorm's input: expected a last axis of 8, got shape (2, 3, 5)",
    ),
    (lambda: Residual(nn.Linear(8, 8), 8)("a"), "Residual's input: expected a tensor (…, 8), got 'a'"),
    (
        lambda: Encoder(MultiHead(8, 2), FeedForward(8, 8))(x, cache=3),
        "MultiHead's cache: expected one of new_cache(), got 3",
    ),
    (
        lambda: Decoder(MultiHead(8, 2), MultiHead(8, 2), FeedForward(8, 8))(x, x, cache=3),
        "MultiHead's cache: expected one of new_cache()",
    ),
    (lambda: Sinusoidal(8)(3), "Sinusoidal's tokens: expected a floating tensor, (B, N, 8), got 3"),
    (lambda: Sinusoidal(8)(x.long()), "Sinusoidal's tokens: expected a floating tensor, (B, N, 8), got torch.int64"),
    (lambda: Sinusoidal(8)(x, "a"), "Sinusoidal's start: expected an integer, got 'a'"),
    (lambda: Polar(8)(None), "Polar's tokens: expected a floating tensor, a grid (B, h, w, 8), got None"),
    (lambda: Rotary(8).rotate(1, 2), "Rotary's q: expected a floating tensor, heads (B, H, N, D), got 1"),
    (
        lambda: Rotary().rotate(x[None], x[None].long()),
        "Rotary's k: expected a floating tensor, heads (B, H, N, D), got torch.int64",
    ),
    (lambda: Buckets(2).bias(3, 4), "q: expected a tensor, got int"),
    (lambda: Buckets(2).bias(x[None], "a"), "Buckets's keys: expected an integer, at least 0, got 'a'"),
]

WATCHES = [
    (lambda: watched(layers=3), "watch's layers: expected names or patterns, at least one, got 3"),
    (lambda: watched(layers=[]), "watch's layers: expected names or patterns, at least one, got []"),
    (lambda: watched(layers=["a", 3]), "watch's layers: expected names or patterns, at least one, got ['a', 3]"),
    (lambda: watched(heads="a"), "expected indices below 2 or a slice, got 'a'"),
    (lambda: watched(heads=torch.tensor([[0, 5], [1, 1]])), "expected indices below 2, got Tensor"),
    (lambda: watched(rows="a"), "expected indices below 3 or a slice, got 'a'"),
    (lambda: watched(rows=slice("a")), "expected indices below 3 or a slice, got slice(None, 'a', None)"),
    (lambda: watched(keep="x"), "watch's keep: expected Weights() or Statistics(), got 'x'"),
    (lambda: watched(keep=None), "watch's keep: expected Weights() or Statistics(), got None"),
    (lambda: watched(keep=Statistics), "watch's keep: expected Weights() or Statistics(), got the class Statistics"),
]


@pytest.mark.parametrize(("call", "words"), [pytest.param(*row, id=row[1]) for row in CONSTRUCTORS + INPUTS + WATCHES])
def test_nonsense_is_answered_with_one_line(call, words):
    with pytest.raises(FovealError) as error:
        call()
    message = str(error.value)
    assert words in message
    assert "\n" not in message
    assert len(message) < 300


def test_whole_numbers_of_other_libraries_are_sizes():
    layer = MultiHead(np.int64(8), np.int32(2), dropout=np.float32(0))
    assert layer(x).shape == x.shape
    assert Cache(np.int64(2), 2, 4, 4).k.shape == (2, 2, 4, 4)
    assert Encoder(layer, FeedForward(np.int64(8), 4))(x).shape == x.shape


@pytest.mark.parametrize(
    "layer",
    [MultiHead(8, 2), FeedForward(8, 8), Performer(8, 2, 4), Encoder(MultiHead(8, 2), FeedForward(8, 8), PreNorm)],
)
def test_autocast_sees_to_the_dtype(layer):
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(x).isfinite().all()
        assert layer(x.bfloat16()).isfinite().all()
        with pytest.raises(FovealError, match=r"expected torch.float32, as its weights, got torch.float64"):
            layer(x.double())  # which autocast leaves as it is
