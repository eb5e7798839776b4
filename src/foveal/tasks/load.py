"""`foveal.load`: open a model by whatever names it; the file says its task."""

from pathlib import Path
from typing import Any

from foveal.errors import FovealError, expect, reading, unknown
from foveal.file_names import expanded
from foveal.runtime import packaged
from foveal.runtime.card import read_card, task_in
from foveal.runtime.exported import open_exported
from foveal.runtime.packaged import EXPORTED, FILE, SUFFIX
from foveal.tasks.model import Model
from foveal.tasks.task import Task, all_tasks, find_task

FOREIGN = (".pt", ".pt2", ".pth", ".ckpt", ".bin", ".pkl", ".h5")  # models that others write


def load(name: "str | Path", *, device: str = "auto", threads: int = 1, config: dict[str, Any] | None = None) -> Model:
    """A run's folder, a .safetensors or .onnx file, weights that come with foveal, a preset (with random weights),
    or an id on the hub.

    threads: of an exported file; torch's are the whole process's. config: of a preset, fields that differ, such as
    {"image": 448}.
    """
    where = find_model(name)
    expect(not config or where is None, str(name), "a preset beside config", "a model that has a config of its own")
    if where is None:
        return _preset(str(name), device, threads, config or {})
    if where.suffix == EXPORTED:
        expect(device in ("auto", "cpu"), "--device", "auto or cpu for an exported file", device)
        exported = open_exported(where, threads)
        task = _task_of(exported.card, where)
        return Model(task, read_card(exported.card, str(where), task.card), where, exported=exported, threads=threads)
    from foveal.models.store import load_model, model_file, read_text

    file = model_file(where)
    task = _task_of(read_text(file), file)
    network, card = load_model(file, task.card)
    kinds = " or ".join(task.families)
    fits = card.family in task.families
    expect(fits, str(file), f"a model that {task.does}, of {kinds}", f"one of the family {card.family}")
    return Model(task, card, where, network=network, device=device, threads=threads)


def find_model(name: "str | Path") -> Path | None:
    """The path of a model; None where the name is a preset's. An error names what is near a name that nobody has."""
    text = str(name)
    path = expanded(text)
    with reading(path):
        exists = path.exists()
    if exists:
        expect(
            path.suffix not in FOREIGN,
            text,
            f"a {SUFFIX} or {EXPORTED} file, or a run's folder",
            "a model file of another kind",
        )
        if path.is_dir():
            expect((path / FILE).exists(), text, f"a run's folder with a {FILE}", "a folder without one")
        return path
    if (file := packaged_file(text)) is not None:
        return file
    if text in preset_names():
        return None
    if text.count("/") == 1 and path.suffix not in (SUFFIX, EXPORTED) and not path.parent.exists():
        from foveal.tasks.hub import download

        return download(text)
    if path.suffix in (SUFFIX, EXPORTED, *FOREIGN) or "/" in text:
        raise FovealError(f"the model {text}: expected a file or a run's folder that exists, got none there")
    raise unknown("model", text, (*packaged.names(), *preset_names()))


def is_model(name: str) -> bool:
    """Whether a word of a command line names a model that lies somewhere: a file, a run's folder,
    or weights in the package.
    """
    path = Path(name)
    with reading(name):
        if not path.exists():
            return packaged_file(name) is not None or path.suffix in (SUFFIX, EXPORTED)
        return path.suffix in (SUFFIX, EXPORTED) or (path.is_dir() and (path / FILE).is_file())


def packaged_file(name: str) -> Path | None:
    """The file of weights that come with foveal: for torch where that is installed,
    else the one that runs without it.
    """
    import importlib.util

    torch = all(importlib.util.find_spec(module) is not None for module in ("torch", "safetensors"))
    return packaged.packaged(name, SUFFIX if torch else EXPORTED)


def default_model() -> Path:
    """The weights that inspect images where no model is named."""
    file = packaged_file(packaged.DEFAULT)
    if file is None:
        raise FovealError(
            f"no model was named, and this foveal comes without {packaged.DEFAULT}; name a model file or a run's "
            "folder first"
        )
    return file


def preset_names(*tasks: Task) -> tuple[str, ...]:
    """The presets of these tasks, or of all; none where torch is not installed."""
    import importlib.util

    if importlib.util.find_spec("torch") is None:
        return ()
    from foveal.models.zoo import presets

    return tuple(name for task in tasks or all_tasks() for name in presets(*task.families))


def list_models(pattern: str = "*", task: str | None = None) -> list[str]:
    """The names that `foveal.create` and `foveal.load` know, such as "icam*": presets,
    and weights that come with foveal.
    """
    import fnmatch

    known = preset_names(*([] if task is None else [find_task(task)]))
    weights = packaged.names() if task in (None, _packaged_task()) else ()
    return [name for name in (*known, *weights) if fnmatch.fnmatch(name, pattern)]


def _packaged_task() -> str | None:
    file = packaged.packaged(packaged.DEFAULT, EXPORTED)
    return None if file is None else task_in(open_exported(file).card)


def _preset(name: str, device: str, threads: int, config: dict[str, Any]) -> Model:
    import torch

    from foveal.models.zoo import create, presets

    task = next(one for one in all_tasks() if name in presets(*one.families))
    with torch.random.fork_rng(devices=[]):  # the same weights each time, and the caller's generator stays as it is
        torch.manual_seed(0)
        network = create(name, **config).eval()
    return Model(task, task.new_card(name, network), network=network, device=device, threads=threads)


def _task_of(text: str, file: Path) -> Task:
    """The task that a card names; a card of before `format: 1` may name none, and classified images."""
    name = task_in(text)
    try:
        return find_task(str(name))
    except FovealError as error:
        raise FovealError(f"{file}: expected the card of a model for a task that is installed, got {error}") from None
