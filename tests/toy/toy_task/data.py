"""A folder of images with `values.csv` beside them: one row per image, with the columns file, value and split.

No torch.
"""

import csv
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from foveal.errors import FovealError, expect, reading
from foveal.runtime.image import Pixels, open_image

TABLE, SPLITS = "values.csv", ("train", "val", "test")


class Readings:
    """Images (n, S, S, 3) of bytes, and the value that each one shows (n,)."""

    folds = 0  # it has none

    def __init__(self, name: str, files: list[str], values: NDArray[np.float32], splits: list[str]) -> None:
        self.name, self.files, self.values, self.splits = name, files, values, np.array(splits)

    def rows(self, split: str) -> NDArray[np.int64]:
        found = np.flatnonzero(self.splits == split)
        expect(len(found) > 0, f"the split {split} of {self.name}", "at least one image", "none")
        return found

    def images(self, rows: NDArray[np.int64], size: int) -> Pixels:
        return np.stack([open_image(self.files[row], size) for row in rows])

    def summary(self) -> str:
        return f"{self.name}: " + ", ".join(f"{(self.splits == split).sum()} {split}" for split in SPLITS)

    def fingerprint(self) -> str:
        parts = [*self.files, *self.splits, self.values.tobytes().hex()]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def facts(self) -> dict[str, Any]:
        return {"name": self.name, "images": len(self.files), "fingerprint": self.fingerprint()}


def read(data: str) -> Readings:
    folder = Path(data)
    with reading(folder / TABLE), (folder / TABLE).open(encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    try:
        values = np.array([row["value"] for row in table], np.float32)
        files, splits = [str(folder / row["file"]) for row in table], [row["split"] for row in table]
    except (KeyError, ValueError) as error:
        raise FovealError(f"{folder / TABLE}: expected the columns file, value and split, got {error}") from None
    expect(
        set(splits) <= set(SPLITS),
        str(folder / TABLE),
        f"the splits {', '.join(SPLITS)}",
        ", ".join(sorted(set(splits))),
    )
    return Readings(folder.name, files, values, splits)


def draw(folder: Path, count: int, size: int = 32, seed: int = 0) -> list[tuple[int, int]]:
    """Make such a folder: a red disc in each image, whose green is the value.

    Returns the disc's centre (x, y) of each.
    """
    random, rows, centres = np.random.default_rng(seed), ["file,value,split"], []
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        value, (x, y) = random.uniform(), random.integers(5, size - 5, 2)
        image = random.integers(0, 64, (size, size, 3))
        down, right = np.mgrid[:size, :size]
        image[(right - x) ** 2 + (down - y) ** 2 <= 16] = (255, round(255 * value), 0)
        Image.fromarray(image.astype(np.uint8)).save(folder / f"{number:04}.png")
        rows.append(
            f"{number:04}.png,{value:.4f},{'val' if number % 5 == 3 else 'test' if number % 5 == 4 else 'train'}"
        )
        centres.append((int(x), int(y)))
    (folder / TABLE).write_text("\n".join(rows) + "\n", encoding="utf-8")
    return centres
