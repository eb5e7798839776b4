"""COCO with run lengths instead of polygons: what is written as `coco-rle`, and read as COCO."""

from pathlib import Path

from foveal.data.annotated import AnnotatedSet
from foveal.data.annotations import coco
from foveal.progress import Progress, silent


def matches(path: Path) -> bool:
    return False  # coco claims it


def read(path: Path, name: str) -> AnnotatedSet:
    return coco.read(path, name)


def write(annotated: AnnotatedSet, folder: Path, progress: Progress = silent) -> list[str]:
    return coco.write(annotated, folder, progress, runs=True)
