"""LabelMe: a JSON for each image, with its shapes in the order in which they are drawn.

    polygon      its corners;   rectangle   two corners: a box;   circle   its centre, and a point on it
    mask         two corners, and a PNG of what is inside, in letters
    group_id     shapes of one label and one group are one finding

Lines and points have no area, and are left out. labels.txt, where it is there, holds the names of the classes. Folders
called train, val and test are splits.
"""

import base64
import io
import json
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from foveal.data.annotated import AnnotatedImage, AnnotatedSet, Finding, box_of, of_mask
from foveal.data.annotations._files import (
    Lost,
    classes_seen,
    image_of,
    items_to_write,
    json_of,
    numbers,
    of_groups,
    polygon_of,
    safe_name,
    sides,
    size_if_there,
    split_in,
    split_name,
    write_file,
)
from foveal.data.class_names import NOTHING, read_classes
from foveal.data.source import FileImages, Names
from foveal.errors import FovealError, counted, expect, short_repr
from foveal.progress import Progress, silent
from foveal.runtime.image import LARGEST

VERSION = "5.5.0"  # of the format that is written
HEAD = 1 << 12  # bytes of a file that are looked at
AREALESS = ("line", "linestrip", "point", "points")
CORNERS = 64  # of a circle

Shape = tuple[str, str, Finding]  # its label, its group, and what it outlines


def matches(path: Path) -> bool:
    files = [path] if path.is_file() else _files(path)[:1]
    return any(file.suffix.lower() == ".json" and _is_labelme(file) for file in files)


def _files(path: Path) -> list[Path]:
    return sorted(file for file in path.rglob("*.json") if not any(part.startswith(".") for part in file.parts[-3:]))


def _is_labelme(file: Path) -> bool:
    try:
        with file.open("rb") as content:
            head = content.read(HEAD)
    except OSError:
        return False
    return b'"shapes"' in head


def read(path: Path, name: str) -> AnnotatedSet:
    root = path if path.is_dir() else path.parent
    found: list[tuple[AnnotatedImage, list[Shape]]] = []
    left = 0
    for file in _files(path) if path.is_dir() else [path]:
        if path.is_dir() and not _is_labelme(file):
            continue
        content = json_of(file)
        shapes = content.get("shapes") if isinstance(content, dict) else None
        expect(isinstance(shapes, list), str(file), "LabelMe, which has a list of shapes", short_repr(content))
        image = _image(root, file, content)
        read_shapes = [_shape(one, image, f"{file}, shape {place}") for place, one in enumerate(shapes or [])]
        found.append((image, [one for one in read_shapes if one is not None]))
        left += sum(one is None for one in read_shapes)
    seen = {label for _, shapes in found for label, _, _ in shapes}
    listed = read_classes(root / "labels.txt").names if (root / "labels.txt").is_file() else ()
    classes = classes_seen({label for label in seen if label.lower() not in NOTHING}, listed)
    expect(bool(classes), str(path), "shapes with a label", "none")
    items = [
        image_of(image.file, (image.height, image.width), of_groups(shapes, classes), image.split)
        for image, shapes in found
    ]
    notes = (f"{counted(left, 'shape')} left out: lines and points have no area",) if left else ()
    return AnnotatedSet(
        name, "LabelMe", classes, items, FileImages(str(root), Names.of(one.file for one in items)), notes
    )


def _image(root: Path, file: Path, content: dict[str, Any]) -> AnnotatedImage:
    """Without findings. imagePath is named from the file's folder; it may lead up, but not out of the set."""
    text, where = content.get("imagePath"), f"{file}, imagePath"
    place = file.parent.relative_to(root)
    while isinstance(text, str) and text.replace("\\", "/").startswith("../") and place.parts:
        text, place = text[3:], place.parent
    image = (PurePosixPath(place.as_posix()) / safe_name(text, where)).as_posix()
    height, width = content.get("imageHeight"), content.get("imageWidth")
    if height is None or width is None:
        height, width = size_if_there(root / image)
    else:
        height, width = sides(height, width, f"{file}, imageHeight and imageWidth")
    return AnnotatedImage(image, height, width, (), split_in(*file.relative_to(root).parts[:-1]))


