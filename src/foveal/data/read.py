"""read(what) → Source: finds out which of the field's formats a name or a path is, and reads it.

pipes, pipes:N, pipes:N:SEED           rendered pipes, no download
what a reader of data/formats/ knows     such as a folder with SewerML_{Train,Val,Test}.csv
a .csv file, or a folder with labels.csv (or index.csv, or one csv alone that has no class folders beside it)
any other folder                       class folders
"""

from collections import Counter
from dataclasses import replace
from pathlib import Path

from foveal.data.class_folders import holds_classes, read_folder
from foveal.data.divide import SHARES
from foveal.data.divided import divided
from foveal.data.formats import reader_of
from foveal.data.source import Source
from foveal.data.table import columns_of, read_table
from foveal.errors import FovealError, expect, reading
from foveal.file_names import expanded

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
        return divided(read_pipes(text), split, seed)
    path = expanded(text)
    with reading(path):
        source = _from_path(path, label, fold_column)
    alike = _alike(source.classes)
    return divided(replace(source, notes=(*source.notes, alike)) if alike else source, split, seed)


def is_rendered(name: str) -> bool:
    """Whether this names rendered pipes, and no file."""
    return name.partition(":")[0] == "pipes" and not Path(name).exists()


def has_column(name: str, column: str) -> bool:
    """Whether the csv of a set has this column; a set without a csv has none."""
    path = expanded(name)
    if is_rendered(name) or not path.exists() or reader_of(path) is not None:
        return False
    table = table_in(path) if path.is_dir() else path
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
    if (table := table_in(path)) is not None:
        return read_table(table, name, label, fold_column)
    expect_finished(path)
    aside = _csv_files(path)
    advice = f"to read {aside[0].name}, name that file itself" if len(aside) == 1 else ""
    for what, column in (("--label", label), ("--fold-column", fold_column)):
        expect(column is None, what, f"none, since {path} is read as class folders", column, advice)
    source = read_folder(path, name)
    return replace(source, notes=(*source.notes, f"the class folders are read; {advice}")) if advice else source


def expect_finished(path: Path) -> None:
    """A rendering has its labels only when all frames are drawn; its folders are no classes."""
    unfinished = (path / MARK).is_file() and not (path / TABLES[0]).is_file()
    expect(
        not unfinished,
        str(path),
        "a finished rendering",
        "one that was stopped half-way",
        "go on with the same foveal render command",
    )


def table_in(folder: Path) -> Path | None:
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


def _alike(classes: tuple[str, ...]) -> str:
    """Classes that are likely one."""
    times = Counter(name.casefold() for name in classes)
    same = [name for name in classes if times[name.casefold()] > 1]
    return f"classes that differ only in case: {', '.join(same)}" if same else ""
