"""`foveal export MODEL --out FILE.onnx`: one file that describes itself, answers by itself, and carries the proof that it says the same.

A model that translates is exported by export_translate.py.
"""

import argparse
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from foveal.atomic import expect_folder, write_atomic
from foveal.errors import FovealError, expect
from foveal.runtime.onnx_names import EXPORTED, PROOF, TORCH

if TYPE_CHECKING:
    from torch import nn

    from foveal.runtime.card import Card
    from foveal.tasks.classify.prove import Answering, Parity, ProofImages

PICTURES, DRAWN, CALIBRATION = 256, 64, 64


@dataclass(frozen=True)
class Margin:
    """What may differ from the model; more is no success, and nothing is written."""

    largest: float | None = None  # difference of a logit
    mean: float | None = None
    points: float | None = None  # of the figure that decides, × 100
    probability: float = 1.0  # difference of a probability
    maps: float = 1.0  # of a cell of a map
    faster: bool = False  # than the float32 file


MARGINS = {
    "fp32": Margin(largest=1e-3, probability=1e-3, maps=1e-3),
    "fp16": Margin(largest=0.05, points=0.5, probability=0.02, maps=0.02),
    "int8": Margin(mean=0.1, points=0.5, maps=0.25, faster=True),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model", metavar="MODEL", help="a run's folder, a .safetensors file, icam-fast-pipes, or a preset, with random weights"
    )
    parser.add_argument(
        "--out",
        metavar="FILE",
        type=Path,
        required=True,
        help="the .onnx file to write, or .pt2 or .pt for torch; its proof is in it, and lies beside it",
    )
    parser.add_argument(
        "--to", choices=["onnx", "ctranslate2"], default="onnx", help="of a model that translates: ctranslate2 writes a folder for it"
    )
    parser.add_argument("--precision", default="fp32", help=f"of the weights and of the arithmetic: {', '.join(MARGINS)}")


def run(args: argparse.Namespace) -> int:
    if Path(args.model).exists():
        from foveal.models.store import task_in

        if task_in(args.model) == "translate":
            from foveal.tasks.translate.export import export_translate

            return export_translate(args)
    expect(args.to == "onnx", "--to", "onnx for a model that classifies", args.to)
    expect(args.precision in MARGINS, "--precision", f"one of {', '.join(MARGINS)}", args.precision)
    kinds = (EXPORTED, *TORCH)
    expect(args.out.suffix in kinds, "--out", f"a name that ends in {', '.join(kinds)}", args.out.name)
    expect(args.out.suffix == EXPORTED or args.precision == "fp32", "--precision", f"fp32 for a {args.out.suffix} file", args.precision)
    beside = args.out.with_name(f"{args.out.name}.proof.json")
    for file in (args.out, beside):
        expect(not file.is_dir(), "--out", "the name of a file", f"the folder {file}")
    expect_folder(args.out.parent)
    from foveal.deploy.measure.origin import origin
    from foveal.deploy.onnx.archive import with_text
    from foveal.models.store import load_or_new
    from foveal.tasks.classify.graph import export_onnx, write_export
    from foveal.tasks.classify.prove import by_onnxruntime, prove, timed

    model, card, new = load_or_new(args.model)
    if new:
        print(f"{args.model}: no weights come with foveal, so they are random")
    plain = export_onnx(model, card) if args.out.suffix == EXPORTED else None
    held = held_beside(card)
    if args.out.suffix == EXPORTED:
        assert plain is not None
        content, plan = _made(args.precision, plain, model, card, held)
        answer = by_onnxruntime(content)
    else:
        (content, answer), plan = _for_torch(args.out.suffix, model, card), ""
    parity = prove(answer, model, card, held)
    others = {} if plain is None or content is plain else {"float32": by_onnxruntime(plain)}
    times = timed({"file": answer} | others, held.frames[0])
    _judge(args.precision, parity, times)
    proof = {
        "precision": args.precision,
        "quantised": plan,
        "images": held.words,
        **parity.facts(),
        "bytes_before_this_proof": len(content),
        "digest_before_this_proof": hashlib.sha256(content).hexdigest(),
        "milliseconds": times,
        "origin": origin("cpu", 1),
    }
    if args.out.suffix == EXPORTED:
        write_export(content, proof, args.out)
    else:
        write_atomic(args.out, with_text(content, PROOF, json.dumps(proof)))
    write_atomic(beside, json.dumps(proof, indent=1).encode())  # after its file: a proof without one is of another
    _tell(args.out, parity, held, times)
    return 0


