"""An exported translator: the search finds in it what it finds in torch,
and a file that is none gives one clear line.
"""

import io
import json
import re
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
import torch
from tasks.translate.translator import KINDS, SIZE, made
from tasks.translate.translator import opened as as_model
from training.little import ENVIRONMENT, typed

from foveal.app.cli import main
from foveal.deploy.onnx.file import write_export
from foveal.errors import FovealError
from foveal.models.store import describe, save_model
from foveal.models.torch_engine import TorchEngine
from foveal.models.zoo import create
from foveal.runtime.decode.batched import decode_all
from foveal.runtime.decode.engine import Bans
from foveal.runtime.decode.search import Search
from foveal.runtime.onnx_session import opened
from foveal.runtime.vocabulary import Vocabulary, both_from
from foveal.tasks.load import load
from foveal.tasks.translate.card import TranslateCard
from foveal.tasks.translate.export import LIMITS, Limits, expect_within
from foveal.tasks.translate.graph import export_translator
from foveal.tasks.translate.onnx_engine import OnnxEngine
from foveal.tasks.translate.options import PredictOptions
from foveal.tasks.translate.predict import lines_named
from foveal.tasks.translate.prove import Parity, ProofSentences, difference, prove_translator


def engine_of(model, card, **options):
    return OnnxEngine(opened(export_translator(model, card, **options)), card.config)


def sources(count, longest=11):
    draw = np.random.default_rng(count)
    return [draw.integers(4, SIZE, draw.integers(1, longest + 1)).tolist() for _ in range(count)]


def piped(monkeypatch, content):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def test_stdin_is_read_as_translate_and_a_file_are(tmp_path, monkeypatch, capsys):
    network, card = made()
    model, text = tmp_path / "t.safetensors", b"one two\n\n\xff three\r\nfour"
    save_model(network, model, card)
    (tmp_path / "lines").write_bytes(text)
    words = [str(model), "--device", "cpu", "--beam", "1", "--max-length", "5"]
    piped(monkeypatch, text)
    assert main(["predict", *words, "-", "--format", "jsonl"]) == 0
    out, err = capsys.readouterr()
    rows = [json.loads(line) for line in out.splitlines()]
    assert [(row["file"], row["source"]) for row in rows] == [
        ("-:1", "one two"),
        ("-:2", ""),
        ("-:3", "\ufffd three\r"),
        ("-:4", "four"),
    ]
    assert err == "line 3: expected UTF-8, got other bytes, which are read as \ufffd\n"
    assert main(["predict", *words, str(tmp_path / "lines"), "--format", "jsonl"]) == 0
    read = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row | {"file": ""} for row in read] == [row | {"file": ""} for row in rows]
    monkeypatch.setattr("foveal.tasks.translate.command.lines_ahead", lambda number, batch: batch)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text), fileno=lambda: 0))
    assert main(["translate", *words]) == 0
    assert capsys.readouterr().out.splitlines() == [row["translation"] for row in rows]
    piped(monkeypatch, text)
    assert main(["predict", *words, "-", "--null"]) == 2
    assert "--null: expected a list of paths on stdin, got lines to translate" in capsys.readouterr().err


def test_a_sentence_may_be_longer_than_the_name_of_a_file():
    assert lines_named("two words " * 30)[0].text == "two words " * 30


def assert_the_same(found, expected, near=1e-4):
    for mine, theirs in zip(found, expected, strict=True):
        assert [one.tokens for one in mine] == [one.tokens for one in theirs]
        assert [one.score for one in mine] == pytest.approx([one.score for one in theirs], abs=near)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_probabilities_as_torch(kind):
    model, card = made(kind)
    engine = engine_of(model, card)
    for source in sources(5):
        apart, most = difference(engine, model, source, [7, *source, 8])
        assert len(apart) == len(source) + 3
        assert most < (1e-3 if kind == "no norm" else 1e-4)  # without a norm numbers grow, and rounding with them


