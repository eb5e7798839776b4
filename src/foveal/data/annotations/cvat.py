"""CVAT for images 1.1: one XML with all images and their shapes.

    polygon    points="x,y;x,y;…"
    mask       rle="outside, inside, outside, …", row by row in the box left, top, width, height
    box        xtl, ytl, xbr, ybr
    z_order    what lies above: the larger, and of equals the later
    group_id   shapes of one label and one group are one finding;   subset   the split of an image

Lines and points have no area, and are left out. Images lie in the XML's folder, or in images/ beside it.
"""

import math
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement, tostring

import numpy as np

from foveal.data.annotated import AnnotatedImage, AnnotatedSet, Finding, box_of, edges_of, of_mask
from foveal.data.annotations._files import (
    Lost,
    classes_seen,
    float_of,
    folder_with,
    image_of,
    items_to_write,
    of_groups,
    polygon_of,
    safe_name,
    sides,
    split_in,
    write_file,
)
from foveal.data.annotations._xml import child_text, integer_of, xml_of
from foveal.data.class_names import NOTHING
from foveal.data.run_lengths import mask_of, run_lengths
from foveal.data.source import FileImages, Names
from foveal.data.splits import SPLITS
from foveal.errors import counted, expect, short_repr
from foveal.progress import Progress, silent

HEAD = 1 << 12  # bytes of a file that are looked at
AREALESS = ("polyline", "points", "skeleton", "cuboid", "tag", "ellipse")
Shape = tuple[str, str, Finding]  # its label, its group, and what it outlines
LABELS = ("meta/task/labels/label", "meta/project/labels/label", "meta/job/labels/label", "meta/labels/label")


def matches(path: Path) -> bool:
    return _file(path) is not None


def _file(path: Path) -> Path | None:
    files = [path] if path.is_file() else [path / "annotations.xml", *sorted(path.glob("*.xml"))]
    return next((file for file in files if file.suffix.lower() == ".xml" and _is_cvat(file)), None)


def _is_cvat(file: Path) -> bool:
    try:
        with file.open("rb") as content:
            return b"<annotations" in content.read(HEAD)
    except OSError:
        return False


def read(path: Path, name: str) -> AnnotatedSet:
    file = _file(path)
    assert file is not None
    root = xml_of(file)
    expect(root.tag == "annotations", str(file), "CVAT for images, whose root is annotations", short_repr(root.tag))
    expect(
        root.find("track") is None, str(file), "CVAT for images", "tracks of a video", "export it as CVAT for images"
    )
    entries = root.findall("image")
    expect(bool(entries), str(file), "images", "none")
    listed = [child_text(label, "name") for place in LABELS for label in root.findall(place)]
    seen = {shape.get("label", "").strip() for entry in entries for shape in entry if shape.tag not in AREALESS}
    classes = tuple(one for one in classes_seen(seen, list(dict.fromkeys(listed))) if one.lower() not in NOTHING)
    names = [safe_name(entry.get("name"), f"{file}, image {short_repr(entry.get('id'))}") for entry in entries]
    folder = folder_with(file.parent, names, ("", "images"))
    items: list[AnnotatedImage] = []
    left = 0
    for entry, image in zip(entries, names, strict=True):
        where = f"{file}, image {image}"
        height, width = sides(integer_of(entry.get("height")), integer_of(entry.get("width")), where)
        findings = of_groups(_shapes(entry, height, width, where), classes)
        left += sum(shape.tag in AREALESS for shape in entry)
        split = split_in(entry.get("subset") or "")
        items.append(image_of(f"{folder}/{image}" if folder else image, (height, width), findings, split))
    notes = (f"{counted(left, 'shape')} left out: lines and points have no area",) if left else ()
    images = FileImages(str(file.parent), Names.of(item.file for item in items))
    return AnnotatedSet(name, "CVAT", classes, items, images, notes)


