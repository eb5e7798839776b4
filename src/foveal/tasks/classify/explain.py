"""`foveal explain [MODEL] IMAGE`: what a model found in an image and where it looked, on one sheet; `--faithful N`: whether that explains it.

A model that translates is explained by explain_translate.py.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foveal.app.command.device import add_device
from foveal.errors import FovealError, expect
from foveal.runtime.onnx_names import EXPORTED
from foveal.runtime.paths import model_and_rest

if TYPE_CHECKING:
    from foveal.report.overlay import Sheet
    from foveal.runtime.image import Pixels
    from foveal.runtime.saliency_maps import Array, SaliencyMaps
    from foveal.tasks.classify.predict import Classifier

SHARP = 660  # pixels of the photo's side on a sheet


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words",
        metavar="PATH",
        nargs="*",
        help="the image; before it may stand the model: a .safetensors file, a run's folder or an exported file; without one, the weights that come with "
        "foveal are used. A model that translates, not exported, takes a sentence instead. With --faithful: the model only",
    )
    parser.add_argument(
        "--out",
        metavar="PATH",
        type=Path,
        help="the PNG to write (default: NAME-explained.png); of a translation the HTML page (default: explained.html); with --faithful a folder",
    )
    parser.add_argument(
        "--arrays", metavar="FILE", type=Path, help="of a model that translates: an .npz file with the maps of every layer and head"
    )
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON; the PNG is then written only where --out says so")
    parser.add_argument("--faithful", metavar="N", type=int, help="measure on N rendered pipes whether the maps explain the answers")
    parser.add_argument("--seed", type=int, help="which pipes are drawn for --faithful (default: 0)")
    parser.add_argument("--fill", choices=["mean", "blur"], help="what stands in hidden cells in --faithful (default: mean)")
    add_device(parser)


def run(args: argparse.Namespace) -> int:
    if args.faithful is not None:
        from foveal.tasks.classify.faithful import run as measure

        return measure(args)
    for name in ("seed", "fill"):
        expect(getattr(args, name) is None, f"--{name}", "--faithful beside it", "none")
    model, words = model_and_rest(args.words)
    if model.suffix == EXPORTED and model.exists():
        from foveal.tasks.classify.session import task_of

        do = 'foveal explain takes these with "a sentence"; foveal translate runs the exported file'
        wanted = "of a model that translates its run's folder or .safetensors file"
        expect(task_of(model) != "translate", str(model), wanted, "an exported file, which gives words and no attention", do)
    elif model.exists():
        from foveal.models.store import task_in

        if task_in(model) == "translate":
            from foveal.tasks.translate.explain import explain_translate

            return explain_translate(args, model, words)
    expect(args.arrays is None, "--arrays", "a model that translates", str(model))
    expect(len(words) == 1, "explain", "one image", f"{len(words)} of them" if words else "none", "foveal predict takes many")
    out = args.out if args.out is not None or args.json else Path(f"{Path(words[0]).stem}-explained.png")
    if out is not None:
        expect(out.suffix.lower() == ".png", "--out", "the name of a .png file", str(out))
        expect(not _same(out, Path(words[0])), "--out", "another file than the image", str(out))
    facts, sheet = explained(_of_file(model, args.device) if model.suffix == EXPORTED else _of_torch(model, args.device), words[0])
    if out is not None:
        from foveal.report.overlay import draw
        from foveal.report.picture import save

        save(draw(sheet), out)
    if args.json:
        print(json.dumps(facts, ensure_ascii=False))
    else:
        found = ", ".join(f"{name} {facts['probability'][name]:.2f}" for name in facts["found"]) or "nothing found"
        print(f"{words[0]}: {found}\nwrote {out}")
    return 0


@dataclass(frozen=True)
class Explaining:
    """A model, and the maps that can be had of it; each of an image of the card's side."""

    inspector: "Classifier"
    attention_maps: "Callable[[Pixels], SaliencyMaps]"
    occlusion: "Callable[[Pixels, SaliencyMaps], Array]"  # (C, rows, columns)
    gradient: "Callable[[Pixels, int], Array] | None"  # of a class, (rows, columns); None: a file without torch has none


