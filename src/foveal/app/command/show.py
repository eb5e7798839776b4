"""`foveal show`: what there is; what one mechanism or model is, with its picture; and the gallery of all pictures.

What a model file says: show_file.py; what a preset is: show_preset.py.
"""

import argparse
import shutil
import sys
import textwrap
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from foveal.app.command.show_file import KINDS, describe_file
from foveal.app.command.show_preset import describe_preset
from foveal.errors import FovealError
from foveal.report.catalogue import Entry, entries, find
from foveal.runtime.packaged import FILE
from foveal.tasks.load import packaged_file, preset_names

if TYPE_CHECKING:
    from foveal.report.picture import Picture

HEADINGS = {
    "mask": "masks",
    "score": "scores",
    "attention": "attention",
    "position": "positions",
    "layer": "layers",
    "map": "feature maps",
    "model": "models",
}
WIDEST = 100  # columns of text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name",
        metavar="NAME",
        nargs="?",
        help="the mechanism or model to explain, or a preset, a model file or a run to describe; without it, "
        "everything is listed",
    )
    parser.add_argument(
        "--png", metavar="FILE", type=Path, help="draw the picture into this file; without it, on the terminal"
    )
    parser.add_argument(
        "--size",
        metavar="N",
        type=int,
        help="the side of the picture of a mask or a position, in tokens; by default what its example fits",
    )
    parser.add_argument(
        "--gallery",
        metavar="DIR",
        type=Path,
        help="draw everything: one PNG each, and gallery.png of all; without it, only NAME is drawn",
    )


def run(args: argparse.Namespace) -> int:
    if args.gallery is not None:
        _alone(args, "--gallery", "name", "png", "size")
        return _gallery(args.gallery)
    if args.name is None:
        _alone(args, "a list", "png", "size")
        print("\n".join(listing(entries(), _width())))
        return 0
    file = packaged_file(args.name) or Path(args.name)
    file = file / FILE if (file / FILE).is_file() else file
    if file.suffix in KINDS:
        _alone(args, "a file", "png", "size")
        print("\n".join(describe_file(file)))
        return 0
    try:
        entry = find(args.name)
    except FovealError:
        if args.name not in (*(name for entry in entries() for name in entry.presets), *preset_names()):
            raise
        _alone(args, "a preset", "png", "size")
        print("\n".join(describe_preset(args.name)))
        return 0
    print("\n".join(described(entry, _width())))
    print()
    return _show_picture(entry, args.png, args.size)


def listing(known: tuple[Entry, ...], width: int) -> list[str]:
    """Everything, grouped by kind: the name and the equation, one line each."""
    wide = max(len(entry.name) for entry in known)
    lines: list[str] = []
    for kind, group in groupby(known, key=lambda entry: entry.kind):
        lines += ["", HEADINGS[kind]] if lines else [HEADINGS[kind]]
        for entry in group:
            equation = " ".join(entry.equation.split("\n")[0].split())
            lines.append(_cut(f"  {entry.name:{wide}}  {equation}", width))
    if families := [entry for entry in known if entry.presets]:
        lines += ["", "presets"]
        for entry in families:
            first = f"  {entry.name:{wide}}  "
            names = ", ".join(entry.presets)
            lines += textwrap.wrap(
                names, width, initial_indent=first, subsequent_indent=" " * len(first), break_on_hyphens=False
            )
    return [*lines, "", "`foveal show NAME` explains and draws one, or describes a preset."]


def described(entry: Entry, width: int) -> list[str]:
    """What the docstring says, set for reading."""
    fields = [
        ("symbols", entry.symbols),
        *(("paper", str(paper)) for paper in entry.papers),
        ("departs", entry.departs),
        ("cost", entry.cost),
        ("example", entry.example),
        ("presets", ", ".join(entry.presets)),
        ("module", entry.module),
    ]
    lines = [f"{entry.name} ({entry.kind})", *textwrap.wrap(entry.title, width), ""]
    lines += [f"    {line}" for line in entry.equation.split("\n")] + [""]
    for label, text in fields:
        if text:
            lines += textwrap.wrap(
                text, width, initial_indent=f"{label:9}", subsequent_indent=" " * 9, break_on_hyphens=False
            )
    return lines


def _show_picture(entry: Entry, png: Path | None, size: int | None) -> int:
    from foveal.report.mechanism_picture import portrait
    from foveal.report.picture import draw, save

    picture = portrait(entry, size)
    if isinstance(picture, str):
        if png is not None:
            raise FovealError(f"{entry.name} has no picture: {picture}")
        print(f"no picture: {picture}")
        return 0
    if png is not None:
        save(draw(picture), png)
        print(f"wrote {png}")
        return 0
    print("\n".join(in_text(picture, _width(), sys.stdout.encoding or "ascii")))
    return 0


def in_text(picture: "Picture", width: int, encoding: str) -> list[str]:
    """The picture as blocks: as many panels beside each other as fit."""
    from foveal.report.text_matrix import blocks, encodes

    right, down = ("→", "↓") if encodes("→↓", encoding) else (">", "v")
    row: list[list[str]] = []
    left = width
    for number, panel in enumerate(picture.panels):
        block = blocks(panel, columns=width, encoding=encoding)
        wide = len(block[0])
        if row and wide > left:
            break
        left -= wide + 2
        row.append([_cut(picture.labels[number], wide).ljust(wide), *block] if picture.labels else block)
    for block in row:
        block += [" " * len(block[0])] * (max(map(len, row)) - len(block))
    more = len(picture.panels) - len(row)
    return [
        f"{picture.columns} {right}  {picture.rows} {down}  blank = {picture.low}, full = {picture.high}",
        *("  ".join(parts).rstrip() for parts in zip(*row, strict=True)),
        *([f"and {more} more; --png FILE draws them all"] if more else []),
    ]


def _gallery(folder: Path) -> int:
    from foveal.report.mechanism_picture import portrait
    from foveal.report.picture import Picture, draw, save, sheet

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FovealError(f"cannot make the folder {folder}: {error.strerror or error}; give another name") from None
    groups: dict[str, list[Picture]] = {}
    for entry in entries():
        picture = portrait(entry)
        if isinstance(picture, str):
            print(f"{entry.name:24} no picture: {picture}")
            continue
        groups.setdefault(HEADINGS[entry.kind], []).append(picture)
        path = folder / f"{entry.name}.png"
        save(draw(picture), path)
        print(f"{entry.name:24} {path}")
    path = folder / "gallery.png"
    save(sheet(groups, "foveal: who looks at what"), path)
    print(f"{'everything':24} {path}")
    return 0


def _alone(args: argparse.Namespace, what: str, *others: str) -> None:
    for other in others:
        if getattr(args, other) is not None:
            raise FovealError(
                f"{'NAME' if other == 'name' else '--' + other}: expected nothing beside {what}, got "
                f"{getattr(args, other)}"
            )


def _width() -> int:
    return max(20, min(shutil.get_terminal_size((WIDEST, 24)).columns, WIDEST))


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 1] + "…"