# which repeats one token: sentences tie
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "no residual"])
@pytest.mark.parametrize("beam", [1, 4])
def test_the_same_sentences_as_torch(kind, beam):
    model, card = made(kind)
    search = Search(beam=beam, n_best=beam, max_length=19)
    for batch in (1, 3, 17):
        given = sources(batch)
        found = decode_all(engine_of(model, card), given, search, batch)
        assert_the_same(found, decode_all(TorchEngine(model), given, search, batch))
    assert len({token for sentences in found for one in sentences for token in one.tokens}) > 3


def test_bans_and_sampling():
    model, card = made()
    given = sources(5)
    for search in (
        Search(beam=3, n_best=2, min_length=5, no_repeat=1, max_length=12),
        Search(sample=True, n_best=3, seed=4, max_length=9),
    ):
        assert_the_same(
            decode_all(engine_of(model, card), given, search, 5), decode_all(TorchEngine(model), given, search, 5)
        )


def test_keep_and_reorder_are_those_of_torch():
    model, card = made()
    engines = engine_of(model, card), TorchEngine(model)
    draw = np.random.default_rng(0)
    given = [[5, 6, 7, 8, 9, 10, 11], [12], [13, 14, 15]]

    def ask(rows):
        words = draw.integers(4, SIZE, rows)
        mine, theirs = (engine.step(words, 6, Bans(np.array([0]), np.array([9]))) for engine in engines)
        np.testing.assert_allclose(mine.values, theirs.values, atol=1e-5)
        np.testing.assert_allclose(mine.ends, theirs.ends, atol=1e-5)
        np.testing.assert_array_equal(mine.tokens, theirs.tokens)

    for engine in engines:
        engine.begin(given, 2, 20)
    ask(6)
    for engine in engines:
        engine.reorder(np.array([1, 0, 3, 3, 4, 4]))  # a swap, both from one, one moved
    ask(6)
    for engine in engines:
        engine.keep(np.array([2, 1]))  # the longest goes, so that padding does, too
    ask(4)
    for engine in engines:
        engine.reorder(np.array([1, 1, 2, 3]))
    ask(4)


def test_a_proof_sees_a_wrong_file():
    model, card = made()
    engine = engine_of(model, card)
    proof = ProofSentences(sources(7), "noise", ["eins"] * 7)
    right = prove_translator(engine, model, both_from(card.vocabulary)[1], proof, Search(beam=2, max_length=9))
    assert right.largest < 1e-4 and right.anywhere < 1e-4 and right.same == 1  # noqa: PT018
    assert right.before == right.after
    with torch.no_grad():
        model.decoder[1].cross_attention.layer.out.bias[3] += 0.5
    apart, most = difference(engine, model, proof.source[0], [5, 6])
    assert len(apart) == 3
    assert most >= apart.max() > 1e-3


def test_int8_is_near():
    model, card = made()
    engine = engine_of(model, card, int8=True)
    apart = np.concatenate([difference(engine, model, source, [5, 6, 7])[0] for source in sources(9)])
    assert 1e-4 < apart.mean() < 0.2
    assert len(export_translator(model, card, int8=True)) < len(export_translator(model, card))


def test_a_table_lies_in_it_once():
    model, card = made()
    proto = onnx.load_model_from_string(export_translator(model, card))
    assert [tuple(one.dims) for one in proto.graph.initializer].count((SIZE, 22)) == 1
    weights = sum(parameter.numel() for parameter in model.parameters())
    assert proto.ByteSize() - len(card.text().encode()) < 4 * weights + 30_000
    assert (proto.ir_version, proto.opset_import[0].version) == (8, 18)


def test_lines_become_results():
    model = as_model(*made())
    results = list(model.predict(["one two", "three"], beam=3, n_best=2, max_length=5))
    assert [one.source for one in results] == ["one two", "three"]
    assert [one.text for one in results] == model.translate(["one two", "three"], beam=3, max_length=5)
    assert all(
        len(one.candidates) == 2 and one.candidates[0].score >= one.candidates[1].score and not one.error
        for one in results
    )
    assert model.translate("three", beam=3, max_length=5) == results[1].text


