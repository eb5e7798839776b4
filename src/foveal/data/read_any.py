"""read_any(what) → Source: a set of images with what somebody said of them: classes, label maps, or boxes.

Sets of classes are read as foveal.data.read has it, whatever else lies beside them, unless somebody says otherwise.
Label maps and annotations are read where there are no classes: of a csv with a column mask and none called label, of a
folder `images` beside label maps, of formats that only annotations have.

read_annotated(what) → AnnotatedSet: the same findings as every format writes them.
"""

from pathlib import Path

import numpy as np

from foveal.data.annotated import AnnotatedSet
from foveal.data.annotated_maps import annotated_of, segments_of
from foveal.data.annotations import format_named, format_of, is_annotated, voc
from foveal.data.class_folders import hold_classes_alone
from foveal.data.divide import SHARES
from foveal.data.divided import divided
from foveal.data.folds import numbered_groups
from foveal.data.formats import reader_of
from foveal.data.map_pairs import MASK, images_beside_maps
from foveal.data.read import is_rendered, read, table_in
from foveal.data.read_label_maps import read_pairs
from foveal.data.segments import noted, read_segments
from foveal.data.source import Source
from foveal.data.table import columns_of
from foveal.errors import FovealError, counted, expect, reading, unknown
from foveal.file_names import expanded
from foveal.progress import Progress, silent

WHAT = ("classes", "maps")


def read_any(
    name_or_path: str,
    *,
    what: str | None = None,
    label: str | None = None,
    fold_column: str | None = None,
    seed: int = 0,
    bad: str = "refuse",
    progress: Progress = silent,
) -> Source:
    """what: "maps" reads label maps, "classes" classes of images; None: what is there. All else as `read` and
    `read_segments` have it.
    """
    if what is not None and what not in WHAT:
        raise unknown("kind of labels", what, WHAT)
    path = expanded(str(name_or_path))
    with reading(path):
        classes = _of_classes(str(name_or_path), path, label) if what is None else what == "classes"
    if classes:
        return read(name_or_path, label=label, fold_column=fold_column, seed=seed)
    expect(label is None, "--label", "none: classes of label maps are in no column", label)
    if what == "maps" or _has_maps(path, fold_column):
        return read_segments(name_or_path, fold_column=fold_column, seed=seed, bad=bad, progress=progress)
    expect(fold_column is None, "--fold-column", "none, where no csv names label maps", fold_column)
    with reading(path):
        annotated = format_of(path).read(path, _name(path))
    if annotated.outlined:
        return divided(noted(segments_of(annotated, bad, progress), progress), SHARES, seed)
    return divided(source_of(annotated), SHARES, seed)


def read_annotated(
    name_or_path: str, form: str | None = None, *, bad: str = "refuse", progress: Progress = silent
) -> AnnotatedSet:
    """form: the format's name; None: the first that claims it. Splits stay as they are given."""
    if is_rendered(str(name_or_path)):
        return annotated_of(read_segments(name_or_path, split=None, progress=progress))
    path = expanded(str(name_or_path))
    with reading(path):
        if not path.exists():
            raise FovealError(f"{path}: expected a folder or a file that exists, got nothing there")
        module = format_of(path) if form is None else format_named(form, to_read=True)
        if form is not None:
            expect(module.matches(path), str(path), f"a set in the format {form}", "another")
        if hasattr(module, "pairs") and (pairs := module.pairs(path)) is not None:
            return annotated_of(read_pairs(pairs, _name(path), bad, progress))
        found: AnnotatedSet = module.read(path, _name(path))
        return found


def source_of(annotated: AnnotatedSet) -> Source:
    """Findings as labels: which classes an image shows."""
    labels = np.zeros((len(annotated), len(annotated.classes)), np.uint8)
    for index, item in enumerate(annotated.items):
        for one in item.findings:
            labels[index, one.label - 1] = 1
    groups = [item.group for item in annotated.items]
    boxes = [one.box for item in annotated.items for one in item.findings]
    sides = np.sqrt([max(x1 - x0, 0) * max(y1 - y0, 0) for x0, y0, x1, y1 in boxes] or [0])
    note = f"{counted(len(boxes), 'box', 'boxes')} without outlines, median side {np.median(sides):.0f} pixels"
    return Source(
        annotated.name,
        f"{annotated.format}, boxes",
        annotated.classes,
        True,
        labels,
        np.array([item.split for item in annotated.items], np.int8),
        annotated.images,
        None,
        numbered_groups(groups) if any(groups) else None,
        notes=(*annotated.notes, note),
    )


def _has_maps(path: Path, fold_column: str | None) -> bool:
    with reading(path):
        module = format_of(path)
        return hasattr(module, "pairs") and module.pairs(path, fold_column) is not None


def _name(path: Path) -> str:
    return path.resolve().name if path.is_dir() else path.resolve().parent.name


def _of_classes(name: str, path: Path, label: str | None) -> bool:
    """Whether a set is one of classes of images."""
    if is_rendered(name) or label is not None or not path.exists() or reader_of(path) is not None:
        return True
    table = path if path.suffix.lower() in (".csv", ".tsv", ".txt") else table_in(path) if path.is_dir() else None
    if table is not None:
        columns = columns_of(table)
        return MASK not in columns or "label" in columns or "labels" in columns
    if path.is_dir() and (images_beside_maps(path) or voc.matches(path)):
        return False
    return (path.is_dir() and hold_classes_alone(path)) or not is_annotated(path)
