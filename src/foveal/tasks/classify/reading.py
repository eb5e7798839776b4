"""The data of a recipe, or of a model's card, as a Source."""

from foveal.data.read import read
from foveal.data.source import Source
from foveal.tasks.classify.recipe import ClassifyRecipe


def read_for(recipe: ClassifyRecipe) -> Source:
    """What a recipe names. Splits that foveal makes are the same for every seed, so that runs can be compared."""
    return read(recipe.data, label=recipe.label, fold_column=recipe.fold_column, seed=0)
