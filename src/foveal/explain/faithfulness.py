"""Are the maps an explanation?

Measured by where findings are, on images that come with their masks, and by deletion, on any.

    points        is the largest cell of the map one that the finding's mask touches?
                  random: the share of cells that it touches
    weight        Σ_cells map · share of the cell inside the mask
                  random: the mask's share of the image
    deletion      hide the cells in the order of the map, largest first; the area under the probability of what was
                  predicted, over the share hidden
                  random: the mean over several random orders

Points and weight take the findings that are there and were predicted; deletion every class that was predicted, rightly
or not. High is good for the first two, low for the last. Nothing is filtered beyond that: attention is reported beside
input × gradient, occlusion and random maps, each with its difference to random on the same findings. Occlusion asks
the model itself what each cell is worth: a hard map to beat, and slow. Intervals are over images: one image gives
none.

Papers: Jain and Wallace, Attention is not Explanation, 2019 (arXiv:1902.10186); Zhang et al., Top-down Neural
Attention by Excitation Backprop, 2016 (arXiv:1608.00507), the pointing game; Petsiuk et al., RISE, 2018
(arXiv:1806.07421), deletion
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from foveal.errors import FovealError, expect, expect_integer, unknown
from foveal.explain.saliency import attention_maps, cell_of, gradient, occlusion, sides_of
from foveal.metrics.interval import Interval, bootstrap
from foveal.runtime.image import Pixels
from foveal.runtime.saliency_maps import Sides

Array = NDArray[np.float64]
Bits = NDArray[np.bool_]
POINTS, ANY, WEIGHT, DELETION = (
    "points at the finding",
    "points at any finding",
    "weight on the finding",
    "deletion area",
)
RANDOM = "random"
FILLS: dict[str, Callable[[Tensor], Tensor]] = {  # what stands where a cell was hidden
    "mean": lambda images: images.mean((2, 3), keepdim=True).expand_as(images),
    "blur": lambda images: F.interpolate(F.adaptive_avg_pool2d(images, 4), images.shape[2:], mode="bilinear"),
}


class Subject(Protocol):
    """A classifier of torch's at work: what the measures ask of it."""

    model: nn.Module
    batch: int

    @property
    def blank(self) -> Tensor:
        """(S, S): pixels that the model is never given."""

    def prepare(self, frames: Sequence[Pixels]) -> Tensor:
        """Images of the model's side, (S, S, 3) uint8 each → its input (B, 3, S, S)."""

    def probabilities_of(self, images: Tensor) -> Array:
        """Its input (B, 3, S, S) → (B, C)."""

    def found(self, probability: Array) -> Bits:
        """(B, C) → (B, C): which classes are predicted."""


@dataclass(frozen=True, eq=False)
class Sample:
    """An image of the model's side, the classes that it shows, and, where they are known, the masks (h,
    w) of its findings by class.
    """

    pixels: Pixels
    classes: frozenset[str]
    masks: Mapping[str, Bits] | None = None


def faithfulness(
    subject: Subject,
    classes: Sequence[str],
    samples: Iterable[Sample],
    *,
    seed: int = 0,
    orders: int = 5,
    steps: int = 16,
    fill: str = "mean",
    resamples: int = 1000,
) -> dict[str, Any]:
    """Means with 95 % intervals of every measure and map, and the curves behind the deletion area.

    Plain values that JSON can hold.

    classes: of the model. orders: random orders to compare with. steps: points of a curve. fill: "mean", the image's
    mean colour, or "blur".
    """
    for value, what in ((orders, "orders"), (steps, "steps"), (resamples, "resamples")):
        expect_integer(value, what)
    if fill not in FILLS:
        raise unknown("fill", str(fill), FILLS)
    tally = _Tally(subject, tuple(classes), orders, steps, FILLS[fill], np.random.default_rng(seed))
    for sample in samples:
        tally.add(sample)
    expect(tally.images > 0, "faithfulness", "at least one image", "none")
    figures = _figures(tally.placed, resamples, seed) + _figures(tally.deleted, resamples, seed)
    several = len({unit.image for unit in tally.deleted}) > 1
    return {
        "images": tally.images,
        "findings": tally.findings,
        "predicted": len(tally.deleted),
        "right": tally.right,
        "cells": list(tally.sides),
        "fill": fill,
        "random orders": orders,
        "seed": seed,
        "interval": f"95 % percentile bootstrap over images, {resamples} resamples, seed {seed}"
        if several
        else "none: too few images",
        "attention": tally.without or "watched",
        "figures": figures,
        "curves": _curves(tally),
    }


