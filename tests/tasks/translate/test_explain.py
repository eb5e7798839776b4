"""Explaining a translation: the maps are those of the translation that is shown, and the page holds all of them."""

import base64
import json
import re

import numpy as np
import pytest
import torch
from tasks.translate.translator import SIZE, made, opened
from training.little import typed

from foveal.app.cli import main
from foveal.core.watch import watch
from foveal.errors import FovealError
from foveal.models.store import save_model
from foveal.models.zoo import create
from foveal.tasks.translate.attention import AttentionMaps, attention_maps
from foveal.tasks.translate.explain import translate_watched
from foveal.tasks.translate.page import Translated, page, picture

SOURCE, WORDS = [5, 7, 11, 13], [17, 19, 23, 29, 31]


@pytest.mark.parametrize("kind", ["post-LN, sinusoidal", "pre-LN, rotary", "relative, swish"])
def test_the_maps_are_those_of_a_decode_word_for_word(kind):
    model, _ = made(kind)
    maps = attention_maps(model, SOURCE, WORDS)
    layers, heads = model.config.decoder_layers, 2
    assert maps.maps["encoder"].shape == (2, heads, 5, 5)
    assert maps.maps["decoder"].shape == (layers, heads, 6, 6)
    assert maps.maps["cross"].shape == (layers, heads, 6, 5)
    assert maps.average.shape == (6, 5)
    np.testing.assert_allclose(maps.average.sum(1), 1, atol=1e-5)
    with (
        torch.no_grad()
    ):  # two beams of the same sentence, of which the second says something else from the third word on
        encoded = model.encode(torch.tensor([[*SOURCE, 2]]))
        state = model.begin_state(encoded, 2, 7)
        for place, word in enumerate([1, *WORDS]):
            other = word if place < 3 else word + 1
            with watch(model) as seen:
                model.step(torch.tensor([word, other]), state)
            for layer in range(layers):
                own = seen[f"decoder.{layer}.self_attention.layer"].weights[0, :, 0]
                np.testing.assert_allclose(maps.maps["decoder"][layer, :, place, : place + 1], own, atol=1e-5)
                np.testing.assert_array_equal(maps.maps["decoder"][layer, :, place, place + 1 :], 0)
                cross = seen[f"decoder.{layer}.cross_attention.layer"].weights[0]
                np.testing.assert_allclose(maps.maps["cross"][layer, :, place], cross[:, 0], atol=1e-5)


def test_a_text_file_is_read_and_not_explained_by_its_name(tmp_path, monkeypatch, capsys):
    network, card = made()
    save_model(network, tmp_path / "t.safetensors", card)
    (tmp_path / "l.txt").write_text("one two\nthree\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert main(["explain", "t.safetensors", "l.txt", "--device", "cpu"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0] == "one two"
    assert out.splitlines()[-1] == "wrote l-explained.html and l-explained.svg"
    assert err == "l.txt: 2 lines, of which the first is explained\n"
    assert main(["explain", "t.safetensors", "gone.txt", "--device", "cpu"]) == 2
    assert "gone.txt: expected a text file that exists, or a sentence" in capsys.readouterr().err


def test_a_recurrent_model_has_one_map_and_one_without_attention_has_none():
    torch.manual_seed(0)
    few = {"source_vocab": SIZE, "target_vocab": SIZE, "width": 8, "hidden": 8}
    maps = attention_maps(create("rnn-attention", **few).eval(), SOURCE, WORDS)
    assert set(maps.maps) == {"cross"}
    assert maps.maps["cross"].shape == (1, 1, 6, 5)
    with pytest.raises(FovealError, match="expected a translator with attention"):
        attention_maps(create("rnn", **few).eval(), SOURCE, WORDS)


def example(**changes):
    draw = np.random.default_rng(0).dirichlet(np.ones(3), (2, 2, 4)).astype(np.float32)  # (L, H, N, M)
    facts = {
        "model": "m",
        "source": "a b",
        "translation": "x y z",
        "score": -1.0,
        "source_subwords": ["a", "b", "</s>"],
    }
    facts |= {"subwords": ["x", "·y", "z", "</s>"], "begin": "<s>", "attention": AttentionMaps({"cross": draw})}
    return Translated(**facts | changes)


def test_the_page_holds_every_map_and_asks_nobody():
    one = example()
    text = page(one)
    (kind,) = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL).group(1))
    values = np.frombuffer(base64.b64decode(kind["maps"]), np.uint8).reshape(2, 2, 4, 3) / 255
    np.testing.assert_allclose(values, one.attention.maps["cross"], atol=0.5 / 255 + 1e-6)
    assert (kind["rows"], kind["columns"]) == (one.subwords, one.source_subwords)
    assert set(re.findall(r"https?://[^\"' )]+", text)) == {"http://www.w3.org/2000/svg"}  # a name, not an address


