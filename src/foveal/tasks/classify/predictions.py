"""What a run predicted: the tables predictions-val.csv and predictions-test.csv of its folder, as arrays again."""

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from foveal.data.source import UNLABELLED
from foveal.errors import FovealError, expect

LOGIT = "logit "


@dataclass(frozen=True, eq=False)
class Predicted:
    files: tuple[str, ...]
    classes: tuple[str, ...]
    truth: NDArray[np.integer]  # (N,), or (N, C) of 0/1
    logits: NDArray[np.float64]  # (N, C)
    model: NDArray[np.int64] | None = None  # (N,): which of several models predicted it; None: one predicted all


def read_predicted(file: Path, multi_label: bool) -> Predicted:
    """The images whose label is known; the others cannot be evaluated."""
    try:
        with file.open(encoding="utf-8", errors="surrogateescape", newline="") as lines:
            head, *rows = csv.reader(lines)
    except (OSError, ValueError, csv.Error) as error:
        raise FovealError(f"{file}: expected the predictions of a run, got {error}") from None
    named = head[:2] == ["file", "truth"] and all(name.startswith(LOGIT) and name.isprintable() for name in head[2:])
    expect(named, str(file), "the predictions of a run, with columns file, truth, logit …", ascii(head))
    classes = tuple(name.removeprefix(LOGIT) for name in head[2:])
    place = {name: index for index, name in enumerate(classes)}
    rows = [row for row in rows if row[1:2] != [UNLABELLED]]
    marks = np.zeros((len(rows), len(classes)), np.int64)
    try:
        for row, present in zip(rows, marks, strict=True):
            for name in [name for name in row[1].split(";") if name] if multi_label else [row[1]]:
                present[place[name]] = 1
        logits = np.array([[float(value) for value in row[2:]] for row in rows]).reshape(len(rows), len(classes))
    except (KeyError, ValueError, IndexError) as error:
        raise FovealError(
            f"{file}: expected a class and numbers in each row, got {error}; the file is damaged"
        ) from None
    return Predicted(tuple(row[0] for row in rows), classes, marks if multi_label else marks.argmax(1), logits)
