"""A search over torch models: against brute force, against one pass over the whole sentence,
and alone as in a batch.
"""

import itertools

import pytest
import torch

from foveal.models.torch_engine import TorchEngine
from foveal.models.zoo import create
from foveal.runtime.decode.batched import decode, decode_all
from foveal.runtime.decode.search import Search

WORDS = 7  # three of them are neither pad, begin nor end


def model_of(name, **settings):
    torch.manual_seed(1)
    small = {"width": 16, "hidden": 16} | (
        {"heads": 2, "layers": 1, "decoder_layers": 1} if name.startswith("transformer") else {}
    )
    model = create(name, source_vocab=WORDS, target_vocab=WORDS, **small | settings).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(1.5)  # new weights say the same of every word
    return model


MODELS = {
    "transformer": ("transformer-tiny", {}),
    "pre-LN, rotary": ("transformer-tiny", {"norm": "pre", "position": "rotary"}),
    "relative": ("transformer-tiny", {"position": "relative"}),
    "rnn": ("rnn", {}),
    "rnn with attention": ("rnn-attention", {}),
}
SOURCES = [[3, 4, 5], [6], [4, 4, 3, 5, 6, 3]]


@torch.no_grad()
def total(model, source, words):
    """log P of a sentence and its end, in one pass."""
    given = torch.tensor([[1, *words]])
    logits = model(torch.tensor([[*source, 2]]), given)[0].log_softmax(1)
    return sum(float(logits[place, word]) for place, word in enumerate([*words, 2]))


@pytest.mark.parametrize("name", MODELS)
def test_a_wide_beam_finds_what_brute_force_finds(name):
    kind, settings = MODELS[name]
    model = model_of(kind, **settings)
    search = Search(beam=90, n_best=4, max_length=3)
    for source, found in zip(SOURCES, decode(TorchEngine(model), SOURCES, search), strict=True):
        said = [words for length in range(4) for words in itertools.product(range(3, WORDS), repeat=length)]
        scored = sorted(
            ((total(model, source, words) / search.scale(len(words) + 1), words) for words in said), reverse=True
        )
        assert [one.tokens for one in found] == [words for _, words in scored[:4]]
        assert [one.score for one in found] == pytest.approx([score for score, _ in scored[:4]], abs=1e-4)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("beam", [1, 3])
def test_alone_as_in_a_batch(name, beam):
    kind, settings = MODELS[name]
    engine = TorchEngine(model_of(kind, **settings))
    search = Search(beam=beam, n_best=beam, max_length=9)
    together = decode_all(engine, [*SOURCES, []], search, 8)
    assert together[-1][0].tokens == ()
    for source, found in zip(SOURCES, together, strict=False):
        (alone,) = decode(engine, [source], search)
        assert [one.tokens for one in alone] == [one.tokens for one in found]
        for one in found:
            assert one.total == pytest.approx(total(engine.model, source, one.tokens), abs=1e-4)
            assert 0 not in one.tokens and 1 not in one.tokens  # noqa: PT018
