"""What the codes of label maps mean: what a file says that names the classes, else what the codes themselves suggest.

    0, 255                    one class, 255
    0, 1, 2, …                labels as they stand; 255 is unlabelled
    0, 85, 170, 255           a class each
    0 … 255, mostly ends      two values were meant, and a resizing or a JPEG has made more of them: cut at 128
    colours                   a class each, in the order of VOC's colours

Without a file, classes are called class 1, class 2, …
"""

from dataclasses import dataclass

import numpy as np

from foveal.data.class_names import MOST, Named
from foveal.data.label_maps import Palette, Table, named_code, packed
from foveal.errors import expect
from foveal.runtime.components import BACKGROUND, UNLABELLED

DENSE = 4  # values are labels where one of that many is used
NEAR, ENDS, TOP = 40, 0.9, 0.7  # soft edges: ENDS of the pixels NEAR 0 or 255, TOP of those above NEAR near 255
GREY = 0x010101  # the colour of the grey value 1

Counts = dict[tuple[int, bool], int]  # (code, whether it is a colour) → pixels


@dataclass(frozen=True)
class Meaning:
    """The classes of a set, and what its codes mean."""

    classes: tuple[str, ...]
    table: Table
    notes: tuple[str, ...] = ()
    merges: bool = False  # whether several codes mean one class


def meaning_of(counts: Counts, named: Named | None, palette: Palette | None, where: str) -> Meaning:
    """What codes mean that occur so often. palette: that of the set's palette maps. where: what an error names."""
    colours = sorted(code for code, colour in counts if colour)
    if colours and all(code % GREY == 0 for code in colours) and not (named and named.colours):
        return _of_grey_colours(counts, named, palette, where)
    grey = {code: count for (code, colour), count in sorted(counts.items()) if not colour}
    if _is_soft(grey) and (named is None or len(named.names) == 1):
        classes = named.names if named is not None and len(named.names) == 1 else ("class 1",)
        note = f"label maps of two values with soft edges: from 128 on it is {classes[0]}"
        return Meaning(classes, table_of({code: int(code >= 128) for code in range(256)}), (note,), True)
    present = [code for code in grey if code]
    if named is not None:
        values, notes = _of_named(named, present, palette)
        return Meaning(named.names, table_of(values, {BACKGROUND: BACKGROUND} | named.colours), notes)
    return _of_colours(colours, where) if colours else _of_values(present)


def table_of(values: dict[int, int], colours: dict[int, int] | None = None) -> Table:
    """The table of value → label and colour → label."""
    grey = np.full(256, -1, np.int16)
    grey[list(values)] = list(values.values())
    order = sorted(colours or {})
    return Table(grey, np.array(order, np.int32), np.array([(colours or {})[code] for code in order], np.uint8))


def voc_palette() -> Palette:
    """(256, 3) VOC's colours: the bits of a label, dealt to red, green and blue in turn, the lowest first."""
    label = np.arange(256)
    palette = np.zeros((256, 3), np.uint8)
    for bit in range(8):
        for channel in range(3):
            palette[:, channel] |= ((label >> (3 * bit + channel) & 1) << (7 - bit)).astype(np.uint8)
    return palette


def _of_grey_colours(counts: Counts, named: Named | None, palette: Palette | None, where: str) -> Meaning:
    """Maps whose colours are greys: as if they were kept as grey."""
    grey: Counts = {}
    for (code, _), count in counts.items():
        grey[code & 255, False] = grey.get((code & 255, False), 0) + count
    found = meaning_of(grey, named, palette, where)
    values = np.flatnonzero(found.table.grey >= 0)
    colours, labels = (values * GREY).astype(np.int32), found.table.grey[values].astype(np.uint8)
    return Meaning(found.classes, Table(found.table.grey, colours, labels), found.notes, found.merges)


def _is_soft(grey: dict[int, int]) -> bool:
    """Whether two values were meant. Where 255 is unlabelled beside labels, no value is just below it."""
    high = {code: count for code, count in grey.items() if code >= NEAR}
    top = {code: count for code, count in high.items() if code > 255 - NEAR}
    between = sum(high.values()) - sum(top.values())
    return (
        bool(set(top) - {255})
        and between <= (1 - ENDS) * sum(grey.values())
        and between <= (1 - TOP) * sum(high.values())
    )


def _of_named(named: Named, present: list[int], palette: Palette | None) -> tuple[dict[int, int], tuple[str, ...]]:
    """value → label, where a file names the classes; present: the values beside 0."""
    if palette is not None and named.colours and all(code < len(palette) for code in present):
        known = {code: named.colours.get(int(packed(palette[code]))) for code in (0, *present)}
        labels = {code: label for code, label in known.items() if label is not None}
        if len(labels) == len(known):
            return labels, ()
    values = {UNLABELLED: UNLABELLED} | named.values
    if present == [255] and len(named.names) == 1 and 255 not in named.values:
        return {0: 0, 255: 1}, ()
    if len(present) == len(named.names) and not any(code in named.values for code in present):
        listed = ", ".join(f"{code} {name}" for code, name in zip(present, named.names, strict=True))
        return _counted(present), (f"the values stand for the classes in their order: {listed}",)
    return values, ()


def _of_values(present: list[int]) -> Meaning:
    """present: the values beside 0."""
    inner = [code for code in present if code != UNLABELLED]
    if not inner:
        notes = ("the label maps hold 0 and 255 alone: 255 is class 1",) if present else ()
        return Meaning(("class 1",), table_of({0: 0, (present or [1])[0]: 1}), notes)
    largest = inner[-1]
    if len(inner) * DENSE >= largest:
        classes = tuple(f"class {value}" for value in range(1, largest + 1))
        return Meaning(classes, table_of({label: label for label in (*range(largest + 1), UNLABELLED)}))
    note = f"each of the values {', '.join(map(str, present))} is a class, since they are far apart"
    return Meaning(tuple(f"class {value}" for value in present), table_of(_counted(present)), (note,))


def _of_colours(colours: list[int], where: str) -> Meaning:
    order = {code: place for place, code in enumerate(packed(voc_palette()).tolist())}
    void = int(packed(voc_palette()[UNLABELLED]))
    kinds = sorted((code for code in colours if code), key=lambda code: (order.get(code, 256), code))
    if len(kinds) > 1 and all(code in order for code in kinds):
        kinds = [code for code in kinds if code != void]
    do = "name the colours of the classes in labelmap.txt"
    expect(len(kinds) <= MOST, where, f"label maps of at most {MOST} colours", len(kinds), do)
    listed = ", ".join(f"class {label} is {named_code(code, True)}" for label, code in enumerate(kinds, 1))
    classes = tuple(f"class {label}" for label in range(1, len(kinds) + 1))
    return Meaning(classes, table_of({0: 0}, {void: UNLABELLED} | _counted(kinds)), (f"colours: {listed}",))


def _counted(codes: list[int]) -> dict[int, int]:
    return {0: BACKGROUND} | {code: label for label, code in enumerate(codes, 1)}