def _shape(one: Any, image: AnnotatedImage, where: str) -> Shape | None:
    """None of what has no area."""
    facts = one if isinstance(one, dict) else {}
    kind, label, points = facts.get("shape_type", "polygon"), facts.get("label"), facts.get("points")
    if not (isinstance(kind, str) and isinstance(label, str) and isinstance(points, list)):
        raise FovealError(f"{where}: expected a label, a shape_type and points, got {short_repr(one)}")
    group = "" if facts.get("group_id") is None else str(facts["group_id"])
    if kind in AREALESS:
        return None
    corners = [value for point in points for value in numbers(point, where, 2)]
    if kind == "polygon":
        polygon = polygon_of(corners, where)
        return label.strip(), group, Finding(0, box_of([polygon]), (polygon,))
    expect(kind in ("rectangle", "circle", "mask"), where, "a polygon, rectangle, circle or mask", short_repr(kind))
    expect(len(corners) == 4, where, f"a {kind} of two points", f"{len(corners) // 2}")
    x, y, other_x, other_y = corners
    if kind == "rectangle":
        return label.strip(), group, Finding(0, (min(x, other_x), min(y, other_y), max(x, other_x), max(y, other_y)))
    if kind == "circle":
        turn = np.linspace(0, 2 * np.pi, CORNERS, endpoint=False)
        circle = np.array([x, y]) + np.hypot(x - other_x, y - other_y) * np.stack([np.cos(turn), np.sin(turn)], 1)
        return label.strip(), group, Finding(0, box_of([circle]), (circle,))
    inside = _decoded(facts.get("mask"), where)
    high, wide = inside.shape
    left, top = round(min(x, other_x)), round(min(y, other_y))
    fits = 0 <= top <= image.height - high and 0 <= left <= image.width - wide
    expect(fits, where, f"a mask inside the image of {image.width}×{image.height}", f"{wide}×{high} at {left}, {top}")
    mask = np.zeros((image.height, image.width), bool)
    mask[top : top + high, left : left + wide] = inside
    return label.strip(), group, of_mask(0, mask)


def _decoded(text: Any, where: str) -> NDArray[np.bool_]:
    """What a PNG in letters shows."""
    try:
        with Image.open(io.BytesIO(base64.b64decode(text, validate=True)), formats=("PNG",)) as picture:
            if picture.width * picture.height <= LARGEST:
                return np.array(picture.convert("L")) > 0
    except (TypeError, ValueError, OSError, SyntaxError, Image.DecompressionBombError):
        pass
    raise FovealError(f"{where}: expected a mask as a PNG in base64, got {short_repr(text)}")


def write(annotated: AnnotatedSet, folder: Path, progress: Progress = silent) -> list[str]:
    lost = Lost()
    for name, item, write_image in items_to_write(annotated, progress):
        place = folder / split_name(item.split, "") / name
        write_image(place)
        lost.see(item)
        content: dict[str, Any] = {
            "version": VERSION,
            "flags": {},
            "shapes": [
                shape for number, one in enumerate(item.findings) for shape in _written(one, number, item, annotated)
            ],
            "imagePath": name,
            "imageData": None,
            "imageHeight": item.height,
            "imageWidth": item.width,
        }
        write_file(place.with_suffix(".json"), json.dumps(content).encode())
    names = ["__ignore__", "_background_", *annotated.classes]
    write_file(folder / "labels.txt", "".join(f"{name}\n" for name in names).encode())
    return lost.notes()


def _written(one: Finding, number: int, item: AnnotatedImage, annotated: AnnotatedSet) -> list[dict[str, Any]]:
    parts = one.parts(item.height, item.width)
    kind = "polygon" if one.outlined else "rectangle"
    shapes = [part.tolist() for part in parts] if one.outlined else [[list(one.box[:2]), list(one.box[2:])]]
    group = number if len(shapes) > 1 else None
    name = annotated.classes[one.label - 1]
    return [{"label": name, "points": points, "group_id": group, "shape_type": kind, "flags": {}} for points in shapes]
