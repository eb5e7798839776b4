"""`foveal translate MODEL < in > out`: a line out for each line in, as they come."""

import argparse
import codecs
import dataclasses
import os
import stat
import sys
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

from foveal.app.command.device import add_device
from foveal.errors import expect, expect_integer
from foveal.runtime.decode.batched import AHEAD, MOST, decode_all, in_parts, positions
from foveal.runtime.decode.search import Search, Sentence
from foveal.runtime.onnx_names import EXPORTED

if TYPE_CHECKING:
    from foveal.runtime.card import Card
    from foveal.runtime.decode.engine import Engine


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="RUN_OR_MODEL", help="a run's folder, a model file, or an exported file, which needs no torch")
    parser.add_argument("--beam", type=int, default=4, help="sentences that are followed at once; 1: greedy (default: 4)")
    parser.add_argument("--penalty", type=float, default=0.6, help="of length: 0 prefers short sentences (default: 0.6)")
    parser.add_argument("--best", type=int, default=1, help="so many translations of each line: its number, score and text, by tabs")
    parser.add_argument("--shortest", type=int, default=0, help="pieces of words before a sentence may end")
    parser.add_argument("--longest", type=int, help="pieces at most (default: twice the source and ten)")
    parser.add_argument("--no-repeat", type=int, default=0, metavar="N", help="no run of N pieces comes twice")
    parser.add_argument("--sample", action="store_true", help="draw pieces instead of searching for the likeliest")
    parser.add_argument("--temperature", type=float, default=1.0, help="of the drawing: below 1 more certain")
    parser.add_argument("--top", type=int, default=0, help="draw from so many of the likeliest pieces")
    parser.add_argument("--mass", type=float, default=1.0, help="draw from the likeliest pieces that have this share together")
    parser.add_argument("--seed", type=int, default=0, help="of the drawing")
    parser.add_argument(
        "--batch", type=int, default=32, help="lines that are translated together; 1: each as soon as it comes (default: 32)"
    )
    parser.add_argument(
        "--most", type=int, default=MOST, help=f"pieces of a line, its end included; of a longer one only these are read (default: {MOST})"
    )
    parser.add_argument("--threads", type=int, default=1, help="that compute one batch of an exported file (default: 1)")
    parser.add_argument("--precision", default="fp32", help="fp32, or int8: rounded, and on a CPU faster for large models (default: fp32)")
    add_device(parser)


def run(args: argparse.Namespace) -> int:
    expect_integer(args.batch, "--batch")
    expect_integer(args.most, "--most", 2)
    search = Search(
        beam=args.beam, penalty=args.penalty, best=args.best, shortest=args.shortest, longest=args.longest, no_repeat=args.no_repeat,
        sample=args.sample, temperature=args.temperature, top=args.top, mass=args.mass, seed=args.seed,
    )  # fmt: skip
    engine, card = _of_file(args) if args.model.endswith(EXPORTED) else _of_torch(args)
    expect(bool(card.vocabulary), args.model, "a model with its vocabulary", "one without")
    from foveal.runtime.vocabulary import both_from

    source, target = both_from(card.vocabulary)
    known = positions(card.config)
    longest, search = args.most if known is None else min(args.most, known), dataclasses.replace(search, room=known)
    number = 0

    def answer(part: list[str]) -> list[str]:
        nonlocal number
        sources = source.encode(part)
        for place, pieces in enumerate(sources):
            if len(pieces) > longest - 1:
                said = (
                    f"line {number + place + 1}: {len(pieces):,} pieces, of which the first {longest - 1:,} are read; --most sets how many"
                )
                print(said, file=sys.stderr, flush=True)
                sources[place] = pieces[: longest - 1]
        found = decode_all(engine, sources, search, args.batch, number)
        texts = target.decode([one.words for sentences in found for one in sentences])
        rows = list(_rows(found, texts, number, args.best))
        number += len(part)
        return rows

    for row in in_parts(_lines(sys.stdin.buffer), _gathered(sys.stdin.fileno(), args.batch), answer):
        sys.stdout.write(row)
        sys.stdout.flush()
    return 0


def _gathered(stdin: int, batch: int) -> int:
    """Lines that are read before the first is answered: of a file, whose lines are all there, more than a batch, to sort them by length."""
    if os.isatty(stdin):
        return 1  # a person waits for each line
    return batch * AHEAD if batch > 1 and stat.S_ISREG(os.fstat(stdin).st_mode) else batch


def _of_torch(args: argparse.Namespace) -> "tuple[Engine, Card]":
    from foveal.deploy.twins.fast_decoder import engine_of
    from foveal.device import choose
    from foveal.models.store import load_model

    model, card = load_model(args.model, "translate")
    return engine_of(model.to(choose(args.device)), args.precision), card


def _of_file(args: argparse.Namespace) -> "tuple[Engine, Card]":
    expect(args.device in ("auto", "cpu"), "--device", "auto or cpu for an exported file", args.device)
    expect(args.precision == "fp32", "--precision", "none beside an exported file, which has its own", args.precision)
    from foveal.tasks.translate.predict import opened_translator

    return opened_translator(args.model, args.threads)[:2]


def _rows(found: list[list[Sentence]], texts: list[str], number: int, best: int) -> Iterator[str]:
    waiting = iter(texts)
    for place, sentences in enumerate(found):
        for one in sentences:
            text = " ".join(next(waiting).split())  # whatever a model says, it is one line
            yield f"{number + place + 1}\t{one.score:.4f}\t{text}\n" if best > 1 else f"{text}\n"


def _lines(stream: IO[bytes]) -> Iterator[str]:
    """Lines as wc counts them; bytes that are no UTF-8 become �, and are told once."""
    told = False
    for number, read in enumerate(iter(stream.readline, b""), 1):
        line = read.removeprefix(codecs.BOM_UTF8) if number == 1 else read
        try:
            yield line.decode()
        except UnicodeDecodeError:
            if not told:
                print(f"line {number}: expected UTF-8, got other bytes, which are read as �", file=sys.stderr, flush=True)
            told = True
            yield line.decode(errors="replace")
