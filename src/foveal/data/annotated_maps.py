"""From annotated images to a set with label maps, and back.

segments_of     findings are drawn in their order, once
annotated_of    every component of a label map is a finding, with its exact outline
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from foveal.data.annotated import AnnotatedImage, AnnotatedSet, findings_of
from foveal.data.folds import numbered_groups
from foveal.data.label_maps import size_of, unlike_image
from foveal.data.measured import in_threads
from foveal.data.packed_maps import pack_maps
from foveal.data.read_label_maps import left_out
from foveal.data.segments import SegmentSource, labels_of
from foveal.data.source import FileImages, Names
from foveal.errors import FovealError, counted, expect
from foveal.progress import Progress, silent
from foveal.runtime.image import BadImage


def segments_of(annotated: AnnotatedSet, bad: str = "refuse", progress: Progress = silent) -> SegmentSource:
    """bad: whether images that cannot be opened, or have another size than their annotations say, are refused or left
    out ("leave_out").
    """
    items, images = annotated.items, annotated.images
    boxes = sum(not one.outlined for item in items for one in item.findings)
    expect(
        annotated.outlined, annotated.name, "findings with outlines or masks", "boxes alone" if boxes else "no findings"
    )
    reasons = [""] * len(items)
    if isinstance(images, FileImages):
        paths = [images.path(index) for index in range(len(items))]
        reasons = list(
            in_threads(lambda index: _reason(paths[index], items[index]), range(len(items)), "opening images", progress)
        )
    notes = [*annotated.notes, *left_out(annotated.name, [one.file for one in items], reasons, bad)]
    if boxes:
        notes.append(f"{counted(boxes, 'finding')} without an outline: the box is filled")
    kept = [index for index, reason in enumerate(reasons) if not reason]
    if not kept:
        raise FovealError(f"{annotated.name}: expected images that can be used, got none; {notes[-1]}")
    files = [items[index].file for index in kept]
    maps, measured = pack_maps(lambda place: items[kept[place]].label_map, files, len(annotated.classes), progress)
    groups = [items[index].group for index in kept]
    return SegmentSource(
        annotated.name,
        annotated.format,
        annotated.classes,
        True,
        labels_of(measured.areas),
        np.array([items[index].split for index in kept], np.int8),
        FileImages(images.root, Names.of(files)) if isinstance(images, FileImages) else images,
        None,
        numbered_groups(groups) if any(groups) else None,
        notes=tuple(notes),
        maps=maps,
        measured=measured,
    )


def _reason(path: str, item: AnnotatedImage) -> str:
    try:
        size = size_of(path)
    except BadImage as problem:
        return problem.reason
    return "" if size == (item.height, item.width) else f"annotated {unlike_image((item.height, item.width), size)}"


def annotated_of(source: SegmentSource) -> AnnotatedSet:
    """What the label maps show; each is opened when it is asked for."""
    return AnnotatedSet(source.name, source.format, source.classes, MapItems(source), source.images, source.notes)


@dataclass(frozen=True, eq=False)
class MapItems(Sequence[AnnotatedImage]):
    """The images of a set with label maps as annotated images."""

    source: SegmentSource

    def __len__(self) -> int:
        return len(self.source)

    @overload
    def __getitem__(self, index: int) -> AnnotatedImage: ...
    @overload
    def __getitem__(self, index: slice) -> list[AnnotatedImage]: ...
    def __getitem__(self, index: int | slice) -> AnnotatedImage | list[AnnotatedImage]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        source = self.source
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        label_map = source.label_map(index % len(self))
        group = "" if source.group is None else str(source.group[index])
        fold = "" if source.fold is None else str(source.fold[index])
        height, width = label_map.shape
        file, split = source.file(index % len(self)), int(source.split[index])
        return AnnotatedImage(file, height, width, findings_of(label_map), split, group, fold, label_map)
