"""`foveal evaluate RUN` of a model that translates: BLEU and chrF with intervals and signature, and BLEU against the length of the source."""

import argparse
import json
from pathlib import Path

from foveal.data.parallel import LONGEST, read_parallel
from foveal.decode.search import Search
from foveal.errors import expect
from foveal.whole import expect_folder, write_whole

EDGES = (5, 10, 15, 20, 25, 30)  # words of the source
NAMES = {"bleu": "BLEU", "lowercased": "BLEU, lowercased", "chrf": "chrF"}


def evaluate(args: argparse.Namespace, folder: Path) -> int:
    from foveal.data.vocabulary import both_from
    from foveal.deploy.origin import origin
    from foveal.device import choose
    from foveal.models.store import load_model
    from foveal.objective.bleu import by_length, translation_scores
    from foveal.train.translate import translate
    from foveal.train.translate_run import table, told, translations

    model, card = load_model(args.model, "translate")
    vocabularies = both_from(card.vocabulary)
    recipe = card.recipe
    where = args.data or recipe.get("data")
    expect(isinstance(where, str) and bool(where), "--data", "a set, as this model does not say what it was trained on", "none")
    languages = card.data.get("languages") or (None, None)
    longest = recipe.get("longest", LONGEST)  # as in training: another limit would cut other splits by hash
    data = read_parallel(str(where), source=languages[0], target=languages[1], bad="drop", longest=longest)
    print(data.told())
    expect(bool(len(data.splits.get(args.split, ()))), "--split", f"one of {', '.join(data.splits)}", args.split)
    pairs = data.splits[args.split]
    device = choose(args.device)
    beam = recipe.get("beam", 4) if args.beam is None else args.beam
    penalty = recipe.get("penalty", 0.6) if args.penalty is None else args.penalty
    said = translate(model.to(device), vocabularies, pairs.source, Search(beam=beam, penalty=penalty), args.batch)
    references = pairs.target  # as they are: what a model was taught in small letters is judged in all of them
    scores = translation_scores(said, references, args.resamples)
    lengths = by_length([max(1, len(line.split())) for line in pairs.source], said, references, EDGES)
    lines = [f"# {card.model} on {data.name}, {args.split}, {len(pairs)} sentences, beam {beam}, penalty {penalty:g}", ""]
    lines += ["| | | 95 % |", "|---|---:|---|"]
    for name, score in scores.items():
        interval = "" if score.low is None else f"{score.low:.2f} to {score.high:.2f}"
        lines.append(f"| {NAMES[name]} | {score.value:.2f} | {interval} |")
    lines += ["", f"BLEU: {scores['bleu'].signature}", "", "| words of the source | sentences | BLEU |", "|---|---:|---:|"]
    lines += [f"| {which} | {count} | {value:.1f} |" for which, count, value in lengths]
    text = "\n".join([*lines, ""])
    facts = {
        "model": card.model,
        "data": data.facts(),
        "split": args.split,
        "beam": beam,
        "penalty": penalty,
        "origin": origin(str(device)),
    }
    expect_folder(folder)
    write_whole(folder / "evaluation.md", text.encode())
    write_whole(folder / "evaluation.json", json.dumps(facts | {"scores": told(scores), "by length": lengths}, indent=1).encode())
    write_whole(folder / translations(args.split), table(pairs, said).encode())
    print(text)
    print(f"the translations are in {folder / translations(args.split)}")
    return 0
