"""The fast decoder beside TorchEngine: the same log-probabilities at every step,
whatever the search does to the beams; int8 near it.
"""

import itertools

import numpy as np
import pytest
import torch

from foveal.deploy.twins import fast_decoder, fast_linear
from foveal.deploy.twins import top_k as likeliest
from foveal.deploy.twins.fast_decoder import FastDecoder, engine_of
from foveal.errors import FovealError
from foveal.models.torch_engine import TorchEngine
from foveal.models.zoo import create
from foveal.runtime.decode.batched import decode, decode_all
from foveal.runtime.decode.engine import Bans
from foveal.runtime.decode.search import Search

WORDS = 311
ALL = 2**31 - 1
SOURCES = [[5, 6, 7, 8], [9, 4], [5, 5, 8, 9, 10, 11, 12], [7]]
MORE = [*SOURCES, [8, 8], [9, 9, 9], [7, 4], [8], [9]]  # enough for attention as three products
KINDS = [
    *(
        {"norm": norm, "position": position}
        for norm in ("post", "pre")
        for position in ("sinusoidal", "learned", "relative", "rotary", "none")
    ),
    {"norm": "none"},
    {"norm": "post", "residual": False},
    {"norm": "pre", "residual": False, "activation": "gelu", "tied": "output"},
    {"tied": "none", "activation": "swish", "output_bias": True, "head_width": 10},
]


def model_of(**settings):
    torch.manual_seed(1)
    sizes = {"width": 24, "hidden": 44, "heads": 4, "layers": 2, "decoder_layers": 2, "max_length": 40}
    model = create("transformer-tiny", source_vocab=WORDS, target_vocab=WORDS, **sizes | settings).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("bias"):
                weight.normal_()  # new biases are 0, and a lost one would not be seen
    return model


def by_word(following):
    values = np.empty_like(following.values)
    np.put_along_axis(values, following.tokens, following.values, 1)
    return values


def furthest(ours, theirs, sources, beams, bans=None):
    """Both engines through random words, new orders and fewer sources: the largest difference."""
    draw, apart, count = np.random.default_rng(0), 0.0, len(sources)
    for engine in (ours, theirs):
        engine.begin(sources, beams, 20)
    words = np.full(count * beams, ours.first)
    for step in range(20):
        mine, other = (engine.step(words, ALL, bans) for engine in (ours, theirs))
        one, two = by_word(mine), by_word(other)
        assert (np.isfinite(one) == np.isfinite(two)).all()
        there = np.isfinite(two)
        apart = max(apart, np.abs(one[there] - two[there]).max(), np.abs(mine.ends - other.ends).max())
        if step in (6, 13):
            kept = np.arange(1, count) if step == 6 else np.array([2, 0])
            count = len(kept)
            for engine in (ours, theirs):
                engine.keep(kept)
        parents = (np.arange(count)[:, None] * beams + draw.integers(0, beams, (count, beams))).reshape(-1)
        for engine in (ours, theirs):
            engine.reorder(parents)
        words, bans = draw.integers(4, WORDS, count * beams), None
    return apart


@pytest.mark.parametrize("settings", KINDS, ids=str)
def test_every_step_says_what_torch_engine_says(settings):
    model = model_of(**settings)
    # Without a norm the numbers grow from layer to layer, and their rounding with them.
    least = 1e-3 if settings.get("norm") == "none" else 1e-4
    for sources, beams in ((SOURCES, 1), (SOURCES, 3), (MORE, 1), (MORE, 2)):
        assert furthest(FastDecoder(model), TorchEngine(model), sources, beams) < least


@pytest.mark.parametrize("beam", [1, 4])
def test_the_same_sentences_are_found(beam):
    model = model_of()
    search = Search(beam=beam, n_best=beam, min_length=2, max_length=12, no_repeat=2)
    for ours, theirs in zip(
        decode_all(FastDecoder(model), MORE, search, 5), decode_all(TorchEngine(model), MORE, search, 5), strict=True
    ):
        assert [one.tokens for one in ours] == [one.tokens for one in theirs]
        assert [one.score for one in ours] == pytest.approx([one.score for one in theirs], abs=1e-4)


def test_one_engine_serves_one_row_and_many():
    engine, search = FastDecoder(model_of()), Search(beam=1, max_length=8)
    together = decode(engine, SOURCES, search)
    assert [decode(engine, [source], search)[0][0].tokens for source in SOURCES] == [
        found[0].tokens for found in together
    ]


