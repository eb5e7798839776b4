"""Are the maps an explanation? Measured on rendered pipes, where the place of every finding is known.

    points        is the largest cell of the map one that the finding's mask touches?     random: the share of cells that it touches
    weight        Σ_cells map · share of the cell inside the mask                         random: the mask's share of the image
    deletion      hide the cells in the order of the map, largest first; the area under   random: the mean over several random orders
                  the probability of what was named, over the share hidden

Points and weight take the findings that are there and were named; deletion every class that was named, rightly or not. High is good for
the first two, low for the last. Nothing is filtered beyond that: attention is reported beside input × gradient, occlusion and chance,
each with its difference to chance on the same findings. Occlusion asks the model itself what each cell is worth: a hard map to beat, and slow.

Papers: Jain and Wallace, Attention is not Explanation, 2019 (arXiv:1902.10186); Zhang et al., Top-down Neural Attention by Excitation
Backprop, 2016 (arXiv:1608.00507), the pointing game; Petsiuk et al., RISE, 2018 (arXiv:1806.07421), deletion
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from foveal.data.pipes import KINDS, Frame
from foveal.errors import FovealError, expect, expect_integer, unknown
from foveal.explain.saliency import attention_maps, cell_of, gradient, occlusion, sides_of
from foveal.metrics.calibration import apply
from foveal.metrics.interval import bootstrap
from foveal.runtime.card import Card
from foveal.runtime.saliency_maps import Sides
from foveal.tasks.classify.predict_torch import TorchClassifier

Array = NDArray[np.float64]
Bits = NDArray[np.bool_]
POINTS, ANY, WEIGHT, DELETION = "points at the finding", "points at any finding", "weight on the finding", "deletion area"
RANDOM = "random"
FILLS: dict[str, Callable[[Tensor], Tensor]] = {  # what stands where a cell was hidden
    "mean": lambda images: images.mean((2, 3), keepdim=True).expand_as(images),
    "blur": lambda images: F.interpolate(F.adaptive_avg_pool2d(images, 4), images.shape[2:], mode="bilinear"),
}


def faithfulness(
    model: nn.Module,
    card: Card,
    frames: Iterable[Frame],
    *,
    device: str = "auto",
    batch: int = 16,
    seed: int = 0,
    orders: int = 5,
    steps: int = 16,
    fill: str = "mean",
    resamples: int = 1000,
) -> dict[str, Any]:
    """Means with 95 % intervals of every measure and map, and the curves behind the deletion area; plain values that JSON can hold.

    orders: random orders to compare with. steps: points of a curve. fill: "mean", the image's mean colour, or "blur".
    """
    for value, what in ((orders, "orders"), (steps, "steps"), (resamples, "resamples")):
        expect_integer(value, what)
    if fill not in FILLS:
        raise unknown("fill", str(fill), FILLS)
    shared = [name for name in card.classes if name in KINDS]
    expect(bool(shared), "a model to measure on rendered pipes", f"classes among {', '.join(KINDS)}", ", ".join(card.classes[:5]))
    tally = _Tally(TorchClassifier(model, card, device, batch), orders, steps, FILLS[fill], np.random.default_rng(seed))
    for frame in frames:
        tally.add(frame)
    expect(tally.frames > 0, "faithfulness", "at least one frame", "none")
    figures = _figures(tally.placed, resamples, seed) + _figures(tally.deleted, resamples, seed)
    return {
        "model": card.model,
        "frames": tally.frames,
        "findings": tally.findings,
        "found": len(tally.placed),
        "named": len(tally.deleted),
        "cells": list(tally.sides),
        "fill": fill,
        "random orders": orders,
        "seed": seed,
        "interval": f"95 % percentile bootstrap over frames, {resamples} resamples, seed {seed}",
        "attention": tally.without or "watched",
        "figures": figures,
        "curves": _curves(tally),
    }


@dataclass
class _Unit:
    """One finding, and what each map made of it: {measure: {map: value}}."""

    frame: int
    values: dict[str, dict[str, float]]


def points(values: Array, share: Array) -> float:
    """Whether the largest cell of a map touches the mask; of several that are equally large, how many of them do."""
    largest = np.isclose(values, values.max(), rtol=1e-9, atol=0)
    return float((share[largest] > 0).mean())


def weight(values: Array, share: Array) -> float:
    """How much of a map lies inside the mask; a map that is 0 everywhere prefers no cell."""
    total = values.sum()
    return float((values * share).sum() / total) if total > 0 else float(share.mean())


def share_inside(mask: Bits, sides: Sides) -> Array:
    """(rows, columns): how much of each cell the mask covers."""
    owner = cell_of(*mask.shape, sides).numpy().ravel()  # type: ignore[call-arg]
    size = np.bincount(owner, minlength=sides[0] * sides[1])
    return np.asarray(np.bincount(owner, mask.ravel().astype(np.float64), sides[0] * sides[1]) / np.maximum(size, 1)).reshape(sides)


def order_of(values: Array, draw: np.random.Generator) -> NDArray[np.int64]:
    """The cells' numbers, the largest first, ties by chance."""
    return np.lexsort((draw.random(values.size), -values.ravel()))


