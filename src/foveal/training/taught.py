"""Recipes of models that learn from others: which teachers these are, and that a run goes on with the same.

Teachers are trained already, and found by a pattern of files or run folders; or they are trained first, by a recipe of
their own, each a run in a folder inside of the pupil's.
"""

import glob
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from foveal.errors import FovealError, expect, short_repr
from foveal.file_names import expanded
from foveal.models.store import model_file
from foveal.options import option, read_options
from foveal.runtime.packaged import FILE
from foveal.training.recipe import Recipe, located
from foveal.training.run_folder import kept_recipe, read_json

TEACHER = "teacher"  # the recipe that is shipped for them
TEACHERS = "teachers.json"  # the digest of each, in the pupil's folder
PLACE = "{fold}"


@dataclass(frozen=True)
class TaughtRecipe(Recipe):
    recipes: ClassVar[Path]  # the task's own
    # What a teacher that is trained first has of its pupil: always, and where its own recipe says nothing.
    same: ClassVar[tuple[str, ...]] = ("data", "fold_column", "fold")
    otherwise_same: ClassVar[tuple[str, ...]] = ("size", "precision", "cuda_graphs")

    fold: int | None = option(
        None, "cross-validation: this fold tests, and the next one validates; none: the splits of the data", least=0
    )
    teachers: str | None = option(
        None,
        "trained models whose probabilities to learn: a pattern of files or run folders, {fold} standing for the "
        "fold; none: labels alone",
        metavar="PATTERN",
    )
    num_teachers: int = option(
        0, "how many teachers are trained first, each a run of its own in OUT/teachers; 0: none", least=0, below=100
    )
    teacher_recipe: str = option(
        TEACHER,
        "the recipe of these teachers, a shipped one or a YAML file",
        metavar="NAME_OR_FILE",
    )
    label_weight: float = option(0.2, "weight of the labels in the loss beside the teachers' probabilities", least=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        alone = not self.num_teachers or self.teachers is None
        do = "add --num-teachers 0, or leave --teachers out"
        expect(alone, "--num-teachers", "0 beside --teachers, which are trained already", self.num_teachers, do)
        used = self.num_teachers > 0 or self.teacher_recipe == TEACHER
        needed = "--num-teachers beside it, which says how many are trained"
        expect(used, "--teacher-recipe", needed, "--num-teachers 0")

    def taught(self) -> bool:
        """Whether it has teachers."""
        return self.num_teachers > 0 or self.teachers is not None

    def earlier(self, folder: Path | None = None) -> dict[str, Recipe]:
        """The teachers. No two pupils of a sweep over seeds share one, so that their spread is not too small.

        A teacher that was begun in this folder keeps its recipe: the shipped one may be another since. Whoever has
        changed a file of their own gets an error instead.
        """
        seeds = range(self.seed * self.num_teachers, (self.seed + 1) * self.num_teachers)
        changeable = not self.shipped() and expanded(self.teacher_recipe).exists()
        found: dict[str, Recipe] = {}
        for seed in seeds:
            name = f"teachers/seed{seed}"
            kept = None if folder is None or changeable else self._kept(folder / name, seed)
            found[name] = kept or self._planned(seed)
        return found

    def shipped(self) -> bool:
        """Whether the teachers' recipe is: also beside a file or a folder of that name."""
        return (self.recipes / f"{self.teacher_recipe}.yaml").exists()

    def given_way(self, own: Mapping[str, Any]) -> dict[str, Any]:
        """What a shipped recipe of teachers, which cannot know the data, leaves to the pupil. own: its fields."""
        return {}

    def _kept(self, folder: Path, seed: int) -> Recipe | None:
        """What the teacher in this folder was begun with, if it was; an error where it cannot be this pupil's."""
        kept = kept_recipe(type(self), folder)
        if kept is None:
            return None
        shared = {name: getattr(self, name) for name in self.same}
        for name, value in (shared | {"data": located(self.data), "seed": seed, "num_teachers": 0}).items():
            wanted, got = f"a teacher of this pupil, with {name} {short_repr(value)}", getattr(kept, name)
            expect(got == value, f"the run in {folder}", wanted, short_repr(got), "choose another --out")
        return kept

    def _planned(self, seed: int) -> Recipe:
        """As the teachers' recipe says."""
        own = read_options(self.teacher_recipe, type(self), self.recipes)
        what = f"the recipe {self.teacher_recipe} of the teachers"
        more = own.get("num_teachers")
        expect(not more, what, "one without teachers that are trained first", f"num_teachers: {more}")
        shared = {name: getattr(self, name) for name in self.same}
        for name in self.same:
            fits = own.get(name, shared[name]) == shared[name]
            expect(fits, what, f"the pupil's {name}, {short_repr(shared[name])}", own.get(name), "leave it out")
        varied = self.given_way(own) if self.shipped() else {}
        fields = {name: getattr(self, name) for name in self.otherwise_same} | own | varied | shared | {"seed": seed}
        try:
            return type(self)(**fields)
        except FovealError as error:
            raise FovealError(f"{what}: {error}") from None

    def from_anywhere(self) -> Self:
        teachers = self.teachers
        if teachers is not None and not expanded(teachers).is_absolute():  # a pattern, in a folder whose name is none
            teachers = f"{glob.escape(str(Path.cwd())).replace('{', '[{]')}/{teachers}"
        elif teachers is not None:
            teachers = str(expanded(teachers))
        teacher_recipe = self.teacher_recipe if self.shipped() else located(self.teacher_recipe)
        return super().from_anywhere().changed(teachers=teachers, teacher_recipe=teacher_recipe)


def teacher_files(recipe: TaughtRecipe, folder: Path) -> dict[str, Path]:
    """The model files or run folders of a recipe's teachers, by the names that a person knows them by.

    folder: the pupil's own.
    """
    if recipe.teachers is None:
        return {name: folder / name for name in recipe.earlier(folder)}
    return matching(recipe.teachers, recipe.fold, folder)


def matching(pattern: str, fold: int | None, folder: Path) -> dict[str, Path]:
    """All files and run folders that a pattern meets, where {fold} stands for the fold. Runs beside the pupil's own
    folder are no teachers: which of them have ended would depend on the hour.
    """
    expect(
        fold is not None or PLACE not in pattern,
        "--teachers",
        f"a pattern without {PLACE} where no fold is given",
        pattern,
    )
    expect(
        fold is None or PLACE in pattern, "--teachers", f"{PLACE} in it, or a teacher has seen what is tested", pattern
    )
    met = sorted(glob.glob(pattern.replace(PLACE, str(fold))))  # noqa: PTH207 — a pattern may begin anywhere
    # a run's log lies beside it
    paths = [path for path in met if path.endswith(".safetensors") or (Path(path) / FILE).is_file()]
    expect(bool(paths), "--teachers", "a pattern of model files or run folders", f"{pattern}, which meets none")
    for path in paths:
        beside = Path(path).resolve().parent == folder.resolve().parent
        expect(not beside, "--teachers", "runs in another folder than the pupil's", path, "choose another --out")
    return {path: Path(path) for path in paths}


def digest(path: Path) -> str:
    """Of a model file, or of a run's."""
    return hashlib.sha256(model_file(path).read_bytes()).hexdigest()[:16]


def expect_teachers(digests: Mapping[str, str], folder: Path) -> None:
    """Raise a FovealError if the run in this folder was begun with other teachers."""
    if (folder / TEACHERS).exists():
        kept = read_json(folder / TEACHERS)
        wanted = f"the {len(kept)} teachers it was begun with"
        expect(kept == digests, f"the run in {folder}", wanted, "others", "choose another --out")
