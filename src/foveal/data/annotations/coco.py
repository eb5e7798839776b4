"""COCO: one JSON for each split, with all images, all findings and all classes.

    instances_{train,val,test}.json   in the folder or in annotations/; _annotations.coco.json in train/, valid/, test/
    bbox                              x, y, width, height
    segmentation                      polygons [[x, y, x, y, …], …]; or run lengths by columns, as numbers or as letters

COCO does not say which of two findings lies above: here the smaller one does. Written are polygons along the edges of
pixels, with holes joined, which COCO's own tools fill to the same pixels; what was read as run lengths stays that.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from foveal.data.annotated import AnnotatedImage, AnnotatedSet, Finding, box_of, largest_first, of_mask
from foveal.data.annotations._files import (
    Lost,
    folder_with,
    items_to_write,
    json_of,
    numbers,
    polygon_of,
    safe_name,
    sides,
    split_in,
    split_name,
    write_file,
)
from foveal.data.class_names import NOTHING
from foveal.data.run_lengths import compressed, decompressed, mask_of, run_lengths
from foveal.data.source import FileImages, Names
from foveal.errors import FovealError, expect, is_integer, short_repr
from foveal.progress import Progress, silent

KEYS = ("images", "annotations", "categories")
NAMES = ("instances_*.json", "annotations/instances_*.json", "*/_annotations.coco.json", "_annotations.coco.json")
OTHERS = ("annotations/*.json", "*.json")  # where what they hold is COCO
ENDS = 1 << 16  # bytes at either end of a file that are looked at

Labels = dict[int, int]  # id of a category → label


def matches(path: Path) -> bool:
    return bool(_files(path))


def read(path: Path, name: str) -> AnnotatedSet:
    files = _files(path)
    contents = [_content(file) for file in files]
    folder = files[0].parent if path.is_file() else path
    root = folder.parent if folder.name == "annotations" else folder
    classes, labels = _classes(files, contents)
    items = [
        item for file, content in zip(files, contents, strict=True) for item in _items(root, file, content, labels)
    ]
    seen: dict[str, int] = {}
    for place, item in enumerate(items):
        twice = seen.setdefault(item.file, place) != place
        expect(not twice, str(path), "each image once", f"{item.file} twice", "name one of the JSON files")
    expect(bool(items), str(path), "COCO with images", "none")
    return AnnotatedSet(name, "COCO", classes, items, FileImages(str(root), Names.of(item.file for item in items)))


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path] if path.suffix.lower() == ".json" and _is_coco(path) else []
    named = sorted({file for pattern in NAMES for file in path.glob(pattern)})
    return named or sorted({file for pattern in OTHERS for file in path.glob(pattern) if _is_coco(file)})


def _is_coco(file: Path) -> bool:
    try:
        with file.open("rb") as content:
            head = content.read(ENDS)
            content.seek(max(0, file.stat().st_size - ENDS))
            ends = head + content.read(ENDS)
    except OSError:
        return False
    return b'"images"' in ends and (b'"annotations"' in ends or b'"categories"' in ends)


def _content(file: Path) -> dict[str, list[dict[str, Any]]]:
    content = json_of(file)
    fits = isinstance(content, dict) and all(isinstance(content.get(key), list) for key in KEYS)
    expect(fits, str(file), f"COCO, which has lists of {', '.join(KEYS)}", short_repr(content))
    for key in KEYS:
        for place, entry in enumerate(content[key]):
            expect(isinstance(entry, dict), f"{file}, {key} {place}", "an object", short_repr(entry))
    return content  # type: ignore[no-any-return]


def _classes(files: list[Path], contents: list[dict[str, list[dict[str, Any]]]]) -> tuple[tuple[str, ...], Labels]:
    names: dict[int, str] = {}
    for file, content in zip(files, contents, strict=True):
        for category in content["categories"]:
            number, name = category.get("id"), category.get("name")
            where = f"{file}, category {short_repr(number)}"
            expect(is_integer(number) and isinstance(name, str), where, "an id and a name", short_repr(name))
            assert isinstance(number, int)
            assert isinstance(name, str)
            same = names.setdefault(number, name.strip()) == name.strip()
            expect(same, where, f"the name {names[number]} as before", name, "give every class one id")
    found = sorted(number for number, name in names.items() if name.lower() not in NOTHING)
    expect(bool(found), str(files[0]), "categories", "none")
    labels = dict.fromkeys(names, 0) | {number: label for label, number in enumerate(found, 1)}
    return tuple(names[number] for number in found), labels


def _items(
    root: Path, file: Path, content: dict[str, list[dict[str, Any]]], labels: Labels
) -> Iterator[AnnotatedImage]:
    found: dict[Any, list[dict[str, Any]]] = {}
    for one in content["annotations"]:
        found.setdefault(_id(one.get("image_id"), f"{file}, annotation {short_repr(one.get('id'))}"), []).append(one)
    below = file.parent.relative_to(root).as_posix()
    split = split_in(file.stem, "" if below == "annotations" else below)
    names = [safe_name(one.get("file_name"), f"{file}, image {short_repr(one.get('id'))}") for one in content["images"]]
    word, called = split_name(split, ""), file.stem.removeprefix("instances_")
    folder = folder_with(
        root, names, ["" if below in (".", "annotations") else below, "", "images", called, f"images/{called}", word,
                      f"images/{word}", f"{word}/images"]
    )  # fmt: skip
    for entry, name in zip(content["images"], names, strict=True):
        where = f"{file}, image {short_repr(entry.get('id'))}"
        height, width = sides(entry.get("height"), entry.get("width"), where)
        parts = [
            _finding(one, labels, height, width, f"{file}, annotation {short_repr(one.get('id'))}")
            for one in found.pop(_id(entry.get("id"), where), [])
        ]
        findings = largest_first([one for one in parts if one.label], height, width)
        group = entry.get("group", "")
        yield AnnotatedImage(
            f"{folder}/{name}" if folder else name,
            height,
            width,
            findings,
            split,
            group if isinstance(group, str) else "",
        )
    if found:
        number = next(iter(found))
        raise FovealError(
            f"{file}: expected annotations of its images, got one of image {short_repr(number)}, which is not there"
        )


def _id(value: Any, where: str) -> Any:
    expect(is_integer(value) or isinstance(value, str), where, "the id of an image", short_repr(value))
    return value


def _finding(one: dict[str, Any], labels: Labels, height: int, width: int, where: str) -> Finding:
    category, shape = one.get("category_id"), one.get("segmentation")
    known = is_integer(category) and category in labels
    expect(known, where, f"a category that is listed, such as {next(iter(labels))}", short_repr(category))
    label = labels[category]  # type: ignore[index]
    if isinstance(shape, dict):
        return _of_runs(label, shape, height, width, where)
    if shape:
        expect(isinstance(shape, list), where, "polygons or run lengths", short_repr(shape))
        polygons = tuple(polygon_of(numbers(part, where), where) for part in shape)
        return Finding(label, box_of(polygons), polygons)
    x, y, wide, high = numbers(one.get("bbox"), where, 4)
    return Finding(label, (x, y, x + wide, y + high))


def _of_runs(label: int, shape: dict[str, Any], height: int, width: int, where: str) -> Finding:
    size, counts = shape.get("size"), shape.get("counts")
    expect(size == [height, width], where, f"run lengths of the size {[height, width]}", short_repr(size))
    listed = decompressed(counts, where) if isinstance(counts, str) else counts
    expect(isinstance(listed, list), where, "counts, as numbers or as letters", short_repr(counts))
    return of_mask(label, mask_of(listed or [], height, width, where))


def write(annotated: AnnotatedSet, folder: Path, progress: Progress = silent, *, runs: bool = False) -> list[str]:
    """runs: whether outlines, too, are written as run lengths."""
    lost = Lost()
    contents: dict[int, dict[str, list[dict[str, Any]]]] = {}
    for number, (name, item, write_image) in enumerate(items_to_write(annotated, progress), 1):
        write_image(folder / "images" / name)
        lost.see(item, group=True)
        content = contents.setdefault(item.split, {"images": [], "annotations": []})
        entry = {"id": number, "file_name": name, "height": item.height, "width": item.width}
        content["images"].append(entry | ({"group": item.group} if item.group else {}))
        content["annotations"] += [
            {"id": len(content["annotations"]) + place, "image_id": number, "iscrowd": 0}
            | _written(one, item.height, item.width, runs)
            for place, one in enumerate(item.findings, 1)
        ]
    categories = [{"id": label, "name": name} for label, name in enumerate(annotated.classes, 1)]
    for split, content in contents.items():
        text = json.dumps({**content, "categories": categories}, separators=(",", ":"))
        write_file(folder / f"instances_{split_name(split, 'all')}.json", text.encode())
    return lost.notes()


def _written(one: Finding, height: int, width: int, runs: bool) -> dict[str, Any]:
    x0, y0, x1, y1 = one.box
    entry: dict[str, Any] = {
        "category_id": one.label,
        "bbox": [x0, y0, x1 - x0, y1 - y0],
        "area": (x1 - x0) * (y1 - y0),
    }
    if not one.outlined:
        return entry
    rows, columns, inside = one.window(height, width)
    entry["area"] = int(inside.sum())
    if one.runs is None and not runs:
        return entry | {"segmentation": [part.ravel().tolist() for part in one.polygons]}
    mask = np.zeros((height, width), bool)
    mask[rows, columns] = inside
    return entry | {"segmentation": {"size": [height, width], "counts": compressed(run_lengths(mask))}}
