"""`foveal data WHAT`: a data set of images in one line; of label maps, what they show in a few more.

--check opens every file, --near-duplicates lists leaks between splits and folds, --to writes it in another format.
"""

import argparse
import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from foveal.app.command.flags import check_jobs
from foveal.app.command.workers import pool
from foveal.data.annotations import formats
from foveal.data.near_duplicates import DISTANCE, SIDE, NearDuplicates, hash_of, near_duplicates
from foveal.data.read_any import WHAT, read_annotated, read_any
from foveal.data.segments import BAD, SegmentSource
from foveal.data.shift import shift_notes
from foveal.data.source import FileImages, Source
from foveal.data.write_annotated import write_annotated
from foveal.errors import expect, expect_integer, printable
from foveal.report.progress import progress
from foveal.runtime.image import BadImage, kind_of

ALONE = 200  # images that are not worth the start of a second process
COMMONEST = 5  # sizes and kinds that are named
LONGEST = 50  # lines of a list on the screen; --json has them all


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "data",
        metavar="NAME_OR_PATH",
        help="pipes, pipes:N, a folder, a csv file, a folder with Sewer-ML, or annotations such as a JSON of COCO",
    )
    parser.add_argument(
        "--read",
        dest="what",
        choices=WHAT,
        help="classes of images or label maps, where there are both (default: what is there, classes first)",
    )
    parser.add_argument(
        "--to", metavar="FORMAT", help=f"write the annotations as {', '.join(formats())} (default: none is written)"
    )
    parser.add_argument(
        "--out", metavar="DIR", type=Path, help="the folder to write, new or empty, beside --to (default: none)"
    )
    parser.add_argument(
        "--from", dest="form", metavar="FORMAT", help="the format to read, with --to (default: the first that is there)"
    )
    parser.add_argument(
        "--bad",
        choices=BAD,
        default=BAD[0],
        help="label maps that are missing, damaged, of another size than their image or of unknown labels: "
        f"refuse the set, or leave them out (default: {BAD[0]})",
    )
    parser.add_argument("--label", metavar="COLUMN", help="column of the csv that holds the classes (default: label)")
    parser.add_argument(
        "--fold-column",
        metavar="COLUMN",
        help="column of the csv whose values are the folds, such as a campaign (default: fold, where there is one)",
    )
    parser.add_argument(
        "--seed", metavar="N", type=int, default=0, help="seed of the split, where the data has none (default: 0)"
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="open every image; list the bad ones, and count sizes and kinds; without it, none is opened",
    )
    parser.add_argument(
        "--near-duplicates",
        action="store_true",
        help="list images of two splits, or two folds, that are almost the same; without it, none are searched for",
    )
    parser.add_argument(
        "--distance",
        metavar="BITS",
        type=int,
        default=DISTANCE,
        help=f"how far near-duplicates may differ, in bits of 64 (default: {DISTANCE})",
    )
    parser.add_argument(
        "--jobs",
        metavar="N",
        type=int,
        default=os.cpu_count() or 1,
        help="processes that open images (default: one per core)",
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON; without it, as text")


def run(args: argparse.Namespace) -> int:
    check_jobs(args.jobs, "--jobs")
    expect_integer(args.seed, "--seed", least=0)
    expect_integer(args.distance, "--distance", least=0)
    expect((args.to is None) == (args.out is None), "--to and --out", "both or neither", "one of them")
    if args.to is not None:
        return _convert(args)
    expect(args.form is None, "--from", "--to and --out beside it", "none")
    source = read_any(
        args.data,
        what=args.what,
        label=args.label,
        fold_column=args.fold_column,
        seed=args.seed,
        bad=args.bad,
        progress=progress,
    )
    seen = list(_open_all(source, args)) if args.check or args.near_duplicates else []
    parts = [] if not args.near_duplicates else ["splits"] if source.fold is None else ["splits", "folds"]
    found = {across: _pairs(source, seen, args.distance, across) for across in parts}
    bad = any(one.reason is not None for one in seen)
    if args.json:
        print(json.dumps(_facts(source, seen, found, args), indent=1))
        return int(bad)
    print(source.summary())
    if args.check:
        moved = shift_notes(source, None, progress) if isinstance(source, SegmentSource) else []
        print("\n".join([*_checked(seen), *(f"  {note}" for note in moved)]))
    for across, pairs in found.items():
        print("\n".join(_listed(across, pairs)))
    return int(bad)


def _convert(args: argparse.Namespace) -> int:
    annotated = read_annotated(args.data, args.form, bad=args.bad, progress=progress)
    written = write_annotated(annotated, args.to, args.out, progress)
    print("\n  ".join([f"{args.out}: {written.line}", *map(printable, written.notes)]))
    return 0


@dataclass(frozen=True)
class Opened:
    """What opening one image showed."""

    file: str
    reason: str | None  # why it is bad
    kind: str = ""  # such as JPEG RGB
    size: str = ""
    code: int | None = None  # its hash


def _open_all(source: Source, args: argparse.Namespace) -> Iterator[Opened]:
    jobs = min(args.jobs, 1 + len(source) // ALONE)
    if jobs == 1:
        yield from progress(
            (_open(source, index, args.check) for index in range(len(source))), len(source), "opening images"
        )
        return
    with pool(jobs, _keep, source, args.check) as workers:
        yield from progress(workers.map(_open_kept, range(len(source)), chunksize=8), len(source), "opening images")


_kept: list[tuple[Source, bool]] = []


def _keep(source: Source, full: bool) -> None:
    _kept[:] = [(source, full)]


def _open_kept(index: int) -> Opened:
    return _open(_kept[0][0], index, _kept[0][1])


def _open(source: Source, index: int, full: bool) -> Opened:
    file = source.file(index)
    try:
        kind = size = ""
        if full and isinstance(source.images, FileImages):
            kind, width, height = kind_of(source.images.path(index))
            size = f"{width}×{height}"
        return Opened(file, None, kind, size, hash_of(source.image(index, SIDE)))
    except BadImage as bad:
        return Opened(file, bad.reason)


def _pairs(source: Source, seen: list[Opened], distance: int, across: str) -> list[NearDuplicates]:
    codes = np.array([one.code or 0 for one in seen], np.uint64)
    there = np.array([one.code is not None for one in seen], bool)
    return near_duplicates(source, codes, there, distance, across=across)


def _checked(seen: list[Opened]) -> list[str]:
    bad = [one for one in seen if one.reason is not None]
    lines = [f"opened {len(seen)}: {len(seen) - len(bad)} good, {len(bad)} bad"]
    for what in ("kind", "size"):
        counted = Counter(value for one in seen if (value := getattr(one, what)))
        common = [f"{name} {count}" for name, count in counted.most_common(COMMONEST)]
        more = [f"… {len(counted) - COMMONEST} more"] if len(counted) > COMMONEST else []
        lines += [f"  {what}s: {', '.join([*common, *more])}"] if common else []
    return lines + _shortened([f"  {printable(one.file)}: {printable(one.reason or '')}" for one in bad])


def _listed(across: str, found: list[NearDuplicates]) -> list[str]:
    pairs = Counter(pair.splits for pair in found)
    total = ", ".join(f"{one}–{other} {count}" for (one, other), count in sorted(pairs.items()))
    lines = [f"near-duplicates across {across}: {total or 'none'}"]
    return lines + _shortened(
        [
            f"  {printable(pair.first)} ({pair.splits[0]})  {printable(pair.second)} ({pair.splits[1]})  "
            f"{pair.likeness:.2f}"
            for pair in found
        ]
    )


def _shortened(lines: list[str]) -> list[str]:
    return (
        lines
        if len(lines) <= LONGEST
        else [*lines[:LONGEST], f"  … {len(lines) - LONGEST} more: --json lists them all"]
    )


def _facts(
    source: Source, seen: list[Opened], found: dict[str, list[NearDuplicates]], args: argparse.Namespace
) -> dict[str, object]:
    facts = {"line": source.describe(), **source.facts()}
    if args.check:
        facts["bad"] = [{"file": one.file, "reason": one.reason} for one in seen if one.reason is not None]
        facts["kinds"] = Counter(one.kind for one in seen if one.kind)
        facts["sizes"] = Counter(one.size for one in seen if one.size)
    for across, pairs in found.items():
        facts["near_duplicates" if across == "splits" else "fold_near_duplicates"] = [asdict(pair) for pair in pairs]
    return facts
