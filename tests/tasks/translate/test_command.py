"""`foveal translate` and `foveal evaluate` of a translator, as they are typed: a line for each line, whatever comes."""

import io
import json
import os
import pty
import shutil
import signal
import subprocess
import sys

import pytest
from training.little import ENVIRONMENT, typed
from training.sentences import FIELDS, FLAGS, sentences

from foveal.app.cli import main
from foveal.tasks.translate.command import lines_ahead


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    place = tmp_path_factory.mktemp("typed")
    data = sentences(place)
    done = typed(
        "train",
        "translate",
        "--data",
        data,
        *FLAGS,
        "--epochs",
        "2",
        "--average",
        "1",
        "--out",
        place / "run",
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert "tsv" in done.stdout.lower()
    assert "test: BLEU" in done.stdout
    return place / "run"


def said(run, text, *words):
    command = [sys.executable, "-m", "foveal", "translate", str(run), "--device", "cpu", *words]
    return subprocess.run(command, input=text, capture_output=True, timeout=600, env=ENVIRONMENT, check=False)


def test_a_line_for_each_line(run):
    long = b"one " * 5000
    text = (
        b"one two\n\n  \n"
        + long
        + b"\nk\xc3\xb6nnen \x00\x07\x1b[31m\n\xff\xfe\nthree\r\n\xe6\x97\xa5\xe6\x9c\xac\xe2\x80\xa8\xe8\xaa\x9e\nlast"
    )
    done = said(run, text, "--beam", "2", "--max-length", "6", "--max-source-length", "64", "--batch", "3")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(b"\n") == 9
    assert done.stdout.decode().split("\n")[1:3] == ["", ""]
    told = sorted(done.stderr.decode().splitlines())  # lines are read ahead
    assert len(told) == 2
    assert told[0].startswith("line 4: 5,000 tokens, of which the first 63 are read")
    assert told[1] == "line 6: expected UTF-8, got other bytes, which are read as �"
    alone = said(run, b"last\n", "--beam", "2", "--max-length", "6")
    assert alone.stdout == done.stdout.splitlines(keepends=True)[-1]


@pytest.mark.slow
def test_several_translations_of_a_line(run):
    done = said(run, b"one two\n\nthree\n", "--beam", "3", "--n-best", "2")
    rows = [line.split("\t") for line in done.stdout.decode().splitlines()]
    assert [row[0] for row in rows] == ["1", "1", "2", "3", "3"]
    assert float(rows[0][1]) >= float(rows[1][1])


@pytest.mark.slow
def test_a_closed_pipe_ends_it_quietly(run):
    command = (
        f"yes 'one two' | head -n 400 | {sys.executable} -m foveal translate {run} --device cpu --beam 1 --batch 4 "
        "| head -n 1"
    )
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=600, env=ENVIRONMENT, check=False
    )
    assert done.returncode == 0
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["icam-pipes"], "expected a model that translates, got one for the task classify"),
        (["nothing-here"], "no model is called 'nothing-here'"),
        (["RUN", "--beam", "0"], "--beam: expected an integer, at least 1, got 0"),
        (["RUN", "--n-best", "9"], "the search's n_best: expected at most the beam, 4, got 9"),
        (["RUN", "--batch", "0"], "--batch"),
        (["RUN", "--temperature", "0.5"], "--temperature: expected --sample beside it"),
        (
            ["RUN", "--threads", "2"],
            "--threads: expected an exported file, got a model of torch; set OMP_NUM_THREADS for it",
        ),
    ],
)
def test_what_cannot_be(run, words, message, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("one\n"))
    assert main(["translate", *(str(run) if word == "RUN" else word for word in words), "--device", "cpu"]) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert (out, err.count("\n")) == ("", 1)