def test_whatever_a_model_generates_is_one_line_by_every_way(tmp_path, monkeypatch, capsys):
    network, card = made()
    save_model(network, tmp_path / "t.safetensors", card)
    model = load(tmp_path / "t.safetensors", device="cpu")
    monkeypatch.setattr(Vocabulary, "decode", lambda self, numbers: [" a\n b\u2028 " for _ in numbers])
    assert model.translate("one", beam=1, max_length=3) == "a b"
    (found,) = model.predict(["one"], beam=1, max_length=3)
    assert (found.text, found.candidates[0].text) == ("a b", "a b")
    assert model.explain("one").facts["translation"] == "a b"
    monkeypatch.setattr("foveal.tasks.translate.command.lines_ahead", lambda number, batch: batch)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"one\ntwo\n"), fileno=lambda: 0))
    assert main(["translate", str(model.path), "--device", "cpu", "--beam", "1", "--max-length", "3"]) == 0
    assert capsys.readouterr().out == "a b\na b\n"


def test_several_candidates_are_not_dropped_without_a_word():
    with pytest.raises(FovealError) as caught:
        as_model(*made()).translate("three", beam=3, n_best=3)
    assert str(caught.value) == (
        "n_best: expected 1 where each line has one translation, got 3; predict gives every candidate"
    )


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (3, "lines to translate: expected text, or several texts, got 3"),
        (None, "lines to translate: expected text, or several texts, got None"),
        (["one", 3], "a line to translate: expected text, got 3"),
    ],
)
def test_what_is_no_text(lines, message):
    with pytest.raises(FovealError) as caught:
        as_model(*made()).translate(lines)
    assert str(caught.value) == message


def test_lines_of_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lines.txt").write_bytes(b"\xef\xbb\xbfone two\nthree\xe2\x80\xa8four\n\nk\xf6nnen")
    predictor = as_model(*made()).predictor(beam=1, max_length=5)
    lines = predictor.inputs(["lines.txt", "One dog sleeps."])
    assert [line.text for line in lines] == ["one two", "three\u2028four", "", "k\ufffdnnen", "One dog sleeps."]
    assert [str(line) for line in lines[:2]] == ["lines.txt:1", "lines.txt:2"]
    results = list(predictor.predict(lines))
    assert results[2].text == ""
    for form in predictor.formats:
        head, row = predictor.rows(form, 12)
        text = head + "".join(map(row, results))
        assert text.count("\n") == len(results) + (form != "jsonl")
        assert all(one.text in text for one in results)
    for wrong in ("line.txt", "folder/lines"):
        with pytest.raises(
            FovealError, match=f"{wrong}: expected a text file that exists, or a sentence, got no file of this name"
        ):
            predictor.inputs([wrong])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 0.5}, "--temperature: expected --sample beside it"),
        ({"top_k": 3}, "--top-k: expected --sample beside it"),
        ({"top_p": 0.5}, "--top-p: expected --sample beside it"),
        ({"seed": 3}, "--seed: expected --sample beside it"),
        ({"sample": True, "beam": 7}, "--beam: expected none beside --sample"),
        ({"n_best": 9}, "the search's n_best: expected at most the beam, 4, got 9"),
        ({"precision": "fp16"}, "--precision: expected one of fp32, int8, got 'fp16'"),
    ],
)
def test_what_would_be_ignored_is_refused(options, message):
    with pytest.raises(FovealError, match=re.escape(message)):
        PredictOptions(**options)