def test_eight_bits_are_near():
    model = model_of()
    for sources, beams in (([[5, 6, 7]], 1), (SOURCES, 1), (MORE, 2)):
        engine = FastDecoder(model, "int8")
        engine.begin(sources, beams, 5)
        other = TorchEngine(model)
        other.begin(sources, beams, 5)
        words = np.full(len(sources) * beams, 1)
        apart = np.abs(by_word(engine.step(words, ALL, None))[:, 4:] - by_word(other.step(words, ALL, None))[:, 4:])
        assert 1e-5 < apart.mean() < 0.05
        assert apart.max() < 0.3


def test_in_eight_bits_a_row_does_not_depend_on_those_beside_it():
    torch.manual_seed(0)
    weight, bias, x = torch.randn(13, 32), torch.randn(13), torch.randn(5, 32)
    x[1] *= 1000
    x[2] = 0
    apply = fast_linear.eight_bit(weight, bias, 5)
    exact = torch.nn.functional.linear(x, weight, bias)
    for row in (0, 2, 3, 4):
        torch.testing.assert_close(apply(x)[row], exact[row], atol=0.15, rtol=0)
        torch.testing.assert_close(
            apply(x)[row : row + 1], fast_linear.eight_bit(weight, bias, 1)(x[row : row + 1]), atol=0.15, rtol=0
        )


def test_linear_maps_in_every_form():
    torch.manual_seed(0)
    weight, bias, x = torch.randn(13, 7), torch.randn(13), torch.randn(3, 7)
    forms = [fast_linear.plain, fast_linear.transposed, *([fast_linear.packed] if fast_linear.can_pack() else [])]
    for form, offset in itertools.product(forms, (bias, None)):
        torch.testing.assert_close(form(weight, offset)(x), torch.nn.functional.linear(x, weight, offset))


@pytest.mark.parametrize("words", [32 * 40, 32 * 40 + 19])
def test_the_largest_are_found_folded(words):
    torch.manual_seed(0)
    logits = torch.randn(5, words)
    logits[0, -1] = 9.0  # among what the folding leaves over
    logits[1, 3 * (words // 32) + 7] = logits[1, 5 * (words // 32) + 7] = 8.0  # two of one column
    for top in (1, 7):
        best, chosen = likeliest.largest(logits, top)
        assert torch.equal(best, logits.topk(top, 1)[0])
        assert torch.equal(logits.gather(1, chosen), best)
    torch.testing.assert_close(likeliest.log_total(logits), logits.logsumexp(1, keepdim=True))


def test_bans_reach_their_row_wherever_it_is_cut(monkeypatch):
    monkeypatch.setattr(likeliest, "MOST_ROWS", 3)
    monkeypatch.setattr(likeliest, "AT_ONCE", 2 * WORDS)
    model = model_of()
    bans = Bans(np.array([0, 2, 4, 7, 7]), np.array([9, 2, 11, 9, 12]))
    assert furthest(FastDecoder(model), TorchEngine(model), MORE, 1, bans) < 1e-4


def test_what_it_does_not_know_torch_engine_takes():
    rnn = create("rnn", source_vocab=WORDS, target_vocab=WORDS, width=16, hidden=16).eval()
    assert isinstance(engine_of(rnn), TorchEngine)
    assert isinstance(engine_of(model_of().double()), TorchEngine)
    assert isinstance(engine_of(model_of()), FastDecoder)
    with pytest.raises(FovealError, match=r"^int8: expected a Transformer on a CPU, got a Seq2Seq; use fp32$"):
        engine_of(rnn, "int8")
    with pytest.raises(FovealError, match=r"precision.*fp16"):
        engine_of(rnn, "fp16")


def test_without_packed_weights_it_still_works(monkeypatch):
    monkeypatch.setattr(fast_linear, "can_pack", lambda: False)
    model = model_of()
    assert furthest(FastDecoder(model), TorchEngine(model), SOURCES, 2) < 1e-4
    monkeypatch.setattr(fast_decoder, "can_quantise", lambda: False)
    with pytest.raises(FovealError, match=r"^int8: expected a torch for x86 with fbgemm, got one without; use fp32$"):
        engine_of(model, "int8")
