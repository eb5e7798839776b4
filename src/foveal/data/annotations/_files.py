"""What the formats share: text that others wrote is checked before it is believed, and files lie below their folder."""

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from PIL import Image

from foveal.data.annotated import AnnotatedImage, AnnotatedSet, Finding, box_of, findings_of
from foveal.data.class_names import text_of
from foveal.data.label_maps import LabelMap, size_of
from foveal.data.outline import Points
from foveal.data.source import FileImages, Images
from foveal.data.splits import SPLITS
from foveal.data.table import WORDS
from foveal.errors import FovealError, counted, expect, is_integer, is_number, reading, short_repr
from foveal.progress import Progress
from foveal.runtime.components import BACKGROUND, UNLABELLED
from foveal.runtime.image import LARGEST, SUFFIXES, BadImage

LONGEST = 1 << 30  # bytes of one file of annotations
FURTHEST = 1e7  # pixels from the image's corner, of any coordinate
LOOKED_AT = 20  # files until it is clear where images lie


def json_of(path: Path) -> Any:
    """What a file of JSON holds; NaN and infinity are no JSON."""
    try:
        return json.loads(text_of(path, LONGEST), parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        if isinstance(error, FovealError):
            raise
        what = getattr(error, "msg", "") or str(error).partition(";")[0]
        where = f", line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise FovealError(f"{path}{where}: expected JSON, got something else ({what}); export it again") from None


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number")


def safe_name(name: object, where: str) -> str:
    """The name of a file below the set's folder, with /; anything else is refused."""
    text = name.replace("\\", "/") if isinstance(name, str) else ""
    parts = PurePosixPath(text).parts
    fits = bool(parts) and ".." not in parts and not text.startswith("/") and "\0" not in text and ":" not in parts[0]
    expect(fits, where, "the name of a file in the set's folder", short_repr(name), "name images from there")
    return "/".join(part for part in parts if part != ".")


def sides(height: object, width: object, where: str) -> tuple[int, int]:
    """The size of an image."""
    if is_integer(height) and is_integer(width):
        high, wide = int(height), int(width)  # type: ignore[call-overload]
        if high > 0 and wide > 0 and high * wide <= LARGEST:
            return high, wide
    got = f"{short_repr(height)}, {short_repr(width)}"
    raise FovealError(f"{where}: expected a height and a width, at most {LARGEST:,} pixels, got {got}")


def size_if_there(path: Path) -> tuple[int, int]:
    """Height and width of an image; 0, 0 of what is none, which whoever opens it will say."""
    try:
        return size_of(str(path))
    except BadImage:
        return 0, 0


def numbers(values: object, where: str, count: int | None = None) -> list[float]:
    """Coordinates, of which there are so many."""
    listed = list(values) if isinstance(values, (list, tuple)) else []
    fits = all(is_number(one) and abs(one) <= FURTHEST for one in listed) and (bool(listed) or values == [])
    expected = f"{'coordinates' if count is None else f'{count} coordinates'} within {FURTHEST:.0e} pixels"
    expect(fits and count in (None, len(listed)), where, expected, short_repr(values))
    return [float(one) for one in listed]


def polygon_of(values: Sequence[float], where: str) -> Points:
    """x, y, x, y, … of at least three corners."""
    expect(len(values) % 2 == 0 and len(values) >= 6, where, "x, y of at least 3 corners", f"{len(values)} numbers")
    return np.array(values, np.float64).reshape(-1, 2)


def float_of(text: str | None, where: str) -> float:
    """A coordinate that is written as text."""
    try:
        number = float(text or "")
    except ValueError:
        number = np.nan
    expect(abs(number) <= FURTHEST, where, f"a coordinate within {FURTHEST:.0e} pixels", short_repr(text))
    return number


def classes_seen(names: Iterable[str], listed: Sequence[str] = ()) -> tuple[str, ...]:
    """The classes that are listed, in that order, and then all others, by letter."""
    return (*listed, *sorted(set(names) - set(listed)))


def split_in(*words: str) -> int:
    """The split that names of files and folders tell, such as instances_train2017.json; −1 where they tell none."""
    for word in words:
        for part in re.split(r"[^a-z]+", word.lower()):
            if part and part in WORDS:
                return WORDS[part]
    return -1


def folder_with(root: Path, names: Sequence[str], folders: Iterable[str]) -> str:
    """In which of these folders, below the root, images of these names lie; the first, where in none."""
    listed = list(dict.fromkeys(folders))
    for name in names[:LOOKED_AT]:
        for folder in listed:
            if os.path.exists(os.path.join(root, folder, name)):  # noqa: PTH110, PTH118 — a name may be no path at all
                return folder
    return listed[0]


def images_below(root: Path, folder: Path) -> list[str]:
    """All images of a folder, named from the root, by letter."""
    found = [
        os.path.relpath(os.path.join(place, name), root).replace(os.sep, "/")  # noqa: PTH118 — once for each file
        for place, _, files in os.walk(folder)
        for name in files
        if name.lower().endswith(SUFFIXES) and not name.startswith(".")
    ]
    return sorted(found)


def items_to_write(
    annotated: AnnotatedSet, progress: Progress
) -> Iterator[tuple[str, AnnotatedImage, Callable[[Path], None]]]:
    """Of each image the name that it gets, its findings, and what writes it: files as they are, others as PNG."""
    names = _flat_names(annotated)
    for index, name in enumerate(progress(names, len(names), "writing")):
        yield name, annotated.items[index], partial(_write_image, annotated.images, index)


def _flat_names(annotated: AnnotatedSet) -> list[str]:
    """A name for each image without folders: its own, where no other has it; else with its folders."""
    paths = [PurePosixPath(annotated.images.file(index)) for index in range(len(annotated))]
    stems = Counter(path.stem for path in paths)
    suffix = "" if isinstance(annotated.images, FileImages) else ".png"
    names = [(path.name if stems[path.stem] == 1 else "_".join(path.parts)) + suffix for path in paths]
    names = ["".join(sign if sign.isprintable() else "_" for sign in name) for name in names]
    twice = [name for name, count in Counter(PurePosixPath(name).stem for name in names).items() if count > 1]
    expect(not twice, annotated.name, "images of different names", f"{twice[0] if twice else ''} twice")
    return names


def _write_image(images: Images, index: int, file: Path) -> None:
    if isinstance(images, FileImages):
        with reading(images.path(index)):
            shutil.copyfile(images.path(index), placed(file))
    else:
        Image.fromarray(images.image(index, None)).save(placed(file), "PNG")


def placed(file: Path) -> Path:
    """The file, whose folder is made. All files of a set get their names at once, when the set is whole."""
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


def write_file(file: Path, content: bytes) -> None:
    placed(file).write_bytes(content)


def split_name(split: int, otherwise: str) -> str:
    return SPLITS[split] if split >= 0 else otherwise


def of_groups(shapes: Sequence[tuple[str, str, Finding]], classes: tuple[str, ...]) -> list[Finding]:
    """Findings of shapes with a class and a group each, in the order in which they are drawn: polygons of one class and
    one group, which is not "", are one finding. What is no class has the label 0.
    """
    findings: list[Finding] = []
    grouped: dict[tuple[str, str], int] = {}
    for name, group, shape in shapes:
        label = classes.index(name) + 1 if name in classes else BACKGROUND
        place = grouped.setdefault((name, group), len(findings)) if group and shape.polygons else len(findings)
        before = findings[place].polygons if place < len(findings) else ()
        parts = (*before, *shape.polygons)
        findings[place : place + 1] = [Finding(label, box_of(parts) if parts else shape.box, parts, shape.runs)]
    return findings


def image_of(
    file: str, size: tuple[int, int], findings: Sequence[Finding], split: int = -1, group: str = ""
) -> AnnotatedImage:
    """An annotated image without findings of the background: what they cover is no longer of what lies below."""
    item = AnnotatedImage(file, *size, tuple(findings), split, group)
    if all(one.label for one in findings):
        return item
    return AnnotatedImage(file, *size, findings_of(item.label_map), split, group)


class Lost:
    """Counts what a format cannot hold, image by image."""

    def __init__(self) -> None:
        self.unlabelled = self.covered = self.groups = self.folds = 0

    def see(
        self, item: AnnotatedImage, label_map: LabelMap | None = None, *, group: bool = False, fold: bool = False
    ) -> None:
        """label_map: what is kept instead of findings; group, fold: whether they are kept."""
        self.groups += bool(item.group) and not group
        self.folds += bool(item.fold) and not fold
        if label_map is None:
            self.unlabelled += item.given is not None and bool((item.given == UNLABELLED).any())
        elif item.given is None:
            windows = [one.window(item.height, item.width) for one in item.findings]
            self.covered += sum(int(inside.sum()) for _, _, inside in windows) > int((label_map > 0).sum())

    def notes(self) -> list[str]:
        found = (
            (self.unlabelled, "unlabelled pixels, which are background now"),
            (self.covered, "findings that lie over each other, of which a label map shows the upper one"),
            (self.groups, "a group, which this format has no place for"),
            (self.folds, "a fold, which this format has no place for"),
        )
        return [f"{counted(count, 'image')} with {what}" for count, what in found if count]
