"""What a segmenter finds in images: a label map of each, as soon as it is known, and all findings one by one.

Nothing here needs torch.

    label map, scores = what graph.py makes of the image, or an exported file, at the image's own size
    an image that is larger than a tile is seen in tiles: tiles.py
"""

import csv
import io
import itertools
import json
import os
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from foveal.errors import expect, printable, unknown
from foveal.runtime.image import Frame, Pixels
from foveal.runtime.image_predictor import ImagePredictor, Problem
from foveal.tasks.segment.card import SegmentCard
from foveal.tasks.segment.findings import COLUMNS, Finding, findings
from foveal.tasks.segment.options import PredictOptions
from foveal.tasks.segment.session import LABEL_MAP, LOGITS, SCORES, SegmentSession
from foveal.tasks.segment.tiles import Tiling, blended
from foveal.tasks.task import Predictor

if TYPE_CHECKING:
    from PIL import Image

WIDEST = 60  # columns of a table for the name of a file
FOLDER = "folder"  # a format
MOST = 254  # classes that a label map tells apart, beside the background; 255 is no label

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False, repr=False)
class Segmentation:
    """One image: its label map, and what is found in it. It keeps the image, to be drawn."""

    file: str
    label_map: Bytes  # (H, W): 0 the background, k the class classes[k]
    scores: Floats  # (classes,): how sure it is that the image shows the class; the first one: anything at all
    findings: tuple[Finding, ...]
    classes: tuple[str, ...]  # the background first
    pixels: Pixels  # (H, W, 3)
    error: ClassVar[str] = ""

    @property
    def shares(self) -> dict[str, float]:
        """Of each class that is found its share of the image's area, the largest first."""
        counts = np.bincount(self.label_map.reshape(-1), minlength=len(self.classes))
        order = (label for label in np.argsort(-counts, kind="stable").tolist() if label and counts[label])
        return {self.classes[label]: float(counts[label] / self.label_map.size) for label in order}

    def summary(self) -> str:
        return ", ".join(text for _, text in self.words()) or "nothing"

    def words(self) -> list[tuple[int, str]]:
        """Each label that is found, in words."""
        label = {name: number for number, name in enumerate(self.classes)}
        return [
            (label[name], f"{name} {share:.2%} ({self.scores[label[name]]:.2f})") for name, share in self.shares.items()
        ]

    def overlay(self) -> "Image.Image":
        """The image under its label map, with a legend."""
        from foveal.tasks.segment.overlay import overlay

        return overlay(self.pixels, self.label_map, self.words())

    def __repr__(self) -> str:
        height, width = self.label_map.shape
        return f"Segmentation({self.file!r}, {width}×{height}: {self.summary()})"

    def _repr_png_(self) -> bytes:
        from foveal.report.picture import png

        return png(self.overlay())


