"""`foveal render pipes --out DIR`: drawn pipe frames as files, with labels, boxes and label maps,
in formats that others read, too.

    images/000017.jpg           quality 92
    masks/000017.png            0 nothing, k + 1 the k-th kind; of two findings at one pixel, the one that is seen
    labels.csv                  file, split, a 0/1 column for each kind
    instances_{split}.json      COCO: boxes (x, y, w, h), and each finding's own mask as uncompressed run lengths,
                                column by column
    sheet.jpg                   some frames at a glance;  render.json: what the folder was made from

Killed and called again, it goes on where it was; nothing half-written is ever left under a final name.
"""

import argparse
import io
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from foveal import __version__
from foveal.app.command.flags import check_jobs
from foveal.app.command.workers import pool
from foveal.atomic import write_atomic
from foveal.data.read import MARK, read
from foveal.data.rendered import COUNT, SIZE, RenderedImages, label_map_of, read_pipes
from foveal.data.run_lengths import run_lengths
from foveal.data.source import Source
from foveal.data.splits import SPLITS
from foveal.errors import FovealError, expect, expect_integer, unknown
from foveal.report.progress import progress

QUALITY, SHEET, ALONE = 92, 24, 16  # SHEET frames are shown; up to ALONE are drawn in this process
PARTS = ".parts"  # what is known of each finished frame until all are


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", metavar="WHAT", help="what to render: pipes")
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        required=True,
        help="the folder to write; new, empty, or its own unfinished one",
    )
    parser.add_argument("--count", metavar="N", type=int, default=COUNT, help=f"number of frames (default: {COUNT})")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="seed of the frames (default: 0)")
    parser.add_argument(
        "--size", metavar="PIXELS", type=int, default=SIZE, help=f"side of a frame in pixels (default: {SIZE})"
    )
    parser.add_argument(
        "--jobs", metavar="N", type=int, default=os.cpu_count() or 1, help="processes that draw (default: one per core)"
    )


def run(args: argparse.Namespace) -> int:
    from foveal.data.pipes.render import check

    if args.what != "pipes":
        raise unknown("set to render", args.what, ["pipes"])
    expect_integer(args.count, "--count")
    expect_integer(args.seed, "--seed", least=0)
    check_jobs(args.jobs, "--jobs")
    check(args.seed, args.size, None)
    source = read_pipes(f"pipes:{args.count}:{args.seed}")
    facts = {"what": args.what, "count": args.count, "seed": args.seed, "size": args.size, "foveal": __version__}
    if not _finished(args.out, facts, source):
        _draw_all(source, args.size, args.out, args.jobs)
        _write_labels(source, args.out)
        _write_instances(source, args.size, args.out)
        _write_sheet(source, args.size, args.out)
        _mark(args.out, {**facts, "finished": True})
        shutil.rmtree(args.out / PARTS, ignore_errors=True)
    print(read(str(args.out)).describe())
    return 0


def _finished(out: Path, wanted: dict[str, Any], source: Source) -> bool:
    """Whether the folder holds just this already, whole.

    A folder of anything else is refused, an empty one is marked as ours.
    """
    if out.exists():
        expect(out.is_dir(), "--out", "the name of a folder", f"the file {out}")
        there = sorted(path.name for path in out.iterdir())
        if MARK in there:
            try:
                before = json.loads((out / MARK).read_text(encoding="utf-8"))
                finished = bool(before.pop("finished", False))
            except (OSError, ValueError, AttributeError):
                raise FovealError(
                    f"{out / MARK}: expected what foveal render wrote, got something else; choose another --out"
                ) from None
            expect(
                before == wanted,
                f"--out {out}",
                f"a folder for {_words(wanted)}",
                f"one for {_words(before)}",
                "choose another name",
            )
            return finished and _whole(out, source)
        expect(
            not there,
            f"--out {out}",
            "a new or an empty folder",
            f"one with {there[0] if there else ''} in it",
            "choose another name",
        )
    _mark(out, wanted)
    return False


def _whole(out: Path, source: Source) -> bool:
    """Whether every file of a finished rendering is still there and can be opened.

    A frame that is not is drawn again.
    """
    listed = all((out / name).is_file() for name in ("labels.csv", *(f"instances_{split}.json" for split in SPLITS)))
    sound = [index for index in range(len(source)) if _sound(out, index)]
    if listed and len(sound) == len(source):
        return True
    if listed:  # of frames that are there, the findings are known
        findings: dict[int, list[dict[str, Any]]] = {}
        for split in SPLITS:
            for one in _annotations(out, split):
                findings.setdefault(one["image_id"], []).append(
                    {key: one[key] for key in one if key not in ("id", "image_id")}
                )
        for index in sound:
            write_atomic(_part(out, index), json.dumps(findings.get(index, [])).encode())
    return False


