"""The examples run as they stand, in seconds, and say what they promise."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
LONGEST = 40  # lines of a script


def run(name, folder):
    command = [sys.executable, str(EXAMPLES / name), str(folder)]
    done = subprocess.run(
        command, capture_output=True, text=True, env=ENVIRONMENT, timeout=400, check=False, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_scripts_are_short():
    for script in EXAMPLES.glob("*.py"):
        assert len(script.read_text(encoding="utf-8").splitlines()) <= LONGEST, script.name


def test_attention(tmp_path):
    printed = run("attention.py", tmp_path)
    assert "largest difference" in printed
    assert "layers.1.self_attn: weights (1, 4, 10, 10)" in printed


@pytest.mark.slow
def test_inspect_pipes(tmp_path):
    printed = run("inspect_pipes.py", tmp_path)
    assert "the file finds the same in all photos: True" in printed
    assert (tmp_path / "looked.png").exists()


@pytest.mark.slow
def test_translate(tmp_path):
    printed = run("translate.py", tmp_path)
    assert printed.count(" → ") == 2
    assert "the file says the same: True" in printed


@pytest.mark.slow
def test_the_notebook_runs_and_is_kept_without_outputs(tmp_path, monkeypatch):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    text = (EXAMPLES / "attention.ipynb").read_text(encoding="utf-8")
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in json.loads(text)["cells"])
    book = nbformat.reads(text, as_version=4)
    nbclient.NotebookClient(
        book, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    outputs = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("image/png" in output.get("data", {}) for output in outputs)  # the mask has drawn itself
    assert any("self_attn" in output.get("data", {}).get("text/plain", "") for output in outputs)
