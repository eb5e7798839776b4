"""`foveal cite`: BibTeX, each paper once."""

import ast
import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import foveal
from foveal.app.cli import main
from foveal.app.command import cite
from foveal.app.command.cite import bibliography
from foveal.models.store import save_model
from foveal.report.catalogue import entries, of_training
from foveal.report.paper import Paper
from foveal.runtime.packaged import packaged
from foveal.tasks.task import all_tasks


def keys(capsys: pytest.CaptureFixture[str], *names: str) -> set[str]:
    assert main(["cite", *names]) == 0
    return set(re.findall(r"@\w+\{(\w+),", capsys.readouterr().out))


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


def test_what_has_no_paper_says_so_and_writes_no_bibtex(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cite, "papers_of", lambda name: [])
    assert main(["cite", "run"]) == 0
    assert capsys.readouterr() == ("", "no mechanism with a paper was used\n")


def test_bibtex_is_utf8_whatever_the_terminal_speaks() -> None:
    command = [sys.executable, "-m", "foveal", "cite", "causal"]
    result = subprocess.run(command, capture_output=True, check=True, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert "Kaiser, Łukasz" in result.stdout.decode("utf-8")


ICAM = {"hannibal7302025instance", "shazeer2020glu", "vaswani2017attention", "parmar2018image", "carion2020end"}


@pytest.mark.parametrize(
    ("name", "used"),
    [
        ("icam-31k", ICAM | {"hu2018squeeze"}),
        ("xie-2019", {"xie2019automatic"}),
        ("mobilenet-v3-s", {"howard2019searching", "hu2018squeeze"}),
        ("rnn", {"cho2014learning", "sutskever2014sequence"}),
        ("rnn-attention", {"cho2014learning", "sutskever2014sequence", "bahdanau2015neural"}),
    ],
)
def test_a_preset_is_its_own_papers_and_those_of_its_parts(
    name: str, used: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert keys(capsys, name) == used


def test_a_model_is_the_papers_of_what_was_built_and_of_what_trained_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert keys(capsys, "icam-fast-pipes") == ICAM | {
        "szegedy2016rethinking",
        "polyak1992acceleration",
        "loshchilov2019decoupled",
    }
    model = foveal.load("icam-fast-pipes")
    recipe = model.card.recipe | {"label_smoothing": 0, "ema": 0, "weight_decay": 0, "mixup": 0.2, "num_teachers": 2}
    card = dataclasses.replace(model.card, recipe=recipe | {"cutmix": "much"})  # somebody else's card
    save_model(model.network, tmp_path / "other.safetensors", card)
    assert keys(capsys, str(tmp_path / "other.safetensors")) == ICAM | {
        "kingma2015adam",
        "zhang2018mixup",
        "hinton2015distilling",
        "beyer2022knowledge",
    }


def test_an_exported_file_is_the_papers_of_its_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert keys(capsys, str(packaged("icam-pipes", ".onnx"))) == keys(capsys, "icam-pipes")


def test_without_torch_the_config_tells_which_peer_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "foveal.models.store", None)
    card = SimpleNamespace(family="peer", config={"kind": "resnet-18"})
    model = SimpleNamespace(card=card, is_exported=True)
    assert [paper.key for paper in cite.built_of(model)] == ["he2016deep"]  # type: ignore[arg-type]


def test_heads_that_share_keys_and_layers_that_are_left_out_have_papers() -> None:
    from foveal.layers import MultiHead, PostNorm, PreNorm

    def used(network: object) -> set[str]:
        model = SimpleNamespace(card=SimpleNamespace(family="none"), is_exported=False, network=network)
        return {paper.key for paper in cite.built_of(model)}  # type: ignore[arg-type]

    plain = {"vaswani2017attention"}
    assert used(PostNorm(MultiHead(12, 6), 12)) == plain
    assert used(PreNorm(MultiHead(12, 6, groups=1), 12)) == plain | {"xiong2020on", "shazeer2019fast"}
    assert used(PostNorm(MultiHead(12, 6, groups=3), 12, drop_path=0.1)) == plain | {"ainslie2023gqa", "huang2016deep"}
    assert used(MultiHead(12, 1)) == plain


def test_every_condition_asks_for_what_there_is() -> None:
    """One that is mistyped would be false for ever."""
    fields = {field.name for task in all_tasks() for field in dataclasses.fields(task.recipe)}
    for paper in of_training():
        assert {node.attr for node in ast.walk(ast.parse(paper.condition)) if isinstance(node, ast.Attribute)} <= fields
    assert {paper.key for paper in of_training()} >= {
        "romero2015fitnets",
        "yun2019cutmix",
        "liang2021r",
        "chen2016training",
    }
    assert all("self" in paper.condition for entry in entries() for paper in entry.papers if paper.condition)
