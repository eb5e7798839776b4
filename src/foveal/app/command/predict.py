"""`foveal predict [MODEL] PATHS…`: what a model finds in pictures, a row for each as soon as it is known."""

import argparse
import contextlib
import csv
import io
import itertools
import json
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from foveal.app.command.device import add_device
from foveal.atomic import beside
from foveal.errors import FovealError, expect, expect_integer, unknown
from foveal.report.progress import progress
from foveal.runtime.onnx_names import EXPORTED
from foveal.runtime.paths import STDIN, listed, model_and_rest, pictures

if TYPE_CHECKING:
    from foveal.runtime.card import Card
    from foveal.runtime.image import BadImage, Pixels
    from foveal.tasks.classify.predict import Classifier, Prediction, Problem

    Decoded = tuple[str, Pixels | BadImage]
    Answer = Prediction | Problem
    Row = Callable[[Answer], str]  # an answer as one row, with its end of line

FORMATS = ("table", "csv", "jsonl")
THREADS = min(4, os.cpu_count() or 1)  # that decode; more of them would wait for the model
WIDEST = 60  # columns for the name of a file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words",
        metavar="PATH",
        nargs="+",
        help="pictures: files, folders, quoted patterns, or - for a list on stdin. The first may be the model: a .safetensors file or "
        "a run's folder; without one, the weights that come with foveal are used",
    )
    parser.add_argument("-0", dest="zero", action="store_true", help="the list on stdin is separated by NUL, as find -print0 writes it")
    parser.add_argument(
        "--format", metavar="FORMAT", help="table, csv or jsonl; unless given: as --out ends, a table on a terminal, else csv"
    )
    parser.add_argument("--out", metavar="FILE", type=Path, help="write the rows into this file, whole or not at all")
    parser.add_argument("--threshold", metavar="P", type=float, help="what counts as found, instead of the model's own thresholds")
    add_device(parser)
    parser.add_argument("--batch", metavar="N", type=int, default=16, help="pictures at once (default: 16); 1 answers a live list at once")


def run(args: argparse.Namespace) -> int:
    expect_integer(args.batch, "--batch")
    kind = _format(args.format, args.out)
    model, words = model_and_rest(args.words)
    live = STDIN in words
    named = [] if words == [STDIN] else pictures([word for word in words if word != STDIN])
    from foveal.tasks.classify.predict import Problem

    inspector = inspector_of(model, args.device, args.batch, args.threshold)
    paths = itertools.chain(named, listed(args.zero)) if live else named
    answers: Iterable[Answer] = inspector.inspect(decoded(paths, inspector.card.size))
    if not live and (args.out is not None or not sys.stdout.isatty()):  # on a terminal the rows themselves show how far it is
        answers = progress(answers, len(named), "inspecting")
    head, row = _rows(kind, inspector.card, max(map(len, named), default=WIDEST))
    total = bad = 0
    with _written(args.out) if args.out is not None else contextlib.nullcontext(sys.stdout) as stream:
        for answer in answers:
            stream.write((head if not total else "") + row(answer))
            stream.flush()
            total += 1
            bad += isinstance(answer, Problem)
        if not total:
            raise FovealError("the list on stdin: expected paths of pictures, got none")
    if bad or args.out is not None:
        wrote = f"; wrote {args.out}" if args.out is not None else ""
        print(f"{total} {'picture' if total == 1 else 'pictures'}, {bad or 'none'} could not be read{wrote}", file=sys.stderr)
    return 0 if bad < total else 2


def inspector_of(model: Path, device: str, batch: int, threshold: float | None) -> "Classifier":
    """Who answers: onnxruntime for an exported file, torch for a model of its own."""
    if model.suffix == EXPORTED:
        from foveal.tasks.classify.predict_onnx import OnnxClassifier

        expect(device in ("auto", "cpu"), "--device", "auto or cpu for an exported file", device)
        return OnnxClassifier.load(model, batch, threshold)
    from foveal.tasks.classify.predict_torch import TorchClassifier

    return TorchClassifier.load(model, device, batch, threshold)


