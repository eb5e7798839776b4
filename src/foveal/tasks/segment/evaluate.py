"""How good a segmenter is, on images with label maps: its own test split or any other data; of torch or exported."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from foveal.data.segments import SegmentSource, read_segments
from foveal.errors import FovealError, expect, printable
from foveal.tasks.evaluated_on import (
    Asked,
    data_of,
    expect_unchanged,
    facts_of,
    fold_column_of,
    fold_of,
    labelled,
    reading_data,
    split_of,
    trained_on,
)
from foveal.tasks.segment.card import SegmentCard
from foveal.tasks.segment.choose import thin_classes
from foveal.tasks.segment.evaluation import Evaluated, SegmentEvaluation
from foveal.tasks.segment.options import EvaluateOptions, PredictOptions
from foveal.tasks.segment.predicted import Predicted, predict_images
from foveal.tasks.segment.scoring import score

if TYPE_CHECKING:
    from foveal.progress import Progress
    from foveal.tasks.model import Model

Left = list[tuple[str, str]]  # files that were left out, with their reasons


def evaluate(
    model: "Model", options: EvaluateOptions, progress: "Progress", others: "Sequence[Model]" = ()
) -> SegmentEvaluation:
    card = cast("SegmentCard", model.card)
    column = fold_column_of(options, card)
    source = source_of(options, card, column, options.bad, progress)
    fold = fold_of(source, options, card, column)
    split, notes = split_of(source, options.split, fold, "the epoch")
    thin = thin_classes(source.properties())
    models = []
    for one in (model, *others):
        predicted, rows, left_out = predict_split(one, source, split, fold, progress)
        groups = None if source.group is None else source.group[rows]
        scores = score(predicted, split, thin_classes=thin, groups=groups, resamples=options.resamples)
        name = Path(one.name).name if one.path is not None else one.name
        evaluated = Evaluated(name, cast("SegmentCard", one.card), predicted, rows, scores)
        models.append(evaluated)
        notes += [f"left out: {printable(file)}: {reason}" for file, reason in left_out]
        if options.data is not None:
            notes += trained_on(evaluated.card, predicted.files, evaluated.name if others else "this model")
    facts = facts_of(model, source, split, fold, column)
    facts["thin classes"] = [source.classes[place] for place in thin] or "none"
    return SegmentEvaluation(source, split, tuple(models), facts, (source.summary(), *notes), options.resamples)


def source_of(options: Asked, card: SegmentCard, column: str | None, bad: str, progress: "Progress") -> SegmentSource:
    """The data. bad: what is done with label maps that cannot be used; what the training left out is left out again."""
    data = data_of(options, card)
    if options.data is None and card.recipe.get("bad") == "leave_out":
        bad = "leave_out"
    with reading_data(options):
        source = read_segments(data, fold_column=column, seed=0, bad=bad, progress=progress)
    expect_unchanged(source, options, card, column)
    return source


def predict_split(
    model: "Model", source: SegmentSource, split: str, fold: int | None, progress: "Progress"
) -> tuple[Predicted, NDArray[np.int64], Left]:
    """What the model says of a split's images with label maps, where they stand in the source, and what was left
    out.
    """
    from foveal.tasks.segment.segmenter import segmenter_of

    card = cast("SegmentCard", model.card)
    expect_same_classes(card, model.name, source)
    where = f"{printable(source.name)}, split {split}"
    indices = labelled(source, split, fold)
    expect(len(indices) > 0, where, "images with label maps", "none")
    segmenter = segmenter_of(model, PredictOptions())
    predicted, rows, left_out = predict_images(segmenter.answer, card.kinds, source, indices.tolist(), progress)
    if predicted is None:
        file, reason = left_out[0]
        raise FovealError(f"{where}: expected images that can be read, got none; {printable(file)}: {reason}")
    return predicted, rows, left_out


def expect_same_classes(card: SegmentCard, name: str, source: SegmentSource) -> None:
    expected = f"the classes of {name}, {', '.join(card.kinds)}"
    expect(source.classes == card.kinds, printable(source.name), expected, ", ".join(source.classes))
