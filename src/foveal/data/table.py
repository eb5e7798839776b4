"""labels.csv: a header, then one line per image.

    file    the image, relative to the folder of the csv
    label   its class; several joined by `;` make the set multi-label, as a header `labels` does.
            Instead: one 0/1 column for each class
    split   train, val or test (optional);   fold: an integer (optional);   group: what may not be torn apart (optional)

Any other column can make the folds instead, a fold for each of its values: a campaign, a city, a camera.

The columns may be separated by comma, semicolon or tab. Every error names the line.
"""

import csv
import io
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from foveal.data.folds import folds, groups
from foveal.data.source import UNKNOWN, FileImages, Names, Source
from foveal.errors import FovealError, counted, expect, expect_plain_file, reading, unknown

KNOWN, BITS = ("file", "split", "fold", "group"), ("0", "1")
LOOKED_AT = 100  # files until it is clear where they lie
WORDS = {"train": 0, "training": 0, "val": 1, "valid": 1, "validation": 1, "test": 2, "testing": 2, "": -1}
TELLING = 0.5  # a column with more than this share of 0 and 1 is meant as a class, and another value in it is a mistake

Labelled = tuple[tuple[str, ...], bool, NDArray[np.integer], list[int]]  # classes, many, labels, the rows to keep


@dataclass(frozen=True)
class Table:
    """The csv as columns of text, with the line of each row."""

    path: Path
    columns: dict[str, list[str]]
    lines: list[int]

    def error(self, row: int, what: str) -> FovealError:
        return FovealError(f"{self.path}, line {self.lines[row]}: {what}")

    def kept(self, rows: list[int]) -> "Table":
        columns = {name: [values[row] for row in rows] for name, values in self.columns.items()}
        return Table(self.path, columns, [self.lines[row] for row in rows])


def read_table(path: Path, name: str, label: str | None = None, fold_column: str | None = None) -> Source:
    """The Source that a csv describes.

    `label` names the column of the classes, or several 0/1 columns with commas between them; `fold_column` the column
    whose values are the folds, instead of the column fold.
    """
    table = parse(path)
    notes: list[str] = []
    if fold_column is not None and (fold_column not in table.columns or fold_column == "file"):
        raise unknown(f"column of {path.name}", fold_column, set(table.columns) - {"file"})
    chosen, bits = _label_columns(table, label, fold_column)
    classes, multi_label, labels, rows = _from_bits(table, chosen) if bits else _from_words(table, chosen[0], notes)
    rows = once(table, rows, labels, fold_column, notes)
    table, labels = table.kept(rows), labels[rows]
    split, fold, names, group = divisions(table, fold_column, notes)
    used = {"file", "split", fold_column or "fold", "group", *chosen}
    if ignored := [column for column in table.columns if column not in used]:
        notes.append(f"columns not used: {', '.join(ignored)}")
    images = FileImages(str(path.parent), Names.of(table.columns["file"]), (folder_of(table),))
    return Source(
        name, path.name, classes, multi_label, labels, split, images, fold, group, notes=tuple(notes), fold_names=names
    )


def divisions(
    table: Table, fold_column: str | None, notes: list[str]
) -> tuple[NDArray[np.int8], NDArray[np.int64] | None, tuple[str, ...], NDArray[np.int64] | None]:
    """The split, the fold, the names of the folds and the group of each row."""
    fold, names = folds(table, fold_column, notes)
    words = table.columns.get("split", [""] * len(table.lines))
    split = np.array([_split(table, row, word) for row, word in enumerate(words)], np.int8)
    return split, fold, names, groups(table, split, fold, fold_column, notes)


def columns_of(path: Path) -> list[str]:
    """What the first line names."""
    try:
        text = _text(path)
        return _named(
            next(
                (
                    cells
                    for cells in csv.reader(io.StringIO(text, newline=""), delimiter=_separator(text))
                    if any(cells)
                ),
                [],
            )
        )
    except csv.Error:
        return []


def parse(path: Path) -> Table:
    """Text into columns; a row of the wrong length is an error."""
    text = _text(path)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_separator(text), strict=True)
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        header: list[str] = []
        for cells in reader:
            if not any(cells):
                continue
            if not header:
                header = _header(path, cells)
                continue
            if len(cells) != len(header):
                raise FovealError(
                    f"{path}, line {reader.line_num}: expected {len(header)} columns as in the header "
                    f"({', '.join(header)}), got {len(cells)}"
                )
            rows.append(cells)
            lines.append(reader.line_num)
    except csv.Error as error:
        raise FovealError(
            f"{path}, line {reader.line_num}: expected separated text, got {error}; check the quotation marks"
        ) from None
    if not rows:
        raise FovealError(
            f"{path}: expected a header and a line for each image, got {'a header only' if header else 'nothing'}"
        )
    columns = {
        name: [cell.strip() for cell in column] for name, column in zip(header, zip(*rows, strict=True), strict=True)
    }
    table = Table(path, columns, lines)
    for row, file in enumerate(columns["file"]):
        if not file:
            raise table.error(row, "column file: expected the name of an image, got nothing")
    return table


def _separator(text: str) -> str:
    first = text.lstrip("\r\n").partition("\n")[0]
    return max(",;\t", key=first.count)


def _text(path: Path) -> str:
    expect_plain_file(path)
    with reading(path):
        content = path.read_bytes()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FovealError(
            f"{path}, line {line}: expected text in UTF-8, got the byte {content[error.start]:#04x}; save it as UTF-8"
        ) from None


def _named(cells: list[str]) -> list[str]:
    known = {*KNOWN, "label", "labels"}
    return [cell.strip() if cell.strip().lower() not in known else cell.strip().lower() for cell in cells]


