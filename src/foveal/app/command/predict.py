"""`foveal predict [MODEL] INPUT…`: what a model finds, one row per input as soon as it is known."""

import argparse
import itertools
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from foveal.app.command.flags import add_device, add_stage_options, expect_not_input, stage_options
from foveal.errors import FovealError, expect, unknown
from foveal.report.progress import progress
from foveal.runtime.image import SUFFIXES, BadImage, kind_of
from foveal.runtime.paths import STDIN
from foveal.tasks.load import default_model, is_model, load
from foveal.tasks.model import Model
from foveal.tasks.task import Predictor

WIDEST = 60  # columns for the name of a file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words",
        metavar="INPUT",
        nargs="+",
        help="files, folders, quoted patterns, or - for stdin: a list of paths, or lines of text. The first may be "
        "the model: a run's folder, "
        "a .safetensors or .onnx file; "
        "without one, the weights that come with foveal look at images",
    )
    parser.add_argument(
        "-z",
        "--null",
        action="store_true",
        help="the list on stdin is separated by NUL, as find -print0 writes it; without it, by line ends",
    )
    parser.add_argument(
        "--format",
        metavar="FORMAT",
        help="table, csv or jsonl (default: as --out ends, a table on a terminal, else csv)",
    )
    parser.add_argument(
        "--out",
        metavar="FILE",
        type=Path,
        help="write the rows to this file, whole or not at all; of a model whose results are files, a name that does "
        "not end in .csv or .jsonl is the folder that they are written to (default: rows on stdout)",
    )
    add_device(parser)
    add_stage_options(parser, "predict")


def run(args: argparse.Namespace) -> int:
    model, words = open_first(args.words, args.device)
    expect_not_input(args.out, [model.path, *words])
    predictor = model.predictor(**stage_options(args, "predict", model.task))
    live = STDIN in words
    named = [] if words == [STDIN] else predictor.inputs([word for word in words if word != STDIN])
    if args.out is not None:  # an image in a folder that is read
        expect_not_input(args.out, [one for one in map(str, named) if one.endswith(args.out.name)])
    form = _format(args.format, args.out, predictor)
    results: Iterable[Any] = predictor.predict(itertools.chain(named, predictor.stream(args.null)) if live else named)
    # on a terminal the rows themselves show how far it is
    if not live and (args.out is not None or not sys.stdout.isatty()):
        results = progress(results, len(named), "predicting")
    widest = min(max((len(str(one)) for one in named), default=WIDEST), WIDEST)
    total = failed = 0
    with predictor.writer(form, args.out, widest) as write:
        for result in results:
            write(result)
            total += 1
            failed += bool(result.error)
        if not total:
            raise FovealError(f"the list on stdin: expected {predictor.noun}s, got none")
    if failed or args.out is not None:
        wrote = f"; wrote {args.out}" if args.out is not None else ""
        print(
            f"{total} {predictor.noun}{'' if total == 1 else 's'}, "
            f"{f'{failed} could not be read' if failed else 'all read'}{wrote}",
            file=sys.stderr,
        )
    return 0 if failed < total else 2


def open_first(words: Sequence[str], device: str) -> tuple[Model, list[str]]:
    """The model that the first word names, or the one that comes with foveal where that word is an input.

    And the other words.
    """
    given = bool(words) and (is_model(words[0]) or not _is_input(words[0]))
    rest = list(words[1:] if given else words)
    if not given and len(words) > 1:
        _expect_image(words[0])
    for word in rest:
        if Path(word).suffix in (".safetensors", ".onnx"):
            raise FovealError(f"{word}: expected inputs after the first argument, got a model; put the model first")
    return load(words[0] if given else default_model(), device=device), rest


def _is_input(word: str) -> bool:
    """Whether a word may name an image: it exists, is a pattern, or ends like one.

    Any other name is a model's, perhaps mistyped.
    """
    pattern = any(sign in word for sign in "*?[")
    return word == STDIN or os.path.lexists(word) or pattern or word.lower().endswith(SUFFIXES)


def _expect_image(word: str) -> None:
    """Raise a FovealError where the first of several words is a file that is neither a model nor an image:
    nothing else may answer for it.
    """
    if word.lower().endswith(SUFFIXES) or not Path(word).is_file():
        return
    try:
        kind_of(word)
    except BadImage:
        raise FovealError(
            f"{word}: expected a model, or an image for the one that comes with foveal, got neither"
        ) from None


def _format(asked: str | None, out: Path | None, predictor: Predictor) -> str:
    if asked is not None:
        if asked not in predictor.formats:
            raise unknown("format", asked, predictor.formats)
        return asked
    if out is not None:
        endings = predictor.suffixes
        if predictor.folder and out.suffix.lower() not in (*endings, *SUFFIXES):
            return predictor.folder
        folder = "a folder, or " if predictor.folder else ""
        wanted = f"{folder}a name that ends in {' or '.join(endings)}"
        expect(out.suffix in endings, "--out", wanted, str(out), "or add --format")
        return endings[out.suffix]
    first, *others = predictor.formats  # for a terminal, and for a pipe
    return first if sys.stdout.isatty() or not others else others[0]