def test_a_sentence_cannot_become_a_part_of_the_page():
    bad = "</script><script>alert(1)</script><b>&"
    text = page(example(source=bad, translation=bad, source_subwords=[bad, "b", "</s>"]))
    assert text.count("<script") == 2
    assert "<b>&" not in text.replace("\\u003cb>&", "")


def test_the_largest_weight_is_the_darkest_square():
    text = picture(np.array([[0.1, 0.6, 0.3]], np.float32), ["x"], ["a", "b", "c"])
    assert [float(value) for value in re.findall(r'fill-opacity="([\d.]+)"', text)] == pytest.approx(
        [1 / 6, 1, 0.5], abs=1e-3
    )
    assert "x → b: 60.0%" in text


def test_what_is_written(tmp_path):
    explanation = opened(*made()).explain("one two")
    assert explanation.save(tmp_path / "page.html") == [tmp_path / "page.html", tmp_path / "page.svg"]
    assert explanation.facts["translation"] in (tmp_path / "page.html").read_text()
    assert explanation.summary() == f"one two\n{explanation.facts['translation']}"
    np.testing.assert_allclose(explanation.arrays["cross"].mean((0, 1)), explanation.facts["cross"], atol=1e-6)
    with pytest.raises(FovealError, match=r"the name of a \.html file"):
        explanation.save(tmp_path / "page.png")
    with pytest.raises(FovealError, match="to explain: expected one sentence, got None"):
        opened(*made()).explain()


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("explained") / "model.safetensors"
    model, card = made()
    save_model(model, path, card)
    return path


def test_as_it_is_typed(file, tmp_path):
    done = typed(
        "explain",
        file,
        "one two",
        "--out",
        tmp_path / "page.html",
        "--arrays",
        tmp_path / "maps.npz",
        "--json",
        "--device",
        "cpu",
    )
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    one = translate_watched(opened(*made()), "one two")
    assert facts["translation"] == one.translation
    assert facts["subwords"][-1] == "</s>"
    with np.load(tmp_path / "maps.npz") as arrays:
        assert arrays["source"].tolist() == facts["source_subwords"]
        np.testing.assert_allclose(arrays["cross"].mean((0, 1)), facts["cross"], atol=1e-6)
        assert set(arrays) == {"source", "translation", "encoder", "decoder", "cross"}
    assert (tmp_path / "page.svg").read_text().startswith("<svg")
    assert "<!doctype html>" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["one", "two"], "explain: expected one input, got 2 of them; put a sentence into quotation marks"),
        ([""], "the sentence: expected 1 to 120 tokens, got 0"),
        (["one", "--out", "x.png"], "--out: expected the name of a .html file"),
        (["one", "--arrays", "x.txt"], "--arrays: expected the name of an .npz file"),
    ],
)
def test_what_cannot_be_explained(file, words, message, capsys):
    assert main(["explain", str(file), *words, "--device", "cpu"]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_no_more_is_generated_than_positions_were_learned():
    model = opened(*made("learned, gelu", max_length=9))
    assert len(translate_watched(model, "one").subwords) <= 9
    with pytest.raises(FovealError, match="the sentence: expected 1 to 8 tokens, got"):
        translate_watched(model, "one two three " * 9)
