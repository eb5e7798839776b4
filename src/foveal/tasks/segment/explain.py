"""Where the query of each class looked before it answered every pixel: its attention over the cells of the image."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from foveal.atomic import write_atomic
from foveal.core.watch import watch
from foveal.errors import FovealError, expect
from foveal.explain.saliency import of_queries
from foveal.models.icam_seg import IcamSeg
from foveal.report.overlay import Panel, Sheet
from foveal.runtime.image import Pixels, from_pillow, open_image
from foveal.runtime.image_predictor import name_of
from foveal.tasks.segment.card import SegmentCard
from foveal.tasks.segment.graph import Maps
from foveal.tasks.segment.options import ExplainOptions
from foveal.tasks.task import Explanation

if TYPE_CHECKING:
    from foveal.progress import Progress
    from foveal.tasks.model import Model

FOUND = 0.5  # score from which on a class is marked as found
LARGE, SMALL = 2, 6  # classes whose maps are drawn large, and small for each layer


@dataclass(frozen=True, repr=False)
class SegmentExplanation(Explanation):
    suffix = ".png"
    facts: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    sheet: Sheet

    def summary(self) -> str:
        scores = ", ".join(f"{name} {score:.2f}" for name, score in self.facts["scores"].items())
        return f"{self.facts['file']}: {scores}"

    def save(self, path: str | Path) -> list[Path]:
        fits = Path(path).suffix.lower() == self.suffix
        expect(fits, "to save", f"the name of a {self.suffix} file", str(path))
        write_atomic(Path(path), self.content())
        return [Path(path)]

    def content(self) -> bytes:
        from foveal.report.overlay import draw
        from foveal.report.picture import png

        return png(draw(self.sheet))


def explain(model: "Model", subject: Any, options: ExplainOptions, progress: "Progress") -> Explanation:
    expect(subject is not None, "explain", "an image", "none", "name one")
    expect(
        not model.is_exported, model.name, "a run or a .safetensors file, whose attention can be watched", "an .onnx"
    )
    network, card = model.network, cast("SegmentCard", model.card)
    if not isinstance(network, IcamSeg):
        raise FovealError(
            f"{model.name}: expected an icam-seg, whose class queries look at the image, got {type(network).__name__}; "
            "foveal.watch sees the attention of any model"
        )
    pixels, name = _pixels(subject), name_of(subject, 0)
    device = next(network.parameters()).device
    maps = Maps(network, card).to(device).eval()
    with torch.inference_mode(), watch(network) as seen:
        labels, scores, logits = maps(torch.from_numpy(pixels[None].copy()).to(device))
    rows, columns = (side * network.stride // network.multiple for side in logits.shape[2:])
    layers = {  # of each layer (classes, rows, columns), the mean of its heads
        f"layer {place}" if place else "first look": record.weights[0]
        .mean(0)
        .reshape(-1, rows, columns)
        .float()
        .cpu()
        .numpy()
        for place, record in enumerate(of_queries(seen).values())
    }
    return _explained(card, name, pixels, labels[0].cpu().numpy(), scores[0].cpu().numpy(), layers, options.layer)


def _explained(
    card: SegmentCard,
    name: str,
    pixels: Pixels,
    labels: NDArray[np.uint8],
    scores: NDArray[np.float32],
    layers: dict[str, NDArray[np.float32]],
    layer: str,
) -> SegmentExplanation:
    mean = np.mean(list(layers.values()), 0)
    rows, columns = mean.shape[1:]
    shown = next(iter(layers.values())) if layer == "first" else mean
    order = [int(place) for place in np.argsort(-scores[1:], kind="stable") + 1]
    words = ", all layers" if layer == "mean" else ", first look"
    large = [_panel(f"{card.classes[place]}{words}", shown[place]) for place in order[:LARGE]]
    small = [
        [_panel(f"{card.classes[place]}, {which}", maps[place]) for place in order[:SMALL]]
        for which, maps in layers.items()
    ]
    shares = np.bincount(labels.reshape(-1), minlength=len(card.classes)) / labels.size
    facts = {
        "file": name,
        "scores": {card.classes[place]: round(float(scores[place]), 4) for place in order},
        "area": {card.classes[place]: round(float(shares[place]), 6) for place in order},
        "cells": [rows, columns],
    }
    sheet = Sheet(
        title=f"{card.model}: where the query of each class looked",
        caption=f"{Path(name).name}, {pixels.shape[1]} × {pixels.shape[0]} pixels, {columns} × {rows} cells",
        photo=_padded(pixels, card),  # as the cells lie on it
        probabilities=[(card.classes[place], float(scores[place]), bool(scores[place] >= FOUND)) for place in order],
        large=large,
        small=small,
        legend="each map adds up to 1; its lightest cell is its largest",
    )
    arrays = {f"attention {name}": maps for name, maps in layers.items()} | {"label_map": labels}
    return SegmentExplanation(facts, arrays, sheet)


def _padded(pixels: Pixels, card: SegmentCard) -> Pixels:
    """With the last row and column repeated, as the model saw it."""
    unit = int(np.ceil(card.multiple / card.zoom))
    height, width = pixels.shape[:2]
    return np.pad(pixels, ((0, -height % unit), (0, -width % unit), (0, 0)), mode="edge")


def _panel(title: str, values: NDArray[np.float32]) -> Panel:
    return Panel(title, values.astype(np.float64), float(values.max()))


def _pixels(subject: Any) -> Pixels:
    """(H, W, 3) of a path, an array or an image of Pillow."""
    if isinstance(subject, (str, Path)):
        return open_image(subject)
    if isinstance(subject, np.ndarray):
        return np.asarray(subject, np.uint8)
    return from_pillow(subject).pixels
