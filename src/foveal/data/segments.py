"""A set of images with label maps, and read_segments(what) → SegmentSource: finds out which format a path has.

pipes, pipes:N, pipes:N:SEED             rendered pipes with the findings as they are seen
a .csv file, or a folder with one          columns file and mask; split, group and fold, where they are known
folders of images and of label maps        grey, palette or colour PNG; what `foveal render` writes
what a reader of data/annotations/ knows   COCO, VOC, YOLO segments, LabelMe, CVAT

In a label map 0 is background, k + 1 the k-th class, 255 unlabelled. Labels, as of a set of several labels per image,
say which classes an image has pixels of, so that splits, folds, groups and near-duplicates are those of any set.
"""

import hashlib
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foveal.data.divide import SHARES
from foveal.data.divided import divided
from foveal.data.label_maps import LabelMap, Maps
from foveal.data.measured import Measured
from foveal.data.packed_maps import pack_maps
from foveal.data.read import is_rendered
from foveal.data.source import LISTED, UNKNOWN_BIT, Source
from foveal.errors import FovealError, counted, expect, reading
from foveal.file_names import expanded
from foveal.progress import Progress, silent

BAD = ("refuse", "leave_out")  # what is done with label maps that cannot be used


@dataclass(frozen=True, eq=False)
class SegmentSource(Source):
    """N images with a label map each."""

    maps: Maps = field(kw_only=True)
    measured: Measured = field(kw_only=True)

    def label_map(self, index: int) -> LabelMap:
        """(H, W) uint8, at the image's own size. Raises BadImage."""
        return self.maps.label_map(self._checked(index))

    @property
    def areas(self) -> NDArray[np.int64]:
        """(N, K + 2) pixels of background, of each class, without a label."""
        return self.measured.areas

    @property
    def sizes(self) -> NDArray[np.int32]:
        """(N, 2) height and width."""
        return self.measured.sizes

    def properties(self, indices: NDArray[np.integer] | None = None) -> dict[str, object]:
        """Plain numbers of the images, of all or of these: a recipe chooses its options by them."""
        groups = None if self.group is None else self.group if indices is None else self.group[indices]
        return {
            **self.measured.of(indices).properties(),
            "classes": len(self.classes),
            "groups": 0 if groups is None else len(np.unique(groups)),
        }

    def summary(self) -> str:
        return "\n  ".join([super().summary(), *self.lines()])

    def lines(self) -> list[str]:
        """What was measured, a sentence each."""
        facts: dict[str, Any] = self.measured.properties()
        areas, sides, thins = facts["class_areas"], facts["sides"], facts["thins"]
        order = np.argsort(areas)[::-1].tolist()
        pixels = [f"{self.classes[place]} {_percent(areas[place])}" for place in order]
        unlabelled = [f"unlabelled {_percent(facts['unlabelled_area'])}"] if facts["unlabelled_area"] else []
        background = f"background {_percent(facts['background_area'])}"
        found = [f"{self.classes[place]} {sides[place]:.0f}{_thin(thins[place])}" for place in order if sides[place]]
        low, middle, high = (f"{side:.0f}" for side in facts["side"])
        around = f"median side {middle} pixels, a tenth below {low}, a tenth above {high}{_thin(facts['thin'])}"
        return [
            f"pixels: {', '.join([background, *_some(pixels), *unlabelled])}",
            f"empty label maps: {_percent(facts['empty'])}",
            f"findings: {facts['findings']:,}, {around}",
            f"median side by class: {', '.join(_some(found))}",
        ]

    def facts(self) -> dict[str, object]:
        return {**super().facts(), "properties": self.properties()}

    def fingerprint(self) -> str:
        digest = hashlib.sha256(super().fingerprint().encode())
        digest.update(np.ascontiguousarray(self.areas).tobytes())
        return digest.hexdigest()[:16]


def _some(words: list[str]) -> list[str]:
    return words if len(words) <= LISTED else [*words[: LISTED - 1], f"… {len(words) - LISTED + 1} more"]


def _percent(share: float) -> str:
    return "none" if share == 0 else f"{share:.1%}" if share >= 0.01 else f"{100 * share:.2g}%"


def _thin(share: float) -> str:
    return f" ({share:.0%} thin)" if share else ""


def labels_of(areas: NDArray[np.int64]) -> NDArray[np.uint8]:
    """(N, K) of 0 and 1: which classes have pixels; 255 where no pixel has a label."""
    labels = (areas[:, 1:-1] > 0).astype(np.uint8)
    labels[areas[:, :-1].sum(1) == 0] = UNKNOWN_BIT
    return labels


def read_segments(
    name_or_path: str,
    *,
    fold_column: str | None = None,
    split: tuple[float, float, float] | None = SHARES,
    seed: int = 0,
    bad: str = "refuse",
    progress: Progress = silent,
) -> SegmentSource:
    """Read a set with its label maps, of which each is opened once and measured.

    bad: whether label maps that are missing, damaged, of another size than their image or of unknown labels are
    refused, or left out and noted ("leave_out"). All else as `foveal.data.read.read` has it.
    """
    expect(bad in BAD, "bad", " or ".join(BAD), bad)
    text = str(name_or_path)
    if is_rendered(text):
        expect(fold_column is None, "--fold-column", "none: rendered pipes have no columns", fold_column)
        return divided(_rendered(text, progress), split, seed)
    path = expanded(text)
    with reading(path):
        if not path.exists():
            raise FovealError(f"{path}: expected pipes, or a folder or a file that exists, got nothing there")
        source = _from_path(path, fold_column, bad, progress)
        source = noted(source, progress)
    return divided(source, split, seed)


def _from_path(path: Path, fold_column: str | None, bad: str, progress: Progress) -> SegmentSource:
    from foveal.data.annotated_maps import segments_of
    from foveal.data.annotations import format_of
    from foveal.data.read_label_maps import read_pairs

    name = path.resolve().name if path.is_dir() else path.resolve().parent.name
    module = format_of(path)
    if hasattr(module, "pairs") and (pairs := module.pairs(path, fold_column)) is not None:
        return read_pairs(pairs, name, bad, progress)
    expect(fold_column is None, "--fold-column", "none, where no csv names label maps", fold_column)
    return segments_of(module.read(path, name), bad, progress)


def _rendered(name: str, progress: Progress) -> SegmentSource:
    from foveal.data.rendered import RenderedImages, read_pipes, seen_labels

    source = read_pipes(name)
    files = [source.file(index) for index in range(len(source))]
    assert isinstance(source.images, RenderedImages)
    maps, measured = pack_maps(partial(seen_labels, source.images), files, len(source.classes), progress)
    given = {one.name: getattr(source, one.name) for one in fields(source)} | {"labels": labels_of(measured.areas)}
    return SegmentSource(**given, maps=maps, measured=measured)


def noted(source: SegmentSource, progress: Progress) -> SegmentSource:
    """With a note of classes that no label map shows, and of label maps that look shifted."""
    from foveal.data.shift import shift_notes

    absent = [name for name, count in zip(source.classes, source.counts(), strict=True) if not count]
    if len(absent) == len(source.classes):
        raise FovealError(
            f"{source.name}: expected label maps with something found, got {counted(len(source), 'empty one')}"
        )
    notes = [f"classes without a pixel: {', '.join(absent)}"] if absent else []
    return replace(source, notes=(*source.notes, *notes, *shift_notes(source, progress=progress)))
