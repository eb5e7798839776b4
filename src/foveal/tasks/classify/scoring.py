"""From logits and labels to scores.

    probability = softmax(logits), with several labels sigmoid(logits): the model's own, temperature 1
    answer      = the most probable class; with several labels every class whose probability reaches its threshold

Whatever is chosen (thresholds, temperature) is chosen on the validation images, never on those that are evaluated;
without validation images nothing is chosen, and the scores say so. The temperature changes the calibration only, no
figure.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from foveal.errors import expect, is_integer
from foveal.metrics.calibration import calibration_error, fit_temperature, negative_log_likelihood, reliability
from foveal.metrics.classification import Labels, Measure, checked, confusion, marks, measure, rankings, tally
from foveal.metrics.importance import expect_importance, f1_normal, f2_ciw
from foveal.metrics.interval import Interval, bootstrap
from foveal.metrics.ranking import Array
from foveal.metrics.threshold import threshold_of_two, thresholds
from foveal.report.figure import figure, how
from foveal.runtime.answers import DEFAULT, decide, probabilities
from foveal.tasks.classify.predictions import Predicted
from foveal.tasks.classify.scores import Calibration, Class, Mistake, Numbers, Reliability, Scores

UNRESAMPLED = "ECE"  # chance widens the gaps of its bins, and a resample adds chance: its interval would lie too high
OF_A_CLASS = ("precision", "recall", "F1", "AP", "AUC")
MISTAKES = 24  # how many are kept
CORNERS = 200  # of a curve; more cannot be seen

Logits = NDArray[np.floating]


def score(
    predicted: Predicted,
    split: str,
    *,
    validation: tuple[Labels, Logits] | None = None,
    importance: Array | None = None,
    groups: NDArray[np.integer] | None = None,
    resamples: int = 1000,
    seed: int = 0,
    metric: str | None = None,
    given: tuple[float, ...] | None = None,
) -> Scores:
    """The scores of what was predicted for the images of a split; labels (N, C) mean several per image.

    validation: labels and logits to choose thresholds and the temperature on. metric: what thresholds maximise, "F1"
    (with several labels the default), "F2", another "F<β>" or "balanced accuracy"; with one label it is for two
    classes only, and makes one threshold on the second. importance: the classes' weights (C,), asks for F2_CIW and
    F1_Normal. groups (N,): images that belong together. resamples: 0 makes no intervals. given: thresholds that the
    model comes with, on its own probabilities: with them nothing is chosen.
    """
    files, classes, logits, multi_label = (
        predicted.files,
        predicted.classes,
        predicted.logits,
        predicted.truth.ndim == 2,
    )
    truth, probability = _fit(predicted.truth, logits, classes, multi_label, "truth")
    expect(len(files) == len(truth), "files", f"{len(truth)}, one per image", len(files))
    expect(is_integer(resamples) and resamples >= 0, "resamples", "an integer, at least 0", resamples)
    expect(multi_label or importance is None, "importance", "several labels per image", "one")
    known = (
        None
        if validation is None
        else (_fit(*validation, classes, multi_label, "validation"), np.asarray(validation[1]))
    )
    expect(given is None or metric is None, "thresholds", "those that are given, or a metric to choose them by", "both")
    if given is None:
        threshold, decision = _choose(None if known is None else known[0], classes, multi_label, metric)
    else:
        expect(
            len(given) == (len(classes) if multi_label else 1),
            "the thresholds that are given",
            "one per class",
            len(given),
        )
        threshold, decision = (
            np.array(given) if multi_label else given[0],
            "the model's own thresholds, chosen when it was trained",
        )
    chosen = decide(probability, multi_label, threshold)

    resampled = _figures(truth, chosen, probability, threshold, importance)
    values = resampled(None) | {UNRESAMPLED: calibration_error(truth, probability)}
    spans = bootstrap(resampled, len(truth), resamples=resamples, seed=seed, groups=groups) if resamples else {}
    temperature = None if known is None else fit_temperature(known[0][0], known[1])
    mistakes, wrong = _mistakes(truth, chosen, probability, classes, files)
    return Scores(
        split=str(split),
        multi_label=multi_label,
        images=len(truth),
        decision=decision,
        interval=_how(resamples, seed, groups),
        figures={name: figure(value, spans.get(name)) for name, value in values.items() if name not in OF_A_CLASS},
        classes=_classes(truth, chosen, probability, classes, threshold, values, spans),
        confusion=None
        if multi_label
        else tuple(tuple(int(cell) for cell in row) for row in confusion(truth, chosen, len(classes))),
        calibration=Calibration(
            before=_reliability(truth, logits, 1.0),
            temperature=temperature,
            after=None if temperature is None else _reliability(truth, logits, temperature),
        ),
        wrong=wrong,
        mistakes=mistakes,
    )


def _fit(truth: Labels, logits: Logits, classes: Sequence[str], multi_label: bool, what: str) -> tuple[Labels, Array]:
    labels, probability = checked(truth, probabilities(logits, multi_label))
    expect(
        probability.shape[1] == len(classes),
        f"{what}: logits",
        f"(N, {len(classes)}), one column per class",
        probability.shape,
    )
    expect(
        (labels.ndim == 2) == multi_label,
        f"{what}: labels",
        "(N, C) with several labels, (N,) with one",
        f"the shape {labels.shape}",
    )
    return labels, probability


def _choose(
    known: tuple[Labels, Array] | None, classes: Sequence[str], multi_label: bool, metric: str | None
) -> tuple[Array | float | None, str]:
    """The thresholds, and the sentence that says where they come from."""
    expect(
        metric is None or known is not None,
        "--threshold-metric",
        "validation images to choose them on",
        "none",
        "evaluate on data with a validation split",
    )
    expect(
        metric is None or multi_label or len(classes) == 2,
        "a threshold with one label per image",
        "two classes",
        len(classes),
    )
    if multi_label and known is not None:
        metric = metric or "F1"
        chosen = f"chosen for the best {metric} on {len(known[1])} validation images"
        sentence = f"a class is given from its own threshold on, {chosen}"
        return thresholds(*known, metric), sentence
    if multi_label:
        return (
            None,
            f"a class is given from probability {DEFAULT} on; no validation images were there to choose thresholds on",
        )
    if metric is not None and known is not None:
        threshold = threshold_of_two(*known, metric)
        chosen = f"chosen for the best {metric} on {len(known[1])} validation images"
        sentence = f"{classes[1]} from probability {threshold:.4f} on, {chosen}"
        return threshold, sentence
    return None, "the most probable class; no threshold was chosen"


def _figures(
    truth: Labels, chosen: Labels, probability: Array, threshold: Array | float | None, importance: Array | None
) -> Measure:
    """Everything that gets an interval, as a function of the weights of the images."""
    plain = measure(truth, chosen, probability)
    if importance is not None:
        importance = expect_importance(importance, probability.shape[1])

    def of(weight: Array | None) -> dict[str, Array]:
        figures = plain(weight)
        if importance is not None:
            benchmark = {
                "F2_CIW": f2_ciw(truth, probability, importance, weight),
                "F1_Normal": f1_normal(truth, probability, weight),
            }
            if threshold is not None:  # the benchmark's own are those at 0.5
                benchmark["F2_CIW, chosen thresholds"] = f2_ciw(
                    truth, probability, importance, weight, threshold=threshold
                )
                benchmark["F1_Normal, chosen thresholds"] = f1_normal(truth, probability, weight, threshold=threshold)
            figures = benchmark | figures
        return figures

    return of


def _how(resamples: int, seed: int, groups: NDArray[np.integer] | None) -> str:
    way = how(resamples, seed, groups)
    return f"{way}; none of {UNRESAMPLED}, which is biased upwards in resamples" if resamples else way


def _classes(
    truth: Labels,
    chosen: Labels,
    probability: Array,
    classes: Sequence[str],
    threshold: Array | float | None,
    values: dict[str, Array],
    spans: dict[str, Interval],
) -> tuple[Class, ...]:
    counts, rows = tally(truth, chosen, len(classes)), []
    cuts: list[float | None] = [None] * len(classes)
    if truth.ndim == 2:
        cuts = [float(cut) for cut in np.broadcast_to(DEFAULT if threshold is None else threshold, len(classes))]
    elif threshold is not None:
        cuts[1] = float(np.asarray(threshold))
    for index, ranking in enumerate(rankings(truth, probability)):
        recall, precision = _thinned(*ranking.precision_recall())
        false_rate, true_rate = _thinned(*ranking.roc())
        four = [int(part[index]) for part in (counts.hit, counts.false, counts.missed, counts.passed)]
        rows.append(
            Class(
                name=str(classes[index]),
                images=four[0] + four[2],
                threshold=cuts[index],
                figures={name: figure(values[name], spans.get(name), index) for name in OF_A_CLASS},
                counts=(four[0], four[1], four[2], four[3]),
                recall=recall,
                precision=precision,
                false_rate=false_rate,
                true_rate=true_rate,
            )
        )
    return tuple(rows)


def _thinned(x: Array, y: Array) -> tuple[Numbers, Numbers]:
    """At most CORNERS of a curve's corners, the first and the last among them, spread evenly along the curve.

    None if undefined.
    """
    if np.isnan(x).any() or np.isnan(y).any():
        return (), ()
    if len(x) > CORNERS:
        way = np.append(0.0, np.cumsum(np.abs(np.diff(x)) + np.abs(np.diff(y))))
        keep = np.unique(np.searchsorted(way, np.linspace(0, way[-1], CORNERS)).clip(0, len(x) - 1))
        keep = np.unique(np.append(keep, [0, len(x) - 1]))
        x, y = x[keep], y[keep]
    return tuple(np.round(x, 5).tolist()), tuple(np.round(y, 5).tolist())


def _reliability(truth: Labels, logits: Logits, temperature: float) -> Reliability:
    probability = probabilities(logits, truth.ndim == 2, temperature)
    bins, loss = reliability(truth, probability), negative_log_likelihood(truth, logits, temperature)
    sides = [tuple(side.tolist()) for side in (bins.count, bins.confidence, bins.right)]
    return Reliability(float(calibration_error(truth, probability)), loss, sides[0], sides[1], sides[2])


def _mistakes(
    truth: Labels, chosen: Labels, probability: Array, classes: Sequence[str], files: Sequence[str]
) -> tuple[tuple[Mistake, ...], int]:
    """The images that are wrong and most sure of it, worst first, each with the class where it is worst.

    And how many are wrong.
    """
    real, answered = marks(truth, len(classes)), marks(chosen, len(classes))
    missed = real & ~answered
    blame = np.where(answered & ~real, probability, -1.0)  # (N, C)
    if truth.ndim == 2:  # with one label, what was missed follows from what was predicted
        blame = np.where(missed, 1 - probability, blame)
    worst, about = blame.max(1), blame.argmax(1)
    order = np.argsort(-worst, kind="stable")[: min(MISTAKES, int((worst >= 0).sum()))]

    def names(row: NDArray[np.bool_]) -> tuple[str, ...]:
        return tuple(str(name) for name, there in zip(classes, row, strict=True) if there)

    mistakes = [
        Mistake(
            index=int(index),
            file=str(files[index]),
            truth=names(real[index]),
            predicted=names(answered[index]),
            about=str(classes[about[index]]),
            missed=bool(missed[index, about[index]]),
            confidence=float(worst[index]),
        )
        for index in order
    ]
    return tuple(mistakes), int((worst >= 0).sum())