def _header(path: Path, cells: list[str]) -> list[str]:
    header = _named(cells)
    if "file" not in header:
        raise FovealError(
            f"{path}: expected a column called file, got {', '.join(header)}; the first line names the columns"
        )
    for place, name in enumerate(header, 1):
        if not name:
            raise FovealError(f"{path}: expected a name for every column in the header, got none for column {place}")
        if header.count(name) > 1:
            raise FovealError(
                f"{path}: expected columns with different names, got {name!r} {header.count(name)} times in the header"
            )
    return header


def _label_columns(table: Table, label: str | None, fold_column: str | None) -> tuple[list[str], bool]:
    """Which columns hold the classes, and whether they are 0/1 columns."""
    columns = [name for name in table.columns if name not in (*KNOWN, fold_column)]
    if label is not None:
        wanted = [label] if label in table.columns else [part.strip() for part in label.split(",")]
        for name in wanted:
            if name not in table.columns or name == "file":
                raise unknown(f"column of {table.path.name}", name, set(table.columns) - {"file"})
            expect(
                name != fold_column,
                "--fold-column",
                "another column than that of the classes",
                name,
                "a fold would have one class only",
            )
        return wanted, len(wanted) > 1
    for name in ("label", "labels"):
        expect(
            fold_column != name,
            "--fold-column",
            "another column than that of the classes",
            name,
            "a fold would have one class only",
        )
        if name in table.columns:
            return [name], False
    found = [name for name in columns if share_of_bits(table.columns[name]) > TELLING]
    if not found:
        raise FovealError(
            f"{table.path}: expected a column called label, or a column of 0 and 1 for each class, got "
            f"{', '.join(table.columns)}; "
            "name the column of the classes with label (--label)"
        )
    return found, True


def share_of_bits(values: list[str]) -> float:
    return sum(value in BITS for value in values) / len(values)


def _from_bits(table: Table, chosen: list[str]) -> Labelled:
    labels = np.zeros((len(table.lines), len(chosen)), np.uint8)
    for place, column in enumerate(chosen):
        for row, value in enumerate(table.columns[column]):
            if value not in BITS:
                advice = "to leave the column out, name the 0/1 columns to use with label (--label a,b,c)"
                raise table.error(row, f"column {column}: expected 0 or 1, got {value!r}; {advice}")
            labels[row, place] = value == "1"
    return tuple(chosen), True, labels, list(range(len(labels)))


def _from_words(table: Table, column: str, notes: list[str]) -> Labelled:
    words = table.columns[column]
    multi_label = column == "labels" or any(";" in word for word in words)
    sets = [
        [part.strip() for part in word.split(";") if part.strip()] if multi_label else [word] if word else []
        for word in words
    ]
    for row, word in enumerate(words):
        if word and not sets[row]:
            raise table.error(
                row, f"column {column}: expected classes between the ;, got {word!r}; leave it empty where none holds"
            )
    classes = tuple(sorted({word for several in sets for word in several}))
    if len(classes) < (1 if multi_label else 2):
        raise FovealError(
            f"{table.path}: expected at least 2 classes in the column {column}, got {', '.join(classes) or 'none'}"
        )
    place = {word: index for index, word in enumerate(classes)}
    if multi_label:
        labels = np.zeros((len(sets), len(classes)), np.uint8)
        for row, several in enumerate(sets):
            labels[row, [place[word] for word in several]] = 1
        return classes, True, labels, list(range(len(sets)))
    rows = [row for row, several in enumerate(sets) if several]
    if left := len(sets) - len(rows):
        notes.append(f"{counted(left, 'image')} left out: the column {column} is empty")
    return classes, False, np.array([place[several[0]] if several else UNKNOWN for several in sets], np.int64), rows


def once(
    table: Table,
    rows: list[int],
    labels: NDArray[np.integer] | list[str],
    fold_column: str | None,
    notes: list[str],
    what: str = "label",
) -> list[int]:
    """Every file once, also where it is written in two ways, as 0.jpg and ./0.jpg.

    Listed again with another label, split, fold or group it is an error. what: how a label is called.
    """
    first: dict[str, int] = {}
    kept = []
    for row in rows:
        file = table.columns["file"][row]
        earlier = first.setdefault(os.path.normpath(file), row)
        if earlier == row:
            kept.append(row)
            continue
        if not np.array_equal(labels[row], labels[earlier]):
            raise table.error(
                row, f"{file} has another {what} than in line {table.lines[earlier]}; keep one of the two lines"
            )
        for column in ("split", fold_column or "fold", "group"):
            values = table.columns.get(column)
            if values is not None and values[row] != values[earlier]:
                raise table.error(
                    row, f"{file} has {column} {values[row]}, but {values[earlier]} in line {table.lines[earlier]}"
                )
    if left := len(rows) - len(kept):
        notes.append(f"{left} lines left out: they repeat a file")
    return kept


def _split(table: Table, row: int, word: str) -> int:
    if word.lower() not in WORDS:
        raise table.error(row, f"column split: expected train, val or test, got {word!r}")
    return WORDS[word.lower()]


def folder_of(table: Table) -> str:
    """Files are named from the folder of the csv, or from its folder `images`: the first that is in either decides."""
    root = table.path.parent
    for name in table.columns["file"][:LOOKED_AT]:
        # A name that no file system takes is not there, either: Path.exists would raise.
        if os.path.exists(root / name):  # noqa: PTH110
            return ""
        if os.path.exists(root / "images" / name):  # noqa: PTH110
            return "images"
    return ""
