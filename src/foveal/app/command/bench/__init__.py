"""`foveal bench WHAT`: measure side by side with what else there is, print the ratios, and write them down with their origin."""

import argparse
import importlib
import os
from pathlib import Path

from foveal.app.command.bench.table import LONGEST, ROUNDS, RUNTIMES, Bench
from foveal.app.command.device import add_device
from foveal.atomic import expect_folder
from foveal.errors import expect, unknown

BENCHES = {  # what is typed → its module, which has `measure(bench) -> None`
    "attention": "foveal.app.command.bench.attention",
    "crossover": "foveal.app.command.bench.crossover",
    "models": "foveal.app.command.bench.models",
    "resolution": "foveal.app.command.bench.resolution",
    "translate": "foveal.tasks.translate.bench",
}
OWN = {  # what only some of them obey: the others refuse it → which do
    "models": ("models", "resolution", "translate"),
    "peer": ("models", "resolution"),
    "batch": ("models", "translate"),
    "beam": ("translate",),
    "words": ("translate",),
    "runtime": ("models",),
    "longest": ("attention", "crossover", "translate"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", metavar="WHAT", help=f"one of {', '.join(BENCHES)}")
    parser.add_argument(
        "models",
        metavar="MODEL",
        nargs="*",
        help="of models: exported files, runs, presets, the first of which is held beside the others; of resolution: presets; of translate: one run, model file or preset",
    )
    parser.add_argument(
        "--peer",
        metavar="FILE",
        action="append",
        default=[],
        help="of models and resolution: an ONNX graph of somebody else's; may be repeated",
    )
    parser.add_argument("--batch", metavar="A,B", help="of models: pictures at once (default: 1); of translate: sentences (default: 1,32)")
    parser.add_argument("--beam", metavar="A,B", help="of translate: sentences that are followed at once (default: 1,4)")
    parser.add_argument("--words", type=int, help="of translate: steps of a sentence, its end included (default: 20)")
    parser.add_argument("--runtime", metavar="A,B", help=f"of models: {', '.join(RUNTIMES)} (default: onnxruntime)")
    add_device(parser)
    parser.add_argument("--threads", type=int, default=1, help="threads on a CPU; one is the trustworthy number on shared cores")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often each candidate runs, in turns, after the warm-up")
    parser.add_argument(
        "--longest",
        type=int,
        help=f"leave out longer sequences: of attention and crossover (default: {LONGEST}); of translate: sentences without a cache (default: 400)",
    )
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder for the table and its figures")


def run(args: argparse.Namespace) -> int:
    if args.what not in BENCHES:
        raise unknown("bench", args.what, BENCHES)
    _refuse_others(args)
    longest = LONGEST if args.longest is None else args.longest
    cores = os.cpu_count() or 1
    expect(1 <= args.threads <= cores, "--threads", f"1 to {cores}, the cores there are", args.threads)
    expect(args.rounds >= 1, "--rounds", "at least 1", args.rounds)
    expect(longest >= 256, "--longest", "at least 256", longest)
    expect_folder(args.out)
    bench = Bench(args.what, "cpu", args.threads, args.rounds, longest, args)
    if args.what in ("models", "resolution"):  # what runs exported files runs without torch
        expect(args.device in ("auto", "cpu"), "--device", "auto or cpu: models are timed on a processor", args.device)
        importlib.import_module(BENCHES[args.what]).measure(bench)
        bench.write(args.out)
        return 0
    import torch

    from foveal.device import choose

    bench.device = "cpu" if args.what == "translate" and args.device == "auto" else str(choose(args.device))
    expect(bench.device in ("cpu", "cuda"), "--device", "auto, cpu or cuda", args.device)
    threads = torch.get_num_threads()
    torch.set_num_threads(args.threads)
    try:
        importlib.import_module(BENCHES[args.what]).measure(bench)
        bench.write(args.out)
    finally:
        torch.set_num_threads(threads)
    return 0


def _refuse_others(args: argparse.Namespace) -> None:
    """What was asked for and would change nothing is refused."""
    for name, benches in OWN.items():
        given = getattr(args, name)
        obeyed, told = args.what in benches or given in (None, []), " ".join(given) if isinstance(given, list) else given
        what, do = "no model" if name == "models" else f"no --{name}", f"leave it out, or bench {' or '.join(benches)}"
        expect(obeyed, f"foveal bench {args.what}", what, told, do)
