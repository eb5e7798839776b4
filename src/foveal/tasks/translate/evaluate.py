"""`foveal evaluate RUN` of a model that translates: BLEU and chrF with intervals and signature, and BLEU against the length of the source.

Others `--beside` it translate the same sentences: a column each, and their curves over the length as a picture.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from foveal.atomic import expect_folder, write_atomic
from foveal.data.parallel import Pairs, Parallel
from foveal.data.parallel_files import SIDES
from foveal.errors import expect
from foveal.report.plot import curve
from foveal.runtime.decode.search import Search
from foveal.runtime.onnx_names import EXPORTED

if TYPE_CHECKING:
    from foveal.metrics.bleu import OfLength, Score
    from foveal.runtime.card import Card

EDGES = (5, 10, 15, 20, 25, 30)  # words of the source
ANY = 2**31 - 1  # pieces of a line: of as many as torch reads
FEWEST = 20  # sentences of a point of the curve: BLEU of fewer says little
NAMES = {"bleu": "BLEU", "lowercased": "BLEU, lowercased", "chrf": "chrF"}


class Opened(NamedTuple):
    card: "Card"
    translate: Callable[[list[str], Search], list[str]]


class Evaluated(NamedTuple):
    card: "Card"
    search: Search
    said: list[str]
    scores: "dict[str, Score]"
    lengths: "list[OfLength]"


def evaluate(args: argparse.Namespace, folder: Path) -> int:
    from foveal.deploy.measure.origin import origin
    from foveal.device import choose
    from foveal.tasks.translate.run import table, told, translations

    device = choose(args.device)
    places = [args.model, *args.beside]
    expect(len(set(places)) == len(places), "--beside", "other models", "one of them twice")
    # All that can be wrong is found before the first one translates, which takes a while.
    loaded = [opened(place, args.device, args.batch) for place in places]
    expect_folder(folder)
    data = _set(loaded[0].card, args.data)
    print(data.told())
    for place, (card, _) in zip(places, loaded, strict=True):
        _check(place, card, data, known=args.data is not None)
    expect(bool(len(data.splits.get(args.split, ()))), "--split", f"one of {', '.join(data.splits)}", args.split)
    pairs = data.splits[args.split]
    evaluated = {name: evaluate_one(one, pairs, args) for name, one in zip(_names(places, loaded), loaded, strict=True)}
    first = next(iter(evaluated.values()))
    lines = [f"# {' and '.join(evaluated)} on {data.name}, {args.split}, {len(pairs)} sentences, {_searched(evaluated)}", ""]
    text = "\n".join([*lines, *_scores(evaluated), "", f"BLEU: {first.scores['bleu'].signature}", "", *_lengths(evaluated), ""])
    facts = {"data": data.facts(), "split": args.split, "origin": origin(str(device))}
    found = {
        name: {
            "model": one.card.model,
            "beam": one.search.beam,
            "penalty": one.search.penalty,
            "scores": told(one.scores),
            "by length": [row._asdict() for row in one.lengths],
        }
        for name, one in evaluated.items()
    }
    write_atomic(folder / "evaluation.md", text.encode())
    write_atomic(folder / "evaluation.json", json.dumps(facts | {"models": found}, indent=1).encode())
    for number, one in enumerate(evaluated.values(), 1):
        file = translations(args.split if one is first else f"{args.split}-{number}")
        write_atomic(folder / file, table(pairs, one.said).encode())
    write_atomic(folder / "bleu-by-length.svg", drawn({name: one.lengths for name, one in evaluated.items()}).encode())
    print(text)
    print(f"the translations are in {folder / translations(args.split)}")
    return 0


def opened(place: str, device: str, batch: int) -> Opened:
    """A run, a model's file, or an exported file, which translates as it will where it is shipped to."""
    if place.endswith(EXPORTED):
        expect(device in ("auto", "cpu"), "--device", "auto or cpu for an exported file", device)
        from foveal.tasks.translate.predict import Translator

        shipped = Translator(place)
        return Opened(shipped.card, lambda lines, search: shipped(lines, search, batch, most=ANY))
    from foveal.device import choose
    from foveal.models.store import load_model
    from foveal.runtime.vocabulary import both_from
    from foveal.tasks.translate.module import translate

    model, card = load_model(place, "translate")
    vocabularies = both_from(card.vocabulary)
    return Opened(card, lambda lines, search: translate(model.to(choose(device)), vocabularies, lines, search, batch))


