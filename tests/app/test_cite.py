"""`foveal cite`: BibTeX, each paper once."""

import os
import subprocess
import sys

import pytest

from foveal.app.cli import main
from foveal.app.command.cite import bibliography
from foveal.report.paper import Paper


def test_a_paper_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cite", "causal", "padding", "local", "longformer"]) == 0
    out = capsys.readouterr().out
    assert out.count("@") == 2
    assert out.count("vaswani2017attention") == out.count("beltagy2020longformer") == 1
    assert "Kaiser, Łukasz" in out


def test_two_papers_of_one_key_have_keys_of_their_own() -> None:
    first, second = Paper(("A B",), 2020, "Same thing"), Paper(("C B",), 2020, "Same other thing")
    texts = bibliography([first, second, first, Paper(("C D",), 2020, "Same")])
    assert [text.split("{")[1].split(",")[0] for text in texts] == ["b2020samea", "b2020sameb", "d2020same"]
    assert [text.split("{")[1].split(",")[0] for text in bibliography([first, first])] == ["b2020same"]


def test_an_unknown_name_prints_nothing_but_the_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cite", "causal", "nothing-such"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("foveal: error: no mechanism is called 'nothing-such'")
    assert err.count("\n") == 1


def test_bibtex_is_utf8_whatever_the_terminal_speaks() -> None:
    command = [sys.executable, "-m", "foveal", "cite", "causal"]
    result = subprocess.run(command, capture_output=True, check=True, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert "Kaiser, Łukasz" in result.stdout.decode("utf-8")
