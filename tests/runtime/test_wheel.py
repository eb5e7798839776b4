"""What a robot installs: the wheel alone, in an environment where nothing was before."""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import numpy as np
import pytest
from tasks.translate.translator import made, opened

from foveal.app.cli import main
from foveal.data.pipes import render
from foveal.runtime.decode.search import Search
from foveal.runtime.vocabulary import both_from
from foveal.tasks.translate.module import translate

ROOT = Path(__file__).parents[2]
# or this copy would answer for the wheel
CLEAN = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
HEAVY = ("torch", "onnx", "yaml", "safetensors", "kornia", "pytorch_lightning", "transformers")


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """The python of an environment that holds the wheel and what it asks for."""
    place = tmp_path_factory.mktemp("bare")
    called([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", place, ROOT])
    venv.create(place / "env", with_pip=True)
    python = place / "env" / "bin" / "python"
    called([python, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", *place.glob("*.whl")])
    return python


def called(words, **options):
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, check=False, timeout=300, env=CLEAN, **options
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def heavy(python):
    """What is installed there and should not be."""
    return called(
        [python, "-c", f"import importlib.util as u; print([name for name in {HEAVY!r} if u.find_spec(name)])"]
    ).strip()


@pytest.mark.slow
def test_without_torch_an_exported_file_answers_as_the_model_does(bare, tmp_path, capsys):
    from PIL import Image

    for seed in range(3):
        Image.fromarray(render(9_000_000 + seed, 224).image).save(tmp_path / f"{seed}.png")
    assert main(["export", "icam-pipes", "--out", str(tmp_path / "inspector.onnx")]) == 0
    capsys.readouterr()
    assert main(["predict", "icam-pipes", str(tmp_path), "--format", "jsonl", "--device", "cpu"]) == 0
    expected = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert heavy(bare) == "[]"
    words = [bare, "-m", "foveal", "predict", tmp_path / "inspector.onnx", tmp_path, "--format", "jsonl"]
    answers = [json.loads(line) for line in called(words, cwd=tmp_path).splitlines()]
    assert [one["file"] for one in answers] == [one["file"] for one in expected]
    assert [one["found"] for one in answers] == [one["found"] for one in expected]
    assert main(["explain", "icam-pipes", str(tmp_path / "0.png"), "--json", "--device", "cpu"]) == 0
    looked = json.loads(capsys.readouterr().out)
    words = [bare, "-m", "foveal", "explain", "inspector.onnx", "0.png", "--json", "--out", "sheet.png"]
    seen = json.loads(called(words, cwd=tmp_path))
    assert seen["answer"] == looked["answer"]
    assert [one["layer"] for one in seen["attention"]] == [one["layer"] for one in looked["attention"]]
    for mine, theirs in zip(seen["attention"], looked["attention"], strict=True):
        assert np.allclose(mine["map"], theirs["map"], atol=1e-5)
    assert np.allclose(seen["occlusion"], looked["occlusion"], atol=0.02)  # a mean colour is an integer there
    assert "gradient" not in seen
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.size[0] > 600
    timed = called(
        [bare, "-m", "foveal", "bench", "models", "inspector.onnx", "--rounds", "3", "--out", "timed"], cwd=tmp_path
    )
    assert "batch 1: inspector: " in timed
    assert "MB at most while it runs" in timed
    # Without a model, the weights in the package look at images: they are there as .onnx, too.
    one = json.loads(called([bare, "-m", "foveal", "predict", tmp_path / "0.png", "--format", "jsonl"]))
    assert main(["predict", "icam-fast-pipes", str(tmp_path / "0.png"), "--format", "jsonl", "--device", "cpu"]) == 0
    with_torch = json.loads(capsys.readouterr().out)
    assert one["found"] == with_torch["found"]
    for name, value in with_torch["probability"].items():
        assert one["probability"][name] == pytest.approx(value, abs=1e-3)
    needs = [str(bare), "-m", "foveal", "train", "classify", "--data", str(tmp_path)]
    refused = subprocess.run(needs, capture_output=True, text=True, check=False, env=CLEAN, cwd=tmp_path)
    assert refused.returncode == 2  # what it needs beyond this is named
    assert "pip install foveal[" in refused.stderr
    assert refused.stderr.count("\n") == 1


@pytest.mark.slow
def test_without_torch_an_exported_translator_translates_as_the_model_does(bare, tmp_path):
    model, card = made()
    opened(model, card).export(tmp_path / "model.onnx")
    lines = ["one two three", "", "four — five", "a word that nobody taught it"]
    words = [str(bare), "-m", "foveal", "translate", "model.onnx"]
    given = {"input": "".join(f"{line}\n" for line in lines), "cwd": tmp_path}
    refused = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300, env=CLEAN, **given)
    assert refused.returncode == 2  # what it needs beyond images is named
    assert "pip install foveal[text]" in refused.stderr
    assert refused.stderr.count("\n") == 1
    (wheel,) = bare.parents[2].glob("*.whl")
    venv.create(tmp_path / "env")
    words[0] = tmp_path / "env" / "bin" / "python"
    install = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        words[0],
        "install",
        "--quiet",
        "--constraint",
        ROOT / "constraints.txt",
    ]
    called([*install, f"{wheel}[text]"])
    assert heavy(words[0]) in ("[]", "['yaml']")  # tokenizers may bring it
    expected = translate(model, both_from(card.vocabulary), lines, Search())
    assert called(words, **given).split("\n") == [*(" ".join(line.split()) for line in expected), ""]
    assert len(set(expected)) == 4