def _of_torch(model: Path, device: str) -> Explaining:
    from foveal.explain.saliency import attention_maps, gradient, occlusion
    from foveal.metrics.calibration import apply
    from foveal.tasks.classify.predict_torch import TorchClassifier

    inspector = TorchClassifier.load(model, device)
    net, card = inspector.model, inspector.card

    def probability(logits: Any) -> Any:
        return apply(logits.double().cpu().numpy(), card.multi_label, card.temperature)

    return Explaining(
        inspector,
        lambda photo: attention_maps(net, inspector.prepare([photo])),
        lambda photo, _: occlusion(net, inspector.prepare([photo]), probability, blank=inspector.blank)[0],
        lambda photo, index: gradient(net, inspector.prepare([photo]), index)[0],
    )


def _of_file(model: Path, device: str) -> Explaining:
    expect(device in ("auto", "cpu"), "--device", "auto or cpu for an exported file", device)
    from foveal.tasks.classify.predict_onnx import OnnxClassifier
    from foveal.tasks.classify.saliency_onnx import attention_maps, occlusion

    exported = OnnxClassifier.load(model)
    return Explaining(
        exported, lambda photo: attention_maps(exported, photo), lambda photo, looks: occlusion(exported, photo, looks.sides), None
    )


def explained(explaining: Explaining, path: str) -> "tuple[dict[str, Any], Sheet]":
    """What there is to say about one image, as numbers and as a sheet."""
    from foveal.data.pack import paint
    from foveal.report.overlay import Panel, Sheet
    from foveal.runtime.image import open_image
    from foveal.tasks.classify.predict import Problem

    inspector = explaining.inspector
    photo = open_image(path, inspector.card.size)
    looks = explaining.attention_maps(photo)
    (answer,) = inspector.inspect([(path, photo)])
    if isinstance(answer, Problem):
        raise FovealError(f"{path}: {answer.reason}")
    # The first finding, or the most probable class where nothing was found.
    about = answer.found[0] if answer.found else inspector.card.classes[int(answer.probability.argmax())]
    index = inspector.card.classes.index(about)
    losses = explaining.occlusion(photo, looks)[index]
    average = looks.average[0]
    highest = max(float(panel.max()) for *_, panel in looks.each())
    rows: dict[str, list[Panel]] = {}
    for layer, head, query, one in looks.each():
        rows.setdefault(layer, []).append(Panel(_title(layer, head, query, looks.maps[layer].shape), one, highest))
    even = 1 / average.size
    sharp = open_image(path, SHARP)
    paint(sharp, inspector.card.recipe.get("blank", ()))  # the sheet shows what the model was shown
    probabilities = sorted(zip(inspector.card.classes, answer.probability.tolist(), strict=True), key=lambda pair: -pair[1])
    sheet = Sheet(
        title=Path(path).name,
        caption=f"{inspector.card.model}, {len(inspector.card.classes)} classes. Attention shows what was looked at, not why: "
        "foveal explain --faithful N measures how far it explains the answer.",
        photo=sharp,
        probabilities=[(name, probability, name in answer.found) for name, probability in probabilities],
        large=[
            Panel("attention, mean of all layers", average, float(average.max())),
            Panel(f"{about}: lost without the cell", losses, float(losses.max())),
        ],
        small=list(rows.values()),
        legend=f"small maps: 0 to {highest:.0%} of a query's attention, where an even look is {even:.1%}; large maps: 0 to the largest cell, as written",
    )
    facts = {
        "file": path,
        "model": inspector.card.model,
        "found": list(answer.found),
        "probability": {name: round(probability, 6) for name, probability in probabilities},
        "cells": list(looks.sides),
        "average": _plain(average),
        "attention": [{"layer": layer, "head": head, "query": query, "map": _plain(one)} for layer, head, query, one in looks.each()],
        "answer": about,
        "occlusion": _plain(losses),
    }
    if explaining.gradient is not None:
        facts["gradient"] = _plain(explaining.gradient(photo, index))
    return facts, sheet


def _title(layer: str, head: int, query: int, shape: Sequence[int]) -> str:
    parts = [layer, *([f"head {head + 1}"] if shape[1] > 1 else []), *([f"query {query + 1}"] if shape[2] > 1 else [])]
    return ", ".join(parts)


def _plain(values: Any) -> list[list[float]]:
    return [[round(value, 6) for value in row] for row in values.tolist()]


def _same(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)
