"""read(what) → Source: finds out which of the field's formats a name or a path is, and reads it.

pipes, pipes:N, pipes:N:SEED           drawn pipes, no download
a folder with SewerML_{Train,Val,Test}.csv
a .csv file, or a folder with labels.csv (or index.csv, or one csv alone)
any other folder                       class folders
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from foveal.data.divide import SHARES, divide
from foveal.data.folder import read_folder
from foveal.data.sewer_ml import is_sewer_ml, read_sewer_ml
from foveal.data.source import Source
from foveal.data.table import read_table
from foveal.errors import FovealError, expect

TABLES = ("labels.csv", "index.csv")
MARK = "render.json"  # foveal render's own, in a folder that it has begun


def read(name_or_path: str, *, label: str | None = None, split: tuple[float, float, float] | None = SHARES, seed: int = 0) -> Source:
    """Read a set. `label` picks the column of a csv that holds the classes. `split` are the shares of train, val and test where the set
    gives none; a set that has train and no val gives val's share of train away. split=None leaves it as it is given."""
    text = str(name_or_path)
    if text.partition(":")[0] == "pipes" and not Path(text).exists():
        from foveal.data.rendered import read_pipes

        return _divided(read_pipes(text), split, seed)
    return _divided(_from_path(Path(text).expanduser(), label), split, seed)


def _from_path(path: Path, label: str | None) -> Source:
    if not path.exists():
        raise FovealError(f"{path}: expected pipes, or a folder or a csv file that exists, got nothing there")
    name = path.resolve().name if path.is_dir() else path.resolve().parent.name
    if not path.is_dir():
        expect(
            path.suffix.lower() in (".csv", ".tsv", ".txt"), str(path), "a folder or a csv file", f"a file of kind {path.suffix or 'none'}"
        )
        return read_table(path, name, label)
    if is_sewer_ml(path):
        expect(label is None, "label", "none: Sewer-ML has its own columns", label)
        return read_sewer_ml(path, name)
    if (table := _table_in(path)) is not None:
        return read_table(table, name, label)
    unfinished = (path / MARK).is_file()  # a rendering has its labels only when all frames are drawn; its folders are no classes
    expect(not unfinished, str(path), "a finished rendering", "one that was stopped half-way", "go on with the same foveal render command")
    expect(label is None, "label", f"none, since {path} holds no csv but class folders", label)
    return read_folder(path, name)


def _table_in(folder: Path) -> Path | None:
    for table in TABLES:
        if (folder / table).is_file():
            return folder / table
    found = sorted(path for path in folder.glob("*.csv") if not path.name.startswith("."))
    return found[0] if len(found) == 1 else None


def _divided(source: Source, shares: tuple[float, float, float] | None, seed: int) -> Source:
    """The source with a train, a val and a test split, as far as nobody gave them."""
    if shares is None:
        return source
    split, given = source.split.copy(), source.split >= 0
    if not given.any() and source.fold is not None and source.folds >= 3:
        split[:], split[source.fold == 0], split[source.fold == 1] = 0, 2, 1
        note = "no split was given: fold 0 is test, fold 1 is val"
    elif not given.any():
        split = divide(source.labels, source.group, shares, seed)
        note = f"no split was given: divided {' · '.join(f'{share:.0%}' for share in shares)}, seed {seed}"
    elif (split == 0).any() and not (split == 1).any() and shares[1] > 0:
        train = np.flatnonzero(split == 0)
        group = None if source.group is None else source.group[train]
        split[train] = divide(source.labels[train], group, (1 - shares[1], shares[1], 0.0), seed)
        note = f"no val was given: {int((split == 1).sum())} pictures of train, seed {seed}"
    else:
        return source
    return replace(source, split=split, notes=(*source.notes, note))
