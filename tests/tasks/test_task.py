"""The protocol of tasks: what a task may leave out."""

import json
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from foveal.errors import FovealError
from foveal.options import Options
from foveal.runtime.card import Card
from foveal.tasks.classify.explain import ClassifyExplanation
from foveal.tasks.classify.export import ExportedClassifier
from foveal.tasks.classify.faithful import FaithfulnessExplanation
from foveal.tasks.task import Evaluation, Explanation, Task
from foveal.tasks.train import Run
from foveal.tasks.translate.explain import TranslateExplanation
from foveal.tasks.translate.export import ExportedTranslator
from foveal.training.recipe import Recipe


class Least(Task):
    """Nothing but what CONTRIBUTING calls required."""

    name, does, kind = "least", "does little", "nothing to nothing"
    card, recipe = Card, Recipe

    def read(self, recipe): ...
    def training(self, recipe, data, folder, machine, progress, fresh): ...
    def describe_result(self, result, folder): ...
    def new_card(self, name, network): ...
    def predictor(self, model, options): ...
    def evaluate(self, model, options, progress, others=()): ...


MODEL = SimpleNamespace(name="runs/tiny")


@pytest.mark.parametrize(
    ("call", "stage"),
    [
        (lambda: Least().explain(MODEL, None, None, None), "explain"),
        (lambda: Least().export(MODEL, Path("a.onnx"), None), "export"),
        (lambda: Least().graph(MODEL), "export"),
    ],
)
def test_a_stage_that_a_task_leaves_out_is_one_line(call, stage):
    with pytest.raises(FovealError) as caught:
        call()
    assert str(caught.value) == f"runs/tiny: expected a model of a task that can {stage}, got one of least"


def test_a_task_without_options_takes_none():
    assert Least().options("explain") is Options


def test_a_sweep_is_summarised_by_its_validation_scores(tmp_path):
    folders = [tmp_path / name for name in ("seed2", "seed3")]
    for folder, score in zip(folders, (0.5, 0.75), strict=True):
        folder.mkdir()
        result = {"model": "tiny", "epoch": 3, "val_score": score, "seconds": 7.0}
        (folder / "result.json").write_text(json.dumps(result))
    text = Least().summarise(folders, tmp_path)
    assert [line.split("|")[1:3] for line in text.splitlines() if "0." in line] == [
        [" seed2 ", " 0.5 "],
        [" seed3 ", " 0.75 "],
        [" mean ", " 0.625 "],
    ]
    assert (tmp_path / "summary.md").read_text(encoding="utf-8") == text


def test_an_evaluation_prints_its_table():
    @dataclass(frozen=True)
    class Found(Evaluation):
        rows: tuple[int, ...] = tuple(range(1000))

        def summary(self):
            return "| mae |\n|---|\n| 7 |"

        def write(self, folder): ...

    assert str(Found()) == Found()._repr_markdown_() == "| mae |\n|---|\n| 7 |"


@pytest.mark.parametrize(
    ("suffix", "content", "png", "page", "markdown"),
    [
        (".png", b"\x89PNG", b"\x89PNG", None, None),
        (".html", "<p>“½”</p>".encode(), None, 'srcdoc="&lt;p&gt;“½”&lt;/p&gt;"', None),
        ("", b"", None, None, "two\nlines"),
        (".png", b"", None, None, None),  # of a task that draws files only
    ],
)
def test_a_notebook_shows_an_explanation_as_what_it_is(suffix, content, png, page, markdown):
    class Found(Explanation):
        def __init__(self):
            self.suffix, self.facts, self.arrays = suffix, {"map": list(range(1000))}, {}

        def summary(self):
            return "two\nlines"

        def save(self, path): ...

        def content(self):
            return content

    found = Found()
    assert repr(found) == "two\nlines"
    assert (found._repr_png_(), found._repr_markdown_()) == (png, markdown)
    assert found._repr_html_() is None if page is None else page in found._repr_html_()


@pytest.mark.parametrize(
    "kind",
    [ClassifyExplanation, FaithfulnessExplanation, TranslateExplanation],
)
def test_no_explanation_prints_its_maps(kind):
    assert kind.__repr__ is Explanation.__repr__


@pytest.mark.parametrize("kind", [ExportedClassifier, ExportedTranslator])
def test_an_exported_file_prints_its_name(kind, monkeypatch):
    monkeypatch.setattr(kind, "summary", lambda self: "wrote it\nthe same")
    shown = kind(Path("m.onnx"), {"digest": "0" * 64})
    assert repr(shown) == f"{kind.__name__}('m.onnx')"
    assert shown._repr_markdown_() == "wrote it  \nthe same"


def test_a_run_prints_its_folder_and_score(monkeypatch):
    monkeypatch.setattr(Run, "summary", lambda self: "a\nb")
    run = Run("classify", Path("runs/tiles"), {"val_score": 0.87654321, "history": list(range(1000))})
    assert repr(run) == "Run('runs/tiles', task='classify', val_score=0.8765)"
    assert repr(Run("translate", Path("r"), {})) == "Run('r', task='translate')"
    assert run._repr_markdown_() == "a  \nb"


def test_what_contributing_calls_required_is_what_is_abstract():
    page = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    line = next(line for line in page.splitlines() if line.startswith("| required |"))
    assert sorted(line.partition("| required |")[2].strip(" |").replace("`", "").split(", ")) == sorted(
        Task.__abstractmethods__
    )
