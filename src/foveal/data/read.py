"""read(what) → Source: finds out which of the field's formats a name or a path is, and reads it.

pipes, pipes:N, pipes:N:SEED           rendered pipes, no download
what a reader of data/formats/ knows     such as a folder with SewerML_{Train,Val,Test}.csv
a .csv file, or a folder with labels.csv (or index.csv, or one csv alone that has no class folders beside it)
any other folder                       class folders
"""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from foveal.data.class_folders import holds_classes, read_folder
from foveal.data.divide import SHARES, divide
from foveal.data.formats import reader_of
from foveal.data.source import Source
from foveal.data.splits import SPLITS
from foveal.data.table import columns_of, read_table
from foveal.errors import FovealError, counted, expect, reading
from foveal.file_names import expanded

FAR = 0.1  # how much of the images a split may have more or fewer than its share, and still be called by that
TABLES = ("labels.csv", "index.csv")
MARK = "render.json"  # foveal render's own, in a folder that it has begun


def read(
    name_or_path: str,
    *,
    label: str | None = None,
    fold_column: str | None = None,
    split: tuple[float, float, float] | None = SHARES,
    seed: int = 0,
) -> Source:
    """Read a set.

    `label` picks the column of a csv that holds the classes, `fold_column` one whose values are the folds. `split` are
    the shares of train, val and test where the set gives none; a set that has train and no val gives val's share of
    train away. split=None leaves it as it is given.
    """
    text = str(name_or_path)
    if is_rendered(text):
        from foveal.data.rendered import read_pipes

        expect(fold_column is None, "--fold-column", "none: rendered pipes have no columns", fold_column)
        return _divided(read_pipes(text), split, seed)
    path = expanded(text)
    with reading(path):
        source = _from_path(path, label, fold_column)
    alike = _alike(source.classes)
    return _divided(replace(source, notes=(*source.notes, alike)) if alike else source, split, seed)


def is_rendered(name: str) -> bool:
    """Whether this names rendered pipes, and no file."""
    return name.partition(":")[0] == "pipes" and not Path(name).exists()


def has_column(name: str, column: str) -> bool:
    """Whether the csv of a set has this column; a set without a csv has none."""
    path = expanded(name)
    if is_rendered(name) or not path.exists() or reader_of(path) is not None:
        return False
    table = _table_in(path) if path.is_dir() else path
    return table is not None and column in columns_of(table)


def _from_path(path: Path, label: str | None, fold_column: str | None) -> Source:
    if not path.exists():
        raise FovealError(f"{path}: expected pipes, or a folder or a csv file that exists, got nothing there")
    name = path.resolve().name if path.is_dir() else path.resolve().parent.name
    if (reader := reader_of(path)) is not None:
        for what, column in (("--label", label), ("--fold-column", fold_column)):
            expect(column is None, what, f"none: {reader.__name__.rpartition('.')[2]} has its own columns", column)
        return reader.read(path, name)  # type: ignore[no-any-return]
    if not path.is_dir():
        expect(
            path.suffix.lower() in (".csv", ".tsv", ".txt"),
            str(path),
            "a folder or a csv file",
            f"a file of kind {path.suffix or 'none'}",
        )
        return read_table(path, name, label, fold_column)
    if (table := _table_in(path)) is not None:
        return read_table(table, name, label, fold_column)
    unfinished = (
        path / MARK
    ).is_file()  # a rendering has its labels only when all frames are drawn; its folders are no classes
    expect(
        not unfinished,
        str(path),
        "a finished rendering",
        "one that was stopped half-way",
        "go on with the same foveal render command",
    )
    aside = _csv_files(path)
    advice = f"to read {aside[0].name}, name that file itself" if len(aside) == 1 else ""
    for what, column in (("--label", label), ("--fold-column", fold_column)):
        expect(column is None, what, f"none, since {path} is read as class folders", column, advice)
    source = read_folder(path, name)
    return replace(source, notes=(*source.notes, f"the class folders are read; {advice}")) if advice else source


def _table_in(folder: Path) -> Path | None:
    """The csv that describes the set.

    Beside class folders it must be called so and name files: any other is somebody's list.
    """
    named = [folder / table for table in TABLES if (folder / table).is_file()]
    if named and ("file" in columns_of(named[0]) or not holds_classes(folder)):
        return named[0]
    found = _csv_files(folder)
    return found[0] if len(found) == 1 and not holds_classes(folder) else None


def _csv_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.csv") if not path.name.startswith("."))


def _divided(source: Source, shares: tuple[float, float, float] | None, seed: int) -> Source:
    """The source with a train, a val and a test split, as far as nobody gave them."""
    if shares is None:
        return source
    split, given = source.split.copy(), source.split >= 0
    made: list[str] = []
    if not given.any() and source.fold is not None and source.folds >= 3:
        split[:], split[source.fold == 0], split[source.fold == 1] = 0, 2, 1
        note = "no split was given: fold 0 is test, fold 1 is val"
    elif not given.any():
        split = divide(source.labels, source.group, shares, seed)
        made = [name for name, share in zip(SPLITS, shares, strict=True) if share > 0]
        note = f"no split was given: divided {_divided_how(split, shares)}, seed {seed}"
    elif (split == 0).any() and not (split == 1).any() and shares[1] > 0:
        train = np.flatnonzero(split == 0)
        group = None if source.group is None else source.group[train]
        split[train] = divide(source.labels[train], group, (1 - shares[1], shares[1], 0.0), seed)
        made = ["train", "val"]
        note = f"no val was given: {counted(int((split == 1).sum()), 'image')} of train, seed {seed}"
    else:
        untrained = _untrained(source)
        return replace(source, notes=(*source.notes, untrained)) if untrained else source
    source = replace(source, split=split, notes=(*source.notes, note))
    rare = _too_rare(source, made) if made else ""
    return replace(source, notes=(*source.notes, rare)) if rare else source


def _divided_how(split: NDArray[np.int8], shares: tuple[float, float, float]) -> str:
    """The shares, as they are: of many small classes, each of which must be in every split, no share can be small."""
    real = [float((split == place).mean()) for place in range(3)]
    far = max(abs(one - wanted) for one, wanted in zip(real, shares, strict=True)) > FAR
    words = " · ".join(f"{share:.0%}" for share in (real if far else shares))
    return f"{words}, so that classes of few images are in every split" if far else words


def _alike(classes: tuple[str, ...]) -> str:
    """Classes that are likely one."""
    times = Counter(name.casefold() for name in classes)
    same = [name for name in classes if times[name.casefold()] > 1]
    return f"classes that differ only in case: {', '.join(same)}" if same else ""


def _untrained(source: Source) -> str:
    """What a split that somebody gave leaves out."""
    if source.fold is not None or not (source.split == 0).any():
        return ""
    never = [
        name for name, count in zip(source.classes, source.counts(source.indices("train")), strict=True) if not count
    ]
    return f"classes without a training image: {', '.join(never)}" if never else ""


def _too_rare(source: Source, made: list[str]) -> str:
    """What no division can mend: a class with one image is trained on or tested, never both."""
    counts = np.stack([source.counts(source.indices(name)) for name in made])  # (splits, C)
    rare = [
        f"{name} ({count})"
        for name, count, least in zip(source.classes, counts.sum(0), counts.min(0), strict=True)
        if not least
    ]
    many = "images" if source.group is None else "groups"
    return (
        f"classes with too few {many} to be in {', '.join(made[:-1])} and {made[-1]}: {', '.join(rare)}" if rare else ""
    )
