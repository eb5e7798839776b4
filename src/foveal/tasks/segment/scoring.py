"""From what was predicted to scores.

All counts are summed over the images before they are divided. An image that is drawn twice by the bootstrap counts
twice, so that every figure of a thousand resamples comes out of a product of matrices.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from foveal.errors import expect_integer
from foveal.metrics import findings, segmentation, thin
from foveal.metrics.classification import Counts, Measure, mean, weights
from foveal.metrics.difference import Headline
from foveal.metrics.interval import bootstrap
from foveal.metrics.ranking import Array
from foveal.report.figure import figure, how
from foveal.tasks.segment.card import BACKGROUND
from foveal.tasks.segment.predicted import Predicted
from foveal.tasks.segment.scores import DECIDES, Class, Scores, Size, Worst

THIN = "clDice of thin classes"
SIZE = "missed size (half)"
# as a report has them → as the metrics do
WHOLE = {
    DECIDES: "mIoU",
    "mIoU with background": "mIoU with background",
    "pixel accuracy": "pixel accuracy",
    "mean Dice of findings": "mean Dice",
    "F1 of any finding, strict": "finding F1",
    "F1 of any finding within 2 px": "finding F1 within 2 px",
    "clDice of any finding": "finding clDice",
    THIN: THIN,
    "findings found": "findings found (half)",
    "AUROC of any finding": "any finding AUC",
}
OF_A_CLASS = {
    "IoU": "IoU",
    "Dice": "Dice",
    "precision": "precision",
    "recall": "recall",
    "F1 within 2 px": "F1 within 2 px",
    "clDice": "clDice",
    "findings found": "found (half)",
    "area error": "area error",
    "area bias": "area bias",
}
AT_ONCE = 4_000_000  # weights of findings in memory at a time
WORST = 24  # images that are kept
RIGHT = 0.5  # share of the pixels that are taken for a class, below which it is wrongly there


def score(
    predicted: Predicted,
    split: str,
    *,
    thin_classes: Sequence[int] = (),
    groups: NDArray[np.integer] | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> Scores:
    """thin_classes: places of those whose findings are mostly thin. groups (N,): images that belong together.
    resamples: 0 makes no intervals.
    """
    expect_integer(resamples, "resamples", 0)
    resampled = measure(predicted, thin_classes)
    values = resampled(None)
    spans = bootstrap(resampled, len(predicted), resamples=resamples, seed=seed, groups=groups) if resamples else {}
    total = predicted.confusions.sum(0)
    worst, imperfect = _worst(predicted)
    return Scores(
        split=str(split),
        images=len(predicted),
        with_findings=int(predicted.has_finding.sum()),
        interval=how(resamples, seed, groups),
        figures={name: figure(values[key], spans.get(key)) for name, key in WHOLE.items() if key in values},
        found_from=figure(values[SIZE], spans.get(SIZE)),
        classes=tuple(
            Class(
                name=kind,
                thin=place in thin_classes,
                images=int((predicted.shows[:, place] > 0).sum()),
                findings=int((predicted.findings.label == place + 1).sum()),
                pixels=int(predicted.shows[:, place].sum()),
                figures={name: figure(values[key], spans.get(key), place) for name, key in OF_A_CLASS.items()},
            )
            for place, kind in enumerate(predicted.kinds)
        ),
        names=(BACKGROUND, *predicted.kinds),
        confusion=tuple(tuple(int(cell) for cell in row) for row in total),
        sizes=_sizes(predicted),
        imperfect=imperfect,
        worst=worst,
    )


def measure(predicted: Predicted, thin_classes: Sequence[int] = ()) -> Measure:
    """Everything that gets an interval, as a function of the weights of the images; of each class, (..., K)."""
    parts = [
        segmentation.measure(predicted.confusions),
        segmentation.measure_areas(predicted.confusions),
        _precision_and_recall(predicted.confusions),
        thin.measure(predicted.thin),
        _in_parts(findings.measure(predicted.findings, len(predicted.kinds)), len(predicted.findings)),
        findings.measure_presence(predicted.has_finding, predicted.score),
    ]

    def figures(weight: Array | None = None) -> dict[str, Array]:
        found: dict[str, Array] = {}
        for part in parts:
            found |= part(weight)
        if thin_classes:
            found[THIN] = mean(found["clDice"][..., list(thin_classes)])
        return found | {name: found[name][..., 1:] for name in ("IoU", "Dice")}  # without the background

    return figures


def _in_parts(of: Measure, count: int) -> Measure:
    """The same, of so few weights at a time that arrays of one number for each of the findings stay small."""
    rows = max(1, AT_ONCE // max(count, 1))

    def figures(weight: Array | None = None) -> dict[str, Array]:
        if weight is None or weight.ndim < 2 or len(weight) <= rows:
            return of(weight)
        parts = [of(weight[start : start + rows]) for start in range(0, len(weight), rows)]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    return figures


def headline(confusions: NDArray[np.int64]) -> Headline:
    """The figure that decides, as a function of the weights of the images."""
    of = segmentation.measure(confusions)
    return lambda weight: of(weight)["mIoU"]


def _precision_and_recall(confusions: NDArray[np.int64]) -> Measure:
    """Of pixels, for each class against all others."""
    parts = (np.einsum("nkk->nk", confusions), confusions.sum(2), confusions.sum(1))
    hit, real, said = (one[:, 1:].astype(np.float64) for one in parts)  # (N, K)

    def figures(weight: Array | None = None) -> dict[str, Array]:
        weight = weights(weight, len(confusions))
        right, there, taken = (weight @ one for one in (hit, real, said))
        counts = Counts(right, taken - right, there - right, np.zeros_like(right))
        return {"precision": counts.precision, "recall": counts.recall}

    return figures


def _sizes(predicted: Predicted) -> tuple[Size, ...]:
    """From the smallest to the largest, also those in between that nothing has."""
    half, tenth = (findings.by_size(predicted.findings, findings.SHARES[name]) for name in ("half", "tenth"))
    if not half:
        return ()
    known = {start: (count, right, some) for (start, count, right), (_, _, some) in zip(half, tenth, strict=True)}
    starts = [side for side in findings.SIDES if half[0][0] <= side <= half[-1][0]]
    stops = dict(zip(findings.SIDES, (*findings.SIDES[1:], None), strict=True))
    return tuple(Size(start, stops[start], *known.get(start, (0, 0, 0))) for start in starts)


def _worst(predicted: Predicted) -> tuple[tuple[Worst, ...], int]:
    """The images with the lowest IoU of what is found, or should be; of those that are equal, the most wrong pixels
    first. And how many have a wrong pixel.
    """
    table = predicted.confusions
    right, known = np.einsum("nkk->n", table), table.sum((1, 2))
    wrong = (known - right) / np.maximum(known, 1)
    union = known - table[:, 0, 0]
    iou = (right - table[:, 0, 0]) / np.maximum(union, 1)
    imperfect = int((wrong > 0).sum())
    order = np.lexsort((-wrong, iou, wrong == 0))[: min(WORST, imperfect)]
    return tuple(
        Worst(
            index=int(index),
            file=predicted.files[index],
            iou=float(iou[index]),
            wrong=float(wrong[index]),
            missed=_missed(predicted, int(index)),
            extra=_extra(predicted, int(index)),
        )
        for index in order
    ), imperfect


def _missed(predicted: Predicted, index: int) -> tuple[tuple[str, float], ...]:
    every = predicted.findings
    here = np.flatnonzero((every.image == index) & ~every.found(findings.SHARES["half"]))
    here = here[np.argsort(-every.area[here], kind="stable")]
    return tuple((predicted.kinds[every.label[one] - 1], float(every.side[one])) for one in here)


def _extra(predicted: Predicted, index: int) -> tuple[tuple[str, int], ...]:
    table = predicted.confusions[index]
    right, said = np.diag(table)[1:], table.sum(0)[1:]
    wrongly = np.flatnonzero((said > 0) & (right < RIGHT * said))
    wrongly = wrongly[np.argsort(right[wrongly] - said[wrongly], kind="stable")]
    return tuple((predicted.kinds[place], int(said[place] - right[place])) for place in wrongly)
