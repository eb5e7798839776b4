"""Annotated images: what every format of annotations is read into, and written from.

A finding is one thing of one class: its box, and where somebody drew it, its outlines, or the run lengths of its mask.
A pixel shows the finding that was drawn last; so findings stand in the order in which they are drawn.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from foveal.data.label_maps import LabelMap
from foveal.data.outline import Points, outlines, window_of
from foveal.data.run_lengths import mask_of, run_lengths
from foveal.data.source import Images
from foveal.errors import expect
from foveal.runtime.components import BACKGROUND, UNLABELLED

Box = tuple[float, float, float, float]  # x0, y0, x1, y1, in pixels from the upper left corner of the image
Window = tuple[slice, slice, NDArray[np.bool_]]  # rows, columns, and which of the pixels there


@dataclass(frozen=True, eq=False)
class Finding:
    label: int  # 1…K, as in a label map
    box: Box
    polygons: tuple[Points, ...] = ()  # a pixel is of the finding where its centre is inside any of them
    runs: tuple[int, ...] | None = None  # of its mask in the whole image, column by column

    @property
    def outlined(self) -> bool:
        return bool(self.polygons) or self.runs is not None

    def shown(self, height: int, width: int) -> bool:
        """Whether it has a polygon or a box: run lengths may be of no pixel."""
        return self.runs is None or bool(self.window(height, width)[2].any())

    def window(self, height: int, width: int) -> Window:
        """Its pixels in an image of this size; those of its box, where it has no outline."""
        if self.runs is not None:
            return slice(0, height), slice(0, width), mask_of(self.runs, height, width)
        return window_of(self.polygons or (corners_of(self.box),), height, width)

    def parts(self, height: int, width: int) -> tuple[Points, ...]:
        """Its polygons; those along the edges of pixels, where it has run lengths."""
        if self.runs is None:
            return self.polygons
        rows, columns, inside = self.window(height, width)
        return _outlined(rows, columns, inside)

    def polygon(self, height: int, width: int) -> Points:
        """One polygon, in which parts are joined by lines that are gone along twice: for formats that take only one."""
        parts = self.parts(height, width)
        if len(parts) > 1:
            rows, columns, inside = window_of(parts, height, width)
            each = [window_of([part], height, width)[2].sum() for part in parts]
            if sum(each) != inside.sum():  # they lie over each other
                parts = _outlined(rows, columns, inside)
        walk = [np.concatenate([part, part[:1], parts[0][:1]]) for part in parts[1:]]
        return np.concatenate([parts[0], parts[0][:1], *walk]) if walk else parts[0]


@dataclass(frozen=True, eq=False)
class AnnotatedImage:
    file: str  # its name in the set
    height: int
    width: int
    findings: tuple[Finding, ...]
    split: int = -1  # index in SPLITS
    group: str = ""  # what may not be torn apart; "": a group of its own
    fold: str = ""
    given: LabelMap | None = None  # where the format has one

    @property
    def label_map(self) -> LabelMap:
        """(H, W): what is given, else the findings in their order."""
        if self.given is not None:
            return self.given
        label_map = np.full((self.height, self.width), BACKGROUND, np.uint8)
        for one in self.findings:
            rows, columns, inside = one.window(self.height, self.width)
            label_map[rows, columns][inside] = one.label
        return label_map


@dataclass(frozen=True, eq=False)
class AnnotatedSet:
    name: str
    format: str
    classes: tuple[str, ...]
    items: Sequence[AnnotatedImage]
    images: Images  # of each item its pixels
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        expect(len(self.items) == len(self.images), "images", f"{len(self.items)}", len(self.images))

    def __len__(self) -> int:
        return len(self.items)

    @property
    def outlined(self) -> bool:
        """Whether anything has an outline, and not only a box."""
        return any(item.given is not None or any(one.outlined for one in item.findings) for item in self.items)


def _outlined(rows: slice, columns: slice, inside: NDArray[np.bool_]) -> tuple[Points, ...]:
    corner = np.array([columns.start, rows.start])
    return tuple(one.points + corner for one in outlines(inside))


def of_mask(label: int, mask: NDArray[np.bool_]) -> Finding:
    """The finding of a mask (H, W) of its whole image."""
    left, top, right, bottom = map(float, edges_of(mask))
    return Finding(label, (left, top, right, bottom), (), tuple(run_lengths(mask)))


def edges_of(mask: NDArray[np.bool_]) -> tuple[int, int, int, int]:
    """The box x0, y0, x1, y1 of the pixels inside."""
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    if not len(rows):
        return 0, 0, 0, 0
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


def corners_of(box: Box) -> Points:
    x0, y0, x1, y1 = box
    return np.array([(x0, y0), (x1, y0), (x1, y1), (x0, y1)], np.float64)


def box_of(parts: Sequence[Points]) -> Box:
    """The smallest box around polygons."""
    corners = np.concatenate([*parts])
    (x0, y0), (x1, y1) = corners.min(0).tolist(), corners.max(0).tolist()
    return x0, y0, x1, y1


def findings_of(label_map: LabelMap) -> tuple[Finding, ...]:
    """Of every component its exact outline. What is unlabelled is no finding."""
    return tuple(
        Finding(one.label, box_of([one.points]), (one.points,))
        for one in outlines(label_map)
        if one.label != UNLABELLED
    )


def largest_first(findings: Sequence[Finding], height: int, width: int) -> tuple[Finding, ...]:
    """In an order in which small ones lie over large ones: for formats that do not say what lies above."""
    if len(findings) < 2:
        return tuple(findings)
    areas = [int(one.window(height, width)[2].sum()) for one in findings]
    return tuple(findings[place] for place in np.argsort(-np.array(areas), kind="stable").tolist())
