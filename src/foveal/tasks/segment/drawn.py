"""Which windows of an image are learned from, and how many pixels of each class these show.

    f_k = (n_k s_k + m c a_k) / (n_k + m)   of findings, k ≥ 1;   c = Σ s_k / Σ a_k

Symbols: s_k the share of class k in the pixels of windows that are drawn as in training; n_k how many of them show it;
    a_k the share that whole images would give, each as often as it is drawn; m as many windows as a_k is
    trusted for, so that a class that none of the drawn windows shows has a share as well. Windows are laid on
    findings, and findings are pasted: both are in s_k, and by c in what stands for it where it is not known.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from foveal.data.augment import VARIATIONS
from foveal.data.paste import pasted
from foveal.data.segments import SegmentSource
from foveal.data.windows import UNLABELLED, drawn_window, shown_labels
from foveal.errors import expect
from foveal.runtime.image import BadImage
from foveal.tasks.segment.recipe import SegmentRecipe

AIMED = 0.8  # share of the windows of images with findings that are laid on one of them
WINDOWS = 512  # that are drawn to count the pixels of each class
FEWEST, PIXELS = 32, 2**28  # images that are opened for these: as many as have so many pixels, but not fewer
TRUSTED = 4.0  # m
WHOLE = 2**40  # pixels that stand for a share of 1


class Drawing:
    """Windows as a run draws them, of torch's seed."""

    def __init__(self, recipe: SegmentRecipe, zoom: float) -> None:
        """zoom: from pixels of the label maps to pixels of the windows."""
        expect(recipe.augment is not None, "augment", "a recipe whose choices are made", "one that leaves it open")
        self.variation = VARIATIONS[str(recipe.augment)]
        self.side, self.paste = round((recipe.size or 0) / zoom), recipe.paste or 0.0
        self.points: dict[int, list[Tensor]] = {}  # of an image: places that show each of its classes

    def window(self, labels: Tensor, index: int) -> Tensor:
        """A (2, 3): where a window of the image of this index lies, whose label map (H, W) this is."""
        return drawn_window(labels, self.side, self.variation, self.aim(labels, index))

    def aim(self, labels: Tensor, index: int) -> tuple[float, float] | None:
        """A pixel that a window should show: of one of the image's classes, or anywhere."""
        if index not in self.points:
            self.points[index] = places(labels)
        known = self.points[index]
        if not known or float(torch.rand(())) > AIMED:
            return None
        some = known[int(torch.randint(len(known), ()))]
        x, y = some[int(torch.randint(len(some), ()))].tolist()
        return float(x), float(y)

    def pasted(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """With findings of the batch in some of its windows (B, C, S, S)."""
        return pasted(images, labels, self.paste, self.variation) if self.paste else (images, labels)


def places(labels: Tensor, most: int = 64) -> list[Tensor]:
    """Of each class that a label map shows, some of its pixels, evenly spread over their order: (n, 2) as (x, y)."""
    found = []
    for value in labels.unique().tolist():
        if value in (0, UNLABELLED):
            continue
        rows, columns = (labels == value).nonzero(as_tuple=True)
        step = max(1, len(rows) // most)
        found.append(torch.stack([columns, rows], 1)[::step])
    return found


def drawn_areas(
    recipe: SegmentRecipe, source: SegmentSource, train: NDArray[np.int64], often: NDArray[np.float64] | None
) -> NDArray[np.int64]:
    """(1, K + 2): pixels of background, of each class and without a label, in proportion to what training sees."""
    often = np.full(len(train), 1 / len(train)) if often is None else often / often.sum()
    shares = source.areas[train] / source.areas[train].sum(1, keepdims=True)
    expected = (often[:, None] * shares).sum(0)
    counts = drawn_counts(recipe, source, train, often)
    seen = counts.sum(0) / max(1, counts.sum())
    times = seen[1:-1].sum() / expected[1:-1].sum() if seen[1:-1].any() and expected[1:-1].any() else 1.0
    windows = (counts[:, 1:-1] > 0).sum(0)
    found = (windows * seen[1:-1] + TRUSTED * times * expected[1:-1]) / (windows + TRUSTED)
    unlabelled = seen[-1] if len(counts) else expected[-1]
    background = max(0.0, 1 - found.sum() - unlabelled)
    return np.round(WHOLE * np.array([[background, *found, unlabelled]])).astype(np.int64)


def drawn_counts(
    recipe: SegmentRecipe, source: SegmentSource, train: NDArray[np.int64], often: NDArray[np.float64]
) -> NDArray[np.int64]:
    """(N, K + 2) pixels per class of windows that are drawn as in training, always the same ones."""
    drawing, side, classes = Drawing(recipe, recipe.zoom or 1.0), recipe.size or 0, len(source.classes)
    images = int(min(max(PIXELS // source.areas[train].sum(1).mean(), FEWEST), WINDOWS))
    # Evenly spread over images in the order of their findings: fewer of them stand for all.
    order = np.argsort(source.areas[train][:, 1:-1].sum(1), kind="stable")
    steps = (np.arange(images) + 0.5) / images
    picked = train[order][np.searchsorted(np.cumsum(often[order]), steps).clip(max=len(train) - 1)]
    maps: list[Tensor] = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for index in picked.tolist():
            try:
                labels = torch.from_numpy(np.ascontiguousarray(source.label_map(index)))
            except BadImage:  # training leaves it out as well
                continue
            maps += [
                shown_labels(labels, drawing.window(labels, index), side).to(torch.uint8)
                for _ in range(-(-WINDOWS // images))
            ]
        counts = np.zeros((len(maps), classes + 2), np.int64)
        mixed = torch.randperm(len(maps))
        for first in range(0, len(maps), recipe.batch):
            truth = torch.stack([maps[one] for one in mixed[first : first + recipe.batch].tolist()]).long()
            _, truth = drawing.pasted(torch.zeros(len(truth), 1, side, side), truth)
            for row, one in enumerate(truth, first):
                pixels = one.flatten().bincount(minlength=UNLABELLED + 1)
                counts[row] = [*pixels[: classes + 1].tolist(), int(pixels[UNLABELLED])]
    return counts
