"""`foveal bench WHAT`: measure side by side with what else there is, print the ratios,
and write them down with their origin.
"""

import argparse
import dataclasses
import importlib
import os
from pathlib import Path
from typing import Any

from foveal.app.command.flags import add_device, add_stage_options, expect_not_input
from foveal.atomic import folder_for
from foveal.errors import FovealError, expect, expect_integer, unknown
from foveal.options import Options, from_flags, make
from foveal.report.bench import LONGEST, MOST_ROUNDS, ROUNDS, RUNTIMES, Bench
from foveal.tasks.task import Task, all_tasks

BENCHES = {  # what is typed → its module, which has `measure(bench) -> None`; a task adds its own by its protocol
    "attention": "foveal.app.command.bench.attention",
    "crossover": "foveal.app.command.bench.crossover",
    "models": "foveal.app.command.bench.models",
    "resolution": "foveal.app.command.bench.resolution",
}
WITHOUT_TORCH = ("models", "resolution")  # what runs exported files
# what a bench obeys where its OBEYS names it
FLAGS = ("models", "peer", "batch", "runtime", "size", "tile", "max_length")
LARGEST = 2**20  # tokens, or samples at once


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", metavar="WHAT", help=f"one of {', '.join(benches())}")
    parser.add_argument(
        "models",
        metavar="MODEL",
        nargs="*",
        help="exported files, others' .onnx, runs, presets, weights that come with foveal; compared with the first",
    )
    parser.add_argument(
        "--peer",
        metavar="FILE",
        action="append",
        default=[],
        help="an ONNX graph of somebody else's to compare with; may be repeated (default: none)",
    )
    parser.add_argument("--batch", metavar="A,B", help="samples at once (default: 1, or what the bench names)")
    parser.add_argument("--runtime", metavar="A,B", help=f"of models: {', '.join(RUNTIMES)} (default: onnxruntime)")
    parser.add_argument(
        "--size", metavar="A,B", help="sides of the images in pixels (default: the model's, or what the bench names)"
    )
    parser.add_argument(
        "--tile",
        metavar="N",
        type=int,
        help="of resolution: side of the tiles that larger images are seen in (default: as foveal predict has them)",
    )
    add_device(parser)
    parser.add_argument(
        "--threads",
        metavar="N",
        type=int,
        default=1,
        help="threads on a CPU; one is the trustworthy number on shared cores (default: 1)",
    )
    parser.add_argument(
        "--rounds",
        metavar="N",
        type=int,
        default=ROUNDS,
        help=f"how often each candidate runs, in turns (default: {ROUNDS})",
    )
    parser.add_argument("--max-length", metavar="N", type=int, help=f"leave out longer sequences (default: {LONGEST})")
    parser.add_argument(
        "--out",
        metavar="FOLDER",
        type=Path,
        default=Path("results"),
        help="folder of the table and its figures (default: results)",
    )
    add_stage_options(parser, "bench")


def benches() -> dict[str, str]:
    """All benches: foveal's own, and those that tasks bring."""
    found = dict(BENCHES)
    for task in all_tasks():
        found |= {name: place for name, place in task.benches.items() if name not in found}
    return found


def owner(what: str) -> Task | None:
    """The task that brings a bench, whose options for it are; None of foveal's own."""
    return None if what in BENCHES else next(task for task in all_tasks() if what in task.benches)


def run(args: argparse.Namespace) -> int:
    known = benches()
    if args.what not in known:
        raise unknown("bench", args.what, known)
    longest = LONGEST if args.max_length is None else args.max_length
    cores = os.cpu_count() or 1
    expect(1 <= args.threads <= cores, "--threads", f"1 to {cores}, the cores there are", args.threads)
    expect_integer(args.rounds, "--rounds")
    expect(args.rounds <= MOST_ROUNDS, "--rounds", f"at most {MOST_ROUNDS}", args.rounds)
    expect(256 <= longest <= LARGEST, "--max-length", f"from 256 to {LARGEST:,}", longest)
    module = importlib.import_module(known[args.what])
    _refuse_others(args, _obeyed(args.what, known[args.what]))
    expect_not_input(args.out, [*args.models, *args.peer])
    task = owner(args.what)
    kind = Options if task is None else task.options("bench")
    options = make(kind, f"foveal bench {args.what}", **from_flags(args, kind))
    bench = Bench(args.what, "cpu", args.threads, args.rounds, longest, args, options)
    with folder_for(args.out):
        return _measure(bench, module, args)


def _measure(bench: Bench, module: Any, args: argparse.Namespace) -> int:
    if args.what in WITHOUT_TORCH:
        expect(args.device in ("auto", "cpu"), "--device", "auto or cpu: models are timed on a processor", args.device)
        module.measure(bench)
        bench.write(args.out)
        return 0
    import torch

    from foveal.device import choose

    on_cpu = getattr(module, "ON_CPU", False) and args.device == "auto"
    bench.device = "cpu" if on_cpu else str(choose(args.device))
    expect(bench.device in ("cpu", "cuda"), "--device", "auto, cpu or cuda", args.device)
    threads = torch.get_num_threads()
    torch.set_num_threads(args.threads)
    try:
        module.measure(bench)
        bench.write(args.out)
    finally:
        torch.set_num_threads(threads)
    return 0


def _refuse_others(args: argparse.Namespace, obeyed: tuple[str, ...]) -> None:
    """A flag that was given and would change nothing is refused. obeyed: those of the bench."""
    brought = (one.name for task in all_tasks() for one in dataclasses.fields(task.options("bench")))
    for name in dict.fromkeys((*FLAGS, *brought)):
        given = getattr(args, name)
        what = "no model" if name == "models" else f"no --{name.replace('_', '-')}"
        got = " ".join(given) if isinstance(given, list) else given
        if name not in obeyed and given not in (None, []):
            others = " or ".join(other for other, place in benches().items() if name in _obeyed(other, place))
            raise FovealError(f"foveal bench {args.what}: expected {what}, got {got}; leave it out, or bench {others}")


def _obeyed(what: str, place: str) -> tuple[str, ...]:
    """The flags that a bench obeys: those of FLAGS that it names, and its task's options; none of one whose libraries
    are not installed.
    """
    task = owner(what)
    own = () if task is None else (one.name for one in dataclasses.fields(task.options("bench")))
    try:
        return (*getattr(importlib.import_module(place), "OBEYS", ()), *own)
    except ModuleNotFoundError:
        return ()