def deletion(
    inspector: TorchClassifier, image: Tensor, orders: NDArray[np.int64], sides: Sides, steps: int, fill: Callable[[Tensor], Tensor]
) -> tuple[Array, Array]:
    """An image (1, 3, S, S) with more and more cells hidden, by each of several orders (O, P): (shares hidden (K,), probabilities (O, K, C)).

    What the model is never shown stays as it is.
    """
    cells = orders.shape[1]
    count = np.unique(np.round(np.linspace(0, cells, min(steps, cells) + 1)).astype(np.int64))  # (K,)
    rank = orders.argsort(1)  # (O, P): when each cell goes
    gone = rank[:, None, :] < count[:, None]  # (O, K, P)
    owner = cell_of(image.shape[2], image.shape[3], sides).to(image.device)
    flat, filling = torch.from_numpy(gone.reshape(-1, cells)).to(image.device), torch.where(inspector.blank, image, fill(image))
    probabilities = [
        inspector.probabilities_of(torch.where(some[:, owner][:, None], filling, image)) for some in flat.split(inspector.batch)
    ]
    return count / cells, np.concatenate(probabilities).reshape(len(orders), len(count), -1)


def area(x: Array, y: Array) -> Array:
    """Under a curve, by trapezia: y (…, K) over x (K,)."""
    return np.asarray((np.diff(x) * (y[..., 1:] + y[..., :-1]) / 2).sum(-1))