def _annotations(out: Path, split: str) -> list[dict[str, Any]]:
    try:
        return list(json.loads((out / f"instances_{split}.json").read_bytes())["annotations"])
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _sound(out: Path, index: int) -> bool:
    try:
        for file in (out / _file(index), out / "masks" / f"{index:06d}.png"):
            with Image.open(file) as image:
                image.load()
    except (OSError, SyntaxError, ValueError):
        return False
    return True


def _words(facts: dict[str, Any]) -> str:
    return " ".join(f"{name} {value}" for name, value in facts.items() if name != "what")


def _mark(out: Path, facts: dict[str, Any]) -> None:
    write_atomic(out / MARK, json.dumps(facts).encode() + b"\n")


def _draw_all(source: Source, size: int, out: Path, jobs: int) -> None:
    assert isinstance(source.images, RenderedImages)
    left = [
        (out, index, source.images.frame_seed(index), size) for index in range(len(source)) if not _drawn(out, index)
    ]
    for folder in ("images", "masks", PARTS):
        (out / folder).mkdir(exist_ok=True)
    jobs = min(jobs, 1 + len(left) // ALONE)
    if jobs == 1:
        for _ in progress((_draw(*one) for one in left), len(left), "drawing"):
            pass
        return
    with pool(jobs) as workers:
        for _ in progress(workers.map(_draw, *zip(*left, strict=True)), len(left), "drawing"):
            pass


def _draw(out: Path, index: int, seed: int, size: int) -> int:
    """One frame: its picture and its mask, and last its part, which says that both are there."""
    from foveal.data.pipes.render import KINDS, render

    frame = render(seed, size)
    findings = []
    for finding in frame.findings:
        x0, y0, x1, y1 = finding.box
        findings.append(
            {
                "category_id": KINDS.index(finding.kind) + 1,
                "bbox": [x0, y0, x1 - x0, y1 - y0],
                "area": int(finding.mask.sum()),
                "iscrowd": 0,
                "segmentation": {"size": [size, size], "counts": run_lengths(finding.mask)},
                "clock": round(finding.clock, 3),
            }
        )
    write_atomic(out / _file(index), _encoded(frame.image, format="JPEG", quality=QUALITY))
    write_atomic(out / "masks" / f"{index:06d}.png", _encoded(label_map_of(frame), format="PNG", optimize=True))
    write_atomic(_part(out, index), json.dumps(findings).encode())
    return index


def _encoded(pixels: NDArray[np.uint8], **how: Any) -> bytes:
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, **how)
    return content.getvalue()


def _file(index: int) -> str:
    return f"images/{index:06d}.jpg"


def _part(out: Path, index: int) -> Path:
    return out / PARTS / f"{index:06d}.json"


def _drawn(out: Path, index: int) -> bool:
    """Whether a frame is there, with what is known of it."""
    try:
        return isinstance(json.loads(_part(out, index).read_bytes()), list)
    except (OSError, ValueError):
        return False


def _write_labels(source: Source, out: Path) -> None:
    rows = [("file", "split", *source.classes)]
    rows += [
        (_file(index), SPLITS[source.split[index]], *map(str, source.labels[index].tolist()))
        for index in range(len(source))
    ]
    write_atomic(out / "labels.csv", "".join(",".join(row) + "\n" for row in rows).encode())


def _write_instances(source: Source, size: int, out: Path) -> None:
    categories = [{"id": number, "name": name} for number, name in enumerate(source.classes, 1)]
    for split in SPLITS:
        indices = source.indices(split).tolist()
        images = [{"id": index, "file_name": _file(index), "width": size, "height": size} for index in indices]
        findings = [
            {"image_id": index, **one} for index in indices for one in json.loads(_part(out, index).read_bytes())
        ]
        annotations = [{"id": number, **one} for number, one in enumerate(findings, 1)]
        content = {"images": images, "annotations": annotations, "categories": categories}
        write_atomic(out / f"instances_{split}.json", json.dumps(content, separators=(",", ":")).encode())


def _write_sheet(source: Source, size: int, out: Path) -> None:
    from foveal.data.pipes import contact_sheet, render

    assert isinstance(source.images, RenderedImages)
    frames = [render(source.images.frame_seed(index), min(size, SIZE)) for index in _some(source)]
    content = io.BytesIO()
    contact_sheet(frames, columns=min(6, len(frames))).save(content, format="JPEG", quality=QUALITY)
    write_atomic(out / "sheet.jpg", content.getvalue())


def _some(source: Source) -> Iterator[int]:
    """A few frames of each kind in turn, so that no kind is missing; then any."""
    chosen: dict[int, None] = {}
    for turn in range(SHEET // len(source.classes)):
        for kind in range(len(source.classes)):
            chosen.update(dict.fromkeys(np.flatnonzero(source.labels[:, kind])[turn : turn + 1].tolist()))
    chosen.update(dict.fromkeys(range(len(source))))
    return iter(sorted(list(chosen)[:SHEET]))