def decoded(paths: Iterable[str], size: int, threads: int = THREADS) -> "Iterator[Decoded]":
    """The pictures of these paths in their order, decoded in threads a little ahead; what cannot be is there as its BadImage.

    The paths are read in a thread of their own: where they come slowly, the pictures that are there do not wait for the next path.
    """
    line: queue.Queue[tuple[str, Future[Pixels | BadImage]] | BaseException | None] = queue.Queue(4 * threads)

    def feed() -> None:
        try:
            for path in paths:
                line.put((path, pool.submit(_open, path, size)))
            line.put(None)
        except BaseException as error:  # noqa: BLE001 — raised again where the pictures are asked for; a pool that is shut takes nothing
            line.put(error)

    pool = ThreadPoolExecutor(threads)
    threading.Thread(target=feed, daemon=True).start()
    try:
        while (item := line.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item[0], item[1].result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        with contextlib.suppress(queue.Empty):
            while True:  # room for the feeder, which then finds the pool shut
                line.get_nowait()


def _open(path: str, size: int) -> "Pixels | BadImage":
    from foveal.runtime.image import BadImage, open_image

    try:
        return open_image(path, size)
    except BadImage as bad:
        return bad


def _format(asked: str | None, out: Path | None) -> str:
    if asked is not None:
        if asked not in FORMATS:
            raise unknown("format", asked, FORMATS)
        return asked
    if out is not None:
        return "jsonl" if out.suffix in (".jsonl", ".ndjson") else "csv"
    return "table" if sys.stdout.isatty() else "csv"


def _rows(kind: str, card: "Card", longest: int) -> "tuple[str, Row]":
    """The head, and what makes a row of an answer."""
    if kind == "jsonl":
        return "", lambda answer: _json(answer, card.classes)
    if kind == "csv":
        return _comma(["file", "found", *card.classes, "error"]), lambda answer: _csv(answer, len(card.classes))
    wide = min(max(longest, len("picture")), WIDEST)
    return f"{'picture':{wide}}  found\n", lambda answer: _line(answer, card.classes, wide)


def _line(answer: "Answer", classes: Sequence[str], wide: int) -> str:
    from foveal.tasks.classify.predict import Problem

    if isinstance(answer, Problem):
        said = f"error: {answer.reason}"
    else:
        probabilities = dict(zip(classes, answer.probability.tolist(), strict=True))
        said = ", ".join(f"{name} {probabilities[name]:.2f}" for name in answer.found) or "nothing"
    return f"{' '.join(answer.file.split()):{wide}}  {said}\n"


def _csv(answer: "Answer", classes: int) -> str:
    from foveal.tasks.classify.predict import Problem

    if isinstance(answer, Problem):
        return _comma([answer.file, "", *[""] * classes, answer.reason])
    return _comma([answer.file, ";".join(answer.found), *(f"{value:.6f}" for value in answer.probability), ""])


def _comma(cells: Sequence[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()


def _json(answer: "Answer", classes: Sequence[str]) -> str:
    from foveal.tasks.classify.predict import Problem

    facts: dict[str, object] = {"file": answer.file}
    if isinstance(answer, Problem):
        facts["error"] = answer.reason
    else:
        probabilities = (round(value, 6) for value in answer.probability.tolist())
        facts |= {"found": list(answer.found), "probability": dict(zip(classes, probabilities, strict=True))}
    # A name that is no Unicode stays a name that can be read back: escaped.
    strange = any(0xD800 <= ord(letter) < 0xE000 for letter in answer.file)
    return json.dumps(facts, ensure_ascii=strange) + "\n"


@contextlib.contextmanager
def _written(path: Path) -> Iterator[TextIO]:
    """A stream beside the name that takes its place at the end, in one step."""
    with beside(path) as part, part.open("w", encoding="utf-8", errors="surrogateescape", newline="") as stream:
        yield stream
