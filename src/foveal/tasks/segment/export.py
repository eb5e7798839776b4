"""A segmenter as one .onnx file that takes images of any size, gives label maps of that size, and carries the proof
that these are its model's.

    in    frames       (B, H, W, 3) bytes, as a camera gives them; B, H and W any numbers
    out   label_map    (B, H, W) bytes: 0 background, k the k-th class of the card
          scores       (B, C) how sure the model is that an image shows a class; the first: that it shows anything
          logits       (B, C, h, w) at the model's own stride, of what it saw: the image resized and padded
          probability  (B, C, H, W) where it was asked for

A file is written only within the limits of its precision.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from foveal.atomic import expect_folder, write_atomic
from foveal.data.rendered import RenderedImages
from foveal.deploy.measure.clock import interleaved
from foveal.deploy.measure.origin import origin
from foveal.deploy.onnx.file import OPSET, needed_onnx, write_export
from foveal.deploy.onnx.fp16 import halved
from foveal.deploy.onnx.program import described, followed
from foveal.deploy.onnx.quantise import ReadyForInt8, blame, plans
from foveal.deploy.onnx.silence import quiet
from foveal.errors import FovealError, expect
from foveal.metrics.segmentation import confusion, measure
from foveal.runtime.image import BadImage
from foveal.runtime.onnx_names import EXPORTED, INPUT
from foveal.runtime.onnx_session import opened
from foveal.tasks.segment.card import SegmentCard
from foveal.tasks.segment.graph import Maps
from foveal.tasks.segment.lean import ByteMaps, lean_maps
from foveal.tasks.segment.options import ExportOptions
from foveal.tasks.segment.reading import read_for
from foveal.tasks.segment.recipe import SegmentRecipe
from foveal.tasks.task import Exported

if TYPE_CHECKING:
    from foveal.tasks.model import Model

OUTPUTS = ("label_map", "scores", "logits")
PROBABILITY = "probability"
PROVED, CALIBRATION, RENDERED = 64, 32, 16  # images of each
ROUNDS, WARM_UP = 31, 5
Samples = list[
    tuple[NDArray[np.uint8], NDArray[np.uint8] | None]
]  # images with their label maps, where these are known


@dataclass(frozen=True)
class Limits:
    """What may differ from the model; where more does, nothing is written."""

    pixels: float  # share of the pixels whose label is another
    points: float = 0.0  # of the mIoU of findings, × 100
    mean: float | None = None  # difference of the logits on average
    faster: bool = False  # than the float32 file


LIMITS = {
    "fp32": Limits(pixels=0.001),
    "fp16": Limits(pixels=0.005, points=0.5),
    "int8": Limits(pixels=0.05, points=0.5, mean=1.0, faster=True),
}


@dataclass(frozen=True)
class Parity:
    """How far a file is from the model it was made of."""

    images: int
    pixels: int
    other: int  # pixels whose label is another
    scores: float  # largest |difference| of a score
    before: float | None = None  # mIoU of the findings by the model, on these images
    after: float | None = None  # by the file

    @property
    def share(self) -> float:
        return self.other / max(self.pixels, 1)


@dataclass(frozen=True, repr=False)
class ExportedSegmenter(Exported):
    path: Path
    proof: dict[str, Any]

    def summary(self) -> str:
        proof, times = self.proof, self.proof["milliseconds"]
        shares = f"{proof['other']:,} of {proof['pixels']:,} pixels"
        lines = [
            f"wrote {self.path}, {self.path.stat().st_size:,} bytes",
            f"{shares} have another label than the model gives them, on {proof['words']}",
        ]
        if proof["before"] is not None and proof["after"] is not None:
            lines.append(f"mIoU of findings {100 * proof['after']:.2f}, the model's {100 * proof['before']:.2f}")
        side = proof["timed_side"]
        other = f", as float32 .onnx {times['float32']['median']:.2f} ms" if "float32" in times else ""
        lines.append(f"{times['file']['median']:.2f} ms per image of {side} × {side} on one thread{other}")
        return "\n".join(lines)


def export(model: "Model", path: Path, options: ExportOptions) -> ExportedSegmenter:
    expect(path.suffix == EXPORTED, "--out", f"a name that ends in {EXPORTED}", path.name)
    expect(not path.is_dir(), "--out", "the name of a file", f"the folder {path}")
    expect_folder(path.parent)
    network, card = model.network.cpu().eval(), cast("SegmentCard", model.card)
    plain = export_onnx(network, card, options.probabilities)
    proved, words = samples(card, "val", PROVED)
    content, plan = _made(options, plain, network, card)
    parity = prove(content, network, card, proved)
    side = card.size
    times = _timed({"file": content} | ({} if content is plain else {"float32": plain}), side)
    expect_within_limits(options, parity, times)
    proof = {
        "precision": options.precision,
        "quantised": plan,
        "words": words,
        **asdict(parity),
        "timed_side": side,
        "bytes_before_this_proof": len(content),
        "digest_before_this_proof": hashlib.sha256(content).hexdigest(),
        "milliseconds": times,
        "origin": origin("cpu", 1),
    }
    write_export(content, proof, path)
    write_atomic(path.with_name(f"{path.name}.proof.json"), json.dumps(proof, indent=1).encode())
    return ExportedSegmenter(path, proof)


def export_onnx(network: nn.Module, card: SegmentCard, probabilities: bool = False) -> bytes:
    """The file's content, in float32."""
    return graph_of(lean_maps(network, card, probabilities), card)


