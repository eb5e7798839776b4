"""A folder for CTranslate2: its engine computes what torch computes, for the same ids of tokens."""

import json

import pytest
import torch
from tasks.translate.translator import made
from training.little import typed

from foveal.app.cli import main
from foveal.errors import FovealError
from foveal.models.store import save_model
from foveal.models.torch_engine import TorchEngine
from foveal.runtime.card import read_card
from foveal.runtime.decode.batched import decode_all
from foveal.runtime.decode.search import Search
from foveal.runtime.vocabulary import both_from
from foveal.tasks.translate import export as exporting
from foveal.tasks.translate.card import TranslateCard
from foveal.tasks.translate.prove import ProofSentences
from foveal.tasks.translate.prove_ctranslate2 import prove_ctranslate2
from foveal.tasks.translate.to_ctranslate2 import FILE, PROOF, export_ctranslate2, tokens_of

ctranslate2 = pytest.importorskip("ctranslate2")
SOURCES = [[5, 77, 130], [12], [201, 9, 9, 44, 63, 8, 150, 31]]
FITTING = {
    "post-LN": {},
    "pre-LN, swish": {"norm": "pre", "activation": "swish"},
    "learned, gelu": {"position": "learned", "max_length": 97, "activation": "gelu"},
    "own tables, bias": {"tied": "none", "output_bias": True},
    "no positions": {"position": "none", "tied": "output"},
}


def opened(model, card, folder, precision="fp32"):
    vocabularies = both_from(card.vocabulary)
    words = len(vocabularies[0])
    assert words == model.config.source_vocab
    export_ctranslate2(model, card, vocabularies, folder, precision)
    return ctranslate2.Translator(str(folder), inter_threads=1, intra_threads=1), tokens_of(vocabularies[1])


def sized(**config):
    words = len(both_from(made()[1].vocabulary)[0])
    return made(**{"source_vocab": words, "target_vocab": words} | config)


@pytest.mark.parametrize("kind", FITTING)
def test_the_same_as_torch(kind, tmp_path):
    model, card = sized(**FITTING[kind])
    engine, tokens = opened(model, card, tmp_path / "folder")
    given = [[tokens[number % len(tokens)] for number in source] for source in SOURCES]
    sources = [[number % len(tokens) for number in source] for source in SOURCES]
    forced = [[20, 30, 40], [50], [60, 70, 80, 90]]
    scored = engine.score_batch(given, [[tokens[number] for number in words] for words in forced])
    for source, words, scores in zip(sources, forced, scored, strict=True):
        with torch.no_grad():
            probabilities = model(torch.tensor([[*source, 2]]), torch.tensor([[1, *words]]))[0].log_softmax(1)
        expected = [float(probabilities[place, word]) for place, word in enumerate([*words, 2])]
        assert scores.log_probs == pytest.approx(expected, abs=1e-4)
    search = Search(beam=1, max_length=12, length_penalty=0)
    found = decode_all(TorchEngine(model), sources, search, 3)
    lengths = {"min_decoding_length": 0, "max_decoding_length": 12}
    said = engine.translate_batch(given, beam_size=1, **lengths, suppress_sequences=[[tokens[0]], [tokens[1]]])
    assert [[tokens.index(token) for token in one.hypotheses[0]] for one in said] == [
        list(one[0].tokens) for one in found
    ]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"position": "rotary", "head_width": 6}, "position"),
        ({"norm": "none"}, "norm"),
        ({"residual": False}, "residual"),
        ({"head_width": 5}, "head_width"),
    ],
)
def test_what_does_not_fit(config, message, tmp_path):
    model, card = sized(**config)
    with pytest.raises(FovealError, match=f"the model's {message}: expected"):
        opened(model, card, tmp_path / "folder")
    assert not list(tmp_path.iterdir())


def test_proof(tmp_path):
    model, card = sized(norm="pre")
    vocabularies = both_from(card.vocabulary)
    proof = ProofSentences(
        [*([number % 200 + 4 for number in source] for source in SOURCES), []], "some", ["a b", "c", "d", ""]
    )
    export_ctranslate2(model, card, vocabularies, tmp_path / "folder", "fp32")
    parity, times = prove_ctranslate2(tmp_path / "folder", model, vocabularies, proof)
    assert (parity.sentences, parity.same, parity.anywhere) == (4, 1.0, None)
    assert parity.largest < 1e-4
    assert parity.before == parity.after
    assert times["file"]["median"] > 0
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.1 * torch.randn_like(weight)
    assert prove_ctranslate2(tmp_path / "folder", model, vocabularies, proof)[0].largest > 0.01, (
        "a folder of other weights"
    )


@pytest.mark.slow
def test_what_is_too_far_from_the_model_is_not_written(tmp_path, monkeypatch):
    model, card = sized()
    save_model(model, tmp_path / "model.safetensors", card)
    monkeypatch.setitem(exporting.LIMITS, "int8", exporting.Limits(mean=1e-9))
    assert (
        main(
            [
                "export",
                str(tmp_path / "model.safetensors"),
                "--out",
                str(tmp_path / "f"),
                "--to",
                "ctranslate2",
                "--precision",
                "int8",
            ]
        )
        == 2
    )
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]


@pytest.mark.slow
def test_as_it_is_typed(tmp_path):
    model, card = sized()
    save_model(model, tmp_path / "model.safetensors", card)
    words = [
        "export",
        tmp_path / "model.safetensors",
        "--out",
        tmp_path / "folder",
        "--to",
        "ctranslate2",
        "--precision",
        "int8",
    ]
    done = typed(*words)
    assert done.returncode == 0, done.stderr
    proof = json.loads((tmp_path / "folder" / PROOF).read_text())
    assert proof["precision"] == "int8"
    assert 0 < proof["mean"] <= proof["largest"] < 1
    assert proof["sentences"] == 256
    assert proof["bytes"] > 0 < proof["milliseconds"]["file"]["median"]
    assert f"{proof['same']:.2%} of the translations are the same" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "model.safetensors"]
    assert read_card((tmp_path / "folder" / FILE).read_text(), "it", TranslateCard).vocabulary == card.vocabulary
    kept = json.loads((tmp_path / "folder" / "shared_vocabulary.json").read_text())
    assert kept == tokens_of(both_from(card.vocabulary)[0])
    again = typed(*words)
    assert again.returncode == 2
    assert "expected the name of a folder that is not there yet" in again.stderr
