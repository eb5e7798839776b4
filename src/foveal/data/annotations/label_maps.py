"""Folders of images and label maps: palette, grey or colour PNG, and what tells which value is which class.

    index.csv      file, mask, and where they are known split, group and fold
    images/        the images as they are
    masks/         a palette PNG for each: 0 background, k + 1 the k-th class, 255 unlabelled
    classes.txt    background, and the classes in their order

Read is more than is written: see foveal.data.map_pairs and foveal.data.class_names.
"""

import csv
import io
from pathlib import Path, PurePosixPath

from PIL import Image

from foveal.data.annotated import AnnotatedSet
from foveal.data.annotations._files import Lost, items_to_write, placed, split_name, write_file
from foveal.data.class_table import voc_palette
from foveal.data.label_maps import LabelMap
from foveal.data.map_pairs import MASK, Pairs, are_folders, pairs_of_folders, pairs_of_table, table_of
from foveal.progress import Progress, silent

KINDS = ("palette", "grey", "colour")


def matches(path: Path) -> bool:
    return table_of(path) is not None or are_folders(path)


def pairs(path: Path, fold_column: str | None = None) -> Pairs:
    """Which image has which label map."""
    table = table_of(path)
    return pairs_of_folders(path, fold_column) if table is None else pairs_of_table(table, fold_column)


def read(path: Path, name: str) -> AnnotatedSet:
    from foveal.data.annotated_maps import annotated_of
    from foveal.data.read_label_maps import read_pairs

    return annotated_of(read_pairs(pairs(path), name))


def write(annotated: AnnotatedSet, folder: Path, progress: Progress = silent, *, kind: str = "palette") -> list[str]:
    """kind: of the PNG, see KINDS."""
    lost, rows = Lost(), []
    for name, item, write_image in items_to_write(annotated, progress):
        write_image(folder / "images" / name)
        label_map = item.label_map
        lost.see(item, label_map, group=True, fold=True)
        mask = PurePosixPath("masks", name).with_suffix(".png").as_posix()
        write_map(folder / mask, label_map, kind)
        rows.append((f"images/{name}", mask, split_name(item.split, ""), item.group, item.fold))
    used = [place for place in range(5) if place < 2 or any(row[place] for row in rows)]
    text = io.StringIO()
    header = ("file", MASK, "split", "group", "fold")
    csv.writer(text, lineterminator="\n").writerows([[row[place] for place in used] for row in (header, *rows)])
    write_file(folder / "index.csv", text.getvalue().encode())
    if kind == "colour":
        write_file(folder / "labelmap.txt", colour_lines(annotated.classes).encode())
    else:
        write_file(folder / "classes.txt", "".join(f"{name}\n" for name in ("background", *annotated.classes)).encode())
    return lost.notes()


def write_map(file: Path, label_map: LabelMap, kind: str = "palette") -> None:
    """A label map as PNG, in VOC's colours."""
    image = Image.fromarray(voc_palette()[label_map] if kind == "colour" else label_map)
    if kind == "palette":
        image.putpalette(voc_palette().ravel().tolist())
    image.save(placed(file), "PNG")


def colour_lines(classes: tuple[str, ...]) -> str:
    """labelmap.txt, as CVAT writes it: name:red,green,blue:parts:actions."""
    names = {0: "background", **dict(enumerate(classes, 1)), 255: "void"}
    colours = {label: ",".join(map(str, voc_palette()[label].tolist())) for label in names}
    return "".join(f"{name}:{colours[label]}::\n" for label, name in names.items())