@dataclass
class _Unit:
    """One finding, and what each map made of it: {measure: {map: value}}."""

    image: int
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
    return np.asarray(
        np.bincount(owner, mask.ravel().astype(np.float64), sides[0] * sides[1]) / np.maximum(size, 1)
    ).reshape(sides)


def order_of(values: Array, draw: np.random.Generator) -> NDArray[np.int64]:
    """The cells' numbers, the largest first, ties at random."""
    return np.lexsort((draw.random(values.size), -values.ravel()))


def deletion(
    subject: Subject,
    image: Tensor,
    orders: NDArray[np.int64],
    sides: Sides,
    steps: int,
    fill: Callable[[Tensor], Tensor],
) -> tuple[Array, Array]:
    """An image (1, 3, S, S) with more and more cells hidden, by each of several orders (O, P):
    (shares hidden (K,), probabilities (O, K, C)).

    What the model is never given stays as it is.
    """
    cells = orders.shape[1]
    count = np.unique(np.round(np.linspace(0, cells, min(steps, cells) + 1)).astype(np.int64))  # (K,)
    rank = orders.argsort(1)  # (O, P): when each cell goes
    gone = rank[:, None, :] < count[:, None]  # (O, K, P)
    owner = cell_of(image.shape[2], image.shape[3], sides).to(image.device)
    flat, filling = (
        torch.from_numpy(gone.reshape(-1, cells)).to(image.device),
        torch.where(subject.blank, image, fill(image)),
    )
    hidden = (torch.where(some[:, owner][:, None], filling, image) for some in flat.split(subject.batch))
    probabilities = [subject.probabilities_of(images) for images in hidden]
    return count / cells, np.concatenate(probabilities).reshape(len(orders), len(count), -1)


def area(x: Array, y: Array) -> Array:
    """Under a curve, by trapezia: y (…, K) over x (K,)."""
    return np.asarray((np.diff(x) * (y[..., 1:] + y[..., :-1]) / 2).sum(-1))


