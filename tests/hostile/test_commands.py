"""Commands of no task, or of one only: render, bench, check, convert, translate."""

import pytest
from hostile.broken import file, pipe, together
from hostile.situation import Situation, check, content, params

from foveal.app.cli import main

MODULE = b"""
import os, sys

class OsExit:
    def __init__(self):
        os._exit(0)

class SysExit:
    def __init__(self):
        sys.exit(0)
"""

BENCHES = [
    Situation(f"bench: {' '.join(more)}", ("bench", *more, "--out", "new"), line, apart="models" in more)
    for more, line in (
        (("attention", "--max-length", "9" * 20), "--max-length"),
        (("attention", "--rounds", "9" * 20), "--rounds"),
        (("attention", "--rounds", "0"), "--rounds"),
        (("attention", "--threads", "100000"), "--threads"),
        (("attention", "--device", "meta"), "device"),
        (("models", "icam-fast", "--rounds", "9" * 20), "--rounds"),
        (("models", "icam-fast", "--batch", "9" * 20, "--rounds", "2"), "--batch"),
        (("models", "icam-fast", "--batch", "0"), "--batch"),
        (("models", "icam-fast", "--batch", "x"), "--batch"),
        (("models", "icam-fast", "--threads", "-1"), "--threads"),
        (("models", "icam-fast", "--size", "9" * 20), "--size"),
        (("resolution", "icam-fast", "--size", "x"), "--size"),
        (("resolution", "icam-fast", "--tile", "-1"), "--tile"),
        (("translate", "--batch", "9" * 20), "--batch"),
        (("translate", "--beam", "9" * 20), "--beam"),
        (("translate", "--tokens", "9" * 20), "--tokens"),
        (("nope",), "no bench is called"),
    )
]
RENDER = ("render", "pipes", "--count", "6", "--size", "32", "--jobs", "1", "--out", "r")
OTHERS = [
    Situation(
        "check: os._exit",
        ("check", "mod.py:OsExit"),
        "expected",
        file("mod.py", MODULE),
        apart=True,
        changes=("__pycache__",),
    ),
    Situation(
        "check: sys.exit",
        ("check", "mod.py:SysExit"),
        "expected",
        file("mod.py", MODULE),
        apart=True,
        changes=("__pycache__",),
    ),
    Situation("check: no such file", ("check", "gone.py:X"), "expected a Python file"),
    Situation("render: numbers without end", ("render", "pipes", "--count", "9" * 20, "--out", "r"), "--count"),
    Situation("render: a size without end", ("render", "pipes", "--size", "9" * 20, "--out", "r"), "size"),
    Situation("render: jobs without end", ("render", "pipes", "--jobs", "100000", "--out", "r"), "--jobs"),
    Situation(
        "render: into somebody's folder", RENDER, "a new or an empty folder", file("r/mine.txt", b"mine"), quick=True
    ),
    Situation("render: a damaged mark", RENDER, "render.json", file("r/render.json", b"[")),
    Situation("show: a pipe", ("show", "x.onnx"), "plain file", pipe("x.onnx"), apart=True),
    Situation("a command that nobody has", ("predcit", "x"), "the nearest is 'predict'", quick=True),
    Situation("a flag that nobody has", ("predict", "x.png", "--treshold", "1"), "treshold", quick=True),
    Situation("a name with an escape sign", ("predict", "\x1b[31mred"), r"\\x1b\[31mred", quick=True),
    Situation("a name that is no UTF-8", ("predict", "x\udcff.onnx", "a.png"), r"x\\xff.onnx", quick=True),
    Situation("a name with a line break", ("predict", "a\nb.onnx", "a.png"), "the model"),
    Situation("a name without end", ("predict", "a" * 5000, "a.png"), "cannot read"),
    Situation("a name with NUL", ("predict", "a\0b", "a.png"), ""),
]


@pytest.mark.parametrize("situation", params([*BENCHES, *OTHERS]))
def test_command(situation, place, capfd):
    check(situation, place, capfd)


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage",
    [
        lambda place: (place / "r/images/000003.jpg").unlink(),
        lambda place: (place / "r/masks/000002.png").unlink(),
        lambda place: (place / "r/labels.csv").unlink(),
        lambda place: (place / "r/instances_train.json").unlink(),
        lambda place: (place / "r/images/000002.jpg").write_bytes(b"x"),
        together(
            lambda place: (place / "r/labels.csv").unlink(),
            lambda place: (place / "r/images/000002.jpg").write_bytes(b"x"),
        ),
    ],
    ids=[
        "an image is gone",
        "a mask is gone",
        "labels are gone",
        "boxes are gone",
        "an image is damaged",
        "labels are gone and an image is damaged",
    ],
)
def test_a_rendering_is_made_whole_again(place, damage, capfd):
    assert main(list(RENDER)) == 0
    before = content(place)
    damage(place)
    assert content(place) != before
    assert main(list(RENDER)) == 0
    assert content(place) == before


CONVERTED = [
    Situation(
        "convert: --out is the model",
        ("convert", "model.safetensors", "--to", "torch", "--out", "model.safetensors"),
        "another name",
    ),
    Situation(
        "convert: --out is the run", ("convert", "run", "--to", "marian", "--out", "run"), "another name|new or empty"
    ),
    Situation(
        "convert: --out is the run's model",
        ("convert", "run", "--to", "torch", "--out", "run/model.safetensors"),
        "another name",
    ),
    Situation(
        "convert: into somebody's folder",
        ("convert", "run", "--to", "marian", "--out", "docs"),
        "new or empty",
        file("docs/mine", b"mine"),
    ),
    Situation(
        "convert: a pipe as the config",
        ("convert", "model.safetensors", "--from", "torch", "--config", "x.json", "--out", "new.safetensors"),
        "plain file",
        pipe("x.json"),
        apart=True,
    ),
    Situation(
        "convert: a pipe as the model",
        ("convert", "x.safetensors", "--from", "torch", "--out", "new.safetensors"),
        "plain file",
        pipe("x.safetensors"),
        apart=True,
    ),
    Situation(
        "convert: a model that is not there",
        ("convert", "runz", "--to", "torch", "--out", "new.safetensors"),
        "no model is called",
    ),
    Situation("translate: a model that is not there", ("translate", "runz"), "no model is called"),
    Situation("translate: threads of torch", ("translate", "run", "--threads", "0"), "--threads", stdin=b"one\n"),
    Situation(
        "translate: threads without end",
        ("translate", "model.onnx", "--threads", "100000"),
        "threads: expected at most",
        stdin=b"one\n",
        apart=True,
    ),
    Situation("translate: threads below 0", ("translate", "model.onnx", "--threads", "-1"), "threads", stdin=b"one\n"),
    Situation(
        "translate: a temperature of a search", ("translate", "run", "--temperature", "0.5"), "--sample", stdin=b"one\n"
    ),
    Situation("translate: top-k of a search", ("translate", "run", "--top-k", "3"), "--sample", stdin=b"one\n"),
    Situation(
        "translate: ~ of nobody",
        ("train", "translate", "--data", "~nobodyatall/x.tsv", "{flags}", "--out", "new"),
        "nobodyatall",
    ),
]


@pytest.mark.parametrize("situation", params(CONVERTED))
def test_translator(situation, bench, capfd):
    made = bench("translate")
    check(situation, made.place, capfd, made.words)
