"""What a model of images is evaluated on: its own data, split and fold, by its card, or what is asked for.

A run's own fold holds also where its data lies elsewhere now: another one would test what it was trained on.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from foveal.data.name_sketch import TRAINED, count_known
from foveal.data.read import has_column
from foveal.data.source import Source
from foveal.errors import FovealError, expect
from foveal.runtime.card import Card

if TYPE_CHECKING:
    from foveal.tasks.model import Model


class Asked(Protocol):
    """The options of a stage that say so."""

    @property
    def data(self) -> str | None: ...
    @property
    def fold_column(self) -> str | None: ...
    @property
    def fold(self) -> int | None: ...


def data_of(options: Asked, card: Card) -> str:
    """What names the data."""
    data = options.data or card.recipe.get("data")
    expect(
        data is not None,
        "--data",
        "images to evaluate the model on",
        "none, and its card does not say what it was trained on",
    )
    return str(data)


def fold_column_of(options: Asked, card: Card) -> str | None:
    """The column that makes the folds: the training's, unless another is given; other data may not have it."""
    own = card.recipe.get("fold_column")
    if options.fold_column is not None:
        named = options.fold_column == own or options.fold is not None
        expect(
            named,
            "--fold-column",
            "--fold beside it, which says what to test on: the training had no such folds",
            "none",
        )
        return options.fold_column
    if own is None or options.data is None:
        return own
    return own if has_column(options.data, own) else None


@contextlib.contextmanager
def reading_data(options: Asked) -> Iterator[None]:
    """Around what reads the data: what the training had may be gone."""
    try:
        yield
    except FovealError as error:
        advice = (
            "" if options.data is not None else "; these are what the model was trained with: name others with --data"
        )
        raise FovealError(f"{error}{advice}") from None


def expect_unchanged(source: Source, options: Asked, card: Card, column: str | None) -> None:
    """Raise a FovealError where the training's own data have changed: what it learned from may be in the test split."""
    if options.data is None and column == card.recipe.get("fold_column"):
        same = card.data.get("fingerprint") in (None, source.fingerprint())
        do = "name the data with --data to evaluate on what is there now"
        expect(same, data_of(options, card), "the images, labels and splits of the training", "others", do)


def fold_of(source: Source, options: Asked, card: Card, column: str | None) -> int | None:
    own = card.recipe.get("fold") if source.fold is not None and column == card.recipe.get("fold_column") else None
    return own if options.fold is None else options.fold


def labelled(source: Source, split: str, fold: int | None) -> NDArray[np.int64]:
    """The images of a split whose labels are known."""
    indices = source.indices(split, fold)
    return indices[source.known(indices)]


def split_of(source: Source, asked: str | None, fold: int | None, chosen: str) -> tuple[str, list[str]]:
    """The split, and a note where it is not the one that nothing was chosen on. chosen: what was, on val."""
    if asked is not None:
        return asked, []
    if len(labelled(source, "test", fold)) or not len(labelled(source, "val", fold)):
        return "test", []
    return "val", [
        f"no image of the split test has a label: evaluated on val, which chose {chosen}, so the figures flatter"
    ]


def trained_on(card: Card, files: Iterable[str], name: str) -> Iterator[str]:
    """How many of the images were in the model's training split, by their names. name: of the model."""
    names = [os.fsencode(file) for file in files]
    found = count_known(card.data.get(TRAINED), names)
    if found is None:
        return
    count, exact = found
    flatter = ": the figures flatter" if count else ""
    about = "" if exact else "about "
    yield f"{about}{count} of {len(names)} images were in the training split of {name}, by their names{flatter}"


def facts_of(model: "Model", source: Source, split: str, fold: int | None, column: str | None) -> dict[str, Any]:
    """Where the figures come from."""
    facts: dict[str, Any] = {
        "model": model.card.model,
        "file": Path(model.name).name,
        "data": source.describe(),
        "split": split,
        "fold": fold,
    }
    if fold is not None and source.fold_names:
        facts |= {"fold column": column, "fold": f"{fold}, {source.fold_name(fold)}"}
    facts["seed of the training"] = model.card.recipe.get("seed")
    facts["origin"] = model.origin()
    return facts
