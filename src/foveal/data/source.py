"""A set of labelled images as every part of foveal sees it: classes, labels, splits, and a way to get image i.

A Source holds arrays, never a Python object for each image, so that a million of them cost tens of megabytes and
travel to worker processes.
"""

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from foveal.data.splits import SPLITS
from foveal.errors import counted, expect, is_integer, printable, short_repr, unknown
from foveal.runtime.card import check_classes
from foveal.runtime.image import Pixels, open_image

UNKNOWN, UNKNOWN_BIT = -1, 255  # the label of an image whose label nobody gave: one-label, multi-label
UNLABELLED = "?"  # the same in a table of predictions, where the class would stand
ASKED = 65_536  # files of a set whose sizes are compared: tenths of a second
LISTED = 8  # classes that the one line names


class Images(Protocol):
    """Where images come from: files, or a renderer."""

    def __len__(self) -> int: ...
    def file(self, index: int) -> str: ...
    def image(self, index: int, size: int | None) -> Pixels: ...


@dataclass(frozen=True, eq=False)
class Names:
    """N strings in one buffer: name i is buffer[offsets[i] : offsets[i + 1]]."""

    buffer: bytes
    offsets: NDArray[np.int64]  # (N + 1,)

    @classmethod
    def of(cls, names: Iterable[str]) -> "Names":
        encoded = [os.fsencode(name) for name in names]
        return cls(b"".join(encoded), np.cumsum([0, *map(len, encoded)], dtype=np.int64))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> str:
        return os.fsdecode(self.buffer[self.offsets[index] : self.offsets[index + 1]])


