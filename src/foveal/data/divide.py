"""Which images train, which choose, which test, where nobody decided: shares of every class, groups kept whole,
the same for the same seed.

Images are put in the order of their rarest class, then of their set of classes, then at random; along that order the
test set takes an image whenever ⌊r·share⌋ steps up, and val does the same with what is left. So every stretch of the
order, and with it every class, is divided by the shares, to an image or two. Groups are too uneven for that: the
largest goes first, to the split that lacks its classes most.
"""

import numpy as np
from numpy.typing import NDArray

from foveal.errors import expect, expect_integer

SHARES = (0.7, 0.15, 0.15)  # train, val, test


def divide(
    labels: NDArray[np.integer],
    group: NDArray[np.integer] | None = None,
    shares: tuple[float, float, float] = SHARES,
    seed: int = 0,
) -> NDArray[np.int8]:
    """(N,) index in SPLITS. labels: (N,) class numbers, or (N, C) of 0/1."""
    expect(
        len(shares) == 3 and min(shares) >= 0 and shares[0] > 0 and abs(sum(shares) - 1) < 1e-6,
        "shares",
        "three that add to 1",
        shares,
    )
    expect_integer(seed, "seed", least=0)
    random = np.random.default_rng(seed)
    sets = labels if labels.ndim == 2 else _one_hot(labels)
    if group is None:
        split = _along_the_order(sets, shares, random)
        members = np.arange(len(labels))
        present = sets == 1
    else:
        _, members = np.unique(group, return_inverse=True)
        present = np.zeros((int(members.max(initial=-1)) + 1, sets.shape[1]), np.int64)
        np.add.at(present, members, (sets == 1).astype(np.int64))
        split = _largest_first(present, np.bincount(members, minlength=len(present)), shares, random)
    _spread_rare_classes(present > 0, split, shares)
    return split[members]


def _one_hot(labels: NDArray[np.integer]) -> NDArray[np.uint8]:
    sets = np.zeros((len(labels), int(labels.max(initial=0)) + 1), np.uint8)
    known = np.flatnonzero(labels >= 0)
    sets[known, labels[known]] = 1
    return sets


def _along_the_order(
    sets: NDArray[np.integer], shares: tuple[float, float, float], random: np.random.Generator
) -> NDArray[np.int8]:
    count, classes = sets.shape
    frequency = (sets == 1).sum(0)
    rarest = np.full(count, classes)
    for label in np.argsort(-frequency, kind="stable"):  # common first, so that the rarest has the last word
        rarest[sets[:, label] == 1] = label
    combination = np.zeros(count)  # equal sets, equal numbers
    for label, key in enumerate(random.random((classes,)).tolist()):
        combination += key * (sets[:, label] == 1)
    order = np.lexsort((random.random((count,)), combination, rarest))
    split = np.zeros(count, np.int8)
    test = _steps(count, shares[2], random.random())
    split[order[test]] = 2
    left = order[~test]
    val = _steps(len(left), shares[1] / (1 - shares[2]), random.random())
    split[left[val]] = 1
    return split


def _steps(count: int, share: float, start: float) -> NDArray[np.bool_]:
    return np.asarray(np.diff(np.floor(start + share * np.arange(count + 1))) > 0)


def _largest_first(
    present: NDArray[np.int64],
    sizes: NDArray[np.int64],
    shares: tuple[float, float, float],
    random: np.random.Generator,
) -> NDArray[np.int8]:
    # (3, C + 1): of each class, and of all
    wanted = np.outer(shares, np.append(present.sum(0), sizes.sum())).astype(np.float64)
    content = np.column_stack([present, sizes])
    weight = 1 / np.maximum(content.sum(0), 1)  # a rare class counts as much as a common one
    split = np.zeros(len(present), np.int8)
    allowed = np.array(shares) > 0
    for unit in np.lexsort((random.random(len(present)), -sizes)):
        gain = np.abs(wanted) - np.abs(wanted - content[unit])  # how much nearer to what is wanted
        split[unit] = np.argmax(np.where(allowed, gain @ weight, -np.inf))
        wanted[split[unit]] -= content[unit]
    return split


def _spread_rare_classes(
    present: NDArray[np.bool_], split: NDArray[np.int8], shares: tuple[float, float, float]
) -> None:
    """A class with enough images (or groups) is in every split: one is moved from where most are."""
    wanted = [place for place in range(3) if shares[place] > 0]
    for label in range(present.shape[1]):
        units = np.flatnonzero(present[:, label])
        if len(units) < len(wanted):
            continue
        counts = np.bincount(split[units], minlength=3)
        for place in wanted:
            if counts[place] == 0:
                donor = int(np.argmax(counts))
                candidates = units[split[units] == donor]
                moved = candidates[np.argmin(present[candidates].sum(1))]  # the one with the fewest other classes
                split[moved] = place
                counts[donor] -= 1
                counts[place] += 1
