"""The protocol between tasks and stages: what a task gives to train, evaluate, predict, explain, export,
bench and ablate.

A task is a folder in `tasks/`, or in a package of somebody else's that names it in the entry point group
`foveal.tasks`. Its file `task.py` has one object, `TASK`, of a class that extends `Task`; importing it costs nothing,
and every method imports what it needs when it is called. A stage is written once, for all tasks, in `app/command/`,
and knows tasks by this protocol only.
"""

import html
import importlib
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from foveal.errors import FovealError, expect, unknown
from foveal.options import Options
from foveal.packages import foreign, left_out, loaded
from foveal.runtime.card import Card

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor, nn

    from foveal.progress import Progress
    from foveal.tasks.ablation import Ablation
    from foveal.tasks.model import Model
    from foveal.training.harness import Data, Machine, Training
    from foveal.training.recipe import Recipe

GROUP = "foveal.tasks"  # the entry points of packages that bring a task


class Result(Protocol):
    """What every task says of one input. The rest is the task's own: `isinstance(result, foveal.Prediction)` is what
    a classifier found, `foveal.Segmentation` a segmenter, `foveal.Translation` what a translator wrote.
    """

    @property
    def file(self) -> str:
        """Where the input comes from."""

    @property
    def error(self) -> str:
        """Why there is no answer; "" where there is one."""


class Predictor(ABC):
    """A model at work: inputs in, one result per input, in their order, as they come."""

    formats: tuple[str, ...] = ("table", "csv", "jsonl")
    suffixes: Mapping[str, str] = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}  # how a file ends → its format
    folder = ""  # the format of a name that ends otherwise: a folder that files are written to; "": there is none
    noun = "input"  # what is counted: "image", "line"

    @abstractmethod
    def inputs(self, words: Sequence[str]) -> Sequence[Any]:
        """What the words of a command line, or strings in Python, name: files, folders, patterns.

        An error names a word that names nothing.
        """

    def stream(self, null: bool = False) -> Iterator[Any]:
        """What stands on stdin, as it comes: paths, one per line, or with `null` one before each NUL byte."""
        from foveal.runtime.paths import listed

        return listed(null)

    @abstractmethod
    def predict(self, inputs: Iterable[Any]) -> Iterator[Result]:
        """Results, of a kind of the task's own."""

    @abstractmethod
    def rows(self, form: str, widest: int) -> tuple[str, Any]:
        """The head of a table in this format, and the function that makes a row of a result,
        each with its end of line.
        """

    def writer(self, form: str, out: Path | None, widest: int) -> "AbstractContextManager[Callable[[Any], None]]":
        """What writes one result after the other: rows to the file `out`, whole or not at all, or to stdout.

        A task whose results are files, such as label maps, writes them into the folder `out` here.
        """
        from foveal.tasks.rows import written_rows

        return written_rows(*self.rows(form, widest), out)


class Evaluation(ABC):
    """How good a model is."""

    figures: Mapping[str, float]  # name → value

    @abstractmethod
    def summary(self) -> str:
        """The figures as a Markdown table."""

    @abstractmethod
    def write(self, folder: str | Path) -> list[Path]:
        """Write the report; the file to look at comes first."""

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        return self.summary()

    def _repr_markdown_(self) -> str:  # what a notebook shows
        return self.summary()


class Explanation(ABC):
    """Why a model answered so: where it looked. A dataclass of its kind has `repr=False`: its maps are no text."""

    suffix: str  # of the file that `save` writes; "" where there is none
    facts: dict[str, Any]  # plain values that JSON can hold
    arrays: dict[str, Any]  # the maps, as numpy arrays

    @abstractmethod
    def summary(self) -> str: ...

    @abstractmethod
    def save(self, path: str | Path) -> list[Path]: ...

    def content(self) -> bytes:
        """The file of its suffix, in memory: what a notebook shows. Nothing, unless the task draws it."""
        return b""

    def __repr__(self) -> str:
        return self.summary()

    def _repr_png_(self) -> bytes | None:
        return (self.content() or None) if self.suffix == ".png" else None

    def _repr_html_(self) -> str | None:
        if self.suffix != ".html" or not (page := self.content().decode()):
            return None
        # in a frame of its own: the page's style is not the notebook's
        return f'<iframe srcdoc="{html.escape(page)}" style="width: 100%; height: 40em; border: 0"></iframe>'

    def _repr_markdown_(self) -> str | None:
        return None if self.suffix else self.summary()


