"""A run of several stages: the runs that its recipe wants before it, each in a folder inside of the run's, and then
the run itself.

Every stage is a run like any other: it has a recipe, a checkpoint, a log and a result, is resumed by itself, and its
model can be shipped.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from foveal.errors import counted, reading
from foveal.training.journal import CHECKPOINT, LOG
from foveal.training.recipe import Recipe
from foveal.training.run_folder import finished


@dataclass(frozen=True)
class Stage:
    name: str  # of its folder inside of the run's; "" is the run itself
    recipe: Recipe  # as it was given, and as the folder keeps it
    folder: Path
    settled: Recipe | None = None  # with what the recipe leaves open chosen by the data; None: it leaves nothing open

    @property
    def plan(self) -> Recipe:
        """The recipe that is trained by."""
        return self.settled or self.recipe

    def epochs_left(self) -> int:
        """By its log: an epoch that was noted and has no checkpoint is done again, which nobody need know."""
        if not (self.folder / CHECKPOINT).exists() or not (self.folder / LOG).exists():
            return self.plan.epochs
        with reading(self.folder / LOG):
            rows = len((self.folder / LOG).read_bytes().splitlines()) - 1
        return max(0, self.plan.epochs - rows)


def unfinished(recipe: Recipe, folder: Path) -> list[Stage]:
    """What is still to be done of a run that has not ended, in this order; the run itself comes last."""
    earlier = [Stage(name, one.from_anywhere(), folder / name) for name, one in recipe.earlier(folder).items()]
    waiting = [stage for stage in earlier if finished(stage.recipe, stage.folder, resume=True) is None]
    return [*waiting, Stage("", recipe, folder)]


def describe(stages: Sequence[Stage]) -> str:
    """Such as "teachers/seed0: efficientnet-lite0, 3 of 5 epochs left; then icam-lite, 1 epoch"."""
    return "; then ".join(_one(stage) for stage in stages)


def _one(stage: Stage) -> str:
    epochs, left = stage.plan.epochs, stage.epochs_left()
    length = counted(epochs, "epoch") if left == epochs else f"{left} of {epochs} epochs left"
    name = f"{stage.name}: " if stage.name else ""
    return f"{name}{Path(stage.recipe.model).name}, {length}"