@pytest.mark.slow
def test_evaluate(run, tmp_path):
    done = typed(
        "evaluate", run, "--device", "cpu", "--split", "val", "--resamples", "20", "--out", tmp_path / "e", timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert "nrefs:1|case:mixed|eff:no|tok:13a" in done.stdout
    assert "| words of the source | sentences | transformer-tiny |" in (tmp_path / "e" / "evaluation.md").read_text()
    other = typed("evaluate", run, "--device", "cpu", "--split", "nowhere", "--out", tmp_path / "f")
    assert other.returncode == 2
    assert "--split: expected one of train, val, test, got nowhere" in other.stderr


def called(capsys, *words):
    """In this process, which has torch already: (status, stdout, stderr)."""
    status = main([str(word) for word in words])
    return status, *capsys.readouterr()


def test_evaluate_beside_another(run, tmp_path, capsys):
    data = [
        "--data",
        run.parent / "numbers.tsv",
        "--vocab-size",
        "300",
        "--tokens",
        "128",
        "--epochs",
        "1",
        "--device",
        "cpu",
    ]
    other = ["--model", "rnn", "--config", "{width: 32, hidden: 32}", "--out", tmp_path / "rnn"]
    assert called(capsys, "train", "translate", *data, *other)[0] == 0
    words = ["--beside", tmp_path / "rnn", "--device", "cpu", "--resamples", "0", "--out", tmp_path / "e"]
    status, _, err = called(capsys, "evaluate", run, *words)
    assert status == 0, err
    text = (tmp_path / "e" / "evaluation.md").read_text(encoding="utf-8")
    assert "| words of the source | sentences | transformer-tiny | rnn |" in text
    found = json.loads((tmp_path / "e" / "evaluation.json").read_text(encoding="utf-8"))["models"]
    assert list(found) == ["transformer-tiny", "rnn"]
    assert found["rnn"]["by_length"][0].keys() == {"which", "sentences", "words", "bleu"}
    assert (tmp_path / "e" / "bleu-by-length.svg").read_text(encoding="utf-8").count("<polyline") == 2
    assert sorted(file.name for file in (tmp_path / "e").glob("*.tsv")) == [
        "translations-test-2.tsv",
        "translations-test.tsv",
    ]
    back = ["--config", FIELDS["config"], "--source", "de", "--target", "en", "--out", tmp_path / "back"]
    assert called(capsys, "train", "translate", *data, *back)[0] == 0
    for first, beside, told in (
        (run, run, "--beside: expected other models, got one of them twice"),
        (run, tmp_path / "back", "back: expected a model from en to de, got de to en"),
        (run, "icam-pipes", "got one for the task classify"),
        ("icam-pipes", run, "got one for the task translate"),
    ):
        status, _, err = called(
            capsys, "evaluate", first, "--beside", beside, "--device", "cpu", "--out", tmp_path / "none"
        )
        assert (status, err.count("\n")) == (2, 1)
        assert told in err


def test_an_exported_file_is_evaluated_beside_its_model(run, tmp_path, capsys):
    pytest.importorskip("onnxruntime")
    assert called(capsys, "export", run, "--out", tmp_path / "m.onnx")[0] == 0
    words = ["--data", run.parent / "numbers.tsv", "--resamples", "0", "--out", tmp_path / "e", "--device", "cpu"]
    status, _, err = called(capsys, "evaluate", tmp_path / "m.onnx", "--beside", run, *words)
    assert status == 0, err
    found = json.loads((tmp_path / "e" / "evaluation.json").read_text(encoding="utf-8"))["models"]
    assert list(found) == ["m.onnx", "run"]
    assert len({str(one["scores"]) for one in found.values()}) == 1
    shown = called(capsys, "show", tmp_path / "m.onnx")[1]
    assert "task: translate" in shown
    assert "mean: [" not in shown


def test_sentences_that_changed_are_refused(run, tmp_path, capsys):
    data = tmp_path / "set"
    shutil.copytree(run.parent, data, ignore=shutil.ignore_patterns("run"))
    words = ["--data", data / "numbers.tsv", *FLAGS, "--epochs", "1", "--out", tmp_path / "run"]
    status, _, err = called(capsys, "train", "translate", *words, "--precision", "16")
    assert status == 2
    assert "--precision: expected 32 or bf16 on a CPU, got 16" in err
    # in the folder of the one that was refused
    status, _, err = called(capsys, "train", "translate", *words, "--precision", "bf16")
    assert status == 0, err
    with (data / "numbers.tsv").open("a", encoding="utf-8") as file:
        file.write("one one one one\teins eins eins eins\ttest\n")
    evaluate = ["evaluate", tmp_path / "run", "--device", "cpu", "--resamples", "0"]
    status, _, err = called(capsys, *evaluate)
    assert status == 2
    assert "expected one trained on numbers as it is now, got one of other sentences or splits; give --data" in err
    assert called(capsys, *evaluate, "--data", data / "numbers.tsv")[0] == 0


@pytest.mark.slow
def test_several_seeds(run, tmp_path):
    words = ["--data", run.parent / "numbers.tsv", *FLAGS, "--epochs", "1", "--seeds", "2", "--out", tmp_path / "two"]
    done = typed("train", "translate", *words, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "2 seeds" in (tmp_path / "two" / "summary.md").read_text(encoding="utf-8")
    assert "| test | BLEU, lowercased |" in done.stdout


def test_a_file_that_is_not_there(run):
    done = typed("predict", run, "photo.jpg")
    assert done.returncode == 2
    assert "photo.jpg: expected a text file that exists, or a sentence" in done.stderr


def test_lines_of_a_file_are_sorted_and_those_of_a_pipe_are_not_waited_for(tmp_path):
    file = tmp_path / "lines"
    file.write_text("one\n")
    with file.open() as stream:
        assert lines_ahead(stream.fileno(), 32) == 512
        assert lines_ahead(stream.fileno(), 1) == 1
    read, write = os.pipe()
    assert lines_ahead(read, 32) == 32
    os.close(read)
    os.close(write)
    terminal, other = pty.openpty()
    assert lines_ahead(other, 32) == 1
    os.close(terminal)
    os.close(other)


@pytest.mark.slow
def test_what_a_shell_may_do_to_stdin(run, tmp_path):
    closed = subprocess.run(
        f"{sys.executable} -m foveal translate {run} --device cpu <&-",
        shell=True,
        capture_output=True,
        timeout=600,
        env=ENVIRONMENT,
        check=False,
    )
    assert (closed.returncode, closed.stdout, closed.stderr) == (0, b"", b"")
    plain, marked = said(run, b"one two\n"), said(run, b"\xef\xbb\xbfone two\n")
    assert marked.stdout == plain.stdout
    full = subprocess.run(
        f"{sys.executable} -m foveal translate {run} --device cpu > /dev/full",
        shell=True, input=b"one\n", capture_output=True, timeout=600, env=ENVIRONMENT, check=False,
    )  # fmt: skip
    assert full.returncode != 0
    assert full.stderr.count(b"\n") == 1


@pytest.mark.slow
def test_ctrl_c_while_it_translates(run):
    command = [sys.executable, "-m", "foveal", "translate", str(run), "--device", "cpu", "--batch", "1"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT
    ) as process:
        process.stdin.write(b"one two\n")
        process.stdin.flush()
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
    assert (process.returncode, out, err) == (130, b"", b"foveal: stopped\n")


@pytest.mark.slow
def test_in_eight_bits(run):
    exact, rounded = said(run, b"one two\nthree\n"), said(run, b"one two\nthree\n", "--precision", "int8")
    assert rounded.returncode == 0, rounded.stderr
    assert rounded.stdout.count(b"\n") == exact.stdout.count(b"\n") == 2
    refused = said(run, b"one\n", "--precision", "fp16")
    assert refused.returncode != 0
    assert b"fp16" in refused.stderr