def _made(precision: str, plain: bytes, model: "nn.Module", card: "Card", held: "ProofImages") -> tuple[bytes, str]:
    """The file in this precision, and what of it is quantised, in words."""
    if precision == "fp32":
        return plain, ""
    if precision == "fp16":
        from foveal.deploy.onnx.fp16 import halved

        return halved(plain), ""
    from foveal.deploy.onnx.quantise import blame, plans
    from foveal.tasks.classify.graph import export_onnx

    calibration = images(card, "train", CALIBRATION)
    shown = held.frames[:DRAWN]
    margin = MARGINS[precision]
    calibrated = _drawn(card, seed=1) if calibration is None else calibration[0]
    by = f"{DRAWN} rendered frames" if calibration is None else f"{len(calibrated)} training images of {calibration[2]}"
    ready = export_onnx(model, card, quantised=calibrated)
    tried = plans(ready, calibrated, shown)
    expect(bool(tried), "to quantise", "a model with convolutions", "one without")
    near = [plan for plan in tried if margin.mean is None or plan.error <= margin.mean]
    best = min(near or tried, key=lambda plan: plan.ratio)
    if best.ratio < 1 and near:
        return best.content, f"{best.name}; ranges of {by}"
    worst = "" if near else ", ".join(f"{one.layer} ({one.error:.2g})" for one in blame(ready, calibrated, shown)[:3])
    blamed = f"most of the error is of {worst}; " if worst else ""
    told = "; ".join(f"{plan.name}: {plan.ratio:.2f} × the time, logits off by {plan.error:.2g}" for plan in tried)
    raise FovealError(
        f"the int8 file: expected one that is faster than float32 with logits within {margin.mean:g} on average, got {told}; "
        f"{blamed}nothing was written, use fp32 or fp16"
    )


def _for_torch(suffix: str, model: "nn.Module", card: "Card") -> "tuple[bytes, Answering]":
    from foveal.tasks.classify.graph_torch import export_program, export_script, load_program, load_script
    from foveal.tasks.classify.prove import by_torch

    if suffix == ".pt":
        content = export_script(model, card)
        return content, by_torch(load_script(content))
    content = export_program(model, card)
    return content, by_torch(load_program(content))


def _judge(precision: str, parity: "Parity", times: dict[str, dict[str, float]]) -> None:
    margin = MARGINS[precision]
    what, nothing = f"the {precision} file", "nothing was written"
    for limit, found, words in ((margin.largest, parity.largest, "at most"), (margin.mean, parity.mean, "on average")):
        expect(limit is None or found <= limit, what, f"logits within {limit or 0:g} of the model's {words}", f"{found:.2g}", nothing)
    expect(
        parity.probability <= margin.probability, what, f"probabilities within {margin.probability:g}", f"{parity.probability:.2g}", nothing
    )
    expect((parity.maps or 0) <= margin.maps, what, f"attention maps within {margin.maps:g}", f"{parity.maps or 0:.2g}", nothing)
    expect(parity.sound, what, "answers that its probabilities give", "others", nothing)
    if margin.points is not None and parity.before is not None and parity.after is not None:
        lost = 100 * (parity.before - parity.after)
        expect(lost <= margin.points, what, f"{parity.figure} within {margin.points:g} points of the model's", f"{lost:.2f} less", nothing)
    if margin.faster:
        ratio = times["file"]["median"] / times["float32"]["median"]
        expect(ratio < 1, what, "one that is faster than the float32 file", f"{ratio:.2f} × its time", nothing)


def _tell(out: Path, parity: "Parity", held: "ProofImages", times: dict[str, dict[str, float]]) -> None:
    print(f"wrote {out}, {out.stat().st_size:,} bytes")
    print(f"logits differ by {parity.largest:.1e} at most and {parity.mean:.1e} on average, on {held.words}")
    print(f"{parity.agree:.2%} of the answers are the same")
    if parity.before is not None and parity.after is not None:
        print(f"{parity.figure} {100 * parity.after:.2f}, the model's {100 * parity.before:.2f}")
    other = f", as float32 .onnx {times['float32']['median']:.2f} ms" if "float32" in times else ""
    print(f"{times['file']['median']:.2f} ms an image on one thread{other}")


def held_beside(card: "Card") -> "ProofImages":
    """Images to prove it on: the validation split it was chosen on, or rendered frames."""
    from foveal.tasks.classify.prove import ProofImages

    found = images(card, "val", PICTURES)
    if found is not None:
        frames, truth, name = found
        return ProofImages(frames, f"{len(frames)} images of the validation split of {name}", truth)
    return ProofImages(_drawn(card, seed=0), f"{DRAWN} rendered frames")


def _drawn(card: "Card", seed: int) -> NDArray[np.uint8]:
    from foveal.data.rendered import RenderedImages

    drawn = RenderedImages(DRAWN, seed)
    return np.stack([drawn.image(index, card.size) for index in range(DRAWN)])


def images(card: "Card", split: str, most: int) -> tuple[NDArray[np.uint8], NDArray[Any] | None, str] | None:
    """Images of a split of the training data (N, S, S, 3), their labels if they are of the card's classes, and the data's name; None where they are elsewhere."""
    from foveal.data.read import read
    from foveal.runtime.image import BadImage

    frames, kept = [], []
    try:
        source = read(card.recipe["data"], label=card.recipe.get("label"), by=card.recipe.get("by"), seed=0)
        chosen = source.indices(split, card.recipe.get("fold"))
        alike = source.classes == card.classes and source.multi_label == card.multi_label
        chosen = chosen[source.known(chosen)] if alike else chosen
        for index in np.random.default_rng(0).permutation(chosen)[:most]:
            try:
                frames.append(source.image(int(index), card.size))
                kept.append(int(index))
            except BadImage:
                continue
    except (FovealError, KeyError, OSError):  # the file is as good without them
        return None
    if not frames:
        return None
    return np.stack(frames), source.labels[kept] if alike else None, source.name
