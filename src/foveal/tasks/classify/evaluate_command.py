"""`foveal evaluate RUN`: how good a model is, with intervals, as a table on the screen and a report with images."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foveal.app.command.device import add_device
from foveal.data.read import has_column, read
from foveal.data.source import SPLITS, Source
from foveal.errors import FovealError, expect, expect_integer, unknown
from foveal.report.progress import progress
from foveal.runtime.card import Card
from foveal.runtime.onnx_names import EXPORTED
from foveal.tasks.classify.evaluate import evaluate
from foveal.tasks.classify.predictions import Predicted
from foveal.tasks.classify.report import write_report
from foveal.tasks.classify.report_tables import figures as table_of_figures


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="RUN_OR_MODEL", help="a run's folder, or a model file; of a translator an exported file, too")
    parser.add_argument("--data", metavar="NAME_OR_PATH", help="what to judge it on (default: what it was trained on)")
    parser.add_argument("--label", metavar="COLUMN", help="the column of the csv that holds the classes")
    parser.add_argument("--by", metavar="COLUMN", help="the column of the csv whose values are the folds (default: the run's own)")
    parser.add_argument("--split", default="test", help=f"one of {', '.join(SPLITS)} (default: test)")
    parser.add_argument("--fold", type=int, help="of data with folds: this one tests (default: the run's own)")
    parser.add_argument("--out", metavar="FOLDER", help="where the report is written (default: beside the model)")
    parser.add_argument("--aim", help='choose thresholds anew on the validation split, for the best "F1", "F2" or "balanced accuracy"')
    parser.add_argument("--resamples", type=int, default=1000, help="of the bootstrap for 95 %% intervals; 0: none")
    add_device(parser)
    parser.add_argument("--batch", type=int, default=64, help="images or sentences at a time (default: 64)")
    parser.add_argument("--beam", type=int, help="of a model that translates: sentences that are followed at once (default: the recipe's)")
    parser.add_argument("--penalty", type=float, help="… and the penalty of length")
    parser.add_argument("--beside", metavar="RUN_OR_MODEL", nargs="+", default=[], help="… and other translators, on the same sentences")


def run(args: argparse.Namespace) -> int:
    from foveal.deploy.measure.origin import origin
    from foveal.device import choose
    from foveal.models.store import load_model, task_in

    expect_integer(args.batch, "--batch")
    expect_integer(args.resamples, "--resamples", 0)
    if args.model.endswith(EXPORTED) or task_in(args.model) == "translate":
        from foveal.tasks.translate.evaluate import evaluate as evaluate_translate

        return evaluate_translate(args, Path(args.out) if args.out else _beside(args.model) / f"evaluation-{args.split}")
    expect(not args.beside, "--beside", "translators", "a model that classifies", "foveal ablate peers compares these")
    if args.split not in SPLITS:
        raise unknown("split", args.split, SPLITS)
    device = str(choose(args.device))
    model, card = load_model(args.model)
    by = _by(args, card)
    source = _source(args, card, by)
    print(source.told())
    # A run's own fold, also where its data lies elsewhere now: another one would test what it was trained on.
    own = card.recipe.get("fold") if source.fold is not None and by == card.recipe.get("by") else None
    fold = own if args.fold is None else args.fold
    rows, logits = _predict(model, card, source, args.split, fold, args)
    chooses = args.split != "val" and bool(source.known(source.indices("val", fold)).any())  # a set may have nothing to choose on
    validation = _predict(model, card, source, "val", fold, args) if chooses else None
    predicted = Predicted(tuple(source.file(int(row)) for row in rows), card.classes, source.labels[rows], logits)
    verdict = evaluate(
        predicted,
        args.split,
        validation=None if validation is None else (source.labels[validation[0]], validation[1]),
        importance=source.importance,
        groups=None if source.group is None else source.group[rows],
        resamples=args.resamples,
        aim=args.aim,
        given=None if args.aim or card.threshold is None else plain_thresholds(card.threshold, card.temperature),
    )
    folder = Path(args.out) if args.out else _beside(args.model) / f"evaluation-{args.split}"
    facts: dict[str, Any] = {"model": card.model, "data": source.describe(), "split": args.split, "fold": fold, "origin": origin(device)}
    if fold is not None and source.fold_names:
        facts |= {"folds by": by, "fold": f"{fold}, {source.fold_name(fold)}"}
    title = f"{card.model} on {source.name}"
    files = write_report(verdict, folder, title=title, facts=facts, images=lambda place: source.image(int(rows[place]), 224))
    print(table_of_figures(verdict).markdown())
    print(f"the report is {files[0]}")
    return 0


def plain_thresholds(threshold: tuple[float, ...], temperature: float) -> tuple[float, ...]:
    """A card's thresholds hold for sigmoid(z/T), a verdict's for sigmoid(z): t/(1 − t) = e^{z/T}, so e^z = (t/(1 − t))^T."""
    share = np.clip(np.array(threshold, np.float64), 0.0, 1.0)
    with np.errstate(divide="ignore", over="ignore"):
        logit = temperature * (np.log(share) - np.log1p(-share))
        return tuple(float(value) for value in 1.0 / (1.0 + np.exp(-logit)))


def _by(args: argparse.Namespace, card: Card) -> str | None:
    """The column that makes the folds: the run's own, unless told; other data may not have it."""
    own = card.recipe.get("by")
    if args.by is not None:
        told = args.by == own or args.fold is not None
        expect(told, "--by", "--fold beside it, which says what to test on: the run had no such folds", "none")
        return str(args.by)
    if own is None or args.data is None:
        return own
    return own if has_column(args.data, own) else None


def _source(args: argparse.Namespace, card: Card, by: str | None) -> Source:
    data = args.data or card.recipe.get("data")
    expect(data is not None, "--data", "what to judge the model on", "none, and its card does not tell what it was trained on")
    source = read(str(data), label=args.label or card.recipe.get("label"), by=by, seed=0)
    if args.data is None and by == card.recipe.get("by"):
        same = card.data.get("fingerprint") in (None, source.fingerprint())
        expect(
            same,
            f"{data}",
            "the images, labels and splits of the training",
            "others",
            "say --data to judge the model on what is there now",
        )
    expect(
        source.multi_label == card.multi_label,
        f"{data}",
        "several labels an image" if card.multi_label else "one label per image",
        "the other",
    )
    expect(source.classes == card.classes, f"{data}", f"the model's classes {', '.join(card.classes)}", ", ".join(source.classes))
    return source


def _predict(
    model: Any, card: Card, source: Source, split: str, fold: int | None, args: argparse.Namespace
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Which images of a split could be read, and the model's logits for them."""
    from foveal.tasks.classify.logits import logits_of

    indices = source.indices(split, fold)
    indices = indices[source.known(indices)]
    expect(len(indices) > 0, f"{source.name}, split {split}", "labelled images", "none")
    rows, logits, bad = logits_of(model, card, source, indices, batch=args.batch, device=args.device, progress=progress)
    for file, reason in bad:
        print(f"left out: {file}: {reason}")
    if not len(rows):
        raise FovealError(f"{source.name}, split {split}: expected images that can be read, got none")
    return rows, logits


def _beside(model: str) -> Path:
    path = Path(model)
    return path if path.is_dir() else path.parent
