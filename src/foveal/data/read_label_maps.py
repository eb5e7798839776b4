"""Label maps in files → SegmentSource: every map is opened once, compared with its image, and measured.

First the codes of all maps are counted; then it is decided what they mean; then maps with codes that mean nothing are
known. What cannot be used is refused in one line, or left out and noted.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from foveal.data.class_names import named_classes, of_names
from foveal.data.class_table import Counts, Meaning, meaning_of
from foveal.data.label_maps import FileMaps, Palette, Table, open_codes, size_of, unknown_codes, unlike_image
from foveal.data.map_pairs import Pairs
from foveal.data.measured import Findings, Measured, findings, in_threads, joined, measure
from foveal.data.segments import SegmentSource, labels_of
from foveal.data.source import FileImages, Names
from foveal.errors import FovealError, counted, printable
from foveal.progress import Progress, silent
from foveal.runtime.components import BACKGROUND, UNLABELLED
from foveal.runtime.image import BadImage

MANY = 1024  # colours of one map: more are a photo
NAMED = 3  # bad label maps that a line names
NOTHING = Findings(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))


@dataclass(frozen=True, eq=False)
class Scanned:
    """One label map, before anybody knows what its codes mean."""

    size: tuple[int, int] = (0, 0)
    colour: bool = False
    codes: tuple[int, ...] = (0,)
    counts: tuple[int, ...] = (0,)
    found: Findings | None = None  # of codes; None: nothing
    palette: Palette | None = None
    reason: str = ""  # why it cannot be used


def read_pairs(pairs: Pairs, name: str, bad: str = "refuse", progress: Progress = silent) -> SegmentSource:
    """The set of these images and label maps. bad: see read_segments."""
    scanned = list(in_threads(lambda place: scan(pairs, place), range(len(pairs.maps)), "reading label maps", progress))
    meaning = _meaning(pairs, scanned)
    scanned = [_understood(one, meaning.table) for one in scanned]
    kept = [index for index, one in enumerate(scanned) if not one.reason]
    files = [label_map or image for label_map, image in zip(pairs.maps, pairs.images, strict=True)]
    notes = (*pairs.notes, *meaning.notes, *left_out(str(pairs.root), files, [one.reason for one in scanned], bad))
    if not kept:
        raise FovealError(f"{pairs.root}: expected images with label maps, got none that can be used; {notes[-1]}")
    root, chosen = str(pairs.root), np.array(kept)
    sizes = np.array([scanned[index].size for index in kept], np.int32)
    maps = FileMaps(root, Names.of(pairs.maps[index] or "" for index in kept), meaning.table, sizes)
    measured = (
        measure(maps, len(meaning.classes), progress)
        if meaning.merges
        else _measured([scanned[index] for index in kept], meaning)
    )
    classes = _called(pairs, kept, measured.areas, meaning.classes)
    if classes != meaning.classes:
        notes = (*notes, "classes are called as the csv calls their images")
    return SegmentSource(
        name,
        pairs.format,
        classes,
        True,
        labels_of(measured.areas),
        pairs.split[chosen],
        FileImages(root, Names.of(pairs.images[index] for index in kept)),
        None if pairs.fold is None else pairs.fold[chosen],
        None if pairs.group is None else pairs.group[chosen],
        notes=notes,
        fold_names=pairs.fold_names,
        maps=maps,
        measured=measured,
    )


def _called(pairs: Pairs, kept: Sequence[int], areas: NDArray[np.int64], classes: tuple[str, ...]) -> tuple[str, ...]:
    """Names of classes by what a column says of each image: a class that only images of one word have is called so."""
    if pairs.words is None or classes != tuple(f"class {label}" for label in range(1, len(classes) + 1)):
        return classes
    there = areas[:, 1:-1] > 0
    words = np.array([pairs.words[index] for index in kept])
    seen = [set(words[there[:, place]].tolist()) for place in range(len(classes))]
    names = tuple(
        min(found) if len(found) == 1 else name if not found else "" for name, found in zip(classes, seen, strict=True)
    )
    return names if all(names) and len(set(names)) == len(names) else classes


def scan(pairs: Pairs, index: int) -> Scanned:
    """What one label map holds, and whether it fits its image."""
    name = pairs.maps[index]
    try:
        size = size_of(str(pairs.root / pairs.images[index]))
        if name is None:
            return Scanned(reason="has no label map")
        if not name:
            return Scanned(size, counts=(size[0] * size[1],))
        codes = open_codes(str(pairs.root / name))
    except BadImage as problem:
        return Scanned(reason=problem.reason)
    if codes.values.shape != size:
        return Scanned(reason=unlike_image(codes.values.shape, size))
    if codes.colour:
        values, counts = np.unique(codes.values, return_counts=True)
        if len(values) > MANY:
            return Scanned(reason=f"has {len(values):,} colours, as a photo has")
    else:
        counts = np.bincount(codes.values.reshape(-1))
        values = np.flatnonzero(counts)
        counts = counts[values]
    return Scanned(
        size, codes.colour, tuple(values.tolist()), tuple(counts.tolist()), findings(codes.values, (0,)), codes.palette
    )


def _meaning(pairs: Pairs, scanned: Sequence[Scanned]) -> Meaning:
    counts: Counts = Counter()
    for one in scanned:
        for code, count in zip(one.codes, one.counts, strict=True):
            counts[code, one.colour] += count
    folders = {(pairs.root / name).parent for name in pairs.maps if name}
    named = named_classes(pairs.root, *sorted(folders)[:1], *sorted({folder.parent for folder in folders})[:1])
    if named is None and _are_of_classes(pairs.bits, scanned):
        named = of_names(tuple(pairs.bits))
    palette = next((one.palette for one in scanned if one.palette is not None), None)
    return meaning_of(counts, named, palette, str(pairs.root))


def _are_of_classes(bits: dict[str, list[str]], scanned: Sequence[Scanned]) -> bool:
    """Whether the k-th 0/1 column is 1 of every image that shows the value k."""
    columns = list(bits.values())
    return bool(columns) and all(
        code <= len(columns) and columns[code - 1][index] == "1"
        for index, one in enumerate(scanned)
        for code in one.codes
        if code not in (BACKGROUND, UNLABELLED)
    )


def _understood(one: Scanned, table: Table) -> Scanned:
    """With a reason, if it holds what no class has."""
    if one.reason:
        return one
    codes = np.array(one.codes)
    labels = table.labels(codes, one.colour)
    return replace(one, reason=unknown_codes(codes[labels < 0], one.colour)) if (labels < 0).any() else one


def left_out(where: str, files: Sequence[str], reasons: Sequence[str], bad: str) -> list[str]:
    """A note of what cannot be used, which has a reason; where it is to be refused, an error."""
    wrong = [f"{file} {reason}" for file, reason in zip(files, reasons, strict=True) if reason]
    if not wrong:
        return []
    listed = printable("; ".join(wrong[:NAMED] + ["…"] * (len(wrong) > NAMED)))
    if bad == "leave_out":
        return [f"{counted(len(wrong), 'image')} left out: {listed}"]
    raise FovealError(
        f"{where}: expected a label map that fits each of {counted(len(files), 'image')}, got {len(wrong)} without: "
        f"{listed}; mend them, or leave them out (--bad leave_out)"
    )


def _measured(scanned: Sequence[Scanned], meaning: Meaning) -> Measured:
    """From codes to labels, each of which one code means."""
    classes = len(meaning.classes)
    areas, found = [], []
    for one in scanned:
        area = np.zeros(256, np.int64)
        area[meaning.table.labels(np.array(one.codes), one.colour)] += np.array(one.counts)
        areas.append(np.append(area[: classes + 1], area[255]))
        parts = one.found or NOTHING
        labels = meaning.table.labels(parts.value, one.colour).astype(np.int64)
        kept = (labels > BACKGROUND) & (labels < UNLABELLED)
        found.append(Findings(labels[kept], parts.area[kept], parts.length[kept]))
    return joined([one.size for one in scanned], areas, found)
