"""Whether a classifier's maps explain its answers: measured on rendered pipes, whose findings have known places,
or on labelled images of one's own.
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from foveal.atomic import expect_folder, write_atomic
from foveal.data.pipes import KINDS, render
from foveal.data.read import read
from foveal.data.source import Source
from foveal.errors import expect, printable
from foveal.explain.faithfulness import DELETION, RANDOM, Sample, faithfulness
from foveal.report.table import UNDEFINED, Table, write_tables
from foveal.runtime.image import BadImage
from foveal.runtime.image_predictor import frame_of
from foveal.tasks.classify.options import ExplainOptions
from foveal.tasks.classify.predict_torch import TorchClassifier
from foveal.tasks.task import Explanation

if TYPE_CHECKING:
    from foveal.progress import Progress
    from foveal.tasks.model import Model

FRESH = (
    2001  # millions: seeds from here on are in no set that `pipes:N:SEED` names, so that no model was trained on them
)
STEM = "faithful"
MEASURES = (
    "Points and weight: of findings that are there and were predicted, whether the map's largest cell touches the "
    "finding, and how much of "
    "the map lies on it; more is better. Deletion area: the mean probability of what was predicted while cells are "
    "hidden, the map's "
    "largest first; less is better. Random: by area for the first, random orders for the last. The map of attention "
    "is the mean over "
    "layers, heads and queries, the same for every answer; gradient (input × gradient) and occlusion belong to the "
    "answer."
)


@dataclass(frozen=True, repr=False)
class FaithfulnessExplanation(Explanation):
    suffix = ""  # it is saved as a folder
    facts: dict[str, Any]
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)

    def summary(self) -> str:
        table = _table(self.facts)
        nothing = "nothing to measure: the model found nothing in these images"
        return f"{_sentence(self.facts)}\n{table.markdown() if table.rows else nothing}".rstrip()

    def save(self, path: str | Path) -> list[Path]:
        folder, facts = Path(path), self.facts
        expect_folder(folder)
        named = {name: facts[name] for name in ("file", "model", "data", "seed", "random orders", "fill", "interval")}
        without = "" if facts["attention"] == "watched" else f" {facts['attention']}"
        title = f"Do the maps of {facts['file']} explain its answers?"
        tables = [_table(facts), *([_curves(facts)] if facts["curves"] else [])]
        files = write_tables(
            folder, STEM, tables, title, f"{_sentence(facts)} {MEASURES}{without}", named | facts["origin"]
        )
        write_atomic(
            folder / f"{STEM}.json",
            (json.dumps(facts, ensure_ascii=False, indent=1) + "\n").encode("utf-8", "backslashreplace"),
        )
        return [*files, folder / f"{STEM}.json"]


def measure(model: "Model", options: ExplainOptions, progress: "Progress") -> FaithfulnessExplanation:
    expect(not model.is_exported, model.name, "a model of torch, whose gradients can be had", "an exported file")
    assert options.faithful is not None
    classifier = TorchClassifier(model.network, model.card, model.device)  # type: ignore[arg-type]
    if options.data is None:
        count, samples, data = (
            options.faithful,
            _rendered(classifier, options),
            f"rendered pipes from seed {_first(options.seed)} on",
        )
    else:
        source = _source(classifier, options)
        chosen = _chosen(source, options)
        count, samples, data = len(chosen), _own(classifier, source, chosen), source.describe()
    facts = faithfulness(
        classifier, classifier.card.classes, progress(samples, count, "measuring"), seed=options.seed, fill=options.fill
    )  # fmt: skip
    named = {"file": Path(model.name).name, "model": model.card.model, "data": printable(data)}
    return FaithfulnessExplanation(_finite(named | facts | {"origin": model.origin()}))


def _rendered(classifier: TorchClassifier, options: ExplainOptions) -> Iterator[Sample]:
    shared = [name for name in classifier.card.classes if name in KINDS]
    classes = ", ".join(classifier.card.classes[:5])
    expect(
        bool(shared),
        "a model to measure on rendered pipes",
        f"classes among {', '.join(KINDS)}",
        classes,
        "name images with --data",
    )
    for index in range(options.faithful or 0):
        frame = render(_first(options.seed) + index, classifier.card.size)
        masks = {finding.kind: finding.mask for finding in frame.findings}
        yield Sample(frame_of(frame.image, classifier.size).pixels, frozenset(masks), masks)


def _first(seed: int) -> int:
    return (FRESH + seed) * 1_000_000


def _source(classifier: TorchClassifier, options: ExplainOptions) -> Source:
    card = classifier.card
    source = read(str(options.data), label=options.label or card.recipe.get("label"), seed=0)
    same = set(source.classes) <= set(card.classes)
    expect(same, printable(source.name), f"classes of the model, {', '.join(card.classes)}", ", ".join(source.classes))
    return source


def _chosen(source: Source, options: ExplainOptions) -> NDArray[np.int64]:
    """Labelled images of the test split, or of all where there is none."""
    known = np.flatnonzero(source.known())
    test = np.intersect1d(known, source.indices("test"))
    expect(len(known) > 0, printable(source.name), "labelled images", "none")
    return np.random.default_rng(options.seed).permutation(test if len(test) else known)[: options.faithful]


def _own(classifier: TorchClassifier, source: Source, chosen: NDArray[np.int64]) -> Iterator[Sample]:
    for index in chosen:
        labels = source.labels[index]
        classes = [
            source.classes[place] for place in (np.flatnonzero(labels == 1) if source.multi_label else [int(labels)])
        ]
        try:
            yield Sample(source.image(int(index), classifier.size), frozenset(classes))
        except BadImage:
            continue  # foveal data --check lists them


def _table(facts: dict[str, Any]) -> Table:
    """Every measure and map: the mean, the difference to random, and what follows."""
    rows = []
    for one in facts["figures"]:
        more, span = one["against random"], one["interval against random"]
        against = UNDEFINED if more is None else f"{_signed(more)}{_between(span, _signed)}"
        mean = f"{100 * one['mean']:.1f}{_between(one['interval'], lambda share: f'{100 * share:.1f}')}"
        rows.append(
            [
                one["measure"],
                one["map"],
                str(one["count"]),
                mean,
                against,
                _conclusion(one["measure"], one["map"], span),
            ]
        )
    return Table(["measure", "map", "findings", "% (95 %)", "against random (95 %)", "conclusion"], rows, words=2)


def _curves(facts: dict[str, Any]) -> Table:
    names = [name for name in facts["curves"] if name != "hidden"]
    rows = [
        [f"{100 * share:.0f}", *(f"{facts['curves'][name][place]:.3f}" for name in names)]
        for place, share in enumerate(facts["curves"]["hidden"])
    ]
    return Table(["hidden %", *names], rows, title="Mean probability while cells are hidden")


def _between(span: Sequence[float] | None, written: Any) -> str:
    return "" if span is None else f" ({written(span[0])} to {written(span[1])})"


def _conclusion(measure: str, name: str, span: Sequence[float] | None) -> str:
    if name == RANDOM:
        return "random"
    if span is None:
        return "too few images"
    low, high = (-span[1], -span[0]) if measure == DELETION else span
    return "better than random" if low > 0 else "worse than random" if high < 0 else "not distinguishable from random"


def _signed(share: float) -> str:
    return f"{100 * share:+.1f}"


def _sentence(facts: dict[str, Any]) -> str:
    filled = {"mean": "mean colour", "blur": "blurred self"}[facts["fill"]]
    words = (
        f"{facts['images']} images with {facts['findings']} findings; "
        f"the model predicts {facts['predicted']}, of which {facts['right']} are there."
    )
    return f"{words} {facts['cells'][0]} × {facts['cells'][1]} cells, hidden cells filled with the image's {filled}."


def _finite(value: Any) -> Any:
    """What JSON can hold: nan becomes null."""
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
