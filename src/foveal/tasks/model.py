"""One opened model, whatever lies behind it: what `foveal.load` returns, and what every command works with."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from foveal.atomic import write_atomic
from foveal.errors import FovealError, expect, naming_extras, short_repr
from foveal.options import make
from foveal.progress import Progress, silent
from foveal.runtime.card import Card
from foveal.runtime.exported import Session
from foveal.runtime.packaged import FILE, WEIGHTS
from foveal.tasks.task import Evaluation, Explanation, Exported, Predictor, Result, Task

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import nn


class Model:
    """A model of any task.

    `network` is torch's module; of an exported file there is none, and `exported` is its session.
    """

    def __init__(
        self,
        task: Task,
        card: Card,
        path: Path | None = None,
        *,
        network: "nn.Module | None" = None,
        exported: Session | None = None,
        device: str = "auto",
        threads: int = 1,
    ) -> None:
        """path: where it was loaded from; None for a preset."""
        self._task, self.card, self.path, self.device, self.threads = task, card, path, device, threads
        self._network, self._exported = network, exported

    @staticmethod
    def from_pretrained(name: str | Path, **options: Any) -> "Model":
        """The model in a folder of `save_pretrained`, on the hub, or wherever `foveal.load` finds it."""
        from foveal.tasks.load import load

        return load(name, **options)

    @property
    def task(self) -> str:
        """The name of its task."""
        return self._task.name

    @property
    def name(self) -> str:
        """How to call it in a message: its path, or its preset."""
        return self.card.model if self.path is None else str(self.path)

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of its classes; none where its task has none."""
        return tuple(getattr(self.card, "classes", ()))

    @property
    def random(self) -> bool:
        """Whether its weights are random: a preset that nobody trained, or a file of one."""
        return self.card.random

    @property
    def is_exported(self) -> bool:
        return self._exported is not None

    @cached_property
    def network(self) -> "nn.Module":
        """torch's module, in evaluation mode, on the device."""
        if self._network is None:
            raise FovealError(
                f"{self.name}: an exported file holds no torch module; load the run's folder or its .safetensors file"
            )
        from foveal.device import choose

        return self._network.to(choose(self.device)).eval()

    @property
    def exported(self) -> Session:
        """The session of an exported file."""
        expect(self._exported is not None, self.name, "an exported .onnx file", "a model of torch")
        assert self._exported is not None
        return self._exported

    @naming_extras()
    def origin(self) -> dict[str, str]:
        """Where a figure of this model comes from: the machine, versions, and the threads that compute."""
        from foveal.deploy.measure.origin import origin

        if self.is_exported:
            return origin("cpu", self.threads)
        import torch

        from foveal.device import choose

        return origin(str(choose(self.device)), torch.get_num_threads())

    def folder(self) -> Path:
        """Where what is made of this model is written by default: the run's folder, or the folder of its file."""
        path = self.path or Path()
        if path.parent == WEIGHTS:
            return Path()  # the package is nobody's place to write to
        return path if path.is_dir() else path.parent

    def report_folder(self, what: str) -> Path:
        """Where a report on it is written by default: in a run's folder under its own name, else with that of
        the file before it, since a folder holds many.
        """
        alone = self.path is None or self.path.is_dir() or self.path.name == FILE
        return self.folder() / (what if alone else f"{self.path.stem}-{what}")  # type: ignore[union-attr]

    @naming_extras()
    def predictor(self, **options: Any) -> Predictor:
        """The model at work, for those who call it many times."""
        given = self._options("predict", options)
        self._expect_trained()
        return self._task.predictor(self, given)

    def predict(self, inputs: Any, **options: Any) -> Iterator[Result]:
        """One result per input, as they come. inputs: a path, folder or pattern; an array or an image.

        Or any iterable of them.

        for found in model.predict("photos/"):
            if isinstance(found, foveal.Prediction): ...       # which classes; found.error of any other
        """
        predictor = self.predictor(**options)
        if isinstance(inputs, (str, Path)):
            return predictor.predict(predictor.inputs([str(inputs)]))
        if isinstance(inputs, (list, tuple)) and inputs and all(isinstance(one, (str, Path)) for one in inputs):
            return predictor.predict(predictor.inputs([str(one) for one in inputs]))
        # one image, of numpy or Pillow; a grey one has two axes
        several = isinstance(inputs, Iterable) and not isinstance(inputs, (bytes, Mapping))
        wanted = f"a path, folder or pattern, one {predictor.noun}, or several of them"
        expect(several or hasattr(inputs, "__array_interface__"), "to predict", wanted, short_repr(inputs))
        single = hasattr(inputs, "__array_interface__") and getattr(inputs, "ndim", 3) <= 3
        return predictor.predict([inputs] if single else inputs)

    @overload
    def translate(self, lines: str, **options: Any) -> str: ...

    @overload
    def translate(self, lines: Iterable[str], **options: Any) -> list[str]: ...

    def translate(self, lines: str | Iterable[str], **options: Any) -> str | list[str]:
        """The translation of a line, or of each of several; of a model that translates."""
        predictor = self.predictor(**options)
        translate: Callable[[Iterable[str]], list[str]] | None = getattr(predictor, "translate", None)
        if translate is None:
            raise FovealError(f"{self.name}: it {self._task.does}, and translates nothing; call predict")
        if isinstance(lines, str):
            return translate([lines])[0]
        expect(isinstance(lines, Iterable), "lines to translate", "text, or several texts", short_repr(lines))
        return translate(lines)

    @naming_extras()
    def evaluate(
        self,
        data: str | Path | None = None,
        split: str | None = None,
        *,
        beside: "Sequence[Model]" = (),
        progress: Progress = silent,
        **options: Any,
    ) -> Evaluation:
        """How good it is. data: what to evaluate it on, by default what it was trained on. beside: other models,
        on the same data.
        """
        given = {key: value for key, value in (("data", data), ("split", split)) if value is not None}
        for other in beside:
            expect(
                other.task == self.task,
                other.name,
                f"a model that {self._task.does}, as {self.name}",
                f"one for the task {other.task}",
            )
        return self._task.evaluate(self, self._options("evaluate", given | options), progress, beside)

    @naming_extras()
    def explain(self, subject: Any = None, *, progress: Progress = silent, **options: Any) -> Explanation:
        """Where it looked in one input.

        Without one, where the options ask for it: how far that explains its answers.
        """
        given = self._options("explain", options)
        self._expect_trained()
        return self._task.explain(self, subject, given, progress)

    @naming_extras()
    def export(self, path: str | Path, **options: Any) -> Exported:
        """Write it as a file for a runtime without torch, with the proof that it says the same.

        Refused where it does not.
        """
        expect(not self.is_exported, self.name, "a model of torch", "a file that is exported already")
        return self._task.export(self, Path(path), self._options("export", options))

    @naming_extras()
    def graph(self) -> bytes:
        """The exported file's content in float32, as it is timed."""
        return self._task.graph(self)

    def timed(self, session: Any) -> "Callable[[int], Callable[[], Any]] | None":
        """How a session of its graph answers a batch, where that takes more than one call; as it is timed."""
        return self._task.timed(self, session)

    def in_tiles(self, tile: int | None = None) -> "Callable[[NDArray[np.uint8]], Any] | None":
        """What sees a large image in tiles of this side, as `foveal predict` does; None where its task has no tiles."""
        return self._task.in_tiles(self, tile)

    @naming_extras()
    def save_pretrained(self, folder: str | Path) -> Path:
        """Write model.safetensors, config.json and README.md, by the hub's conventions.

        `foveal.load` opens the folder.
        """
        from foveal.models.store import save_model

        folder = Path(folder)
        save_model(self.network, folder / FILE, self.card)
        facts = {
            "library_name": "foveal",
            "task": self.task,
            "model": self.card.model,
            "family": self.card.family,
            "config": self.card.config,
        }
        write_atomic(folder / "config.json", (json.dumps(facts, indent=1, ensure_ascii=False) + "\n").encode())
        write_atomic(folder / "README.md", self._readme().encode())
        return folder

    def push_to_hub(self, repo: str, **options: Any) -> str:
        """Upload the folder of `save_pretrained` to the hub; needs huggingface_hub."""
        import tempfile

        from foveal.tasks.hub import upload

        with tempfile.TemporaryDirectory() as folder:
            return upload(self.save_pretrained(folder), repo, **options)

    def _expect_trained(self) -> None:
        """Random weights answer anything, and nothing that they answer or look at means anything."""
        got = "a preset with random weights" if self.path is None else "random weights"
        expect(not self.random, self.name, "a trained model", got, "foveal train makes one of it")

    def _options(self, stage: str, values: dict[str, Any]) -> Any:
        """What a stage is given; threads that it would not have are refused before it begins."""
        got = "a model of torch, whose threads are the whole process's"
        do = "set OMP_NUM_THREADS, or call torch.set_num_threads"
        expect(self.is_exported or self.threads == 1, "threads", "an exported file", got, do)
        return make(self._task.options(stage), f"{stage} of a model that {self._task.does}", **values)

    def _readme(self) -> str:
        tags = ["foveal", self.task]
        state = "with random weights: nobody trained it" if self.random else "trained with foveal"
        figures = "".join(f"- {name}: {value}\n" for name, value in self.card.metrics.items())
        lines = [
            "---", "library_name: foveal", f"tags: [{', '.join(tags)}]", "---", f"# {self.card.model}", "",
            self.card.note or f"A model that {self._task.does}, {state}.", "",
            "```python", "import foveal",
            'model = foveal.load("this folder, or hf://OWNER/NAME on the hub")', "```", "",
            figures,
        ]  # fmt: skip
        return "\n".join(lines)

    def __repr__(self) -> str:
        kind = "exported" if self.is_exported else "random weights" if self.random else "trained"
        return f"Model({self.name!r}, task={self.task!r}, model={self.card.model!r}, {kind})"
