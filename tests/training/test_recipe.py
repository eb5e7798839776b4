"""What every task's recipe has, and what only some have."""

import dataclasses

import pytest

from foveal.errors import FovealError
from foveal.tasks.classify.recipe import ClassifyRecipe
from foveal.tasks.translate.recipe import TranslateRecipe
from foveal.training.recipe import Recipe
from foveal.training.run_folder import RECIPE, expect_same_recipe


@pytest.mark.parametrize("recipe", [Recipe(), ClassifyRecipe(data=""), TranslateRecipe(data="")])
def test_no_data_is_not_the_folder_that_one_stands_in(recipe):
    with pytest.raises(FovealError, match=r"^--data: expected a path, got none$"):
        recipe.from_anywhere()


def test_labels_are_smoothed_where_there_are_labels():
    has = {kind: {one.name for one in dataclasses.fields(kind)} for kind in (Recipe, ClassifyRecipe, TranslateRecipe)}
    assert [kind for kind, names in has.items() if "label_smoothing" in names] == [ClassifyRecipe, TranslateRecipe]
    assert ClassifyRecipe().label_smoothing == TranslateRecipe().label_smoothing == 0.1


def test_a_run_whose_recipe_still_smoothed_labels_is_continued(tmp_path):
    recipe = Recipe(data="set")
    (tmp_path / RECIPE).write_text(recipe.text() + "label_smoothing: 0.1\n", encoding="utf-8")
    expect_same_recipe(recipe, tmp_path)
