"""Sewer-ML in its official layout, indexed without a Python object for each of its 1.3 million images.

    DIR/SewerML_Train.csv  SewerML_Val.csv  SewerML_Test.csv      any of them; a file with names only has no labels
    DIR/Train/*.png  Val (or Valid)  Test                         or the images beside the csv

Columns: Filename, a 0/1 column for each of the 17 codes, others (VA the water level, ND no defect). No code at all
means normal. The csv is read in blocks: the places of all commas and line ends, as (rows, columns), are where every
field starts and stops.

Paper: Haurum, Moeslund, "Sewer-ML: A multi-label sewer defect classification dataset and benchmark", CVPR 2021.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from foveal.data.source import UNKNOWN_BIT, FileImages, Names, Source
from foveal.data.splits import SPLITS
from foveal.errors import FovealError
from foveal.metrics.importance import CIW

CODES = tuple(CIW)
FILES = {"train": "SewerML_Train.csv", "val": "SewerML_Val.csv", "test": "SewerML_Test.csv"}
FOLDERS = {"train": ("Train", "train"), "val": ("Val", "Valid", "val", "valid"), "test": ("Test", "test")}
BLOCK = 1 << 22  # bytes of text at a time
COMMA, LINE, ZERO, ONE = b",\n01"

Bytes = NDArray[np.uint8]


def matches(path: Path) -> bool:
    return any((path / file).is_file() for file in FILES.values())


def read(path: Path, name: str) -> Source:
    """The Source of a folder with at least one of the three csv files."""
    there = [split for split in SPLITS if (path / FILES[split]).is_file()]
    parts = [_Part(path / FILES[split]) for split in there]
    sizes = [len(part.labels) for part in parts]
    places = [next((place for place in FOLDERS[split] if (path / place).is_dir()), "") for split in there]
    lengths = np.concatenate([np.zeros(1, np.int64), *(part.lengths for part in parts)])
    names = Names(b"".join(part.names for part in parts), np.cumsum(lengths, dtype=np.int64))
    images = FileImages(str(path), names, tuple(places), np.repeat(np.arange(len(there), dtype=np.int8), sizes))
    return Source(
        name=name,
        format="Sewer-ML",
        classes=CODES,
        multi_label=True,
        labels=np.concatenate([part.labels for part in parts]),
        split=np.repeat(np.array([SPLITS.index(split) for split in there], np.int8), sizes),
        images=images,
        importance=np.array(list(CIW.values())),
        notes=tuple(note for part in parts for note in part.notes),
    )


class _Part:
    """One csv: its labels (n, 17), its names joined, and the length of each."""

    def __init__(self, path: Path) -> None:
        self.path, self.notes, self.row = path, list[str](), 0
        labels, names, lengths, odd = [], [], [], 0
        blocks = self._blocks()
        header = next(blocks).tobytes().decode("utf-8-sig", "replace").strip().split(",")
        self.header = [column.strip().strip('"') for column in header]
        place = self._column("Filename")
        codes = [self._column(code) for code in CODES] if any(code in self.header for code in CODES) else []
        defect = self.header.index("Defect") if codes and "Defect" in self.header else None
        for block in blocks:
            starts, stops = self._fields(block)
            inside = np.zeros(len(block) + 1, np.int8)
            inside[starts[:, place]] = 1
            inside[stops[:, place]] -= 1  # a name without a letter adds nothing
            names.append(block[np.cumsum(inside[:-1], dtype=np.int8) > 0].tobytes())
            lengths.append((stops[:, place] - starts[:, place]).astype(np.int32))
            self._expect(lengths[-1] > 0, "Filename: expected the name of an image, got nothing")
            labels.append(
                self._bits(block, starts, stops, codes)
                if codes
                else np.full((len(starts), len(CODES)), UNKNOWN_BIT, np.uint8)
            )
            if defect is not None:
                odd += int((labels[-1].any(1) != (self._bits(block, starts, stops, [defect])[:, 0] == 1)).sum())
            self.row += len(starts)
        if not self.row:
            raise FovealError(f"{path}: expected a header and a line for each image, got no image")
        if odd:
            self.notes.append(
                f"{path.name}: in {odd} lines the column Defect says otherwise than the codes; the codes are used"
            )
        self.labels, self.names, self.lengths = np.concatenate(labels), b"".join(names), np.concatenate(lengths)

    def _blocks(self) -> Iterator[Bytes]:
        """The header; then whole lines, about BLOCK bytes at a time."""
        try:
            with self.path.open("rb") as file:
                yield np.frombuffer(file.readline(), np.uint8)
                while block := file.read(BLOCK):
                    block += file.readline()
                    if b"\r" in block or b'"' in block:
                        block = block.replace(b"\r\n", b"\n").replace(b'"', b"")
                    block = block if block.endswith(b"\n") else block + b"\n"
                    if block.endswith(b"\n\n") and not file.peek(1):
                        block = block.rstrip(b"\n") + b"\n"  # empty lines at the end
                    if block != b"\n":
                        yield np.frombuffer(block, np.uint8)
        except OSError as error:
            raise FovealError(f"cannot read {self.path}: {error.strerror or error}") from None

    def _column(self, name: str) -> int:
        if name not in self.header:
            raise FovealError(
                f"{self.path}: expected a column called {name}, got {', '.join(self.header) or 'nothing'}"
            )
        return self.header.index(name)

    def _fields(self, block: Bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(rows, columns): where every field starts, and where it stops."""
        stops = np.flatnonzero((block == COMMA) | (block == LINE))
        ends = np.flatnonzero(block[stops] == LINE)  # the stop of each line's last field
        columns = np.diff(ends, prepend=-1)
        self._expect(
            columns == len(self.header), f"expected {len(self.header)} columns as in the header, got {{}}", columns
        )
        starts = np.empty_like(stops)
        starts[0], starts[1:] = 0, stops[:-1] + 1
        return starts.reshape(-1, len(self.header)), stops.reshape(-1, len(self.header))

    def _bits(self, block: Bytes, starts: NDArray[np.int64], stops: NDArray[np.int64], columns: list[int]) -> Bytes:
        bits = np.empty((len(starts), len(columns)), np.uint8)
        for place, column in enumerate(columns):
            value = block[starts[:, column]]
            holds = (stops[:, column] - starts[:, column] == 1) & ((value == ZERO) | (value == ONE))
            if not holds.all():
                row = int(np.argmin(holds))
                got = block[starts[row, column] : stops[row, column]].tobytes().decode(errors="replace")
                self._expect(holds, f"column {self.header[column]}: expected 0 or 1, got {got!r}")
            bits[:, place] = value - ZERO
        return bits

    def _expect(self, holds: NDArray[np.bool_], what: str, got: NDArray[np.int64] | None = None) -> None:
        if not holds.all():
            row = int(np.argmin(holds))
            line = self.row + row + 2  # counted from 1, after the header
            raise FovealError(f"{self.path}, line {line}: {what.format(got[row]) if got is not None else what}")
