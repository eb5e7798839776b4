"""Windows of images as a set of classes: findings up close, and places without any, for `foveal train classify`.

    side S           the multiple of 16 nearest to 2 · median of the findings' longer sides, or the first that 90 % of
                     them fit into, if that is larger; at most the shortest side of an image, at least 32
    share of a box   area of the box in the window / area of the box
    a window shows   the classes of the findings whose boxes have a share of at least 0.7

    labels.csv       file, group (the image's, else its name), 0/1 columns of the classes; split and fold where known
    images/7-0.png   windows of the image 7: two around each finding, up to six that touch none

A window with a share from 0.15 to 0.7 is left out, and so is one of which a larger finding's box covers that much: it
has no sure label. Of an outline the box counts. This format is written only: a window does not say where it was cut.
"""

import csv
import io
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from foveal.data.annotated import AnnotatedImage, AnnotatedSet
from foveal.data.annotations._files import Lost, items_to_write, placed, split_name, write_file
from foveal.data.label_maps import unlike_image
from foveal.data.map_pairs import MASK
from foveal.data.table import KNOWN
from foveal.errors import FovealError, counted, expect, printable
from foveal.progress import Progress, silent
from foveal.runtime.card import check_classes

STEP, LEAST = 16, 32  # pixels of a side
FITTING = 90  # % of the findings that fit into a window
AROUND, MOVED = 2, 0.2  # windows around a finding, and how far from its centre, in sides
EMPTY, TRIES = 6, 100  # windows without a finding per image, and the places that are tried for them
WHOLE, PART = 0.7, 0.15
COLUMNS = (*KNOWN, "label", "labels", MASK)  # what the first line of labels.csv may not name a class

Boxes = NDArray[np.float64]  # (n, 4): x0, y0, x1, y1
Place = tuple[int, int]  # x, y of the upper left pixel


def write(annotated: AnnotatedSet, folder: Path, progress: Progress = silent) -> list[str]:
    _check_classes(annotated)
    findings = _measure(annotated, progress)
    side = side_of(findings.lengths, findings.shortest)
    lost, rows, splits = Lost(), [], dict[str, int]()
    small = parts = empty = 0
    for index, (name, item, _) in enumerate(items_to_write(annotated, progress)):
        pixels = annotated.images.image(index, None)
        high, wide = pixels.shape[:2]
        if (high, wide) != (item.height, item.width):
            unlike = unlike_image((item.height, item.width), (high, wide))
            raise FovealError(f"{annotated.images.file(index)}: annotated {unlike}")
        lost.see(item, group=True, fold=True)
        group = printable(item.group).strip() or name
        whole = splits.setdefault(group, item.split) == item.split
        expect(whole, annotated.name, "all images of a group in one split", f"the group {group} in two")
        if min(high, wide) < side:
            small += 1
            continue
        labels, boxes = _boxes(item)
        for number, (x, y) in enumerate(_places(np.random.default_rng(zlib.crc32(name.encode())), item, boxes, side)):
            shown = findings_in(boxes, x, y, side)
            if shown is None:
                parts += 1
                continue
            file = f"images/{PurePosixPath(name).stem}-{number}.png"
            Image.fromarray(pixels[y : y + side, x : x + side]).save(placed(folder / file), "PNG")
            seen = set(labels[shown].tolist())
            empty += not seen
            bits = [int(label in seen) for label in range(1, len(annotated.classes) + 1)]
            rows.append((file, split_name(item.split, ""), item.fold, group, *bits))
    sure = f"findings of which a window of {side}×{side} pixels can show at least {WHOLE:.0%}"
    expect(len(rows) > empty, annotated.name, sure, "none")
    write_file(folder / "labels.csv", _table(rows, annotated.classes).encode())
    return [
        f"{counted(len(rows), 'window')} of {side}×{side} pixels, {empty:,} without a finding",
        findings.describe(side),
        *([f"{counted(parts, 'window')} left out: each shows a part of a finding"] if parts else []),
        *([f"{counted(small, 'image')} left out: smaller than a window"] if small else []),
        *([f"{counted(findings.flat, 'finding')} left out: no area in the image"] if findings.flat else []),
        *lost.notes(),
    ]


