"""`foveal export MODEL --out FILE.onnx`: one file that describes itself, answers by itself,
and carries the proof that it says the same.
"""

import argparse
from pathlib import Path

from foveal.app.command.flags import add_stage_options, expect_not_input, stage_options
from foveal.atomic import expect_folder
from foveal.tasks.load import load


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model", metavar="MODEL", help="a run's folder, a .safetensors file, weights that come with foveal, or a preset"
    )
    parser.add_argument(
        "--out",
        metavar="FILE",
        type=Path,
        required=True,
        help="the .onnx file to write, or .pt2 or .pt for torch; its proof is in it and beside it",
    )
    add_stage_options(parser, "export")


def run(args: argparse.Namespace) -> int:
    model = load(args.model, device="cpu")
    expect_not_input(args.out, [model.path])
    expect_folder(args.out.parent)
    if model.random:
        print(f"{args.model}: no weights come with foveal, so they are random")
    print(model.export(args.out, **stage_options(args, "export", model.task)).summary())
    return 0
