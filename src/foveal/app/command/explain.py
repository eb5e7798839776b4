"""`foveal explain [MODEL] INPUT`: what a model answers to one input, and where it looked."""

import argparse
import json
import os
from pathlib import Path

from foveal.app.command.flags import add_device, add_stage_options, expect_not_input, stage_options
from foveal.app.command.predict import open_first
from foveal.atomic import beside, expect_folder
from foveal.errors import expect
from foveal.report.progress import progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words",
        metavar="INPUT",
        nargs="*",
        help="one input: an image, a quoted sentence, or a text file, of which the first line is explained; before it "
        "may stand the model: a run's folder, a "
        ".safetensors or .onnx file",
    )
    parser.add_argument(
        "--out", metavar="FILE", type=Path, help="file to write (default: NAME-explained, with the ending that fits)"
    )
    parser.add_argument(
        "--arrays",
        metavar="FILE",
        type=Path,
        help="write the maps of every layer and head as arrays, to an .npz file; without it, none are written",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print the numbers as JSON, and write a file only where --out says so; without it, a summary is printed",
    )
    add_device(parser)
    add_stage_options(parser, "explain")


def run(args: argparse.Namespace) -> int:
    model, words = open_first(args.words, args.device)
    options = stage_options(args, "explain", model.task)
    expect(
        len(words) <= 1,
        "explain",
        "one input",
        f"{len(words)} of them",
        "put a sentence into quotation marks; foveal predict takes many",
    )
    for out, name in ((args.out, "--out"), (args.arrays, "--arrays")):
        expect_not_input(out, [model.path, *words], name)
        if out is not None:
            expect_folder(out.parent)
    expect(
        args.arrays is None or args.arrays.suffix == ".npz", "--arrays", "the name of an .npz file", str(args.arrays)
    )
    explanation = model.explain(words[0] if words else None, progress=progress, **options)
    out = args.out if args.out is not None or args.json else default_out(words, explanation.suffix)
    if out is not None and explanation.suffix:
        expect(out.suffix.lower() == explanation.suffix, "--out", f"the name of a {explanation.suffix} file", str(out))
    written = [] if out is None else explanation.save(out)
    if args.arrays is not None:
        import numpy as np

        with beside(args.arrays) as part, part.open("wb") as stream:
            np.savez_compressed(stream, **explanation.arrays)
        written.append(args.arrays)
    print(json.dumps(explanation.facts, ensure_ascii=False) if args.json else explanation.summary())
    if written and not args.json:
        print(f"wrote {' and '.join(map(str, written))}")
    return 0


def default_out(words: list[str], suffix: str) -> Path | None:
    """Beside where the command is called: what is named after its input, or explained.html for a sentence."""
    if not suffix:
        return None
    named = bool(words) and os.path.exists(words[0])  # noqa: PTH110 — a sentence is longer than pathlib lets a name be
    return Path(f"{Path(words[0]).stem}-explained{suffix}" if named else f"explained{suffix}")
