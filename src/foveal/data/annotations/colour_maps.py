"""Folders of images and label maps in colour: written as `colour-maps`, and read as label maps."""

from pathlib import Path

from foveal.data.annotated import AnnotatedSet
from foveal.data.annotations import label_maps
from foveal.progress import Progress, silent


def matches(path: Path) -> bool:
    return False  # label_maps claims it


def read(path: Path, name: str) -> AnnotatedSet:
    return label_maps.read(path, name)


def write(annotated: AnnotatedSet, folder: Path, progress: Progress = silent) -> list[str]:
    return label_maps.write(annotated, folder, progress, kind="colour")
