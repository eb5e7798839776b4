"""`foveal.load`: open a model by whatever names it; the file says its task."""

import contextlib
import dataclasses
import re
from pathlib import Path
from typing import Any

from foveal.errors import FovealError, expect, naming_extras, nearest, reading, short_repr, unknown
from foveal.file_names import expanded
from foveal.runtime import packaged
from foveal.runtime.card import read_card, task_in
from foveal.runtime.exported import Session
from foveal.runtime.packaged import EXPORTED, FILE, SUFFIX
from foveal.tasks.model import Model
from foveal.tasks.task import Task, all_tasks, find_task, task_names

HUB = "hf://"  # before an id on the hub; without it nothing is ever looked up there
FOREIGN = (".pt", ".pt2", ".pth", ".ckpt", ".bin", ".pkl", ".h5")  # models that others write


@naming_extras()
def load(name: "str | Path", *, device: str = "auto", threads: int = 1, config: dict[str, Any] | None = None) -> Model:
    """A run's folder, a .safetensors or .onnx file, weights that come with foveal, a preset (with random weights),
    or hf://OWNER/NAME on the hub.

    threads: of an exported file; torch's are the whole process's. config: of a preset, fields that differ, such as
    {"image": 448}.
    """
    where = find_model(name)
    expect(not config or where is None, str(name), "a preset beside config", "a model that has a config of its own")
    if where is None:
        return _preset(str(name), device, threads, config or {})
    if where.suffix == EXPORTED:
        expect(device in ("auto", "cpu"), "--device", "auto or cpu for an exported file", device)
        exported = Session(where, threads)
        task = _task_of(exported.card, where)
        return Model(task, read_card(exported.card, str(where), task.card), where, exported=exported, threads=threads)
    from foveal.models.store import load_model, model_file, read_text
    from foveal.models.zoo import families_of

    file = model_file(where)
    task = _task_of(read_text(file), file)
    network, card = load_model(file, task.card)
    known = families_of(task.kind)
    wanted = f"a model that {task.does}, of {' or '.join(known)}"
    expect(card.family in known, str(file), wanted, f"one of the family {card.family}")
    return Model(task, card, where, network=network, device=device, threads=threads)


def find_model(name: "str | Path") -> Path | None:
    """The path of a model; None where the name is a preset's. An error names what is near a name that nobody has."""
    expect(isinstance(name, (str, Path)), "the model", "its name or its path", short_repr(name))
    text = str(name)
    if text.startswith(HUB):
        from foveal.tasks.hub import download

        return download(text.removeprefix(HUB))
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
    if path.suffix in (SUFFIX, EXPORTED, *FOREIGN) or "/" in text:
        hub = re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", text) and path.suffix not in (SUFFIX, EXPORTED, *FOREIGN)
        advice = [f"the nearest is {near}"] if (near := _nearest_model(path)) is not None else []
        advice += [f"{HUB}{text} opens it from the hub"] if hub else []
        expect(False, f"the model {text}", "a file or a run's folder that exists", "none there", "; ".join(advice))
    if text in preset_names():
        return None
    if not _has_torch():
        names = ", ".join(packaged.names())
        got, do = "another name, without torch", "presets need it: pip install foveal[torch]"
        raise FovealError(f"the model {text}: expected {names}, a file or a run's folder, got {got}; {do}")
    raise unknown("model", text, (*packaged.names(), *preset_names()))


def _has_torch() -> bool:
    import importlib.util

    return importlib.util.find_spec("torch") is not None


def _nearest_model(path: Path) -> Path | None:
    """The run or the file that is nearest to a path which is not there.

    In the nearest folder, if its own is not there either.
    """
    folder = path.parent
    with contextlib.suppress(OSError):  # what cannot be read is no advice
        if not folder.is_dir():
            folders = [one.name for one in folder.parent.iterdir() if one.is_dir()]
            folder = folder.parent / (nearest(folder.name, folders) or folder)
        found = nearest(
            path.name,
            [one.name for one in folder.iterdir() if one.suffix in (SUFFIX, EXPORTED) or (one / FILE).is_file()],
        )
        return None if found is None else folder / found
    return None


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
    if not _has_torch():
        return ()
    from foveal.models.zoo import presets_of

    kinds = dict.fromkeys(task.kind for task in tasks or all_tasks())  # two tasks may train the same models
    return tuple(name for kind in kinds for name in presets_of(kind))


def list_models(pattern: str = "*", task: str | None = None) -> list[str]:
    """The names that `foveal.load` knows, such as "icam*": presets, then weights that come with foveal.

    `foveal.create` makes new networks of presets only.
    """
    import fnmatch

    expect(isinstance(pattern, str), "list_models", 'a pattern such as "icam*"', short_repr(pattern))
    known = preset_names(*([] if task is None else [find_task(task)]))
    weights = tuple(name for name in packaged.names() if task is None or _packaged_task(name) == task)
    found = [name for name in (*known, *weights) if fnmatch.fnmatch(name, pattern)]
    if not found and not any(sign in pattern for sign in "*?["):  # a name, which nothing has
        got, do = f"the task {pattern!r}", f"list_models(task={pattern!r})"
        expect(pattern not in task_names(), "list_models", "a pattern of names, or task=", got, do)
        raise unknown("model", pattern, (*known, *weights))
    return found


def _packaged_task(name: str) -> str | None:
    file = packaged.packaged(name, EXPORTED)
    return None if file is None else task_in(Session(file).card)


def _preset(name: str, device: str, threads: int, config: dict[str, Any]) -> Model:
    import torch

    from foveal.models.zoo import create, presets_of

    task = next(one for one in all_tasks() if name in presets_of(one.kind))
    with torch.random.fork_rng(devices=[]):  # the same weights each time, and the caller's generator stays as it is
        torch.manual_seed(0)
        network = create(name, **config).eval()
    card = dataclasses.replace(task.new_card(name, network), random=True)
    return Model(task, card, network=network, device=device, threads=threads)


def _task_of(text: str, file: Path) -> Task:
    """The task that a card names; a card of before `format: 1` may name none, and classified images."""
    name = task_in(text)
    try:
        return find_task(str(name))
    except FovealError as error:
        raise FovealError(f"{file}: expected the card of a model for a task that is installed, got {error}") from None