class Exported(ABC):
    """A file for a runtime without torch, and the proof that it says the same as its model. A dataclass of its kind
    has `repr=False`, as its proof is long.
    """

    path: Path
    proof: dict[str, Any]

    @abstractmethod
    def summary(self) -> str: ...

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    def _repr_markdown_(self) -> str:
        return as_markdown(self.summary())


def as_markdown(lines: str) -> str:
    """Lines that stay lines in a notebook."""
    return lines.replace("\n", "  \n")


class LabelledBatches(NamedTuple):
    batches: Sequence[Any]
    loss: "Callable[[Any, Any], Tensor]"  # of a network on one batch
    words: str  # which samples they are


class Settled(NamedTuple):
    recipe: Any
    reasons: tuple[str, ...] = ()  # what was chosen, and why: a line each


class Task(ABC):
    name: str  # what is typed, and the folder's name
    does: str  # "classifies": for messages
    kind: str  # of the models that do it, as their files say it: "images to logits"
    commands: Mapping[str, tuple[str, str]] = {}  # further commands of its own: name → (module, what it does)
    benches: Mapping[str, str] = {}  # further benchmarks: name → module with `measure(bench)`; bench.options

    @property
    def folder(self) -> Path:
        """Where its files lie, `recipes/` among them."""
        return Path(str(sys.modules[type(self).__module__].__file__)).parent

    @property
    @abstractmethod
    def card(self) -> type[Card]:
        """The kind of card that its model files have."""

    # train

    @property
    @abstractmethod
    def recipe(self) -> "type[Recipe]":
        """The kind of recipe that its training takes."""

    @abstractmethod
    def read(self, recipe: Any) -> "Data":
        """The data of a recipe; called once per run."""

    def settled(self, recipe: Any, data: Any) -> "Settled":
        """The recipe with what it leaves open chosen by what the data are: the same for the same data, as a run that is
        resumed is settled again.
        """
        return Settled(recipe)

    @abstractmethod
    def training(
        self, recipe: Any, data: Any, folder: Path, machine: "Machine", progress: "Progress", fresh: bool
    ) -> "Training":
        """The module and the data of one run. fresh: it does not continue from a checkpoint."""

    def rehearsal(
        self, recipe: Any, data: Any, folder: Path, machine: "Machine", progress: "Progress", fresh: bool
    ) -> "Training":
        """The same before the recipe's earlier runs have ended, to see how long a step takes: it is thrown away.

        Only recipes that have earlier runs are rehearsed.
        """
        return self.training(recipe, data, folder, machine, progress, fresh)

    def default_recipe(self, flags: Mapping[str, Any]) -> str | None:
        """The shipped recipe that is used where neither --recipe nor --data is given."""
        return None

    @abstractmethod
    def describe_result(self, result: dict[str, Any], folder: Path) -> list[str]:
        """What a person reads at the end of a run."""

    def summarise(self, folders: Sequence[Path], out: Path) -> str:
        """The runs of a sweep: written to `out`, and returned as a Markdown table.

        By default the validation score of each, and their mean.
        """
        import statistics

        from foveal.atomic import write_atomic
        from foveal.report.table import Table
        from foveal.training.run_folder import read_result

        scores = {str(folder.relative_to(out)): read_result(folder)["val_score"] for folder in folders}
        scores["mean"] = statistics.mean(scores.values())
        text = Table(["run", "validation score"], [[name, f"{score:.4g}"] for name, score in scores.items()]).markdown()
        write_atomic(out / "summary.md", text.encode())
        return text

    # a trained model

    def options(self, stage: str) -> type[Options]:
        """What only this task's models take in a stage, "predict", "evaluate", "explain" or "export", and what its
        benches take in "bench": by default nothing, and nothing in a stage that it does not know.
        """
        return Options

    @abstractmethod
    def new_card(self, name: str, network: "nn.Module") -> Card:
        """The card of a preset with random weights."""

    @abstractmethod
    def predictor(self, model: "Model", options: Any) -> Predictor: ...

    @abstractmethod
    def evaluate(
        self, model: "Model", options: Any, progress: "Progress", others: "Sequence[Model]" = ()
    ) -> Evaluation:
        """others: models to hold beside it, on the same data."""

    def explain(self, model: "Model", subject: Any, options: Any, progress: "Progress") -> Explanation:
        """subject: one input, or None where the options ask for a measure over many."""
        raise self._cannot(model, "explain")

    def export(self, model: "Model", path: Path, options: Any) -> Exported:
        """Write the file if it is within the task's limits of acceptance; an error, and no file, if it is not."""
        raise self._cannot(model, "export")

    def graph(self, model: "Model") -> bytes:
        """The exported file's content in float32, to be timed."""
        raise self._cannot(model, "export")

    def timed(self, model: "Model", session: Any) -> "Callable[[int], Callable[[], Any]] | None":
        """Of its exported graph, in a session: batch → what answers that many random inputs. None where one call
        of the graph does.
        """
        return None

    def in_tiles(self, model: "Model", tile: int | None) -> "Callable[[NDArray[np.uint8]], Any] | None":
        """What an exported model makes of an image (H, W, 3) as `foveal predict` does: seen in tiles of this side where
        it is larger. tile None: the side that `foveal predict` takes. None where images are only ever seen as a whole.
        """
        return None

    def labelled_batches(self, model: "Model", count: int) -> "LabelledBatches":
        """Samples that the importance of heads is measured on."""
        raise FovealError(
            f"{model.name}: expected a task that says which heads matter, got {self.name}, which does not; name the "
            "heads"
        )

    # what a paper needs

    def ablations(self) -> "Mapping[str, Ablation]":
        """What `foveal ablate NAME` can vary."""
        return {}

    def _cannot(self, model: "Model", stage: str) -> FovealError:
        return FovealError(f"{model.name}: expected a model of a task that can {stage}, got one of {self.name}")


@cache
def task_names() -> tuple[str, ...]:
    """All tasks there are: folders beside this file, and entry points."""
    return (*_own(), *sorted(foreign(GROUP, _own())))


@cache
def find_task(name: str) -> Task:
    """The task of this name."""
    if name in _own():
        return _checked(name, importlib.import_module(f"foveal.tasks.{name}.task").TASK)
    brought = foreign(GROUP, _own())
    if name not in brought:
        raise unknown("task", name, task_names())
    return loaded(brought[name], lambda: _checked(name, brought[name].load()))


def all_tasks() -> list[Task]:
    """All that can be loaded; a line on stderr names those that cannot."""
    tasks = []
    for name in task_names():
        try:
            tasks.append(find_task(name))
        except FovealError as error:
            left_out(str(error))
    return tasks


def _own() -> list[str]:
    return sorted(file.parent.name for file in Path(__file__).parent.glob("*/task.py"))


def _checked(name: str, task: Any) -> Task:
    expect(
        isinstance(task, Task),
        f"the task {name}",
        "an object of a class that extends foveal.tasks.task.Task",
        type(task).__name__,
    )
    assert isinstance(task, Task)
    expect(task.name == name, f"the task {name}", f"the name {name}, as its folder or entry point has", task.name)
    return task
