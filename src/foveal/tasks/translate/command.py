"""`foveal translate MODEL < in > out`: one line out for each line in, as they come."""

import argparse
import os
import stat
import sys

from foveal.errors import expect
from foveal.options import add_flags, from_flags
from foveal.runtime.decode.batched import AHEAD, in_parts
from foveal.tasks.load import load
from foveal.tasks.translate.options import PredictOptions
from foveal.tasks.translate.predict import TranslatePredictor, lines_in


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = "a run's folder, a model file, or an exported file, which needs no torch"
    parser.add_argument("model", metavar="MODEL", help=what)
    parser.add_argument("--device", metavar="NAME", default="auto", help="cpu, cuda, cuda:1, … (default: auto)")
    parser.add_argument("--threads", metavar="N", type=int, help="threads of an exported file (default: 1)")
    add_flags(parser, PredictOptions)


def run(args: argparse.Namespace) -> int:
    options = PredictOptions(**from_flags(args, PredictOptions))
    model = load(args.model, device=args.device, threads=1 if args.threads is None else args.threads)
    expect(
        args.threads is None or model.is_exported,
        "--threads",
        "an exported file",
        "a model of torch",
        "set OMP_NUM_THREADS for it",
    )
    expect(model.task == "translate", model.name, "a model that translates", f"one for the task {model.task}")
    predictor = model.predictor(**from_flags(args, PredictOptions))
    assert isinstance(predictor, TranslatePredictor)

    def answer(part: list[str]) -> list[str]:
        first = predictor.count
        return [
            f"{number}\t{one.score:.4f}\t{one.text}\n" if options.n_best > 1 else f"{one.text}\n"
            for number, candidates in enumerate(predictor.answers(part), first + 1)
            for one in candidates
        ]

    for row in in_parts(lines_in(sys.stdin.buffer), lines_ahead(sys.stdin.fileno(), options.batch), answer):
        sys.stdout.write(row)
        sys.stdout.flush()
    return 0


def lines_ahead(stdin: int, batch: int) -> int:
    """Lines that are read before the first is answered: of a file, whose lines are all there, more than a batch,
    to sort them by length.
    """
    if os.isatty(stdin):
        return 1  # a person waits for each line
    return batch * AHEAD if batch > 1 and stat.S_ISREG(os.fstat(stdin).st_mode) else batch
