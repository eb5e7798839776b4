"""`foveal cite NAME…`: the BibTeX of what was used, each paper once."""

import argparse
import io
import sys
from collections.abc import Iterable

from foveal.app.catalogue import find
from foveal.app.paper import Paper


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", metavar="NAME", nargs="+", help="what was used, as `foveal show` lists it")


def run(args: argparse.Namespace) -> int:
    papers = [paper for name in args.names for paper in find(name).papers]
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # a .bib file is UTF-8, whatever the terminal speaks
    print("\n\n".join(bibliography(papers)))
    return 0


def bibliography(papers: Iterable[Paper]) -> list[str]:
    """The papers as BibTeX, without repetition; different papers that would share a key get a, b, … behind it."""
    once = list(dict.fromkeys(papers))
    keys = [paper.key for paper in once]
    entries = []
    for number, paper in enumerate(once):
        before = keys[:number].count(paper.key)
        letter = chr(ord("a") + before) if keys.count(paper.key) > 1 else ""
        entries.append(paper.bibtex(paper.key + letter))
    return entries
