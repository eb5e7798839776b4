"""A folder of results, each written as soon as it is known, every file whole or not at all.

    findings.csv            a row for each finding
    label_maps/NAME.png     the label map: palette PNG, whose pixels are the labels that classes.txt beside them names
    overlays/NAME.png       the image under its label map, with a legend
    index.csv               which image has which label map: a set that `foveal data` and `foveal train` read
    coco.json               the outlines of all findings, in COCO's format, or
    labelme/NAME.json       in LabelMe's, a file for each image

NAME is that of the image, with its folders below the one that was given; of two that would have the same, the later
one has a number. The csv files and coco.json are there at the end.
"""

import contextlib
import csv
import io
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from foveal.atomic import beside, folder_for, write_atomic
from foveal.data.outline import outlines
from foveal.tasks.rows import written_rows
from foveal.tasks.segment.card import SegmentCard
from foveal.tasks.segment.overlay import palette_png
from foveal.tasks.segment.predict import Segmentation

LONGEST = 200  # bytes of a file's name without its ending
Annotate = Callable[[Segmentation, str, str], None]  # result, NAME, the image below its folder


@contextlib.contextmanager
def written_folder(
    out: Path, card: SegmentCard, annotations: str, rows: tuple[str, Callable[[Any], str]], folders: Sequence[str]
) -> Iterator[Callable[[Any], None]]:
    """What writes one result after the other. rows: of findings.csv. folders: that the images are named below."""
    annotated = {"coco": _coco, "labelme": _labelme, "none": _nothing}[annotations]
    names = Names(folders)
    with contextlib.ExitStack() as open_files:
        open_files.enter_context(folder_for(out))
        write_row = open_files.enter_context(written_rows(*rows, out / "findings.csv"))
        write_pair = open_files.enter_context(written_rows("file,mask\n", _pair, out / "index.csv"))
        annotate: Annotate = open_files.enter_context(annotated(out, card))

        def write(result: Any) -> None:
            if not result.error:
                if not names.taken:
                    write_atomic(out / "label_maps/classes.txt", "".join(f"{one}\n" for one in card.classes).encode())
                name, image = names.of(result.file)
                label_map = f"label_maps/{name}.png"
                write_atomic(out / label_map, palette_png(result.label_map))
                write_atomic(out / f"overlays/{name}.png", result._repr_png_())
                annotate(result, name, image)
                write_pair((from_folder(result.file, out), label_map))
            write_row(result)

        yield write


@dataclass
class Names:
    """NAME of each image."""

    folders: Sequence[str]
    taken: set[str] = field(default_factory=set)

    def of(self, file: str) -> tuple[str, str]:
        """NAME, and the image's own name below its folder."""
        image = self._below(file)
        folder, _, base = image.rpartition("/")
        stem = os.fsdecode(os.fsencode(os.path.splitext(base)[0])[:LONGEST])  # noqa: PTH122 — ".." has no stem
        plain = name = f"{folder}/{stem}" if folder else stem
        number = 1
        while name.casefold() in self.taken:  # as a disk may have it
            number += 1
            name = f"{plain}-{number}"
        self.taken.add(name.casefold())
        return name, image

    def _below(self, file: str) -> str:
        path = os.path.normpath(file).replace(os.sep, "/")
        for folder in self.folders:
            above = os.path.normpath(folder).replace(os.sep, "/").rstrip("/") + "/"
            if path.startswith(above):
                return path.removeprefix(above)
            if above == "./" and not path.startswith(("/", "../")):
                return path
        return path.rpartition("/")[2]


def from_folder(file: str, folder: Path) -> str:
    """The path of a file from a folder; of what is no file, its name."""
    return os.path.relpath(file, folder).replace(os.sep, "/") if os.path.exists(file) else file  # noqa: PTH110


def _pair(pair: tuple[str, str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(pair)
    return text.getvalue()


@contextlib.contextmanager
def _nothing(out: Path, card: SegmentCard) -> Iterator[Annotate]:
    yield lambda result, name, image: None


@contextlib.contextmanager
def _labelme(out: Path, card: SegmentCard) -> Iterator[Annotate]:
    """Beside the files of images labels.txt, which names the classes in their order."""
    named = False

    def annotate(result: Segmentation, name: str, image: str) -> None:
        nonlocal named
        if not named:
            write_atomic(out / "labelme/labels.txt", "".join(f"{one}\n" for one in card.kinds).encode())
            named = True
        file = out / f"labelme/{name}.json"
        shapes = [
            {
                "label": card.classes[one.label],
                "points": one.points.tolist(),
                "group_id": None,
                "shape_type": "polygon",
                "flags": {},
            }
            for one in outlines(result.label_map)
        ]
        height, width = result.label_map.shape
        facts = {
            "version": "5.5.0",
            "flags": {},
            "shapes": shapes,
            "imagePath": from_folder(result.file, file.parent),
            "imageData": None,
            "imageHeight": height,
            "imageWidth": width,
        }
        write_atomic(file, json.dumps(facts, indent=1).encode())

    yield annotate


@contextlib.contextmanager
def _coco(out: Path, card: SegmentCard) -> Iterator[Annotate]:
    """Images and findings are kept in files without a name, until all are known."""
    with tempfile.TemporaryFile(dir=out) as images, tempfile.TemporaryFile(dir=out) as annotations:
        counts = [0, 0]

        def add(file: IO[bytes], kind: int, facts: dict[str, Any]) -> int:
            counts[kind] += 1
            text = json.dumps({"id": counts[kind], **facts})
            file.write(f"{',' if counts[kind] > 1 else ''}\n{text}".encode())
            return counts[kind]

        def annotate(result: Segmentation, name: str, image: str) -> None:
            height, width = result.label_map.shape
            number = add(images, 0, {"file_name": image, "height": height, "width": width})
            # both go by their first pixels
            for one, outline in zip(result.findings, outlines(result.label_map), strict=True):
                facts = {
                    "image_id": number,
                    "category_id": one.label,
                    "segmentation": [outline.points.reshape(-1).tolist()],
                    "area": one.area,
                    "bbox": list(one.box),
                    "iscrowd": 0,
                    "score": round(float(result.scores[one.label]), 6),
                }
                add(annotations, 1, facts)

        yield annotate
        categories = [{"id": number, "name": name} for number, name in enumerate(card.classes) if number]
        with beside(out / "coco.json") as part, part.open("wb") as file:
            file.write(b'{"images": [')
            for rows, after in ((images, b'],\n"annotations": ['), (annotations, b'],\n"categories": ')):
                rows.seek(0)
                shutil.copyfileobj(rows, file)
                file.write(after)
            file.write(f"{json.dumps(categories)}}}\n".encode())