@dataclass
class _Findings:
    """Of a whole set."""

    lengths: list[float] = field(default_factory=list)  # the longer side of each box
    shortest: int = 0  # side of an image; 0: of none
    flat: int = 0  # without an area

    def describe(self, side: int) -> str:
        median, fitting = np.median(self.lengths), np.mean(np.array(self.lengths) <= side)
        return f"findings: median of the longer side {median:.0f} pixels, {fitting:.0%} fit whole into a window"


def _check_classes(annotated: AnnotatedSet) -> None:
    """Whether each can be the name of a column."""
    expect(bool(annotated.classes), annotated.name, "classes of findings", "none")
    check_classes(annotated.classes, f"the classes of {annotated.name}")
    for name in annotated.classes:
        fits = name.lower() not in COLUMNS and ";" not in name
        expected = f"none called {', '.join(COLUMNS)}, and no semicolon, since each is a column of labels.csv"
        expect(fits, f"the classes of {annotated.name}", expected, name, "rename the class")


def _measure(annotated: AnnotatedSet, progress: Progress) -> _Findings:
    found = _Findings()
    for item in progress(annotated.items, len(annotated), "measuring findings"):
        boxes = _boxes(item)[1]
        found.lengths += (boxes[:, 2:] - boxes[:, :2]).max(1).tolist()
        found.flat += len(item.findings) - len(boxes)
        shorter = min(item.height, item.width)  # 0 of what is no image, which whoever opens it will say
        found.shortest = min(found.shortest or shorter, shorter or found.shortest)
    expect(bool(found.lengths), annotated.name, "findings to cut windows around", "none")
    return found


def side_of(lengths: Sequence[float], shortest: int) -> int:
    """Of the windows, for findings of these longer sides in images of this shortest side."""
    near = math.floor(2 * float(np.median(lengths)) / STEP + 0.5)
    fitting = math.ceil(sorted(lengths)[-(-FITTING * len(lengths) // 100) - 1] / STEP)
    return max(LEAST, STEP * min(max(near, fitting), shortest // STEP))


def _boxes(item: AnnotatedImage) -> tuple[NDArray[np.int64], Boxes]:
    """Labels and boxes of the findings, as far as these lie in the image; without those that have no area there."""
    labels = np.array([one.label for one in item.findings], np.int64)
    boxes = np.array([one.box for one in item.findings], np.float64).reshape(-1, 4)
    boxes = boxes.clip(0, [item.width, item.height] * 2)
    there = (boxes[:, 2:] > boxes[:, :2]).all(1)
    return labels[there], boxes[there]


def _places(random: np.random.Generator, item: AnnotatedImage, boxes: Boxes, side: int) -> list[Place]:
    """Each once: around the findings, then where there are none."""
    last = np.array([item.width - side, item.height - side])
    corners = (boxes[:, None, :2] + boxes[:, None, 2:] - side) / 2  # (n, 1, 2)
    moved = corners + side * random.uniform(-MOVED, MOVED, (len(boxes), AROUND, 2))
    around = moved.round().clip(0, last).astype(np.int64).reshape(-1, 2)
    places = dict.fromkeys((x, y) for x, y in around.tolist())
    most = len(places) + EMPTY
    for x, y in random.integers(0, last, (TRIES, 2), endpoint=True).tolist():
        apart = (boxes[:, :2] > (x + side, y + side)) | (boxes[:, 2:] < (x, y))
        if apart.any(1).all() and len(places) < most:
            places[x, y] = None
    return list(places)


def findings_in(boxes: Boxes, x: int, y: int, side: int) -> NDArray[np.bool_] | None:
    """(n,) which findings a window shows; None where it shows a part of one that says neither yes nor no."""
    low, high = np.maximum(boxes[:, :2], (x, y)), np.minimum(boxes[:, 2:], (x + side, y + side))
    inside = (high - low).clip(0).prod(1)
    share = inside / (boxes[:, 2:] - boxes[:, :2]).prod(1)
    whole = share >= WHOLE
    part = (share >= PART) | (inside >= PART * side**2)
    return None if (part & ~whole).any() else np.asarray(whole)


def _table(rows: Sequence[tuple[object, ...]], classes: tuple[str, ...]) -> str:
    """labels.csv; split where any is known, fold where all are."""
    header = ("file", "split", "fold", "group", *classes)
    unknown = {place for place, some in ((1, any), (2, all)) if not some(row[place] for row in rows)}
    used = [place for place in range(len(header)) if place not in unknown]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([[row[place] for place in used] for row in (header, *rows)])
    return text.getvalue()
