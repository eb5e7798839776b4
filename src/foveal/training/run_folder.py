"""A run's folder: its files, whether a run in it has ended, and whether another may go on there.

No torch is needed to ask.
"""

import dataclasses
import json
from pathlib import Path
from typing import Any, TypeVar

from foveal.errors import FovealError, expect, reading
from foveal.options import load_yaml
from foveal.runtime.card import with_renamed_config
from foveal.runtime.packaged import FILE
from foveal.training.recipe import Recipe, located, located_weights

Kind = TypeVar("Kind", bound=Recipe)
RECIPE, DATA, RESULT = "recipe.yaml", "data.json", "result.json"
# Options that may be written as they were typed in another folder, and what makes absolute paths of them.
PATHS = {"data": located, "init_from": located_weights}


def finished(recipe: Recipe, folder: Path, resume: bool) -> dict[str, Any] | None:
    """The result of a run that has ended; None of one that has not.

    Another run's folder is left alone, and so is anybody else's.
    """
    expect(
        folder.is_dir() or not folder.exists(),
        f"the folder {folder}",
        "a new or empty one",
        "a file",
        "choose another --out",
    )
    if not (folder / RECIPE).exists():
        expect(
            is_empty(folder),
            f"the folder {folder}",
            "a new or empty one, or one with a run in it",
            "other files",
            "choose another --out",
        )
        return None
    advice = "add --resume to continue it, or choose another --out"
    expect(resume, f"the folder {folder}", "a new or empty one", "one with a run in it", advice)
    expect_same_recipe(recipe, folder)
    if not (folder / RESULT).exists() or not (folder / FILE).exists():
        return None  # a model that was removed is made again from the run's last weights
    return read_result(folder)


def expect_outside(folder: Path, data: str) -> None:
    """Raise a FovealError where a new run's folder would lie among its data,
    and be taken for some of them when these are read again.
    """
    with reading(folder):
        inside = Path(data).is_dir() and Path(data).resolve() in (folder.resolve(), *folder.resolve().parents)
    expect(not inside, f"the folder {folder}", f"one outside of the data, {data}", "one inside", "choose another --out")


def is_empty(folder: Path) -> bool:
    """Whether there is nothing of anybody's in a folder, which need not exist."""
    return not folder.exists() or all(
        part.name.startswith(".") and part.name.endswith(".part") for part in folder.iterdir()
    )


def expect_same_recipe(recipe: Recipe, folder: Path) -> None:
    kept, now = _kept_options(type(recipe), folder), load_yaml(recipe.text())
    differing = sorted(key for key in now if kept.get(key) != now[key])
    got = f"others for {', '.join(differing)}"
    expect(not differing, f"the run in {folder}", "the options it was begun with", got, "choose another --out")


def kept_recipe(kind: type[Kind], folder: Path) -> Kind | None:
    """The recipe that the run in a folder was begun with; None where none was."""
    if not (folder / RECIPE).exists():
        return None
    names = {one.name for one in dataclasses.fields(kind)}
    options = {name: value for name, value in _kept_options(kind, folder).items() if name in names}
    try:
        return kind(**options)
    except FovealError as error:
        raise FovealError(f"{folder / RECIPE}: {error}") from None


def _kept_options(kind: type[Recipe], folder: Path) -> dict[str, Any]:
    with reading(folder / RECIPE):
        try:
            kept = load_yaml((folder / RECIPE).read_text(encoding="utf-8"))
        except (FovealError, UnicodeDecodeError) as error:
            raise FovealError(f"{folder / RECIPE}: expected the recipe of a run, got a damaged file: {error}") from None
    expect(isinstance(kept, dict), str(folder / RECIPE), "the recipe of a run", "something else")
    kept = {kind.renamed.get(key, key): value for key, value in kept.items()}
    kept = with_renamed_config(kept, kind.renamed_config.get(str(kept.get("model")).partition("-")[0], {}))
    kept |= {name: absolute(kept[name]) for name, absolute in PATHS.items() if isinstance(kept.get(name), str)}
    # options that are newer than the run had their defaults
    return dict(load_yaml(kind().text()) | kind.before | kept)


def expect_same_data(folder: Path, data: Any) -> None:
    """Raise a FovealError unless a run is resumed with the data that it began with:
    a sample that was trained on may now be tested.
    """
    if not (folder / DATA).exists():
        return
    kept, now = read_json(folder / DATA), data.facts()
    same = all(kept.get(name) in (None, now.get(name)) for name in ("fingerprint", "classes", "file_sizes"))
    expect(
        same,
        f"the run in {folder}",
        f"the data it was begun with, {data.name}",
        "data that have changed",
        "choose another --out",
    )


def read_result(folder: Path) -> dict[str, Any]:
    """The result of a run that has ended."""
    result = read_json(folder / RESULT)
    expect_result(result, str(folder / RESULT), "remove it to have the run finished again")
    return result


def expect_result(result: dict[str, Any], where: str, do: str = "") -> None:
    """Raise a FovealError unless a result has what is read of any task's: the number that its `figure` names, too."""
    needed: dict[str, type | tuple[type, ...]] = {
        "model": str,
        "epoch": int,
        figure_of(result): (int, float),
        "seconds": (int, float),
    }
    damaged = sorted(name for name, kind in needed.items() if not isinstance(result.get(name), kind))
    expect(not damaged, where, f"a result with {', '.join(needed)}", f"one without {', '.join(damaged)}", do)


def figure_of(result: dict[str, Any]) -> str:
    """The name of the number that sums a run up; results that are older than this entry have a val_score."""
    return str(result.get("figure", "val_score"))


def outcome(name: str, result: dict[str, Any]) -> str:
    """A run of several that has ended, in a line."""
    figure = figure_of(result)
    score = f"{figure.replace('val_', 'validation ', 1)} {result[figure]:.4f}"
    return f"{name}: {score} at epoch {result['epoch']}, {result['seconds']:.0f} s"


def tidy(folder: Path) -> None:
    """Remove what a killed run had not written whole."""
    for part in folder.glob(".*.part"):
        part.unlink(missing_ok=True)


def read_json(file: Path) -> dict[str, Any]:
    """What a file of a run holds; an error names one that is damaged."""
    with reading(file):
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
        except (ValueError, RecursionError):
            content = None
    expect(
        isinstance(content, dict),
        str(file),
        "a file that a run wrote",
        "a damaged one",
        "remove it, and go on with --resume",
    )
    return dict(content)