@dataclass
class _Tally:
    """Frame by frame, what the maps made of the findings."""

    inspector: TorchClassifier
    orders: int
    steps: int
    fill: Callable[[Tensor], Tensor]
    draw: np.random.Generator
    frames: int = 0
    findings: int = 0  # there, of classes that the model knows
    sides: Sides = (0, 0)
    without: str = ""  # why there is no attention
    placed: list[_Unit] = field(default_factory=list)
    deleted: list[_Unit] = field(default_factory=list)
    hidden: Array = field(default_factory=lambda: np.zeros(0))  # shares of cells, the curves' x
    curves: list[dict[str, Array]] = field(default_factory=list)

    def add(self, frame: Frame) -> None:
        image = self.inspector.prepare([self.inspector.resize(frame.image)])
        probabilities = self.inspector.probabilities_of(image)
        expect(not np.isnan(probabilities).any(), "the model's answer", "numbers", "nan", "look for a model that diverged")
        named = np.flatnonzero(self.inspector.chosen(probabilities)[0])
        self.sides = self.sides if self.frames else sides_of(self.inspector.model, image)
        self.frames += 1
        self.findings += len({finding.kind for finding in frame.findings} & set(self.inspector.card.classes))
        if len(named):
            maps = self._maps(image, named)
            self._place(frame, named, maps)
            self._delete(image, named, maps)

    def _maps(self, image: Tensor, named: NDArray[np.int64]) -> dict[str, Array]:
        """The maps to compare: each (classes named, rows, columns). Attention is the same for all of them."""
        model, card, maps = self.inspector.model, self.inspector.card, {}
        if not self.without:
            try:
                maps["attention"] = attention_maps(model, image).average.repeat(len(named), 0)
            except FovealError as error:  # there are measures without it, too
                self.without = str(error)

        def probability(logits: Tensor) -> Array:
            return apply(logits.double().cpu().numpy(), card.multi_label, card.temperature)

        maps["gradient"] = gradient(model, image.expand(len(named), -1, -1, -1), torch.from_numpy(named), self.sides)
        maps["occlusion"] = occlusion(model, image, probability, self.sides, self.inspector.batch, self.inspector.blank)[0, named]
        return maps

    def _place(self, frame: Frame, named: NDArray[np.int64], maps: dict[str, Array]) -> None:
        masks = {finding.kind: share_inside(finding.mask, self.sides) for finding in frame.findings}
        for place, index in enumerate(named):
            share = masks.get(self.inspector.card.classes[index])
            if share is None:
                continue
            shown = np.max(list(masks.values()), axis=0)  # more than 0 wherever any finding is
            ours = {name: values[place] for name, values in maps.items()}
            values = {
                POINTS: {name: points(one, share) for name, one in ours.items()} | {RANDOM: float((share > 0).mean())},
                ANY: {name: points(one, shown) for name, one in ours.items()} | {RANDOM: float((shown > 0).mean())},
                WEIGHT: {name: weight(one, share) for name, one in ours.items()} | {RANDOM: float(share.mean())},
            }
            self.placed.append(_Unit(self.frames, values))

    def _delete(self, image: Tensor, named: NDArray[np.int64], maps: dict[str, Array]) -> None:
        by_chance = [self.draw.permutation(self.sides[0] * self.sides[1]) for _ in range(self.orders)]
        by_map = [order_of(one, self.draw) for values in maps.values() for one in values]  # map by map, class by class
        self.hidden, curves = deletion(self.inspector, image, np.array([*by_chance, *by_map]), self.sides, self.steps, self.fill)
        for place, index in enumerate(named):
            lines = {name: curves[self.orders + row * len(named) + place, :, index] for row, name in enumerate(maps)}
            lines[RANDOM] = curves[: self.orders, :, index].mean(0)
            self.curves.append(lines)
            areas = {name: float(area(self.hidden, line)) for name, line in lines.items()}
            self.deleted.append(_Unit(self.frames, {DELETION: areas}))


def _figures(units: list[_Unit], resamples: int, seed: int) -> list[dict[str, Any]]:
    """Every measure of every map: mean, interval, and the difference to chance on the same findings with its own interval."""
    if not units:
        return []
    columns: dict[str, Array] = {}
    for measure, maps in units[0].values.items():
        for name in maps:
            value = np.array([unit.values[measure][name] for unit in units])
            columns[f"{measure}|{name}"] = value
            columns[f"{measure}|{name}|more"] = value - np.array([unit.values[measure][RANDOM] for unit in units])

    def means(weight: Array) -> Mapping[str, Array]:
        return {key: weight @ value / weight.sum(-1) for key, value in columns.items()}

    frame = np.array([unit.frame for unit in units])
    spans = bootstrap(means, len(units), resamples=resamples, seed=seed, groups=frame)
    rows = []
    for key, value in columns.items():
        measure, name, *more = key.split("|")
        if more:
            continue
        rows.append(
            {
                "measure": measure,
                "map": name,
                "count": len(units),
                "mean": float(value.mean()),
                "interval": [float(end) for end in spans[key]],
                "against random": None if name == RANDOM else float(columns[f"{key}|more"].mean()),
                "interval against random": None if name == RANDOM else [float(end) for end in spans[f"{key}|more"]],
            }
        )
    return rows


def _curves(tally: _Tally) -> dict[str, list[float]]:
    """The mean probability of what was named, by the share of cells hidden."""
    if not tally.curves:
        return {}
    lines = {name: np.mean([curve[name] for curve in tally.curves], axis=0).tolist() for name in tally.curves[0]}
    return {"hidden": tally.hidden.tolist(), **lines}
