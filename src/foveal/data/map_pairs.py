"""Which image has which label map: by a csv, or by the names of folders and files.

A csv names both, in the columns file and mask; an empty mask says that nothing is found there. In folders, a word of a
folder's name says what lies in it, and another one in which split; an image and a label map belong together where the
rest of their names is the same:

    images/7.jpg               masks/7.png
    train/images/7.jpg         train/masks/7.png        images/train/7.jpg   masks/train/7.png
    train_img/7.jpg            train_lab/7.png          test/7.png           test/7_mask.png
"""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from foveal.data.read import expect_finished
from foveal.data.table import KNOWN, WORDS, columns_of, divisions, folder_of, once, parse, share_of_bits
from foveal.errors import FovealError, counted
from foveal.runtime.image import SUFFIXES

MASK = "mask"  # the column of label maps
WORDED = ("label", "class", "category", "labels", "classes")  # columns that may name what an image shows
IMAGES = {"images", "image", "imgs", "img", "photos", "frames", "input", "inputs", "original", "originals", "rgb"}
MAPS = {
    "masks", "mask", "labels", "label", "lab", "labs", "annotations", "annotation", "ann", "gt", "groundtruth",
    "ground", "truth", "maps", "map", "seg", "segmentations", "segmentation",
}  # fmt: skip
ENDINGS = ("mask", "masks", "gt", "label", "labels", "seg", "segmentation", "map", "annotation", "groundtruth")
TABLES = ("index.csv", "labels.csv")
Key = tuple[int, str]  # the split and the rest of a name
DEEP = 3  # folders that are looked into for images and label maps


@dataclass(frozen=True)
class Pairs:
    """N images, and the label map of each."""

    root: Path
    format: str
    images: list[str]  # below the root
    maps: list[str | None]  # below the root; "": nothing is found there; None: there is none
    split: NDArray[np.int8]
    fold: NDArray[np.int64] | None = None
    group: NDArray[np.int64] | None = None
    fold_names: tuple[str, ...] = ()
    bits: dict[str, list[str]] = field(default_factory=dict)  # 0/1 columns of the csv, which may be of the classes
    words: list[str] | None = None  # of each image a class, where the csv has a column of them
    notes: list[str] = field(default_factory=list)


def table_of(path: Path) -> Path | None:
    """The csv that names label maps: the path itself, or the one in a folder."""
    if not path.is_dir():
        is_table = path.suffix.lower() in (".csv", ".tsv", ".txt")
        return path if is_table and MASK in columns_of(path) else None
    named = [path / name for name in TABLES if (path / name).is_file()]
    others = sorted(one for one in path.glob("*.csv") if one not in named and not one.name.startswith("."))
    return next((one for one in (*named, *others) if MASK in columns_of(one)), None)


def are_folders(path: Path) -> bool:
    """Whether images lie in one folder, and label maps in another, or beside them under names such as 7_mask.png."""
    if not path.is_dir():
        return False
    images, maps = _images_and_maps(path)
    return any(file.key in maps for file in images)


def images_beside_maps(path: Path) -> bool:
    """The same, with a folder that is called images: what cannot be folders of classes."""
    return are_folders(path) and any("images" in file.name.split("/")[:-1] for file in _images_and_maps(path)[0])


def pairs_of_table(path: Path, fold_column: str | None = None) -> Pairs:
    """What the csv says."""
    notes: list[str] = []
    table = parse(path)
    masks = table.columns[MASK]
    table = table.kept(once(table, list(range(len(masks))), masks, fold_column, notes, MASK))
    split, fold, names, group = divisions(table, fold_column, notes)
    root, folder = path.parent, folder_of(table)
    word = next((column for column in WORDED if column in table.columns), "")
    used = {"file", MASK, "split", fold_column or "fold", "group", word}
    if ignored := [column for column in table.columns if column not in used]:
        notes.append(f"columns not used: {', '.join(ignored)}")
    maps = _found(root, table.columns[MASK])
    images = [f"{folder}/{name}" if folder else name for name in table.columns["file"]]
    words = table.columns.get(word)
    return Pairs(root, path.name, images, list(maps), split, fold, group, names, notes=notes, words=words)


def pairs_of_folders(path: Path, fold_column: str | None = None) -> Pairs:
    """What the names of folders and files say. A csv beside them may say more: splits, groups, folds and classes."""
    expect_finished(path)
    images, maps = _images_and_maps(path)
    notes: list[str] = []
    shared: dict[str, tuple[str | None, int]] = {}  # of each image its label map and its split
    seen: dict[Key, str] = {}
    for file in images:
        if (earlier := seen.setdefault(file.key, file.name)) != file.name:
            raise FovealError(f"{path}: expected one image of each name, got {earlier} and {file.name}; rename one")
        found = maps.pop(file.key, [None])
        if len(found) > 1:
            raise FovealError(f"{path}: expected one label map of each name, got {found[0]} and {found[1]}; remove one")
        shared[file.name] = (found[0], file.key[0])
    if maps:
        first = min(str(names[0]) for names in maps.values())
        notes.append(f"{counted(len(maps), 'label map')} without an image of that name left out, such as {first}")
    table = next((path / name for name in TABLES[::-1] if (path / name).is_file()), None)
    if table is None or "file" not in columns_of(table):
        split = np.array([split for _, split in shared.values()], np.int8)
        return Pairs(path, "label maps", list(shared), [one for one, _ in shared.values()], split, notes=notes)
    return _by_table(path, table, shared, fold_column, notes)