def test_a_translator_loads_no_image_model(tmp_path):
    network, card = made()
    save_model(network, tmp_path / "t.safetensors", card)
    program = (
        "import sys\n"
        "from foveal.app.cli import main\n"
        f"status = main(['translate', {str(tmp_path / 't.safetensors')!r}, '--device', 'cpu', '--beam', '1'])\n"
        "print(*sorted(name for name in sys.modules if name.startswith(('foveal.models.', 'foveal.vision'))))\n"
        "sys.exit(status)"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, input="one two\n", capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    wanted = ("sequence", "shrink", "store", "torch_engine", "transformer", "zoo")
    assert done.stdout.splitlines()[-1].split() == [f"foveal.models.{name}" for name in wanted]


# --- as it is typed ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("translator")
    model, card = made()
    save_model(model, folder / "model.safetensors", card)
    done = typed("export", folder / "model.safetensors", "--out", folder / "model.onnx", timeout=120)
    assert done.returncode == 0, done.stderr
    assert "100.00% of the translations are the same" in done.stdout
    assert "sentences that the grammar made" in done.stdout
    proof = json.loads((folder / "model.onnx.proof.json").read_text())
    assert proof["largest"] < 1e-3 and proof["same"] == 1  # noqa: PT018
    assert proof == load(folder / "model.onnx").exported.proof
    return folder / "model.onnx"


@pytest.mark.slow
def test_without_torch(file):
    text = "one two\n\nthree\n"
    words = [str(file), "--beam", "3", "--n-best", "2", "--max-length", "7"]
    program = (
        "import sys\n"
        "from foveal.app.cli import main\n"
        f"status = main({['translate', *words]!r})\n"
        "print(sorted(set(sys.modules) & {'torch', 'onnx', 'yaml', 'safetensors', 'sacrebleu'}))\n"
        "sys.exit(status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=text, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    *rows, modules = done.stdout.splitlines()
    assert modules == "[]"
    command = [
        sys.executable,
        "-m",
        "foveal",
        "translate",
        str(file.with_name("model.safetensors")),
        *words[1:],
        "--device",
        "cpu",
    ]
    with_torch = subprocess.run(
        command, input=text, capture_output=True, text=True, check=False, timeout=300, env=ENVIRONMENT
    )
    cut = [[row.split("\t") for row in some] for some in (rows, with_torch.stdout.splitlines())]
    assert [[number, text] for number, _, text in cut[0]] == [[number, text] for number, _, text in cut[1]]
    assert [float(score) for _, score, _ in cut[0]] == pytest.approx([float(score) for _, score, _ in cut[1]], abs=3e-4)
    assert len(rows) == 5


def changed(file, tmp_path, change):
    proto = onnx.load(str(file))
    change(proto)
    path = tmp_path / "changed.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def with_card(**facts):
    def change(proto):
        entry = next(entry for entry in proto.metadata_props if entry.key == "foveal")
        entry.value = json.dumps(json.loads(entry.value) | facts)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_card(foveal="99.0.0"), "upgrade foveal"),
        (
            with_card(task="fly"),
            "expected the card of a model for a task that is installed, got no task is called 'fly'",
        ),
        (with_card(vocabulary=""), "expected a model with its vocabulary, got one without"),
        (with_card(vocabulary="[]"), "a model's vocabulary"),
        (with_card(config={}), "a config whose pad is an integer, at least 0, got None"),
        (lambda proto: proto.ClearField("metadata_props"), "an ONNX file without foveal's card"),
    ],
)
def test_a_file_that_cannot_be(file, tmp_path, change, message):
    with pytest.raises(FovealError, match="expected") as error:
        load(changed(file, tmp_path, change)).predictor()
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_another_number_of_layers(file, tmp_path):
    config = load(file).card.config
    with pytest.raises(FovealError, match="the inputs of a decoder of 5 layers"):
        load(changed(file, tmp_path, with_card(config=config | {"decoder_layers": 5}))).predictor()


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_truncated_file(file, tmp_path, share):
    content = file.read_bytes()
    (tmp_path / "cut.onnx").write_bytes(content[: int(share * len(content))])
    done = typed("translate", tmp_path / "cut.onnx")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert ("expected an exported model" if share else "expected an ONNX graph, got an empty file") in done.stderr


def test_another_task_refuses_it_and_it_refuses_another_tasks_model(file):
    done = typed("predict", file, "photo.jpg")
    assert done.returncode == 2
    assert "photo.jpg: expected a text file that exists, or a sentence, got no file of this name" in done.stderr
    done = typed("translate", "icam-pipes")
    assert done.returncode == 2
    assert "expected a model that translates, got one for the task classify" in done.stderr


