"""The protocol of tasks: what a task may leave out."""

import json
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from foveal.errors import FovealError
from foveal.options import Options
from foveal.runtime.card import Card
from foveal.tasks.task import Evaluation, Task
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


def test_what_contributing_calls_required_is_what_is_abstract():
    page = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    line = next(line for line in page.splitlines() if line.startswith("| required |"))
    assert sorted(line.partition("| required |")[2].strip(" |").replace("`", "").split(", ")) == sorted(
        Task.__abstractmethods__
    )