def _shapes(entry: Element, height: int, width: int, where: str) -> list[Shape]:
    """What has an area, in the order in which it is drawn."""
    found: list[tuple[float, Shape]] = []
    for place, one in enumerate(entry):
        if one.tag in AREALESS:
            continue
        at = f"{where}, shape {place}"
        name, group = one.get("label", "").strip(), one.get("group_id", "0")
        expect(bool(name), at, "a label", "none")
        order = float_of(one.get("z_order", "0"), at)
        found.append((order, (name, "" if group == "0" else group, _finding(one, height, width, at))))
    return [shape for _, shape in sorted(found, key=lambda pair: pair[0])]


def _finding(shape: Element, height: int, width: int, where: str) -> Finding:
    """Without its label."""
    if shape.tag == "polygon":
        points = (shape.get("points") or "").split(";")
        polygon = polygon_of([float_of(value, where) for point in points for value in point.split(",")], where)
        return Finding(0, box_of([polygon]), (polygon,))
    if shape.tag == "box":
        x0, y0, x1, y1 = (float_of(shape.get(edge), where) for edge in ("xtl", "ytl", "xbr", "ybr"))
        return Finding(0, (x0, y0, x1, y1))
    expect(shape.tag == "mask", where, "a polygon, a box or a mask", short_repr(shape.tag))
    left, top, wide, high = (integer_of(shape.get(edge)) or 0 for edge in ("left", "top", "width", "height"))
    fits = wide > 0 and high > 0 and top + high <= height and left + wide <= width
    expect(fits, where, f"a mask inside the image of {width}×{height}", f"{wide}×{high} at {left}, {top}")
    counts = [integer_of(count) for count in (shape.get("rle") or "").split(",")]
    expect(None not in counts, where, "run lengths with commas between", short_repr(shape.get("rle")))
    mask = np.zeros((height, width), bool)
    mask[top : top + high, left : left + wide] = mask_of([count or 0 for count in counts], wide, high, where).T
    return of_mask(0, mask)


def write(annotated: AnnotatedSet, folder: Path, progress: Progress = silent) -> list[str]:
    lost = Lost()
    root = Element("annotations")
    SubElement(root, "version").text = "1.1"
    task = SubElement(SubElement(root, "meta"), "task")
    labels = SubElement(task, "labels")
    for name in annotated.classes:
        SubElement(SubElement(labels, "label"), "name").text = name
    for number, (name, item, write_image) in enumerate(items_to_write(annotated, progress)):
        write_image(folder / "images" / name)
        lost.see(item)
        facts = {"id": str(number), "name": name, "width": str(item.width), "height": str(item.height)}
        entry = SubElement(root, "image", facts | ({"subset": SPLITS[item.split]} if item.split >= 0 else {}))
        for order, one in enumerate(item.findings):
            _write(entry, one, order, item, annotated.classes)
    write_file(folder / "annotations.xml", tostring(root, "utf-8", xml_declaration=True))
    return lost.notes()


def _write(entry: Element, one: Finding, order: int, item: AnnotatedImage, classes: tuple[str, ...]) -> None:
    facts = {"label": classes[one.label - 1], "source": "manual", "occluded": "0", "z_order": str(order)}
    if one.runs is not None:
        inside = one.window(item.height, item.width)[2]
        left, top, right, bottom = edges_of(inside)
        rows = run_lengths(inside[top:bottom, left:right].T)
        place = {"left": left, "top": top, "width": right - left, "height": bottom - top}
        if rows:
            words = {key: str(value) for key, value in place.items()}
            SubElement(entry, "mask", facts | {"rle": ", ".join(map(str, rows))} | words)
        return
    if not one.polygons:
        edges = dict(zip(("xtl", "ytl", "xbr", "ybr"), map(_number, one.box), strict=True))
        SubElement(entry, "box", facts | edges)
        return
    group = {"group_id": str(order + 1)} if len(one.polygons) > 1 else {}
    for part in one.polygons:
        points = ";".join(f"{_number(x)},{_number(y)}" for x, y in part.tolist())
        SubElement(entry, "polygon", facts | {"points": points} | group)


def _number(value: float) -> str:
    return f"{value:.0f}" if value == math.floor(value) else repr(value)