def _by_table(
    path: Path, listing: Path, shared: dict[str, tuple[str | None, int]], fold_column: str | None, notes: list[str]
) -> Pairs:
    """The pairs that a csv without a column mask lists, such as that of `foveal render`."""
    table = parse(listing)
    rows = list(range(len(table.lines)))
    table = table.kept(once(table, rows, [""] * len(rows), fold_column, notes))
    split, fold, names, group = divisions(table, fold_column, notes)
    folder = folder_of(table)
    images = [f"{folder}/{name}" if folder else name for name in table.columns["file"]]
    chosen = [name for name in table.columns if name not in (*KNOWN, *WORDED, fold_column)]
    bits = {name: table.columns[name] for name in chosen if share_of_bits(table.columns[name]) == 1}
    found = [shared.get(os.path.normpath(name).replace(os.sep, "/"), (None, -1)) for name in images]
    if "split" not in table.columns:
        split = np.array([by_name for _, by_name in found], np.int8)
    maps = [one for one, _ in found]
    return Pairs(path, f"label maps, {listing.name}", images, maps, split, fold, group, names, bits, None, notes)


def _found(root: Path, names: list[str]) -> Iterable[str | None]:
    """Label maps are named from the folder of the csv or from its folder masks, as the first of them is."""
    first = next((name for name in names if name), "")
    # A name that no file system takes is not there, either: Path.exists would raise.
    there, inside = (os.path.exists(place / first) for place in (root, root / "masks"))  # noqa: PTH110
    below = "masks/" if inside and not there else ""
    return (f"{below}{name}" if name else "" for name in names)


@dataclass(frozen=True)
class _File:
    name: str  # below the root
    role: str | None  # image, map, or what no folder says
    key: Key
    short: Key  # without an ending such as _mask


def _images_and_maps(root: Path) -> tuple[list[_File], dict[Key, list[str | None]]]:
    """All images, and the label maps by the name that their image has."""
    files = list(_walked(root))
    roles = {file.role for file in files}
    images = [file for file in files if file.role == "image"]
    maps = [file for file in files if file.role == "map"]
    beside = [file for file in files if file.role is None]
    if "map" not in roles:
        maps = [file for file in beside if file.short != file.key]
    if "image" not in roles:
        images = [file for file in beside if file.short == file.key or "map" in roles]
    keys = {file.key for file in images}
    of_any_split = {rest: (split, rest) for split, rest in keys}
    called: dict[Key, list[str | None]] = {}
    for file in maps:
        key = file.key if file.key in keys else file.short
        if key not in keys and key[0] < 0:  # images of every split have their label maps in one place
            key = of_any_split.get(key[1], key)
        called.setdefault(key, []).append(file.name)
    return sorted(images, key=lambda file: file.name), called


def _walked(root: Path) -> Iterator[_File]:
    for place, inside, files in os.walk(root):
        below = os.path.relpath(place, root).replace(os.sep, "/")
        parts = [] if below == "." else below.split("/")
        inside[:] = sorted(name for name in inside if not _hidden(name)) if len(parts) < DEEP else []
        role, split, rest = _meaning(parts)
        for file in sorted(files):
            if _hidden(file) or not file.lower().endswith(SUFFIXES):
                continue
            stem = os.path.splitext(file)[0]  # noqa: PTH122 — once for each file
            key, short = ((split, "/".join([*rest, one])) for one in (stem, _without_ending(stem)))
            yield _File("/".join([*parts, file]), role, key, short)


def _meaning(parts: list[str]) -> tuple[str | None, int, list[str]]:
    """What lies in a folder: image or map, None where its name says neither; the split; the rest of its name."""
    role, split, rest = None, -1, []
    for part in parts:
        left = []
        for word in re.split(r"[_\-. ]+", part.lower()):
            if word in WORDS and word:
                split = WORDS[word]
            elif word in IMAGES or word in MAPS:
                role = "image" if word in IMAGES else "map"
            else:
                left.append(word)
        if left:
            rest.append("_".join(left))
    return role, split, rest


def _without_ending(stem: str) -> str:
    """7 of 7_mask, 7-GT or 7_label."""
    head, sign, tail = stem.rpartition("_") if "_" in stem else stem.rpartition("-")
    return head if sign and tail.lower() in ENDINGS else stem


def _hidden(name: str) -> bool:
    return name.startswith(".") or name == "__MACOSX"