@dataclass
class _Tally:
    """Image by image, what the maps made of the findings."""

    subject: Subject
    classes: tuple[str, ...]
    orders: int
    steps: int
    fill: Callable[[Tensor], Tensor]
    draw: np.random.Generator
    images: int = 0
    findings: int = 0  # there, of classes that the model knows
    right: int = 0  # predicted, and there
    sides: Sides = (0, 0)
    without: str = ""  # why there is no attention
    placed: list[_Unit] = field(default_factory=list)
    deleted: list[_Unit] = field(default_factory=list)
    hidden: Array = field(default_factory=lambda: np.zeros(0))  # shares of cells, the curves' x
    curves: list[dict[str, Array]] = field(default_factory=list)

    def add(self, sample: Sample) -> None:
        image = self.subject.prepare([sample.pixels])
        probability = self.subject.probabilities_of(image)
        expect(
            not np.isnan(probability).any(), "the model's answer", "numbers", "nan", "look for a model that diverged"
        )
        predicted = np.flatnonzero(self.subject.found(probability)[0])
        self.sides = self.sides if self.images else sides_of(self.subject.model, image)
        self.images += 1
        self.findings += len(sample.classes & set(self.classes))
        self.right += sum(self.classes[index] in sample.classes for index in predicted)
        if len(predicted):
            maps = self._maps(image, predicted)
            if sample.masks is not None:
                self._place(sample.masks, predicted, maps)
            self._delete(image, predicted, maps)

    def _maps(self, image: Tensor, predicted: NDArray[np.int64]) -> dict[str, Array]:
        """The maps to compare: each (classes predicted, rows, columns). Attention is the same for all of them."""
        subject, maps = self.subject, {}
        if not self.without:
            try:
                maps["attention"] = attention_maps(subject.model, image).average.repeat(len(predicted), 0)
            except FovealError as error:  # there are measures without it, too
                self.without = str(error)
        several = image.expand(len(predicted), -1, -1, -1)
        maps["gradient"] = gradient(subject.model, several, torch.from_numpy(predicted), self.sides)
        maps["occlusion"] = occlusion(subject.probabilities_of, image, self.sides, subject.batch, subject.blank)[
            0, predicted
        ]
        return maps

    def _place(self, masks: Mapping[str, Bits], predicted: NDArray[np.int64], maps: dict[str, Array]) -> None:
        inside = {name: share_inside(mask, self.sides) for name, mask in masks.items()}
        for place, index in enumerate(predicted):
            share = inside.get(self.classes[index])
            if share is None:
                continue
            covered = np.max(list(inside.values()), axis=0)  # more than 0 wherever any finding is
            ours = {name: values[place] for name, values in maps.items()}
            values = {
                POINTS: {name: points(one, share) for name, one in ours.items()} | {RANDOM: float((share > 0).mean())},
                ANY: {name: points(one, covered) for name, one in ours.items()} | {RANDOM: float((covered > 0).mean())},
                WEIGHT: {name: weight(one, share) for name, one in ours.items()} | {RANDOM: float(share.mean())},
            }
            self.placed.append(_Unit(self.images, values))

    def _delete(self, image: Tensor, predicted: NDArray[np.int64], maps: dict[str, Array]) -> None:
        at_random = [self.draw.permutation(self.sides[0] * self.sides[1]) for _ in range(self.orders)]
        by_map = [order_of(one, self.draw) for values in maps.values() for one in values]  # map by map, class by class
        self.hidden, curves = deletion(
            self.subject, image, np.array([*at_random, *by_map]), self.sides, self.steps, self.fill
        )
        for place, index in enumerate(predicted):
            lines = {
                name: curves[self.orders + row * len(predicted) + place, :, index] for row, name in enumerate(maps)
            }
            lines[RANDOM] = curves[: self.orders, :, index].mean(0)
            self.curves.append(lines)
            areas = {name: float(area(self.hidden, line)) for name, line in lines.items()}
            self.deleted.append(_Unit(self.images, {DELETION: areas}))


def _figures(units: list[_Unit], resamples: int, seed: int) -> list[dict[str, Any]]:
    """Every measure of every map: mean, interval, and the difference to random on the same findings with its own
    interval.
    """
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

    image = np.array([unit.image for unit in units])
    several = len(np.unique(image)) > 1  # one image says nothing of others
    spans = bootstrap(means, len(units), resamples=resamples, seed=seed, groups=image) if several else {}
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
                "interval": _ends(spans.get(key)),
                "against random": None if name == RANDOM else float(columns[f"{key}|more"].mean()),
                "interval against random": None if name == RANDOM else _ends(spans.get(f"{key}|more")),
            }
        )
    return rows


def _ends(span: Interval | None) -> list[float] | None:
    return None if span is None else [float(end) for end in span]


def _curves(tally: _Tally) -> dict[str, list[float]]:
    """The mean probability of what was predicted, by the share of cells hidden."""
    if not tally.curves:
        return {}
    lines = {name: np.mean([curve[name] for curve in tally.curves], axis=0).tolist() for name in tally.curves[0]}
    return {"hidden": tally.hidden.tolist(), **lines}