@dataclass(frozen=True, eq=False)
class FileImages:
    """Files on disk: image i is root / folders[place[i]] / names[i]. Nothing is looked at before it is asked for."""

    root: str
    names: Names
    folders: tuple[str, ...] = ("",)
    place: NDArray[np.int8] | None = None  # (N,) index in folders; None: all in the first

    def __len__(self) -> int:
        return len(self.names)

    def file(self, index: int) -> str:
        folder = self.folders[0 if self.place is None else int(self.place[index])]
        return f"{folder}/{self.names[index]}" if folder else self.names[index]

    def path(self, index: int) -> str:
        return os.path.join(self.root, self.file(index))  # noqa: PTH118 — once for each image of a training run

    def image(self, index: int, size: int | None) -> Pixels:
        return open_image(self.path(index), size)

    def file_sizes(self) -> str:
        """A digest of how many bytes the files have, of ASKED of them where there are more: pixels that change under
        the same name seldom keep their size, and no file is opened for it.
        """
        step = -(-len(self) // ASKED) or 1
        sizes = [_bytes(self.path(index)) for index in range(0, len(self), step)]
        return hashlib.sha256(np.array(sizes, np.int64).tobytes()).hexdigest()[:16]


def _bytes(path: str) -> int:
    """How many bytes a file has; −1 where there is none."""
    try:
        return os.stat(path).st_size  # noqa: PTH116 — once for each file
    except OSError:
        return -1


@dataclass(frozen=True, eq=False)
class Source:
    """N labelled images. Unknown labels are −1 (one-label) or 255 (multi-label); a split of −1 is in no split."""

    name: str
    format: str
    classes: tuple[str, ...]
    multi_label: bool  # several classes may hold for one image
    labels: NDArray[np.integer]  # multi_label: (N, C) uint8 of 0/1; else (N,) int64
    split: NDArray[np.int8]  # (N,) index in SPLITS
    images: Images
    fold: NDArray[np.int64] | None = None
    group: NDArray[np.int64] | None = None
    importance: NDArray[np.float64] | None = None  # (C,) class-importance weights
    notes: tuple[str, ...] = ()  # what a reader left out, guessed or made: a sentence each
    fold_names: tuple[str, ...] = ()  # what the folds are called, where they are the values of a column

    def __post_init__(self) -> None:
        count = len(self.images)
        shape = (count, len(self.classes)) if self.multi_label else (count,)
        expect(self.labels.shape == shape, "labels", f"{count} rows", self.labels.shape)
        check_classes(self.classes, f"the classes of {printable(self.name)}")
        for name in self.classes:
            fits = name != UNLABELLED and ";" not in name  # a table of predictions has them joined by ;
            expect(
                fits,
                f"a class of {self.name}",
                f"a name without ; that is not {UNLABELLED}",
                short_repr(name),
                "rename the class",
            )
        for what, values in (("split", self.split), ("fold", self.fold), ("group", self.group)):
            expect(
                values is None or values.shape == (count,),
                what,
                f"{count} values",
                None if values is None else values.shape,
            )

    def __len__(self) -> int:
        return len(self.images)

    def file(self, index: int) -> str:
        """What to call image `index` in a report."""
        return self.images.file(self._checked(index))

    def image(self, index: int, size: int | None = None) -> Pixels:
        """(H, W, 3) uint8 RGB, or exactly (size, size, 3). Raises BadImage."""
        return self.images.image(self._checked(index), size)

    @property
    def folds(self) -> int:
        return 0 if self.fold is None or not len(self.fold) else int(self.fold.max()) + 1

    def fold_name(self, fold: int) -> str:
        """What to call a fold in a report."""
        return self.fold_names[fold] if self.fold_names else f"fold {fold}"

    def indices(self, split: str, fold: int | None = None) -> NDArray[np.int64]:
        """The images of a split. With folds: fold k tests, fold k + 1 (mod F) is val, the rest trains."""
        if split not in SPLITS:
            raise unknown("split", str(split), SPLITS)
        if fold is None:
            return np.flatnonzero(self.split == SPLITS.index(split))
        expect(self.fold is not None, "fold", f"none, since {self.name} has no column fold", fold)
        expect(
            self.folds >= 3,
            "fold",
            "at least 3 folds in the data, to test, to choose and to train with",
            f"{self.folds} folds",
        )
        expect(is_integer(fold) and 0 <= fold < self.folds, "fold", f"0 to {self.folds - 1}", short_repr(fold))
        test, val = self.fold == fold, self.fold == (fold + 1) % self.folds
        return np.flatnonzero({"test": test, "val": val, "train": ~(test | val)}[split])

    def known(self, indices: NDArray[np.integer] | None = None) -> NDArray[np.bool_]:
        """Which images have a label."""
        labels = self.labels if indices is None else self.labels[indices]
        return np.asarray((labels != UNKNOWN_BIT).all(1) if self.multi_label else labels != UNKNOWN)

    def counts(self, indices: NDArray[np.integer] | None = None) -> NDArray[np.int64]:
        """(C,) how many images show each class."""
        labels = self.labels if indices is None else self.labels[indices]
        if self.multi_label:
            return np.asarray((labels == 1).sum(0, dtype=np.int64))
        return np.bincount(labels[labels != UNKNOWN], minlength=len(self.classes)).astype(np.int64)

    def describe(self) -> str:
        """The set in one line."""
        listed = [f"{name} {count}" for name, count in zip(self.classes, self.counts(), strict=True)]
        if len(listed) > LISTED:
            listed = [*listed[: LISTED - 1], f"… {len(listed) - LISTED + 1} more"]
        if self.multi_label:
            listed.append(f"none {int(((self.labels != 1).all(1) & self.known()).sum())}")
        parts = [
            (
                f"{counted(len(self.classes), 'class', 'classes')}"
                f"{', several labels per image' if self.multi_label else ''} ({', '.join(listed)})"
            )
        ]
        sizes = [
            (name, int((self.split == place).sum()))
            for place, name in ((0, "train"), (1, "val"), (2, "test"), (-1, "in no split"))
        ]
        parts.append(" · ".join(f"{name} {size}" for name, size in sizes if size))
        if unlabelled := int((~self.known()).sum()):
            parts.append(f"{unlabelled} without a label")
        if self.fold is not None:
            parts.append(counted(self.folds, "fold"))
        if self.group is not None:
            parts.append(counted(len(np.unique(self.group)), "group"))
        return f"{printable(self.name)}: {self.format}, {', '.join(parts)}"

    def summary(self) -> str:
        """The one line, and under it what the reader left out, guessed or made."""
        return "\n  ".join([self.describe(), *map(printable, self.notes)])

    def fingerprint(self) -> str:
        """Of images, labels and splits: the same if, and only if, nothing has moved from one split to another."""
        digest = hashlib.sha256()
        for values in (self.labels, self.split, self.fold):
            digest.update(b"" if values is None else np.ascontiguousarray(values).tobytes())
        names = getattr(self.images, "names", None)
        digest.update(names.buffer if isinstance(names, Names) else os.fsencode(self.file(0)) if len(self) else b"")
        return digest.hexdigest()[:16]

    def facts(self) -> dict[str, object]:
        """What a run folder keeps of its data: plain values that JSON can hold."""
        sizes: dict[str, object] = {}
        for place, split in enumerate(SPLITS):
            chosen = np.flatnonzero(self.split == place)
            classes = dict(zip(self.classes, self.counts(chosen).tolist(), strict=True))
            sizes[split] = {"images": len(chosen), "labelled": int(self.known(chosen).sum()), "classes": classes}
        return {
            "name": printable(self.name),
            "format": self.format,
            "classes": list(self.classes),
            "multi_label": self.multi_label,
            "images": len(self),
            "splits": sizes,
            "folds": self.folds,
            "fold_names": list(map(printable, self.fold_names)),
            "groups": 0 if self.group is None else len(np.unique(self.group)),
            "importance": None if self.importance is None else self.importance.tolist(),
            "notes": list(map(printable, self.notes)),
            "fingerprint": self.fingerprint(),
            "file_sizes": self.images.file_sizes() if isinstance(self.images, FileImages) else None,
        }

    def _checked(self, index: int) -> int:
        expect(
            is_integer(index) and 0 <= index < len(self),
            "image",
            f"a number from 0 to {len(self) - 1}",
            short_repr(index),
        )
        return int(index)