class Segmenter(ImagePredictor, Predictor):
    """A segmenter at work."""

    folder = FOLDER

    def __init__(self, card: SegmentCard, options: PredictOptions) -> None:
        super().__init__(None, options.batch)
        expect(len(card.kinds) <= MOST, card.model, f"at most {MOST} classes", len(card.kinds))
        self.card, self.options = card, options
        tile, overlap = options.tile, options.overlap
        self.tiling = Tiling.of(tile, overlap, card.multiple, card.zoom) if tile else None  # None: never any tiles
        self.folders: list[str] = []  # of the inputs

    @abstractmethod
    def seen(self, frames: Bytes) -> tuple[Bytes, Floats]:
        """Images of one size, (B, H, W, 3) uint8, all at once → label maps (B, H, W), scores (B, classes)."""

    @abstractmethod
    def logits(self, frames: Bytes) -> Floats:
        """The same → logits (B, classes, h, w) at the model's stride."""

    def inputs(self, words: Sequence[str]) -> Sequence[str]:
        self.folders = [word for word in words if os.path.isdir(word)]  # noqa: PTH112 — also for what pathlib refuses
        return super().inputs(words)

    def answers(self, names: Sequence[str], frames: Sequence[Frame]) -> Iterator[Segmentation | Problem]:
        for _, pairs in itertools.groupby(zip(names, frames, strict=True), lambda pair: pair[1].pixels.shape):
            some = list(pairs)
            for (name, frame), answer in zip(some, self.maps([frame.pixels for _, frame in some]), strict=True):
                yield self.result(name, frame.pixels, *answer)

    def answer(self, pixels: Pixels) -> tuple[Bytes, Floats]:
        """The label map (H, W) and the scores (classes,) of one image (H, W, 3), as the model gives them."""
        return next(self.maps([pixels]))

    def maps(self, images: Sequence[Pixels]) -> Iterator[tuple[Bytes, Floats]]:
        """The label map and the scores of each image; all have one size, and those that one tile holds are seen
        together.
        """
        if self.tiling is None or self.tiling.holds(*images[0].shape[:2]):
            yield from zip(*self.seen(np.stack(images)), strict=True)
        else:
            tiling = self.tiling
            yield from (blended(image, tiling, lambda tile: self.logits(tile[None].copy())[0]) for image in images)

    def result(self, name: str, pixels: Pixels, label_map: Bytes, scores: Floats) -> Segmentation | Problem:
        if np.isnan(scores).any():
            return Problem(name, "the model's answer is no number")
        label_map, found = findings(label_map, self.card.classes, self.options.smallest)
        return Segmentation(name, label_map, scores, found, self.card.classes, pixels)

    def rows(self, form: str, widest: int) -> tuple[str, Callable[[Any], str]]:
        if form == "jsonl":
            return "", _json
        if form == "csv":
            return _comma(["file", "class", *COLUMNS, "score", "error"]), _csv
        if form != "table":
            raise unknown("format", form, self.formats)
        wide = min(max(widest, len(self.noun)), WIDEST)
        return f"{self.noun:{wide}}  share of the area (score)\n", lambda result: _line(result, wide)

    def writer(self, form: str, out: Path | None, widest: int) -> AbstractContextManager[Callable[[Any], None]]:
        annotations = self.options.annotations
        if form != FOLDER or out is None:
            do = "add --out with the name of a folder"
            expect(annotations == "none", "--annotations", "a folder to write them to", "none", do)
            return super().writer(form, out, widest)
        from foveal.tasks.segment.written import written_folder

        return written_folder(out, self.card, annotations, self.rows("csv", widest), self.folders)


class OnnxSegmenter(Segmenter):
    """An exported file at work."""

    def __init__(self, session: SegmentSession, options: PredictOptions) -> None:
        super().__init__(session.card, options)
        self.session = session

    def seen(self, frames: Bytes) -> tuple[Bytes, Floats]:
        answers = self.session(frames, [LABEL_MAP, SCORES])
        return answers[LABEL_MAP], answers[SCORES].astype(np.float32)

    def logits(self, frames: Bytes) -> Floats:
        return self.session(frames, [LOGITS])[LOGITS].astype(np.float32)


def _line(result: Any, wide: int) -> str:
    text = f"error: {printable(result.error)}" if result.error else result.summary()
    return f"{printable(result.file):{wide}}  {text}\n"


def _csv(result: Any) -> str:
    """A row for each finding; one without a class where nothing is found."""
    if result.error or not result.findings:
        return _comma([result.file, "", *[""] * len(COLUMNS), "", result.error])
    return "".join(
        _comma([result.file, one.kind, *one.values().values(), f"{result.scores[one.label]:.6f}", ""])
        for one in result.findings
    )


def _comma(cells: Sequence[object]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()


def _json(result: Any) -> str:
    facts: dict[str, object] = {"file": result.file}
    if result.error:
        facts["error"] = result.error
    else:
        height, width = result.label_map.shape
        scores = zip(result.classes[1:], (round(float(score), 6) for score in result.scores[1:]), strict=True)
        facts |= {
            "height": height,
            "width": width,
            "shares": {name: round(share, 8) for name, share in result.shares.items()},
            "score": round(float(result.scores[0]), 6),
            "scores": dict(scores),
            "findings": [{"class": one.kind, **one.values()} for one in result.findings],
        }
    # A name that is no Unicode stays a name that can be read back: escaped.
    strange = any(0xD800 <= ord(letter) < 0xE000 for letter in result.file)
    return json.dumps(facts, ensure_ascii=strange) + "\n"
