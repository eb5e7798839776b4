"""A run's folder: anybody else's is left alone, changed data and changed options are refused,
damaged files are named.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from foveal.errors import FovealError
from foveal.tasks.classify.recipe import ClassifyRecipe
from foveal.tasks.translate.recipe import TranslateRecipe
from foveal.training.run_folder import (
    DATA,
    RECIPE,
    RESULT,
    expect_same_data,
    expect_same_recipe,
    figure_of,
    finished,
    is_empty,
    read_result,
    tidy,
)

RESULTS = {"model": "icam-31k", "epoch": 3, "val_score": 0.5, "seconds": 7.0}


@pytest.fixture
def folder(tmp_path):
    """The folder of a run that has ended."""
    place = tmp_path / "run"
    place.mkdir()
    (place / RECIPE).write_text(ClassifyRecipe(data="pipes:50", lr=0.01).text())
    (place / RESULT).write_text(json.dumps(RESULTS))
    (place / "model.safetensors").write_bytes(b"")
    (place / DATA).write_text(json.dumps({"fingerprint": "abc", "classes": ["a", "b"]}))
    return place


def recipe(**changes):
    return ClassifyRecipe(data="pipes:50", lr=0.01).changed(**changes)


def refusal(function, *arguments, **named):
    with pytest.raises(FovealError) as caught:
        function(*arguments, **named)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- whose folder it is -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("resume", [False, True])
def test_a_new_or_an_empty_folder_may_be_used(tmp_path, resume):
    assert finished(recipe(), tmp_path / "new", resume) is None
    assert finished(recipe(), tmp_path, resume) is None
    (tmp_path / ".model.safetensors.77.part").write_bytes(b"")
    assert is_empty(tmp_path), "what a killed run had not written whole is nobody's"
    assert finished(recipe(), tmp_path, resume) is None


@pytest.mark.parametrize("resume", [False, True])
def test_a_foreign_folder_is_left_alone(tmp_path, resume):
    (tmp_path / "letter.txt").write_text("mine")
    says = refusal(finished, recipe(), tmp_path, resume)
    assert (
        says == f"the folder {tmp_path}: expected a new or empty one, or one with a run in it, got other files; choose "
        "another --out"
    )
    assert "got a file; choose another --out" in refusal(finished, recipe(), tmp_path / "letter.txt", resume)
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_a_run_is_continued_only_when_asked_for(folder):
    assert "one with a run in it; add --resume to continue it, or choose another --out" in refusal(
        finished, recipe(), folder, False
    )
    assert finished(recipe(), folder, True) == RESULTS
    (folder / "model.safetensors").unlink()
    assert finished(recipe(), folder, True) is None, "a model that was removed is made again"


def test_tidy_removes_half_files_only(folder):
    (folder / ".last.ckpt.77.part").write_bytes(b"half")
    before = {path.name for path in folder.iterdir()} - {".last.ckpt.77.part"}
    tidy(folder)
    assert {path.name for path in folder.iterdir()} == before


# --- the same recipe --------------------------------------------------------------------------------------------------


def test_a_run_whose_recipe_has_the_names_of_before_is_continued(tmp_path):
    now = TranslateRecipe(data="grammar", cuda_graphs=False, vocab_size=300, config={"max_length": 64, "layers": 1})
    text = now.text().replace("max_length: 64", "longest: 64").replace("vocab_size:", "size:")
    assert "longest: 64" in text
    (tmp_path / RECIPE).write_text(text)
    expect_same_recipe(now, tmp_path)
    with pytest.raises(FovealError, match="got others for config"):
        expect_same_recipe(now.changed(config={"max_length": 63, "layers": 1}), tmp_path)


def test_another_recipe_is_refused_and_the_options_are_named(folder):
    expect_same_recipe(recipe(), folder)
    says = refusal(expect_same_recipe, recipe(lr=0.02, epochs=7), folder)
    assert (
        says
        == f"the run in {folder}: expected the options it was begun with, got others for epochs, lr; choose another "
        "--out"
    )


def test_an_option_that_is_newer_than_the_run_had_its_default(folder):
    text = (folder / RECIPE).read_text()
    lines = [line for line in text.splitlines() if not line.startswith("patience:")]
    assert len(lines) < len(text.splitlines())
    (folder / RECIPE).write_text("\n".join(lines))
    expect_same_recipe(recipe(), folder)
    assert "others for patience" in refusal(expect_same_recipe, recipe(patience=3), folder)


def test_a_path_may_be_written_as_it_was_typed(folder, tmp_path, monkeypatch):
    (tmp_path / "set").mkdir()
    monkeypatch.chdir(tmp_path)
    (folder / RECIPE).write_text(recipe(data="set").text())
    expect_same_recipe(recipe(data="set").from_anywhere(), folder)
    assert recipe(data="set").from_anywhere().data == str(tmp_path / "set")


@pytest.mark.parametrize(
    "content", [b"a: [", b"a: 1\na: 2", b"\xff\xfe", b"- 1", b"", b"[" * 5000], ids=lambda one: repr(one[:5])
)
def test_a_damaged_recipe_is_named(folder, content):
    (folder / RECIPE).write_bytes(content)
    assert refusal(expect_same_recipe, recipe(), folder).startswith(
        f"{folder / RECIPE}: expected the recipe of a run, got "
    )


# --- the same data ----------------------------------------------------------------------------------------------------


@dataclass
class Data:
    name = "tiles"
    kept: dict

    def facts(self):
        return self.kept


def test_the_same_data_or_none_that_are_known(folder, tmp_path):
    same = Data({"fingerprint": "abc", "classes": ["a", "b"], "notes": ["new"]})
    expect_same_data(folder, same)
    expect_same_data(tmp_path / "new", same)
    (folder / DATA).write_text("{}")  # of a run that is older than the fingerprint
    expect_same_data(folder, same)


@pytest.mark.parametrize("change", [{"fingerprint": "abd"}, {"classes": ["a", "c"]}])
def test_changed_data_are_refused(folder, change):
    changed = Data({"fingerprint": "abc", "classes": ["a", "b"]} | change)
    says = refusal(expect_same_data, folder, changed)
    assert (
        says == f"the run in {folder}: expected the data it was begun with, tiles, got data that have changed; choose "
        "another --out"
    )


def test_data_whose_files_have_other_sizes_are_refused_where_the_run_knows_them(folder):
    facts = {"fingerprint": "abc", "classes": ["a", "b"]}
    expect_same_data(folder, Data(facts | {"file_sizes": "1"}))  # of a run that was begun before they were kept
    (folder / DATA).write_text(json.dumps(facts | {"file_sizes": "1"}))
    expect_same_data(folder, Data(facts | {"file_sizes": "1"}))
    assert "data that have changed" in refusal(expect_same_data, folder, Data(facts | {"file_sizes": "2"}))


# --- damaged files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b"3", b"[" * 100_000], ids=lambda one: repr(one[:5]))
def test_files_that_are_no_json(folder, content):
    for name, function, arguments in (
        (RESULT, read_result, (folder,)),
        (DATA, expect_same_data, (folder, SimpleNamespace())),
    ):
        (folder / name).write_bytes(content)
        says = refusal(function, *arguments)
        damaged = "expected a file that a run wrote, got a damaged one; remove it, and go on with --resume"
        assert says == f"{folder / name}: {damaged}"


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_without_a_figure(folder, name):
    for value in (None, [], {"a": 1}):
        (folder / RESULT).write_text(json.dumps(RESULTS | {name: value}))
        says = refusal(read_result, folder)
        assert (
            f"{Path(RESULT)}: expected a result with model, epoch, val_score, seconds, got one without {name}" in says
        )
        assert says.endswith("remove it to have the run finished again")


def test_a_result_is_summed_up_by_the_figure_that_it_names(folder):
    (folder / RESULT).write_text(json.dumps(RESULTS | {"figure": "val_mse", "val_mse": 0.25}))
    assert figure_of(read_result(folder)) == "val_mse"
    (folder / RESULT).write_text(json.dumps(RESULTS | {"figure": "val_mse"}))
    assert "expected a result with model, epoch, val_mse, seconds, got one without val_mse" in refusal(
        read_result, folder
    )
    assert figure_of(RESULTS) == "val_score", "a result of before"
