"""YOLO segments: a text file for each image, a line for each finding, in shares of the image's width and height.

    data.yaml                       names, and where the images of train, val and test lie
    images/{train,val,test}/7.jpg
    labels/{train,val,test}/7.txt   CLASS X Y X Y …, or of a box CLASS X Y WIDTH HEIGHT, where X and Y are its centre.
                                    Classes count from 0. No text file: nothing is found there

YOLO does not say which of two findings lies above: here the smaller one does. Of a finding in several parts one polygon
is written, in which lines join the parts. Images of no split are written as train.
"""

import json
from pathlib import Path, PurePosixPath

from foveal.data.annotated import AnnotatedImage, AnnotatedSet, Finding, box_of, largest_first
from foveal.data.annotations._files import (
    LONGEST,
    Lost,
    float_of,
    images_below,
    items_to_write,
    polygon_of,
    safe_name,
    size_if_there,
    split_in,
    split_name,
    write_file,
)
from foveal.data.class_names import text_of, yaml_of, yolo_names
from foveal.data.source import FileImages, Names
from foveal.data.splits import SPLITS
from foveal.errors import counted, expect, short_repr
from foveal.progress import Progress, silent

LARGEST = 1 << 20  # bytes of data.yaml


def matches(path: Path) -> bool:
    file = _yaml(path)
    return file is not None and any(
        next(file.parent.glob(pattern), None) for pattern in ("labels/*.txt", "labels/*/*.txt", "*/labels/*.txt")
    )


def read(path: Path, name: str) -> AnnotatedSet:
    file = _yaml(path)
    assert file is not None
    text = text_of(file, LARGEST)
    classes, content = tuple(yolo_names(file, text)), yaml_of(file, text)
    items: dict[str, AnnotatedImage] = {}
    notes: list[str] = []
    for split, word in enumerate(SPLITS):
        listed = content.get(word, content.get("valid") if word == "val" else None)
        for image in _listed(file, listed, f"{file}, {word}"):
            # a folder may be named for two splits, since YOLO wants train and val
            if image not in items or split_in(*PurePosixPath(image).parts[:-1]) == split:
                items[image] = _item(file.parent, image, split, classes)
    expect(bool(items), str(file), "images below the folders that train, val and test name", "none")
    images = FileImages(str(file.parent), Names.of(items))
    return AnnotatedSet(name, "YOLO segments", classes, list(items.values()), images, tuple(notes))


def _yaml(path: Path) -> Path | None:
    if path.is_file():
        return path if path.suffix.lower() in (".yaml", ".yml") else None
    found = sorted(path.glob("*.y*ml"))
    return next((file for file in found if file.stem in ("data", "dataset")), found[0] if len(found) == 1 else None)


def _listed(file: Path, listed: object, where: str) -> list[str]:
    """The images of a split, which is a folder, several, or a text file with their names."""
    found: list[str] = []
    for one in listed if isinstance(listed, list) else [listed] if listed else []:
        text = one if isinstance(one, str) else None
        # as Roboflow writes it: ../train/images lies in the folder of data.yaml
        place = safe_name(text.removeprefix("../") if text and text not in (".", "./") else text and "images", where)
        if place.endswith(".txt") and (file.parent / place).is_file():
            lines = text_of(file.parent / place, LONGEST).split("\n")
            found += [safe_name(line.strip(), f"{file.parent / place}") for line in lines if line.strip()]
            continue
        folder = file.parent / place
        expect(folder.is_dir(), where, "a folder of images below it", short_repr(one))
        found += images_below(file.parent, folder)
    return found


def _item(root: Path, image: str, split: int, classes: tuple[str, ...]) -> AnnotatedImage:
    parts = list(PurePosixPath(image).parts)
    if "images" in parts:
        parts[len(parts) - 1 - parts[::-1].index("images")] = "labels"
    labels = (root / "/".join(parts)).with_suffix(".txt")
    height, width = size_if_there(root / image)
    if not labels.is_file():
        return AnnotatedImage(image, height, width, (), split)
    findings = []
    for number, line in enumerate(text_of(labels, LONGEST).splitlines(), 1):
        if words := line.split():
            findings.append(_finding(words, height, width, classes, f"{labels}, line {number}"))
    return AnnotatedImage(image, height, width, largest_first(findings, height, width), split)


def _finding(words: list[str], height: int, width: int, classes: tuple[str, ...], where: str) -> Finding:
    known = words[0].isascii() and words[0].isdigit() and int(words[0][:9]) < len(classes)
    expect(known, where, f"a class from 0 to {len(classes) - 1}", short_repr(words[0]), "see names in data.yaml")
    label = int(words[0]) + 1
    shares = [float_of(word, where) for word in words[1:]]
    values = [share * (height if place % 2 else width) for place, share in enumerate(shares)]
    if len(values) == 4:
        x, y, wide, high = values
        return Finding(label, (x - wide / 2, y - high / 2, x + wide / 2, y + high / 2))
    polygon = polygon_of(values, where)
    return Finding(label, box_of([polygon]), (polygon,))


def write(annotated: AnnotatedSet, folder: Path, progress: Progress = silent) -> list[str]:
    lost, undivided = Lost(), 0
    there: dict[str, str] = {}
    for name, item, write_image in items_to_write(annotated, progress):
        undivided += item.split < 0
        word = split_name(item.split, SPLITS[0])
        there[word] = f"images/{word}"
        write_image(folder / there[word] / name)
        lost.see(item)
        lines = [_line(one, item.height, item.width) for one in item.findings if one.shown(item.height, item.width)]
        write_file((folder / "labels" / word / name).with_suffix(".txt"), "".join(lines).encode())
    any_of_them = there.get(SPLITS[0], next(iter(there.values())))  # YOLO wants train and val
    lines = [f"{word}: {there.get(word, any_of_them)}\n" for word in SPLITS if word != "test" or word in there]
    names = [f"  {number}: {json.dumps(name, ensure_ascii=False)}\n" for number, name in enumerate(annotated.classes)]
    write_file(folder / "data.yaml", "".join([*lines, "names:\n", *names]).encode())
    return [*lost.notes(), *([f"{counted(undivided, 'image')} of no split, written as train"] if undivided else [])]


def _line(one: Finding, height: int, width: int) -> str:
    if one.outlined:
        shares = (one.polygon(height, width) / [width, height]).ravel().tolist()
    else:
        x0, y0, x1, y1 = one.box
        shares = [(x0 + x1) / 2 / width, (y0 + y1) / 2 / height, (x1 - x0) / width, (y1 - y0) / height]
    return " ".join([str(one.label - 1), *(f"{share:.10g}" for share in shares)]) + "\n"
