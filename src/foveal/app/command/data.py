"""`foveal data WHAT`: one line about a set of pictures; with --check every file is opened, with --twins leaks between splits and folds are listed."""

import argparse
import json
import multiprocessing
import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass

import numpy as np

from foveal.app.command.jobs import check_jobs
from foveal.data.near_duplicates import DISTANCE, SIDE, NearDuplicates, hash_of, near_duplicates
from foveal.data.read import read
from foveal.data.source import FilePictures, Source
from foveal.report.progress import progress
from foveal.runtime.image import BadImage, kind_of

ALONE = 200  # pictures that are not worth the start of a second process
COMMONEST = 5  # sizes and kinds that are named
LONGEST = 50  # lines of a list on the screen; --json has them all


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", metavar="NAME_OR_PATH", help="pipes, pipes:N, a folder, a csv file, or a folder with Sewer-ML")
    parser.add_argument("--label", metavar="COLUMN", help="the column of the csv that holds the classes (default: label)")
    parser.add_argument("--by", metavar="COLUMN", help="the column of the csv whose values are the folds, such as a campaign")
    parser.add_argument("--seed", type=int, default=0, help="for the split, where the data gives none")
    parser.add_argument("--check", action="store_true", help="open every picture; list the bad ones, and count sizes and kinds")
    parser.add_argument("--twins", action="store_true", help="list pictures of two splits, or two folds, that are almost the same")
    parser.add_argument("--distance", metavar="BITS", type=int, default=DISTANCE, help="how different twins may be, in bits of 64")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes that open pictures")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")


def run(args: argparse.Namespace) -> int:
    check_jobs(args.jobs, "--jobs")
    source = read(args.data, label=args.label, by=args.by, seed=args.seed)
    seen = list(_looked(source, args)) if args.check or args.near_duplicates else []
    parts = [] if not args.near_duplicates else ["splits"] if source.fold is None else ["splits", "folds"]
    found = {across: _twins(source, seen, args.distance, across) for across in parts}
    if args.json:
        print(json.dumps(_facts(source, seen, found, args), ensure_ascii=False, indent=1))
        return 0
    print(source.told())
    if args.check:
        print("\n".join(_checked(seen)))
    for across, pairs in found.items():
        print("\n".join(_listed(across, pairs)))
    return 0


@dataclass(frozen=True)
class Look:
    """What opening one picture showed."""

    file: str
    reason: str | None  # why it is bad
    kind: str = ""  # such as JPEG RGB
    size: str = ""
    code: int | None = None  # its hash


def _looked(source: Source, args: argparse.Namespace) -> Iterator[Look]:
    jobs = min(args.jobs, 1 + len(source) // ALONE)
    if jobs == 1:
        yield from progress((_look(source, index, args.check) for index in range(len(source))), len(source), "opening pictures")
        return
    fresh = multiprocessing.get_context("spawn")  # a fork would copy locks of threads that are not there
    with ProcessPoolExecutor(jobs, fresh, initializer=_keep, initargs=(source, args.check)) as pool:
        try:
            yield from progress(pool.map(_look_kept, range(len(source)), chunksize=32), len(source), "opening pictures")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


_kept: list[tuple[Source, bool]] = []


def _keep(source: Source, full: bool) -> None:
    _kept[:] = [(source, full)]


def _look_kept(index: int) -> Look:
    return _look(_kept[0][0], index, _kept[0][1])


def _look(source: Source, index: int, full: bool) -> Look:
    file = source.file(index)
    try:
        kind = size = ""
        if full and isinstance(source.pictures, FilePictures):
            kind, width, height = kind_of(source.pictures.path(index))
            size = f"{width}×{height}"
        return Look(file, None, kind, size, hash_of(source.image(index, SIDE)))
    except BadImage as bad:
        return Look(file, bad.reason)


def _twins(source: Source, seen: list[Look], distance: int, across: str) -> list[NearDuplicates]:
    codes = np.array([look.code or 0 for look in seen], np.uint64)
    there = np.array([look.code is not None for look in seen], bool)
    return near_duplicates(source, codes, there, distance, across=across)


def _checked(seen: list[Look]) -> list[str]:
    bad = [look for look in seen if look.reason is not None]
    lines = [f"opened {len(seen)}: {len(seen) - len(bad)} good, {len(bad)} bad"]
    for what in ("kind", "size"):
        counted = Counter(value for look in seen if (value := getattr(look, what)))
        common = [f"{name} {count}" for name, count in counted.most_common(COMMONEST)]
        more = [f"… {len(counted) - COMMONEST} more"] if len(counted) > COMMONEST else []
        lines += [f"  {what}s: {', '.join([*common, *more])}"] if common else []
    return lines + _shortened([f"  {look.file}: {look.reason}" for look in bad])


def _listed(across: str, found: list[NearDuplicates]) -> list[str]:
    pairs = Counter(twin.splits for twin in found)
    total = ", ".join(f"{one}–{other} {count}" for (one, other), count in sorted(pairs.items()))
    lines = [f"near-twins across {across}: {total or 'none'}"]
    return lines + _shortened(
        [f"  {twin.first} ({twin.splits[0]})  {twin.second} ({twin.splits[1]})  {twin.likeness:.2f}" for twin in found]
    )


def _shortened(lines: list[str]) -> list[str]:
    return lines if len(lines) <= LONGEST else [*lines[:LONGEST], f"  … {len(lines) - LONGEST} more: --json lists them all"]


def _facts(source: Source, seen: list[Look], found: dict[str, list[NearDuplicates]], args: argparse.Namespace) -> dict[str, object]:
    facts = {"line": source.describe(), **source.facts()}
    if args.check:
        facts["bad"] = [{"file": look.file, "reason": look.reason} for look in seen if look.reason is not None]
        facts["kinds"] = Counter(look.kind for look in seen if look.kind)
        facts["sizes"] = Counter(look.size for look in seen if look.size)
    for across, pairs in found.items():
        facts["twins" if across == "splits" else "fold_twins"] = [asdict(twin) for twin in pairs]
    return facts