def evaluate_one(translator: Opened, pairs: Pairs, args: argparse.Namespace) -> Evaluated:
    from foveal.metrics.bleu import by_length, translation_scores

    card = translator.card
    beam = card.recipe.get("beam", 4) if args.beam is None else args.beam
    penalty = card.recipe.get("penalty", 0.6) if args.penalty is None else args.penalty
    search = Search(beam=beam, penalty=penalty)
    said = translator.translate(pairs.source, search)
    # References as they are: what a model was taught in small letters is judged in all of them.
    words = [max(1, len(line.split())) for line in pairs.source]
    lengths = by_length(words, said, pairs.target, EDGES)
    return Evaluated(card, search, said, translation_scores(said, pairs.target, args.resamples), lengths)


def drawn(lengths: "dict[str, list[OfLength]]") -> str:
    """BLEU over the length of the source, a line for each model."""
    fewest = min(FEWEST, max(row.sentences for rows in lengths.values() for row in rows))
    points = {name: [(round(row.words, 1), row.bleu) for row in rows if row.sentences >= fewest] for name, rows in lengths.items()}
    return curve(points, "words of the source", "BLEU", linear=True)


def _set(card: "Card", given: str | None) -> Parallel:
    from foveal.tasks.translate.prove import sentences_of

    where = given or card.recipe.get("data")
    expect(isinstance(where, str) and bool(where), "--data", "a set, as this model does not say what it was trained on", "none")
    return sentences_of(card, str(where))


def _check(place: str, card: "Card", data: Parallel, *, known: bool) -> None:
    """Raise a FovealError unless it makes sense to judge this model on the set. known: whoever asks has named the set."""
    languages = tuple(card.data.get("languages") or ())
    fits = languages in ((), SIDES, data.languages) or data.languages == SIDES
    expect(fits, place, f"a model from {data.languages[0]} to {data.languages[1]}", " to ".join(map(str, languages)))
    same = known or card.data.get("fingerprint") in (None, data.fingerprint())
    expect(
        same, place, f"one trained on {data.name} as it is now", "one of other sentences or splits", "say --data to judge it all the same"
    )


def _names(places: Sequence[str], loaded: Sequence[Opened]) -> list[str]:
    """Of the models; where these are not all different the names of their files, and else the paths to them."""
    ways = [one.card.model for one in loaded], [Path(place).name for place in places], list(places)
    return next(names for names in ways if len(set(names)) == len(names))


def _searched(evaluated: dict[str, Evaluated]) -> str:
    said = list(dict.fromkeys(f"beam {one.search.beam}, penalty {one.search.penalty:g}" for one in evaluated.values()))
    return " and ".join(said)


def _scores(evaluated: dict[str, Evaluated]) -> list[str]:
    rows = [_head("", evaluated)]
    for score, name in NAMES.items():
        found = [one.scores[score] for one in evaluated.values()]
        rows.append(_row(name, [f"{one.value:.2f}" + ("" if one.low is None else f" ({one.low:.2f} to {one.high:.2f})") for one in found]))
    return rows


def _lengths(evaluated: dict[str, Evaluated]) -> list[str]:
    rows = [_head("words of the source | sentences", evaluated)]
    for of_models in zip(*(one.lengths for one in evaluated.values()), strict=True):
        which = of_models[0]
        rows.append(_row(f"{which.which} | {which.sentences}", [f"{one.bleu:.1f}" for one in of_models]))
    return rows


def _head(first: str, evaluated: dict[str, Evaluated]) -> str:
    rules = ["---", *["---:"] * (first.count("|") + len(evaluated))]
    return _row(first, list(evaluated)) + "\n" + "|" + "|".join(rules) + "|"


def _row(first: str, cells: list[str]) -> str:
    return f"| {' | '.join([first, *cells])} |"
