"""Why a classifier answered so: what it found in one image and where it looked, on one sheet.

`faithful` measures how far that explains its answers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from foveal.atomic import write_atomic
from foveal.errors import FovealError, expect
from foveal.report.overlay import Panel, Sheet
from foveal.runtime.blank import paint
from foveal.runtime.image import Pixels
from foveal.runtime.image_predictor import frame_of, name_of
from foveal.runtime.saliency_maps import Array, SaliencyMaps, Sides
from foveal.tasks.classify.classifier import classifier_of
from foveal.tasks.classify.options import ExplainOptions
from foveal.tasks.classify.predict import Classifier, OnnxClassifier
from foveal.tasks.task import Explanation

if TYPE_CHECKING:
    from foveal.progress import Progress
    from foveal.tasks.classify.predict_torch import TorchClassifier
    from foveal.tasks.model import Model

SHARP = 660  # pixels of the photo's side on a sheet
CELLS = (7, 7)  # of the maps of a model whose attention gives no grid


@dataclass(frozen=True, repr=False)
class ClassifyExplanation(Explanation):
    suffix = ".png"
    facts: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    sheet: Sheet

    def summary(self) -> str:
        found = (
            ", ".join(f"{name} {self.facts['probability'][name]:.2f}" for name in self.facts["found"])
            or "nothing found"
        )
        without = f"\n{self.facts['without attention']}" if "without attention" in self.facts else ""
        return f"{self.facts['file']}: {found}{without}"

    def save(self, path: str | Path) -> list[Path]:
        fits = Path(path).suffix.lower() == self.suffix
        expect(fits, "to save", f"the name of a {self.suffix} file", str(path))
        write_atomic(Path(path), self.content())
        return [Path(path)]

    def content(self) -> bytes:
        from foveal.report.overlay import draw
        from foveal.report.picture import png

        return png(draw(self.sheet))


@dataclass(frozen=True)
class Maps:
    """The maps that can be had of a classifier, each of an image of the card's side."""

    attention: Callable[[Pixels], SaliencyMaps]  # raises a FovealError where there is none
    sides: Callable[[Pixels], Sides]
    occlusion: Callable[[Pixels, Sides], Array]  # (C, rows, columns)
    # of a class, (rows, columns); None: an exported file has none
    gradient: Callable[[Pixels, int, Sides], Array] | None


def explain(model: "Model", subject: Any, options: ExplainOptions, progress: "Progress") -> Explanation:
    if options.faithful is not None:
        from foveal.tasks.classify.faithful import measure

        expect(
            subject is None,
            "--faithful",
            "a model and no image",
            name_of(subject, 0),
            "--data names images of one's own",
        )
        return measure(model, options, progress)
    expect(subject is not None, "explain", "an image", "none", "name one, or measure over many with --faithful N")
    classifier = classifier_of(model)
    return _explained(classifier, _maps(classifier), subject)


def _maps(classifier: Classifier) -> Maps:
    if isinstance(classifier, OnnxClassifier):
        from foveal.tasks.classify.saliency_onnx import attention_maps, occlusion

        onnx = classifier
        return Maps(
            lambda frame: attention_maps(onnx, frame),
            lambda _: CELLS,
            lambda frame, sides: occlusion(onnx, frame, sides),
            None,
        )
    return _torch_maps(classifier)  # type: ignore[arg-type]


def _torch_maps(classifier: "TorchClassifier") -> Maps:
    from foveal.explain.saliency import attention_maps, gradient, occlusion, sides_of

    network, prepare = classifier.model, classifier.prepare
    return Maps(
        lambda frame: attention_maps(network, prepare([frame])),
        lambda frame: sides_of(network, prepare([frame])),
        lambda frame, sides: occlusion(
            classifier.probabilities_of, prepare([frame]), sides, classifier.batch, classifier.blank
        )[0],
        lambda frame, index, sides: gradient(network, prepare([frame]), index, sides)[0],
    )


