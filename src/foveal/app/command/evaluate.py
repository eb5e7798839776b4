"""`foveal evaluate MODEL`: how good a model is, with intervals, as a table on the screen and a report in a folder."""

import argparse
import contextlib
from pathlib import Path

from foveal.app.command.flags import add_device, add_stage_options, expect_not_input, stage_options
from foveal.atomic import folder_for
from foveal.report.progress import progress
from foveal.tasks.load import load


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="a run's folder, a model file, an exported file, or weights that come with foveal",
    )
    parser.add_argument(
        "--beside",
        metavar="MODEL",
        nargs="+",
        default=[],
        help="other models to compare it with, on the same data (default: none)",
    )
    parser.add_argument(
        "--out",
        metavar="FOLDER",
        type=Path,
        help="folder of the report (default: evaluation-SPLIT in the run, NAME-evaluation-SPLIT beside a file)",
    )
    add_device(parser)
    add_stage_options(parser, "evaluate")


def run(args: argparse.Namespace) -> int:
    model = load(args.model, device=args.device)
    others = [load(name, device=args.device) for name in args.beside]
    options = stage_options(args, "evaluate", model.task)
    data = options.get("data") or model.card.recipe.get("data")  # of several files, as A,B
    expect_not_input(args.out, [model.path, data, *str(data).split(",")])
    with contextlib.nullcontext() if args.out is None else folder_for(args.out):
        evaluation = model.evaluate(beside=others, progress=progress, **options)
        split = getattr(evaluation, "split", "test")
        files = evaluation.write(args.out or model.report_folder(f"evaluation-{split}"))
    print(evaluation.summary())
    print(f"the report is {files[0]}")
    return 0
