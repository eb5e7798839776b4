"""Class folders: every image lies in a folder that is called as its class.

    DIR/CLASS/image.jpg                    no split given
    DIR/{train,val,test}/CLASS/image.jpg   val may be called valid or validation, test testing, train training

A class folder is searched to its bottom; what is hidden is ignored, and what is no image by its suffix is counted.
"""

import os
from pathlib import Path

import numpy as np

from foveal.data.source import FileImages, Names, Source
from foveal.data.splits import SPLITS
from foveal.data.table import WORDS
from foveal.errors import FovealError, counted, reading
from foveal.file_names import in_utf8
from foveal.runtime.image import SUFFIXES


def read_folder(root: Path, name: str) -> Source:
    """The Source of a folder of class folders."""
    parts = _parts(root)
    folders = {folder for _, inside in parts for folder in _folders(inside)}
    called = dict(sorted((in_utf8(folder), folder) for folder in folders))  # in one order, whatever the locale
    classes = tuple(called)
    if not classes:
        raise _unusable(root, "no folder inside")
    names: list[str] = []
    labels: list[int] = []
    splits: list[int] = []
    other = 0
    for split, inside in parts:
        for label, folder in enumerate(called.values()):
            files, rest = _files(inside / folder)
            other += rest
            names += [f"{inside.relative_to(root).as_posix()}/{folder}/{file}".removeprefix("./") for file in files]
            labels += [label] * len(files)
            splits += [split] * len(files)
    if not names:
        beside = f" ({counted(other, 'other file')})" if other else ""
        raise _unusable(root, f"{counted(len(classes), 'folder')} without an image{beside}")
    counts = np.bincount(labels, minlength=len(classes))
    if len(classes) < 2:
        raise _unusable(root, f"the one class {classes[0]} ({counted(int(counts[0]), 'image')})")
    if not counts.all():
        raise FovealError(
            f"{root}: expected images in every class folder, got none in {classes[int(np.argmin(counts))]}; fill or "
            "remove it"
        )
    notes = (f"{counted(other, 'file')} left out: no suffix of an image",) if other else ()
    images = FileImages(str(root), Names.of(names))
    return Source(
        name,
        "class folders",
        classes,
        False,
        np.array(labels, np.int64),
        np.array(splits, np.int8),
        images,
        notes=notes,
    )


def holds_classes(root: Path) -> bool:
    """Whether at least two folders with images lie there, as read_folder wants them.

    One called images is no class: a table's images lie so.
    """
    folders = _folders(root)
    if "images" in folders:
        return False
    return len({place.name for place in _class_folders(root) if _holds_image(place)}) > 1


def hold_classes_alone(root: Path) -> bool:
    """The same, and no folder without an image beside them, as annotations have."""
    return holds_classes(root) and all(_holds_image(place) for place in _class_folders(root))


def _class_folders(root: Path) -> list[Path]:
    folders = _folders(root)
    parts = [root / folder for folder in folders if folder.lower() in WORDS] or [root]
    return [inside / folder for inside in parts for folder in _folders(inside)]


def _holds_image(folder: Path) -> bool:
    return any(
        file.lower().endswith(SUFFIXES) and not _hidden(file) for _, _, files in os.walk(folder) for file in files
    )


def _parts(root: Path) -> list[tuple[int, Path]]:
    """(split, the folder that holds its class folders).

    One part with the split −1 where the folders are the classes.
    """
    folders = _folders(root)
    words = {folder: WORDS.get(folder.lower(), -1) for folder in folders}
    if not any(split >= 0 for split in words.values()):
        return [(-1, root)]
    if classes := [folder for folder in folders if words[folder] < 0]:
        splits = ", ".join(folder for folder in folders if words[folder] >= 0)
        raise FovealError(
            f"{root}: expected class folders, or train, val and test with class folders inside, got both: {splits} "
            f"beside {classes[0]}"
        )
    twice = [split for split in words.values() if list(words.values()).count(split) > 1]
    if twice:
        raise FovealError(
            f"{root}: expected one folder for {SPLITS[twice[0]]}, got "
            f"{', '.join(f for f in folders if words[f] == twice[0])}"
        )
    return sorted((split, root / folder) for folder, split in words.items())


def _folders(root: Path) -> list[str]:
    with reading(root), os.scandir(root) as entries:
        return sorted(entry.name for entry in entries if entry.is_dir() and not _hidden(entry.name))


def _files(folder: Path) -> tuple[list[str], int]:
    """The images below a folder, as names relative to it in sorted order; and how many other files there are."""
    found: list[str] = []
    other = 0
    for place, inside, files in os.walk(folder):
        inside[:] = [name for name in inside if not _hidden(name)]
        prefix = os.path.relpath(place, folder).replace(os.sep, "/")
        for file in files:
            if _hidden(file):
                continue
            if file.lower().endswith(SUFFIXES):
                found.append(file if prefix == "." else f"{prefix}/{file}")
            else:
                other += 1
    return sorted(found), other


def _hidden(name: str) -> bool:
    return name.startswith(".") or name == "__MACOSX"


def _unusable(root: Path, got: str) -> FovealError:
    return FovealError(
        f"{root}: expected a labels.csv, or a folder for each of at least 2 classes with images inside, got {got}"
    )
