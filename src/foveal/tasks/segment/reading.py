"""The data of a recipe, or of a model's card, as a SegmentSource."""

from foveal.data.segments import SegmentSource, read_segments
from foveal.progress import Progress, silent
from foveal.tasks.segment.recipe import SegmentRecipe


def read_for(recipe: SegmentRecipe, progress: Progress = silent) -> SegmentSource:
    """What a recipe names. Splits that foveal makes are the same for every seed, so that runs can be compared."""
    return read_segments(recipe.data, fold_column=recipe.fold_column, bad=recipe.bad, seed=0, progress=progress)
