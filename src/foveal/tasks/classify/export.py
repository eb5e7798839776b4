"""A classifier as one file that describes itself, answers by itself,
and carries the proof that it answers as its model does.

A file is written only within the limits of its precision. `.onnx` runs without torch; `.pt` and `.pt2` are for those
who stay with it.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from foveal.atomic import expect_folder, write_atomic
from foveal.data.read import read
from foveal.data.rendered import RenderedImages
from foveal.deploy.measure.origin import origin
from foveal.deploy.onnx.archive import with_text
from foveal.deploy.onnx.file import write_export
from foveal.errors import FovealError, expect
from foveal.runtime.image import BadImage
from foveal.runtime.onnx_names import EXPORTED, PROOF, TORCH
from foveal.tasks.classify.card import ClassifyCard
from foveal.tasks.classify.graph import export_onnx, ready_for_int8
from foveal.tasks.classify.graph_torch import export_program, export_script, load_program, load_script
from foveal.tasks.classify.options import ExportOptions
from foveal.tasks.classify.prove import Answering, Parity, ProofImages, by_onnxruntime, by_torch, prove, timed
from foveal.tasks.task import Exported

if TYPE_CHECKING:
    from torch import nn

    from foveal.tasks.model import Model

PROVED, RENDERED, CALIBRATION = 256, 64, 64  # images of each
Times = dict[str, dict[str, float]]


@dataclass(frozen=True)
class Limits:
    """What may differ from the model; where more does, nothing is written."""

    largest: float | None = None  # difference of a logit
    mean: float | None = None
    points: float | None = None  # of the figure that decides, × 100
    probability: float = 1.0  # difference of a probability
    maps: float = 1.0  # of a cell of a map
    faster: bool = False  # than the float32 file


LIMITS = {
    "fp32": Limits(largest=1e-3, probability=1e-3, maps=1e-3),
    "fp16": Limits(largest=0.05, points=0.5, probability=0.02, maps=0.02),
    "int8": Limits(mean=0.1, points=0.5, maps=0.25, faster=True),
}


@dataclass(frozen=True, repr=False)
class ExportedClassifier(Exported):
    path: Path
    proof: dict[str, Any]

    def summary(self) -> str:
        proof, times = self.proof, self.proof["milliseconds"]
        lines = [
            f"wrote {self.path}, {self.path.stat().st_size:,} bytes",
            f"logits differ by {proof['largest']:.1e} at most and {proof['mean']:.1e} on average, on {proof['images']}",
            f"{proof['agree']:.2%} of the answers are the same",
        ]
        if proof["before"] is not None and proof["after"] is not None:
            lines.append(f"{proof['figure']} {100 * proof['after']:.2f}, the model's {100 * proof['before']:.2f}")
        other = f", as float32 .onnx {times['float32']['median']:.2f} ms" if "float32" in times else ""
        return "\n".join([*lines, f"{times['file']['median']:.2f} ms per image on one thread{other}"])


def export(model: "Model", path: Path, options: ExportOptions) -> ExportedClassifier:
    kinds = (EXPORTED, *TORCH)
    expect(path.suffix in kinds, "--out", f"a name that ends in {', '.join(kinds)}", path.name)
    fits = path.suffix == EXPORTED or options.precision == "fp32"
    expect(fits, "--precision", f"fp32 for a {path.suffix} file", options.precision)
    beside = path.with_name(f"{path.name}.proof.json")
    for file in (path, beside):
        expect(not file.is_dir(), "--out", "the name of a file", f"the folder {file}")
    expect_folder(path.parent)
    network, card = model.network.cpu(), cast("ClassifyCard", model.card)
    plain = export_onnx(network, card) if path.suffix == EXPORTED else None
    images = proof_images(card)
    plan = ""
    if plain is None:
        content, answer = _for_torch(path.suffix, network, card)
    else:
        content, plan = _made(options, plain, network, card, images)
        answer = by_onnxruntime(content)
    parity = prove(answer, network, card, images)
    others = {} if plain is None or content is plain else {"float32": by_onnxruntime(plain)}
    times = timed({"file": answer} | others, images.frames[0])
    expect_within_limits(options.precision, parity, times, options.anyway)
    proof = {
        "precision": options.precision,
        "quantised": plan,
        "images": images.words,
        **parity.facts(),
        "bytes_before_this_proof": len(content),
        "digest_before_this_proof": hashlib.sha256(content).hexdigest(),
        "milliseconds": times,
        "origin": origin("cpu", 1),
    }
    if plain is not None:
        write_export(content, proof, path)
    else:
        write_atomic(path, with_text(content, PROOF, json.dumps(proof)))
    write_atomic(beside, json.dumps(proof, indent=1).encode())  # after its file: a proof without one is of another
    return ExportedClassifier(path, proof)


def _made(
    options: ExportOptions, plain: bytes, network: "nn.Module", card: ClassifyCard, images: ProofImages
) -> tuple[bytes, str]:
    """The file in this precision, and what of it is quantised, in words."""
    if options.precision == "fp32":
        return plain, ""
    if options.precision == "fp16":
        from foveal.deploy.onnx.fp16 import halved

        return halved(plain), ""
    from foveal.deploy.onnx.quantise import blame, plans

    calibration, limits = images_of(card, "train", CALIBRATION), LIMITS[options.precision]
    frames = rendered(card, seed=1) if calibration is None else calibration[0]
    by = f"{RENDERED} rendered frames" if calibration is None else f"{len(frames)} training images of {calibration[2]}"
    ready = ready_for_int8(network, card, plain, frames)
    some = images.frames[:RENDERED]
    tried = plans(ready, frames, some)
    expect(bool(tried), "to quantise", "a model with convolutions", "one without")
    near = [plan for plan in tried if limits.mean is None or plan.error <= limits.mean]
    best = min(near or tried, key=lambda plan: plan.ratio)
    if near and (best.ratio < 1 or options.anyway):
        return best.content, f"{best.name}; ranges of {by}"
    worst = "" if near else ", ".join(f"{one.layer} ({one.error:.2g})" for one in blame(ready, frames, some)[:3])
    blamed = f"most of it is of the maps of {worst}; " if worst else ""
    got = "; ".join(f"{plan.name}: {plan.ratio:.2f} × the time, logits off by {plan.error:.2g}" for plan in tried)
    advice = "use fp32 or fp16" if worst else "use fp32 or fp16, or add --anyway"
    raise FovealError(
        f"the int8 file: expected one that is faster than float32 with logits within {limits.mean:g} on average, got "
        f"{got}; "
        f"{blamed}nothing was written, {advice}"
    )


def _for_torch(suffix: str, network: "nn.Module", card: ClassifyCard) -> tuple[bytes, Answering]:
    if suffix == ".pt":
        content = export_script(network, card)
        return content, by_torch(load_script(content))
    content = export_program(network, card)
    return content, by_torch(load_program(content))


def expect_within_limits(precision: str, parity: Parity, times: Times, anyway: bool = False) -> None:
    """Raise a FovealError where a file differs too much from its model. anyway: it need not be faster."""
    limits = LIMITS[precision]
    what, nothing = f"the {precision} file", "nothing was written"
    for limit, found, words in ((limits.largest, parity.largest, "at most"), (limits.mean, parity.mean, "on average")):
        expect(
            limit is None or found <= limit,
            what,
            f"logits within {limit or 0:g} of the model's {words}",
            f"{found:.2g}",
            nothing,
        )
    near = parity.probability <= limits.probability
    expect(near, what, f"probabilities within {limits.probability:g}", f"{parity.probability:.2g}", nothing)
    expect(
        (parity.maps or 0) <= limits.maps,
        what,
        f"attention maps within {limits.maps:g}",
        f"{parity.maps or 0:.2g}",
        nothing,
    )
    expect(parity.sound, what, "answers that its probabilities give", "others", nothing)
    if limits.points is not None and parity.before is not None and parity.after is not None:
        lost = 100 * (parity.before - parity.after)
        expect(
            lost <= limits.points,
            what,
            f"{parity.figure} within {limits.points:g} points of the model's",
            f"{lost:.2f} less",
            nothing,
        )
    if limits.faster and not anyway:
        ratio = times["file"]["median"] / times["float32"]["median"]
        advice = f"{nothing}; add --anyway to write it all the same"
        expect(ratio < 1, what, "one that is faster than the float32 file", f"{ratio:.2f} × its time", advice)


def proof_images(card: ClassifyCard) -> ProofImages:
    """Images to prove a file on: of the validation split that the model was chosen on, or rendered frames."""
    found = images_of(card, "val", PROVED)
    if found is None:
        return ProofImages(rendered(card, seed=0), f"{RENDERED} rendered frames")
    frames, labels, name = found
    return ProofImages(frames, f"{len(frames)} images of the validation split of {name}", labels)


def rendered(card: ClassifyCard, seed: int) -> NDArray[np.uint8]:
    images = RenderedImages(RENDERED, seed)
    return np.stack([images.image(index, card.size) for index in range(RENDERED)])


def images_of(card: ClassifyCard, split: str, most: int) -> tuple[NDArray[np.uint8], NDArray[Any] | None, str] | None:
    """Images of a split of the training data (N, S, S, 3), their labels if they are of the card's classes, and the
    data's name; None where the data is elsewhere.
    """
    frames, kept = [], []
    try:
        source = read(
            card.recipe["data"], label=card.recipe.get("label"), fold_column=card.recipe.get("fold_column"), seed=0
        )
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
