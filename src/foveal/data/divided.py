"""A set with a train, a val and a test split, as far as nobody gave them, and a note of what was made."""

from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from foveal.data.divide import divide
from foveal.data.source import Source
from foveal.data.splits import SPLITS
from foveal.errors import counted

FAR = 0.1  # how much of the images a split may have more or fewer than its share, and still be called by that
AnySource = TypeVar("AnySource", bound=Source)


def divided(source: AnySource, shares: tuple[float, float, float] | None, seed: int) -> AnySource:
    """The source with all three splits; shares=None leaves it as it is."""
    if shares is None:
        return source
    split, given = source.split.copy(), source.split >= 0
    made: list[str] = []
    if not given.any() and source.fold is not None and source.folds >= 3:
        split[:], split[source.fold == 0], split[source.fold == 1] = 0, 2, 1
        note = "no split was given: fold 0 is test, fold 1 is val"
    elif not given.any():
        split = divide(source.labels, source.group, shares, seed)
        made = [name for name, share in zip(SPLITS, shares, strict=True) if share > 0]
        note = f"no split was given: divided {_divided_how(split, shares)}, seed {seed}"
    elif (split == 0).any() and not (split == 1).any() and shares[1] > 0:
        train = np.flatnonzero(split == 0)
        group = None if source.group is None else source.group[train]
        split[train] = divide(source.labels[train], group, (1 - shares[1], shares[1], 0.0), seed)
        made = ["train", "val"]
        note = f"no val was given: {counted(int((split == 1).sum()), 'image')} of train, seed {seed}"
    else:
        untrained = _untrained(source)
        return replace(source, notes=(*source.notes, untrained)) if untrained else source
    source = replace(source, split=split, notes=(*source.notes, note))
    rare = _too_rare(source, made) if made else ""
    return replace(source, notes=(*source.notes, rare)) if rare else source


def _divided_how(split: NDArray[np.int8], shares: tuple[float, float, float]) -> str:
    """The shares, as they are: of many small classes, each of which must be in every split, no share can be small."""
    real = [float((split == place).mean()) for place in range(3)]
    far = max(abs(one - wanted) for one, wanted in zip(real, shares, strict=True)) > FAR
    words = " · ".join(f"{share:.0%}" for share in (real if far else shares))
    return f"{words}, so that classes of few images are in every split" if far else words


def _untrained(source: Source) -> str:
    """What a split that somebody gave leaves out."""
    if source.fold is not None or not (source.split == 0).any():
        return ""
    never = [
        name for name, count in zip(source.classes, source.counts(source.indices("train")), strict=True) if not count
    ]
    return f"classes without a training image: {', '.join(never)}" if never else ""


def _too_rare(source: Source, made: list[str]) -> str:
    """What no division can mend: a class with one image is trained on or tested, never both."""
    counts = np.stack([source.counts(source.indices(name)) for name in made])  # (splits, C)
    rare = [
        f"{name} ({count})"
        for name, count, least in zip(source.classes, counts.sum(0), counts.min(0), strict=True)
        if not least
    ]
    many = "images" if source.group is None else "groups"
    return (
        f"classes with too few {many} to be in {', '.join(made[:-1])} and {made[-1]}: {', '.join(rare)}" if rare else ""
    )