def _explained(classifier: Classifier, maps: Maps, subject: Any) -> ClassifyExplanation:
    card, name = classifier.card, name_of(subject, 0)
    frame = frame_of(subject, card.size).pixels
    (answer,) = classifier.predict([frame])
    if answer.error:
        raise FovealError(f"{name}: {answer.error}")
    # The first finding, or the most probable class where nothing was found.
    about = answer.found[0] if answer.found else card.classes[int(answer.probability.argmax())]
    index = card.classes.index(about)
    attention, without = None, ""
    try:
        attention = maps.attention(frame)
    except FovealError as error:  # a network without attention has the other maps
        without = str(error)[:200]
    sides = maps.sides(frame) if attention is None else attention.sides
    losses = maps.occlusion(frame, sides)
    slopes = None if maps.gradient is None else maps.gradient(frame, index, sides)
    ranked = sorted(zip(card.classes, answer.probability.tolist(), strict=True), key=lambda pair: -pair[1])
    facts: dict[str, Any] = {
        "file": name,
        "model": card.model,
        "found": list(answer.found),
        "probability": {label: round(value, 6) for label, value in ranked},
        "answer": about,
        "cells": list(sides),
        "occlusion": _plain(losses[index]),
    }
    arrays: dict[str, NDArray[Any]] = {"probability": answer.probability, "occlusion": losses}
    if slopes is not None:
        facts["gradient"], arrays["gradient"] = _plain(slopes), slopes
    if attention is None:
        facts["without attention"] = without
    else:
        each = [
            {"layer": layer, "head": head, "query": query, "map": _plain(one)}
            for layer, head, query, one in attention.each()
        ]
        facts |= {"average": _plain(attention.average[0]), "attention": each}
        arrays |= {
            "average": attention.average[0],
            **{f"attention {layer}": grid[0] for layer, grid in attention.maps.items()},
        }
    sharp = frame_of(subject, SHARP).pixels
    paint(sharp, card.blank)  # the sheet shows what the model was given
    listed = [(label, value, label in answer.found) for label, value in ranked]
    sheet = _sheet(name, classifier, sharp, listed, attention, {about: losses[index]}, slopes)
    return ClassifyExplanation(facts, arrays, sheet)


def _sheet(
    name: str,
    classifier: Classifier,
    photo: Pixels,
    listed: Sequence[tuple[str, float, bool]],
    attention: SaliencyMaps | None,
    losses: dict[str, Array],
    slopes: Array | None,
) -> Sheet:
    card = classifier.card
    ((about, lost),) = losses.items()
    large = [Panel(f"{about}: lost without the cell", lost, float(lost.max()))]
    if attention is None:
        large = [
            *([Panel(f"{about}: input × gradient", slopes, float(slopes.max()))] if slopes is not None else []),
            *large,
        ]
        caption = f"{card.model}, {len(card.classes)} classes. Its attention gives no map of the image."
        return Sheet(
            Path(name).name, caption, photo, listed, large, [], "large maps: 0 to the largest cell, as written"
        )
    average = attention.average[0]
    large = [Panel("attention, mean of all layers", average, float(average.max())), *large]
    highest = max(float(panel.max()) for *_, panel in attention.each())
    rows: dict[str, list[Panel]] = {}
    for layer, head, query, one in attention.each():
        rows.setdefault(layer, []).append(Panel(_title(layer, head, query, attention.maps[layer].shape), one, highest))
    caption = (
        f"{card.model}, {len(card.classes)} classes. Attention shows what was looked at, not why: foveal explain "
        "--faithful N measures how far it explains the answer."
    )
    legend = (
        f"small maps: 0 to {highest:.0%} of a query's attention, where an even look is {1 / average.size:.1%}; "
        "large maps: 0 to the largest cell, as written"
    )
    return Sheet(Path(name).name, caption, photo, listed, large, list(rows.values()), legend)


def _title(layer: str, head: int, query: int, shape: Sequence[int]) -> str:
    parts = [layer, *([f"head {head + 1}"] if shape[1] > 1 else []), *([f"query {query + 1}"] if shape[2] > 1 else [])]
    return ", ".join(parts)


def _plain(values: Any) -> list[list[float]]:
    return [[round(value, 6) for value in row] for row in np.asarray(values).tolist()]
