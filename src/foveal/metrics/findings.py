"""How well findings are found as such: does an image show any, which were missed, and how small were they.

    any finding   AUC of one score per image against whether its truth has a finding at all
    found         a finding of class k is found if at least half (or a tenth) of its pixels are predicted as k
    recall        found / there, of a class, or of the findings of some size
    missed size   argmin_s (findings smaller than s that were found + findings of s and more that were missed)

A finding is a connected component of the truth, by 8 neighbours; its size is the side of a square of its area, in
pixels. The missed size is the one cut that tells best what is found from what is missed: below it most findings are
missed, from it on most are found. (It is where the recall that rises with size and fits best passes one half.) Nothing
is found of any size: nan; all is found: the smallest there is. Of cuts that are equally good, the smallest counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foveal.errors import expect
from foveal.metrics.classification import Measure, mean, weights
from foveal.metrics.ranking import Array, Ranking, ratio
from foveal.metrics.segmentation import LabelMap, checked_maps
from foveal.runtime.components import UNLABELLED, components

SHARES = {"half": 0.5, "tenth": 0.1}  # of a finding's pixels, from which on it is found
SIDES = (0, 4, 8, 16, 32, 64, 128)  # where classes of size begin, in pixels


@dataclass(frozen=True, eq=False)
class Findings:
    """M findings of N images, or of one."""

    label: NDArray[np.int64]  # (M,) 1 … K
    area: NDArray[np.int64]  # (M,) pixels
    covered: NDArray[np.int64]  # (M,) of these, predicted as that label
    image: NDArray[np.int64]  # (M,) which image
    images: int = 1

    def __len__(self) -> int:
        return len(self.label)

    @property
    def side(self) -> Array:
        """(M,) of a square of the same area."""
        return np.sqrt(self.area)

    def found(self, share: float) -> NDArray[np.bool_]:
        """(M,) whether at least this share of each is covered."""
        return np.asarray(self.covered >= share * self.area)

    @classmethod
    def of_all(cls, images: "Sequence[Findings]") -> "Findings":
        """Those of single images as one, in their order."""
        expect(len(images) > 0, "findings", "those of one image at least", "none")
        label, area, covered = (
            np.concatenate([getattr(one, name) for one in images]) for name in ("label", "area", "covered")
        )
        return cls(label, area, covered, np.repeat(np.arange(len(images)), [len(one) for one in images]), len(images))


def findings(truth: LabelMap, predicted: LabelMap, classes: int) -> Findings:
    """Of one image: two label maps (H, W). classes: K."""
    truth, predicted = checked_maps(truth, predicted, classes)
    there = components(np.where(truth == UNLABELLED, 0, truth))
    right = there.numbers[(truth == predicted) & (there.numbers > 0)] - 1
    return Findings(there.value, there.area, np.bincount(right, minlength=len(there)), np.zeros(len(there), np.int64))


def measure(all_findings: Findings, classes: int) -> Measure:
    """As a function of the weights of the images: numbers by name, for "half" and "tenth".

    `findings found (half)` of all, `mean findings found (half)` over the classes, `missed size (half)`, and of each
    class `found (half)`, (..., K).
    """
    order = np.argsort(all_findings.side, kind="stable")
    side, image = all_findings.side[order], all_findings.image[order]
    count = all_findings.images
    expect(len(image) == 0 or int(image.max()) < count, "findings", f"those of {count} images", "those of more")
    found = {name: all_findings.found(share) for name, share in SHARES.items()}
    there = _by_image(all_findings, np.ones(len(all_findings), bool), classes)
    hits = {name: _by_image(all_findings, one, classes) for name, one in found.items()}

    def figures(weight: Array | None = None) -> dict[str, Array]:
        weight, result = weights(weight, count), {}
        all_ = weight @ there
        for name, hit in hits.items():
            right = weight @ hit
            recall = ratio(right, all_)
            result[f"findings found ({name})"] = ratio(right.sum(-1), all_.sum(-1))
            result[f"mean findings found ({name})"] = mean(recall)
            result[f"missed size ({name})"] = _cut(side, found[name][order], weight[..., image])
            result[f"found ({name})"] = recall
        return result

    return figures


def by_size(all_findings: Findings, share: float = 0.5) -> list[tuple[int, int, int]]:
    """(side from which on, findings, found of them) of each class of size that has any."""
    place = np.searchsorted(SIDES, all_findings.side, side="right") - 1
    there = np.bincount(place, minlength=len(SIDES))
    right = np.bincount(place[all_findings.found(share)], minlength=len(SIDES))
    return [(SIDES[at], int(there[at]), int(right[at])) for at in np.flatnonzero(there)]


def measure_presence(truth: NDArray[np.bool_], score: Array) -> Measure:
    """`any finding AUC` as a function of the weights. truth (N,): whether an image has a finding; score (N,): the
    higher, the surer that it has.
    """
    ranking = Ranking(truth, score)

    def figures(weight: Array | None = None) -> dict[str, Array]:
        return {"any finding AUC": ranking.areas(weight)[1]}

    return figures


def _by_image(all_findings: Findings, chosen: NDArray[np.bool_], classes: int) -> Array:
    """(N, K): how many of the chosen findings each image has of each class."""
    cell = all_findings.image[chosen] * classes + all_findings.label[chosen] - 1
    return np.bincount(cell, minlength=all_findings.images * classes).reshape(-1, classes).astype(np.float64)


def _cut(side: Array, found: NDArray[np.bool_], weight: Array) -> Array:
    """The missed size, (...), of findings in the order of their sides; weight (..., M)."""
    if not len(side):
        return np.full(weight.shape[:-1], np.nan)
    starts = np.flatnonzero(np.append(True, side[1:] != side[:-1]))  # those of one size are on one side of a cut
    better = np.add.reduceat(np.where(found, weight, -weight), starts, axis=-1)  # if they are called found
    drawn = np.add.reduceat(weight, starts, axis=-1) > 0
    wrong = np.zeros((*weight.shape[:-1], len(starts) + 1))
    np.cumsum(better, axis=-1, out=wrong[..., 1:])
    wrong[..., :-1][~drawn] = np.inf  # a cut begins at a size that is there, or after all
    best = (wrong <= wrong.min(-1, keepdims=True) + 1e-9).argmax(-1)
    return np.asarray(np.append(side[starts], np.nan)[best])
