"""What a file says that label maps mean: of each class its name, and the value or the colour of its pixels.

    classes.txt      a name per line, the first of the value 1; a first line `background` is the value 0; or VALUE NAME
    classes.json     a list of names, or {"name": value}, {"name": [red, green, blue]}, {"value": "name"}
    labelmap.txt     VOC as CVAT writes it: name:red,green,blue:parts:actions
    data.yaml        YOLO: `names`, a list or numbered from 0

What is called background is background, what is called ignore or void is unlabelled.
"""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from foveal.errors import FovealError, expect, expect_plain_file, naming_extras, reading, short_repr
from foveal.runtime.components import BACKGROUND, UNLABELLED

FILES = ("classes.txt", "classes.json", "labelmap.txt", "label_map.txt", "data.yaml", "labels.txt")
NOTHING = {"background", "_background_", "__background__", "bg", "nothing"}
UNKNOWN = {"__ignore__", "_ignore_", "ignore", "void", "unlabelled", "unlabeled"}
MOST = 254  # classes of a label map
LARGEST = 1 << 20  # bytes of a file that names classes

Colour = tuple[int, int, int]
Entries = list[tuple[str, int | Colour]]  # name, and its value or its colour


@dataclass(frozen=True)
class Named:
    """K names, and which codes mean which label."""

    names: tuple[str, ...]
    values: dict[int, int] = field(default_factory=dict)  # of grey and palette maps: value → label
    colours: dict[int, int] = field(default_factory=dict)  # red·65536 + green·256 + blue → label


def of_names(names: tuple[str, ...]) -> Named:
    """Classes in the order of their values."""
    return Named(names, {label: label for label in range(len(names) + 1)})


def named_classes(*folders: Path) -> Named | None:
    """What the first file says that names classes, of these folders."""
    files = (folder / name for folder in folders for name in FILES)
    return next((read_classes(file) for file in files if file.is_file()), None)


def read_classes(path: Path) -> Named:
    """What one file says."""
    text = text_of(path, LARGEST)
    if path.suffix == ".json":
        entries = _from_json(path, text)
    elif path.suffix in (".yaml", ".yml"):
        entries = _in_order(yolo_names(path, text))
    else:
        entries = _from_lines(path, text)
    if not any(isinstance(code, tuple) for _, code in entries):
        entries.sort(key=lambda entry: entry[1])
    names = tuple(name for name, _ in entries if name.lower() not in NOTHING | UNKNOWN)
    expect(0 < len(names) <= MOST, str(path), f"names of 1 to {MOST} classes", len(names))
    values: dict[int, int] = {}
    colours: dict[int, int] = {}
    for name, code in entries:
        known = BACKGROUND if name.lower() in NOTHING else UNLABELLED
        label = names.index(name) + 1 if name in names else known
        among, key = (values, code) if isinstance(code, int) else (colours, code[0] << 16 | code[1] << 8 | code[2])
        expect(key not in among, str(path), "a value or a colour of its own for each class", f"{code} twice")
        among[key] = label
    if colours and not values:  # palette maps are numbered in the order of the lines
        colours = {BACKGROUND: BACKGROUND} | colours
        values = dict(enumerate(colours.values()))
    return Named(names, {BACKGROUND: BACKGROUND} | values, colours)


def text_of(path: Path, largest: int) -> str:
    """A file of text, of at most so many bytes."""
    expect_plain_file(path)
    with reading(path):
        content = path.read_bytes() if path.stat().st_size <= largest else None
    if content is None:
        raise FovealError(f"{path}: expected at most {largest:,} bytes, got {path.stat().st_size:,}")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FovealError(
            f"{path}: expected text in UTF-8, got the byte {content[error.start]:#04x}; save it as UTF-8"
        ) from None


def yolo_names(path: Path, text: str) -> list[str]:
    """`names` of a data.yaml, in their order."""
    names = yaml_of(path, text).get("names")
    if isinstance(names, dict) and names and all(isinstance(key, int) and 0 <= key < MOST for key in names):
        names = [names.get(key, f"class {key + 1}") for key in range(max(names) + 1)]
    if not (isinstance(names, list) and names and all(isinstance(name, (str, int, float)) for name in names)):
        raise FovealError(f"{path}: expected `names`, a list of classes or numbered from 0, got {short_repr(names)}")
    return [str(name).strip() for name in names]


def yaml_of(path: Path, text: str) -> dict[object, object]:
    """The mapping that a YAML file holds."""
    with naming_extras():
        import yaml
    try:
        content = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError):
        raise FovealError(f"{path}: expected YAML, got something else") from None
    if not isinstance(content, dict):
        raise FovealError(f"{path}: expected `names: [...]` and more in YAML, got {short_repr(content)}")
    return content


def _in_order(names: list[str]) -> Entries:
    """The first is the value 1, or 0 where it is the background."""
    named = [name for name in names if name.lower() not in UNKNOWN]  # LabelMe's __ignore__ comes before the value 0
    start = 0 if named and named[0].lower() in NOTHING else 1
    return [(name, value) for value, name in enumerate(named, start)]


def _from_lines(path: Path, text: str) -> Entries:
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    coloured = [re.fullmatch(r"(.+?):\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*(:.*)?", line) for line in lines]
    if all(coloured):
        return [(one[1].strip(), _colour(path, [*map(int, one.group(2, 3, 4))])) for one in coloured if one]
    numbered = [re.fullmatch(r"(\d{1,3})\s*[:,\s]\s*(\S.*)", line) for line in lines]
    if all(numbered):
        return [(one[2].strip(), _value(path, int(one[1]))) for one in numbered if one]
    return _in_order(lines)


def _from_json(path: Path, text: str) -> Entries:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise FovealError(f"{path}: expected JSON, such as a list of names, got something else") from None
    if isinstance(content, list) and all(isinstance(name, str) for name in content):
        return _in_order([name.strip() for name in content])
    entries: Entries = []
    for key, value in content.items() if isinstance(content, dict) else [("", None)]:
        if isinstance(value, str) and key.isascii() and key.isdigit():
            entries.append((value.strip(), _value(path, int(key))))
        elif isinstance(value, int) and not isinstance(value, bool):
            entries.append((key.strip(), _value(path, value)))
        elif isinstance(value, list) and all(isinstance(part, int) for part in value) and key:
            entries.append((key.strip(), _colour(path, value)))
        else:
            expected = 'a list of names, {"name": value} or {"name": [red, green, blue]}'
            raise FovealError(f"{path}: expected {expected}, got {short_repr(value if key else content)}")
    return entries


def _value(path: Path, value: int) -> int:
    expect(0 <= value <= 255, str(path), "values from 0 to 255", short_repr(value))
    return value


def _colour(path: Path, parts: list[int]) -> Colour:
    fits = len(parts) == 3 and all(0 <= part <= 255 for part in parts)
    expect(fits, str(path), "colours as three values from 0 to 255", short_repr(parts))
    return parts[0], parts[1], parts[2]
