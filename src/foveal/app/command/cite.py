"""`foveal cite NAME…`: the BibTeX of what was used, each paper once.

NAME is a mechanism, a model, a preset, or a run, which says what it used.
"""

import argparse
import io
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from foveal.errors import FovealError
from foveal.report.catalogue import Entry, entries, find
from foveal.report.paper import Paper
from foveal.tasks.load import is_model, preset_names


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "names",
        metavar="NAME",
        nargs="+",
        help="what was used, as `foveal show` lists it; a preset; a run's folder or a model file",
    )


def run(args: argparse.Namespace) -> int:
    papers = [paper for name in args.names for paper in papers_of(name)]
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # a .bib file is UTF-8, whatever the terminal speaks
    print("\n\n".join(bibliography(papers)))
    return 0


def papers_of(name: str) -> list[Paper]:
    """The papers of a mechanism or model; of a preset's family; or of all that a trained model was made of."""
    if is_model(name) and Path(name).exists():
        from foveal.tasks.load import load

        model = load(name, device="cpu")
        return [
            paper
            for entry in used_by(model.card.family, None if model.is_exported else model.network)
            for paper in entry.papers
        ]
    try:
        return list(find(name).papers)
    except FovealError:
        if name not in preset_names():
            raise
    from foveal.models.zoo import config_of

    return list(find(config_of(name).family).papers)


def used_by(family: str, network: object) -> Iterator[Entry]:
    """The model's own entry, and those of the mechanisms whose modules are in it."""
    known = {entry.module: entry for entry in entries()}
    if f"foveal.models.{family}" in known:
        yield known[f"foveal.models.{family}"]
    parts = network.modules() if network is not None else ()  # type: ignore[attr-defined]
    modules = {type(one).__module__ for one in parts}
    for place in sorted(modules):
        if place in known and place != f"foveal.models.{family}":
            yield known[place]


def bibliography(papers: Iterable[Paper]) -> list[str]:
    """The papers as BibTeX, without repetition; different papers that would share a key get a, b, … behind it."""
    once = list(dict.fromkeys(papers))
    keys = [paper.key for paper in once]
    texts = []
    for number, paper in enumerate(once):
        before = keys[:number].count(paper.key)
        letter = chr(ord("a") + before) if keys.count(paper.key) > 1 else ""
        texts.append(paper.bibtex(paper.key + letter))
    return texts