def test_it_cannot_be_explained_and_says_what_can(file, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["explain", str(file), "one two"]) == 2
    error = capsys.readouterr().err
    assert (
        "model.onnx: expected a run's folder or a .safetensors file to explain, got an exported file, which "
        "translates only" in error
    )
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())
    assert main(["explain", str(file.with_name("model.safetensors")), "one two", "--device", "cpu"]) == 0


def test_tokens_that_no_position_was_learned_for():
    model, card = made("learned, gelu", max_length=13)
    for engine in (engine_of(model, card), TorchEngine(model)):
        with pytest.raises(FovealError, match="at most 13"):
            decode_all(engine, [[5, 6]], Search(beam=2, max_length=30, min_length=29), 1)


def test_a_program_need_not_know_how_many_positions_were_learned(tmp_path):
    model, card = made("learned, gelu", max_length=13)
    write_export(export_translator(model, card), {}, tmp_path / "m.onnx")
    model = load(tmp_path / "m.onnx")
    long = " ".join(["one two three"] * 40)
    short, cut = model.translate(["one", long])
    assert short == model.translate("one", max_source_length=5)
    assert cut == model.translate(long, max_source_length=13) != model.translate(long, max_source_length=3)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--precision", "fp16"], "--precision: expected one of fp32, int8, got 'fp16'"),
        (["--out", "m.pt"], "--out: expected a name that ends in .onnx for a model that translates, got m.pt"),
    ],
)
def test_what_cannot_be_exported(file, tmp_path, words, message):
    done = typed("export", file.with_name("model.safetensors"), "--out", tmp_path / "x.onnx", *words, timeout=120)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_an_int8_file_that_is_not_near_enough_is_not_written(file, tmp_path, monkeypatch, capsys):
    # by its error: which file is faster is for a quiet machine to say
    monkeypatch.setitem(LIMITS, "int8", Limits(mean=0.0))
    out = tmp_path / "int8.onnx"
    assert main(["export", str(file.with_name("model.safetensors")), "--out", str(out), "--precision", "int8"]) == 2
    message = capsys.readouterr().err
    assert "the int8 file: expected" in message
    assert message.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_an_int8_file_that_is_near_and_fast_enough(file, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(LIMITS, "int8", Limits(mean=2.0, points=0.3))  # weights that nobody trained are no measure
    out = tmp_path / "int8.onnx"
    assert main(["export", str(file.with_name("model.safetensors")), "--out", str(out), "--precision", "int8"]) == 0
    assert "as float32 .onnx" in capsys.readouterr().out
    assert out.stat().st_size < file.stat().st_size
    model = load(out)
    assert model.exported.proof["precision"] == "int8"
    assert len(model.translate(["one two", "three"], beam=2, max_length=5)) == 2


@pytest.mark.parametrize(
    ("facts", "milliseconds", "message"),
    [
        (
            {"before": 30.0, "after": 29.6},
            0.5,
            "expected BLEU within 0.3 of the model's, got 29.60 where the model has 30.00",
        ),
        ({"mean": 0.2}, 0.5, "expected log-probabilities within 0.1 of the model's on average, got 0.2"),
        ({}, 0.99, "expected at most 0.95 × the time of the float32 file, got 0.99 ×"),
    ],
)
def test_an_int8_file_that_is_not(facts, milliseconds, message):
    parity = Parity(
        **{"sentences": 5, "largest": 0.3, "mean": 0.01, "anywhere": 1.0, "same": 0.9, "figure": "BLEU"} | facts
    )
    with pytest.raises(FovealError, match=re.escape(message)):
        expect_within("int8", parity, {"file": {"median": milliseconds}, "float32": {"median": 1.0}})


def test_a_recurrent_model_is_refused(tmp_path):
    model = create("rnn", source_vocab=SIZE, target_vocab=SIZE, width=8, hidden=8)
    family, config = describe(model)
    with pytest.raises(FovealError, match="expected a Transformer, got rnn"):
        export_translator(model, TranslateCard(model="rnn", family=family, config=config))
