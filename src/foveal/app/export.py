"""`foveal export MODEL --out FILE.onnx`: one file that describes itself, answers by itself, and carries the proof that it says the same."""

import argparse
import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from foveal.deploy.names import EXPORTED
from foveal.errors import FovealError, expect
from foveal.whole import expect_folder, write_whole

if TYPE_CHECKING:
    from foveal.models.card import Card

PRECISIONS = ("fp32",)
LARGEST = 1e-3  # difference of a logit that is rounding, in float32
PICTURES, DRAWN = 256, 64


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a run's folder, a .safetensors file, or icam-pipes")
    parser.add_argument("--out", metavar="FILE", type=Path, required=True, help=f"the {EXPORTED} file to write; its proof lies beside it")
    parser.add_argument("--precision", default="fp32", help=f"of the weights and of the arithmetic: {', '.join(PRECISIONS)}")


def run(args: argparse.Namespace) -> int:
    expect(args.precision in PRECISIONS, "--precision", f"one of {', '.join(PRECISIONS)}", args.precision)
    expect(args.out.suffix == EXPORTED, "--out", f"a name that ends in {EXPORTED}", args.out.name)
    beside = args.out.with_suffix(".proof.json")
    for file in (args.out, beside):
        expect(not file.is_dir(), "--out", "the name of a file", f"the folder {file}")
    expect_folder(args.out.parent)
    import torch

    from foveal.deploy.export import export_onnx, prove, write_export
    from foveal.deploy.origin import origin
    from foveal.models.store import load_model

    model, card = load_model(args.model)
    content = export_onnx(model, card)
    frames, words = held_beside(card)
    parity = prove(content, model, card, frames)
    sound = parity.largest <= LARGEST
    expect(sound, "the exported file", f"logits within {LARGEST:g} of the model's", f"{parity.largest:.2g}", "nothing was written")
    proof = {
        "precision": args.precision,
        "pictures": words,
        **dataclasses.asdict(parity),
        "origin": origin("cpu", torch.get_num_threads()),
    }
    write_whole(beside, json.dumps(proof, indent=1).encode())
    write_export(content, proof, args.out)
    print(f"wrote {args.out}, {args.out.stat().st_size:,} bytes")
    print(f"logits differ by {parity.largest:.1e} at most and {parity.mean:.1e} on average, on {words}")
    print(f"{parity.agree:.2%} of the answers are the same")
    return 0


def held_beside(card: "Card") -> tuple[NDArray[np.uint8], str]:
    """Pictures to prove it on, (N, S, S, 3), and what they are: the validation split it was chosen on, or drawn frames."""
    from foveal.data.image import BadImage
    from foveal.data.read import read

    frames: list[Any] = []
    try:
        source = read(card.recipe["data"], label=card.recipe.get("label"), by=card.recipe.get("by"), seed=0)
        for index in source.indices("val", card.recipe.get("fold"))[:PICTURES]:
            try:
                frames.append(source.image(int(index), card.size))
            except BadImage:
                continue
    except (FovealError, KeyError, OSError):  # the pictures are elsewhere: the file is as good without them
        frames = []
    if frames:
        return np.stack(frames), f"{len(frames)} pictures of the validation split of {source.name}"
    from foveal.data.rendered import RenderedPictures

    drawn = RenderedPictures(DRAWN, 0)
    return np.stack([drawn.image(index, card.size) for index in range(DRAWN)]), f"{DRAWN} drawn frames"
