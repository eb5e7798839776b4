"""How good translators are: BLEU and chrF with intervals and signature, and BLEU against the length of the source.

Other models beside the first translate the same sentences: a column each, and their curves over the length as a
picture.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from foveal.data.parallel import Pairs, Parallel
from foveal.data.parallel_files import SIDES
from foveal.errors import FovealError, expect
from foveal.metrics.bleu import LengthBin, Score, by_length, translation_scores
from foveal.runtime.decode.batched import decode_all, max_positions, truncated
from foveal.runtime.decode.engine import Engine
from foveal.runtime.decode.search import Search
from foveal.runtime.vocabulary import both_from
from foveal.tasks.translate.card import TranslateCard
from foveal.tasks.translate.evaluation import Evaluated, TranslateEvaluation
from foveal.tasks.translate.options import EvaluateOptions
from foveal.tasks.translate.predict import texts_of
from foveal.tasks.translate.read import read_like

if TYPE_CHECKING:
    from foveal.progress import Progress
    from foveal.tasks.model import Model

EDGES = (5, 10, 15, 20, 25, 30)  # words of the source


class _Translator(NamedTuple):
    """A model to evaluate, opened."""

    name: str
    card: TranslateCard
    engine: Engine


def evaluate(models: "Sequence[Model]", options: EvaluateOptions, progress: "Progress") -> TranslateEvaluation:
    """The first model, and the others beside it.

    All that can be wrong is found before the first one translates, which takes a while.
    """
    paths = [model.name for model in models]
    expect(len(set(paths)) == len(paths), "--beside", "other models", "one of them twice")
    translators = [_opened(model) for model in models]
    data = _data(models[0], options.data)
    for model in models:
        _check(model, data, chosen=options.data is not None)
    known = [split for split, pairs in data.splits.items() if len(pairs)]
    expect(options.split in known, "--split", f"one of {', '.join(known)}", options.split)
    pairs = data.splits[options.split]
    searches = [_search(one.card, options) for one in translators]
    evaluated: dict[str, Evaluated] = {}
    jobs = list(zip(_names(models), translators, searches, strict=True))
    for name, translator, search in progress(jobs, len(jobs), "translating"):
        evaluated[name] = _evaluate(translator, pairs, search, options)
    notes = [*_leaks(models[0], data, options), *_truncated(translators, pairs)]
    return TranslateEvaluation(data, options.split, evaluated, models[0].origin(), notes)


def _opened(model: "Model") -> _Translator:
    """A run, a model's file, or an exported file, which translates as it will where it is shipped to."""
    card = model.card
    assert isinstance(card, TranslateCard)
    expect(bool(card.vocabulary), model.name, "a trained model with its vocabulary", "one without")
    if model.is_exported:
        from foveal.tasks.translate.onnx_engine import OnnxEngine

        return _Translator(model.name, card, OnnxEngine(model.exported.session, card.config, model.name))
    from foveal.models.torch_engine import TorchEngine

    return _Translator(model.name, card, TorchEngine(model.network))


def _search(card: TranslateCard, options: EvaluateOptions) -> Search:
    beam = card.beam if options.beam is None else options.beam
    penalty = card.length_penalty if options.length_penalty is None else options.length_penalty
    return Search(beam=beam, length_penalty=penalty, max_positions=max_positions(card.config))


def _evaluate(translator: _Translator, pairs: Pairs, search: Search, options: EvaluateOptions) -> Evaluated:
    source, target = both_from(translator.card.vocabulary)
    sources = truncated(source.encode(pairs.source), search.max_positions)
    found = decode_all(translator.engine, sources, search, options.batch)
    translations = texts_of(target, [sentences[0] for sentences in found])
    # References as they are: a model that was trained on lowercase letters is evaluated on all letters.
    words = [max(1, len(line.split())) for line in pairs.source]
    scores: dict[str, Score] = translation_scores(translations, pairs.target, options.resamples)
    bins: list[LengthBin] = by_length(words, translations, pairs.target, EDGES)
    return Evaluated(translator.card, search, translations, scores, bins)


def _data(model: "Model", chosen: str | None) -> Parallel:
    card: Any = model.card
    where = chosen or card.recipe.get("data")
    expect(bool(where), "--data", f"a data set, as {model.name} does not name the one it was trained on", "none")
    return read_like(card, str(where))


def _check(model: "Model", data: Parallel, *, chosen: bool) -> None:
    """Raise a FovealError unless it makes sense to evaluate this model on the data. chosen: --data was given."""
    card: Any = model.card
    fits = card.languages in ((), SIDES, data.languages) or data.languages == SIDES
    expect(fits, model.name, f"a model from {data.languages[0]} to {data.languages[1]}", " to ".join(card.languages))
    same = chosen or card.data.get("fingerprint") in (None, data.fingerprint())
    what, got = f"one trained on {data.name} as it is now", "one of other sentences or splits"
    expect(same, model.name, what, got, "give --data to evaluate it all the same")


def _leaks(model: "Model", data: Parallel, options: EvaluateOptions) -> list[str]:
    """How many of the sentences the first model was trained on: a score on those says little about others."""
    if options.split == "train":
        return [f"{data.name}, split train: the model may have been trained on these sentences"]
    card: Any = model.card
    own = data
    if data.fingerprint() != card.data.get("fingerprint"):
        try:
            own = read_like(card, str(card.recipe["data"]))
        except (FovealError, KeyError):
            own = data
        if own.fingerprint() != card.data.get("fingerprint"):
            return [
                (
                    f"the data that {model.name} was trained on are not here as they were: "
                    "whether sentences overlap is unknown"
                )
            ]
    known = set(own.splits["train"].source)
    count = sum(sentence in known for sentence in data.splits[options.split].source)
    return (
        [f"{count} source sentences of {options.split} are in the training split of {own.name}, too"] if count else []
    )


def _truncated(translators: Sequence[_Translator], pairs: Pairs) -> list[str]:
    """Sentences for which a model has not enough positions: they are translated from their beginning, and count."""
    notes = []
    for one in translators:
        if (limit := max_positions(one.card.config)) is not None:
            cut = sum(len(tokens) >= limit for tokens in both_from(one.card.vocabulary)[0].encode(pairs.source))
            notes += (
                [f"{one.name}: {cut} sentences have more than {limit - 1:,} tokens, of which the first are read"]
                if cut
                else []
            )
    return notes


def _names(models: "Sequence[Model]") -> list[str]:
    """Of the models; where these are not all different the names of their files, and else the paths to them."""
    ways = [one.card.model for one in models], [Path(one.name).name for one in models], [one.name for one in models]
    return next(names for names in ways if len(set(names)) == len(names))