def ready_for_int8(network: nn.Module, card: SegmentCard, plain: bytes, probabilities: bool = False) -> ReadyForInt8:
    """plain: the model's own file. Its stem reads bytes as they come where it takes part."""
    maps = lean_maps(network, card, probabilities, bytes_=True)
    own = graph_of(maps, card) if isinstance(maps, ByteMaps) else plain
    return ReadyForInt8(plain, own, plain, timed=OUTPUTS[0])


def graph_of(maps: Maps, card: SegmentCard) -> bytes:
    needed_onnx()
    unit = int(np.ceil(card.multiple / card.zoom))
    # a little larger than what it was trained on: a model with windows has several of them on its coarsest map
    height = (max(2 * unit, card.size) // unit) * unit + 11
    frames = torch.randint(0, 256, (2, height, height + unit - 4, 3), dtype=torch.uint8)
    least, names = unit + 1, [*OUTPUTS, *([PROBABILITY] if maps.probabilities else [])]
    sides = {1: torch.export.Dim("height", min=least), 2: torch.export.Dim("width", min=least)}
    with quiet(), followed(card.model):
        # sides that are rounded up to a multiple are no guards that a tracer can solve: they are left to the runtime
        program = torch.export.export(
            maps,
            (frames,),
            dynamic_shapes=({0: torch.export.Dim("batch", min=2), **sides},),
            strict=False,
            prefer_deferred_runtime_asserts_over_guards=True,
        )
        made = torch.onnx.export(
            program,
            (frames,),
            input_names=[INPUT],
            output_names=names,
            opset_version=OPSET,
            dynamo=True,
            verbose=False,
        )
    assert made is not None
    return described(made.model_proto, card)


def _made(options: ExportOptions, plain: bytes, network: nn.Module, card: SegmentCard) -> tuple[bytes, str]:
    """The file in this precision, and what of it is quantised, in words."""
    if options.precision == "fp32":
        return plain, ""
    if options.precision == "fp16":
        return halved(plain), ""
    some, words = samples(card, "train", CALIBRATION)
    frames = np.stack([fitted(image, card.size) for image, _ in some])
    ready, limits = ready_for_int8(network, card, plain, options.probabilities), LIMITS["int8"]
    held = frames[: max(1, len(frames) // 4)]
    tried = plans(ready, frames, held)
    expect(bool(tried), "to quantise", "a model with convolutions", "one without")
    near = [plan for plan in tried if plan.error <= (limits.mean or np.inf)]
    best = min(near or tried, key=lambda plan: plan.ratio)
    if near and (best.ratio < 1 or options.anyway):
        return best.content, f"{best.name}; ranges of {words}"
    worst = "" if near else ", ".join(f"{one.layer} ({one.error:.2g})" for one in blame(ready, frames, held)[:3])
    blamed = f"most of it is of the maps of {worst}; " if worst else ""
    got = "; ".join(f"{plan.name}: {plan.ratio:.2f} × the time, logits off by {plan.error:.2g}" for plan in tried)
    advice = "use fp32 or fp16" if worst else "use fp32 or fp16, or add --anyway"
    raise FovealError(
        f"the int8 file: expected one that is faster than float32 with logits within {limits.mean:g} on average, got "
        f"{got}; {blamed}nothing was written, {advice}"
    )


def prove(content: bytes, network: nn.Module, card: SegmentCard, proved: Samples) -> Parity:
    """The file beside its model, on images at their own sizes."""
    session, maps = opened(content), Maps(network, card).eval()
    classes, other, pixels, largest = len(card.classes), 0, 0, 0.0
    before, after = np.zeros((2, classes, classes), np.int64)
    known = False
    for image, truth in proved:
        theirs, scores = session.run(list(OUTPUTS[:2]), {INPUT: image[None]})
        with torch.inference_mode():
            ours, own, logits = maps(torch.from_numpy(image[None]))
        # of NaN both may have the same label
        expect(bool(logits.isfinite().all()), f"the model {card.model}", "finite logits", "NaN or ∞", "train it anew")
        other += int((theirs != ours.numpy()).sum())
        pixels += theirs.size
        largest = max(largest, float(np.abs(scores - own.numpy()).max()))
        if truth is not None:
            known = True
            before += confusion(truth, ours.numpy()[0], classes - 1)
            after += confusion(truth, theirs[0], classes - 1)
    return Parity(
        len(proved), pixels, other, largest, _score(before) if known else None, _score(after) if known else None
    )


def _score(counts: NDArray[np.int64]) -> float | None:
    value = float(measure(counts[None])(None)["mIoU"])
    return value if np.isfinite(value) else None


def expect_within_limits(options: ExportOptions, parity: Parity, times: dict[str, dict[str, float]]) -> None:
    """Raise a FovealError where a file differs too much from its model. --anyway: it need not be faster."""
    limits, what, nothing = LIMITS[options.precision], f"the {options.precision} file", "nothing was written"
    expected = f"at most {limits.pixels:.1%} of the pixels with another label than the model's"
    expect(parity.share <= limits.pixels, what, expected, f"{parity.share:.2%}", nothing)
    if limits.points and parity.before is not None and parity.after is not None:
        lost = 100 * (parity.before - parity.after)
        expected = f"an mIoU of findings within {limits.points:g} points of the model's"
        expect(lost <= limits.points, what, expected, f"{lost:.2f} less", nothing)
    if limits.faster and not options.anyway:
        ratio = times["file"]["median"] / times["float32"]["median"]
        advice = f"{nothing}; add --anyway to write it all the same"
        expect(ratio < 1, what, "one that is faster than the float32 file", f"{ratio:.2f} × its time", advice)


def samples(card: SegmentCard, split: str, most: int) -> tuple[Samples, str]:
    """Images with label maps of a split of the training data, or rendered frames where it is elsewhere; in words."""
    found: Samples = []
    try:
        known = {name: value for name, value in card.recipe.items() if name in ("data", "fold_column", "fold", "bad")}
        recipe = SegmentRecipe(**known)
        source = read_for(recipe)
        alike = source.classes == card.kinds
        for index in np.random.default_rng(0).permutation(source.indices(split, recipe.fold))[:most]:
            try:
                found.append((source.image(int(index)), source.label_map(int(index)) if alike else None))
            except BadImage:
                continue
    except (FovealError, KeyError, OSError, TypeError):  # the file is as good without them
        found = []
    if found:
        return found, f"{len(found)} images of the split {split} of {source.name}"
    rendered = RenderedImages(RENDERED, 0 if split == "val" else 1)
    return [(rendered.image(index, card.size), None) for index in range(RENDERED)], f"{RENDERED} rendered frames"


def fitted(image: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """A square from the middle of an image, of pixels as they are; what is missing is repeated."""
    height, width = image.shape[:2]
    wide = np.pad(image, ((0, max(0, side - height)), (0, max(0, side - width)), (0, 0)), mode="edge")
    top, left = (wide.shape[0] - side) // 2, (wide.shape[1] - side) // 2
    return np.ascontiguousarray(wide[top : top + side, left : left + side])


def _timed(contents: dict[str, bytes], side: int) -> dict[str, dict[str, float]]:
    """Milliseconds per frame of every file, in turns, on one thread."""
    frame = np.random.default_rng(0).integers(0, 256, (1, side, side, 3), np.uint8)
    sessions = {name: opened(content) for name, content in contents.items()}
    jobs = {
        name: (lambda session=session: session.run([OUTPUTS[0]], {INPUT: frame})) for name, session in sessions.items()
    }
    taken = interleaved(jobs, rounds=ROUNDS, warm_up=WARM_UP)
    return {
        name: {"median": 1e3 * one.median, "p10": 1e3 * one.p10, "p90": 1e3 * one.p90} for name, one in taken.items()
    }
