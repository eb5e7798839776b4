"""PASCAL VOC: folders of images, of label maps in a palette, of boxes in XML, and lists of what is in which split.

    JPEGImages/7.jpg          SegmentationClass/7.png      0 background, 255 unlabelled
    Annotations/7.xml         boxes: xmin, ymin, xmax, ymax, whose pixels count from 1 and include the last
    ImageSets/Segmentation/{train,val,test}.txt            or ImageSets/Main/, where there are no label maps
    labelmap.txt              name:red,green,blue:parts:actions, as CVAT writes it, for classes that are not VOC's own

Where there are label maps, they are what is read, and boxes are not.
"""

from pathlib import Path, PurePosixPath
from xml.etree.ElementTree import Element, SubElement, tostring

import numpy as np

from foveal.data.annotated import AnnotatedImage, AnnotatedSet, Finding
from foveal.data.annotations._files import (
    LONGEST,
    Lost,
    classes_seen,
    float_of,
    images_below,
    items_to_write,
    safe_name,
    sides,
    size_if_there,
    write_file,
)
from foveal.data.annotations._xml import child_text, integer_of, xml_of
from foveal.data.annotations.label_maps import colour_lines, write_map
from foveal.data.class_names import named_classes, text_of
from foveal.data.map_pairs import Pairs
from foveal.data.source import FileImages, Names
from foveal.data.splits import SPLITS
from foveal.errors import expect, short_repr
from foveal.progress import Progress, silent

IMAGES, MAPS, BOXES = "JPEGImages", "SegmentationClass", "Annotations"


def matches(path: Path) -> bool:
    return (path / IMAGES).is_dir() and ((path / MAPS).is_dir() or (path / BOXES).is_dir())


def has_maps(path: Path) -> bool:
    return next((path / MAPS).glob("*.png"), None) is not None


def pairs(path: Path, fold_column: str | None = None) -> Pairs | None:
    """Which image has which label map; None where there are boxes alone."""
    if not has_maps(path):
        return None
    expect(fold_column is None, "--fold-column", "none: VOC has no columns", fold_column)
    images = _images(path)
    listed = _splits(path, "Segmentation", images)
    stems = sorted(listed.keys() | {file.stem for file in (path / MAPS).glob("*.png")})
    names = [images.get(stem, f"{IMAGES}/{stem}.jpg") for stem in stems]
    maps = [f"{MAPS}/{stem}.png" if (path / MAPS / f"{stem}.png").is_file() else None for stem in stems]
    return Pairs(path, "VOC", names, list(maps), np.array([listed.get(stem, -1) for stem in stems], np.int8))


def read(path: Path, name: str) -> AnnotatedSet:
    found = pairs(path)
    if found is not None:
        from foveal.data.annotated_maps import annotated_of
        from foveal.data.read_label_maps import read_pairs

        return annotated_of(read_pairs(found, name))
    images = _images(path)
    listed = _splits(path, "Main", images)
    boxes = {stem: _boxes(path / BOXES / f"{stem}.xml") for stem in images if (path / BOXES / f"{stem}.xml").is_file()}
    named = named_classes(path)
    classes = classes_seen((label for _, found in boxes.values() for label, _ in found), named.names if named else ())
    expect(bool(classes), str(path / BOXES), "boxes with a name", "none")
    items = []
    for stem, image in sorted(images.items()):
        size, found_boxes = boxes.get(stem, (None, []))
        height, width = size or size_if_there(path / image)
        findings = tuple(Finding(classes.index(label) + 1, box) for label, box in found_boxes)
        items.append(AnnotatedImage(image, height, width, findings, listed.get(stem, -1)))
    return AnnotatedSet(name, "VOC", classes, items, FileImages(str(path), Names.of(item.file for item in items)))


def _images(path: Path) -> dict[str, str]:
    return {PurePosixPath(name).stem: name for name in images_below(path, path / IMAGES)}


def _splits(path: Path, kind: str, images: dict[str, str]) -> dict[str, int]:
    """The split of every stem that a list names; trainval and others name what these have. images: by their stems."""
    found: dict[str, int] = {}
    for place, split in enumerate(SPLITS):
        file = path / "ImageSets" / kind / f"{split}.txt"
        for line in text_of(file, LONGEST).splitlines() if file.is_file() else []:
            if text := line.strip():
                stem = safe_name(text if text in images else text.split()[0], str(file))
                earlier = found.setdefault(stem, place)
                expect(earlier == place, str(file), "images of one split", f"{stem}, which is in {SPLITS[earlier]}")
    return found


def _boxes(file: Path) -> tuple[tuple[int, int] | None, list[tuple[str, tuple[float, float, float, float]]]]:
    """The size of the image, where it is told, and its boxes by name."""
    root = xml_of(file)
    expect(root.tag == "annotation", str(file), "VOC, whose root is annotation", short_repr(root.tag))
    height, width = root.findtext("size/height"), root.findtext("size/width")
    size = sides(integer_of(height), integer_of(width), f"{file}, size") if height and width else None
    found = []
    for place, entry in enumerate(root.findall("object")):
        where = f"{file}, object {place}"
        name = child_text(entry, "name")
        expect(bool(name), where, "a name", "none")
        x0, y0, x1, y1 = (
            float_of(entry.findtext(f"bndbox/{edge}"), where) for edge in ("xmin", "ymin", "xmax", "ymax")
        )
        found.append((name, (x0 - 1, y0 - 1, x1, y1)))
    return size, found


def write(annotated: AnnotatedSet, folder: Path, progress: Progress = silent) -> list[str]:
    lost = Lost()
    lists: dict[int, list[str]] = {}
    outlined = annotated.outlined
    for name, item, write_image in items_to_write(annotated, progress):
        write_image(folder / IMAGES / name)
        stem = PurePosixPath(name).stem
        lists.setdefault(item.split, []).append(stem)
        label_map = item.label_map if outlined else None
        lost.see(item, label_map)
        if label_map is not None:
            write_map(folder / MAPS / f"{stem}.png", label_map)
        write_file(folder / BOXES / f"{stem}.xml", _xml(name, item, annotated.classes))
    for split, stems in lists.items():
        kinds = ("Segmentation", "Main") if outlined else ("Main",)
        for kind in kinds if split >= 0 else ():
            text = "".join(f"{stem}\n" for stem in stems)
            write_file(folder / "ImageSets" / kind / f"{SPLITS[split]}.txt", text.encode())
    write_file(folder / "labelmap.txt", colour_lines(annotated.classes).encode())
    return lost.notes()


def _xml(name: str, item: AnnotatedImage, classes: tuple[str, ...]) -> bytes:
    root = Element("annotation")
    SubElement(root, "filename").text = name
    size = SubElement(root, "size")
    for side, value in (("width", item.width), ("height", item.height), ("depth", 3)):
        SubElement(size, side).text = str(value)
    SubElement(root, "segmented").text = str(int(any(one.outlined for one in item.findings)))
    for one in item.findings:
        entry = SubElement(root, "object")
        SubElement(entry, "name").text = classes[one.label - 1]
        box, (x0, y0, x1, y1) = SubElement(entry, "bndbox"), one.box
        for edge, at in (("xmin", x0 + 1), ("ymin", y0 + 1), ("xmax", x1), ("ymax", y1)):
            SubElement(box, edge).text = f"{at:.0f}" if at == round(at) else repr(at)
    return bytes(tostring(root, "utf-8"))
