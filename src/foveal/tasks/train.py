"""`foveal.train`: from a recipe to a trained model, in a folder that describes itself."""

import dataclasses
import sys
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foveal.errors import FovealError, expect, is_number, naming_extras, unknown
from foveal.options import make, read_options
from foveal.progress import Progress, silent
from foveal.runtime.packaged import is_file
from foveal.tasks.task import Task, as_markdown, find_task

if TYPE_CHECKING:
    from foveal.tasks.model import Model
    from foveal.training.recipe import Recipe


@dataclasses.dataclass(frozen=True, repr=False)
class Run:
    """A run that has ended: its folder, its result and its model."""

    task: str
    folder: Path
    result: dict[str, Any]

    @property
    def figures(self) -> dict[str, Any]:
        """The numbers of its result: of the run, then those of validation and test, such as test_bleu,
        where it has them.
        """
        found = {name: value for name, value in self.result.items() if is_number(value)}
        for split in ("val", "test"):
            parts = self.result.get(split)
            for name, part in parts.items() if isinstance(parts, dict) else ():
                value = part.get("value") if isinstance(part, dict) else part  # alone, or with its interval
                found |= {f"{split}_{name}": value} if is_number(value) else {}
        return found

    @cached_property
    def model(self) -> "Model":
        from foveal.tasks.load import load

        return load(self.folder)

    def summary(self) -> str:
        return "\n".join(find_task(self.task).describe_result(self.result, self.folder))

    def __repr__(self) -> str:
        score = self.result.get("val_score")
        scored = f", val_score={score:.4g}" if is_number(score) else ""
        return f"Run({str(self.folder)!r}, task={self.task!r}{scored})"

    def _repr_markdown_(self) -> str:
        return as_markdown(self.summary())


@naming_extras()
def train(
    task: str,
    *,
    recipe: str | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    device: str = "auto",
    devices: int = 1,
    strategy: str = "auto",
    workers: int | None = None,
    progress: Progress = silent,
    announce: Callable[[str], object] = lambda text: None,
    **options: Any,
) -> Run:
    """Train a model. recipe: one that is shipped, or a YAML file.

    options: what differs from it, such as data="tiles", epochs=60.
    """
    import torch

    from foveal.deploy.measure.origin import origin
    from foveal.device import choose
    from foveal.training.harness import Machine
    from foveal.training.harness import train as run

    what = find_task(task)
    whole = recipe_of(what, recipe, options)
    folder = Path(out) if out is not None else default_folder(whole)
    facts = origin(str(choose(device)), torch.get_num_threads())
    machine = Machine(device, devices, strategy, workers)
    result = run(
        what,
        whole,
        folder,
        resume=resume,
        machine=machine,
        origin=facts,
        progress=progress,
        announce=announce,
    )
    return Run(task, folder, result)


def recipe_of(task: Task, name: str | None, values: Mapping[str, Any]) -> Any:
    """The shipped or written recipe, and over it these values; paths are absolute."""
    name = name or default_recipe(task, values)
    options = read_options(name, task.recipe, task.folder / "recipes") if name else {}
    fields = {one.name: one for one in dataclasses.fields(task.recipe)}
    own = str(options.get("model") or fields["model"].default)
    model = values.get("model")
    if options.get("config") and "config" not in values and model not in (None, own):
        if _unlike(own, str(model)):
            print(f"the recipe's config is of {own}: {model} begins with its own", file=sys.stderr, flush=True)
            del options["config"]
        else:
            print(f"{model} has the recipe's config: {options['config']}", file=sys.stderr, flush=True)
    recipe = make(task.recipe, f"training a model that {task.does}", **options | dict(values))
    _expect_model(task, recipe.model)
    # A file may hold every option, also those that nobody chose: only who asks for the best epoch is contradicted.
    averaged = values.get("checkpoint") == "best" and recipe.average > 1
    expect(not averaged, "--checkpoint best", "--average 1 beside it", recipe.average, "a mean has no best epoch")
    return recipe.from_anywhere()


def default_recipe(task: Task, values: Mapping[str, Any]) -> str | None:
    """The shipped recipe of who names neither a recipe nor data."""
    return None if "data" in values else task.default_recipe(values)


def _expect_model(task: Task, name: str) -> None:
    """Raise a FovealError unless it is a file or one of the task's presets: reading the data may take minutes."""
    from foveal.models.zoo import presets_of

    if is_file(name):
        return
    known = presets_of(task.kind)
    if name not in known:
        raise unknown(f"model that {task.does}", name, known)


def default_folder(recipe: "Recipe") -> Path:
    """runs/DATA-MODEL."""
    return Path(f"runs/{Path(recipe.data.split(',')[0]).stem.replace(':', '-')}-{Path(recipe.model).stem}")


def _unlike(one: str, other: str) -> bool:
    """Whether two presets are of different families, with other fields in their configs."""
    from foveal.models.zoo import config_of

    try:
        return bool(config_of(one).family != config_of(other).family)
    except FovealError:  # a model's file, or a name that will be refused where it is used
        return False
