"""`foveal cite NAME…`: the BibTeX of what was used, each paper once.

NAME is a mechanism, a preset, weights that come with foveal, a model file, or a run, which says what it used.
"""

import argparse
import io
import sys
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING

from foveal.errors import FovealError
from foveal.report.catalogue import entries, find, of_training
from foveal.report.paper import Paper
from foveal.tasks.load import is_model, preset_names

if TYPE_CHECKING:
    from foveal.tasks.model import Model


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "names",
        metavar="NAME",
        nargs="+",
        help="what was used, as `foveal show` lists it; a preset; a run's folder or a model file; weights that "
        "come with foveal",
    )


def run(args: argparse.Namespace) -> int:
    papers = [paper for name in args.names for paper in papers_of(name)]
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # a .bib file is UTF-8, whatever the terminal speaks
    if not papers:
        print("no mechanism with a paper was used", file=sys.stderr)
        return 0
    print("\n\n".join(bibliography(papers)))
    return 0


def papers_of(name: str) -> list[Paper]:
    """The papers of a mechanism, all that its file names; of a model, those of the parts that it was built of; of a
    trained one also those of the options that trained it.
    """
    if not is_model(name):
        try:
            return list(find(name).papers)
        except FovealError:
            if name not in preset_names():
                raise
    from foveal.tasks.load import load

    model = load(name, device="cpu")
    recipe = SimpleNamespace(**model.card.recipe)
    return [*built_of(model), *(paper for paper in of_training() if paper.used({"recipe": recipe}))]


def built_of(model: "Model") -> Iterator[Paper]:
    """The papers of the model's own file, then those of the mechanisms whose modules are in it."""
    known = {entry.module: entry for entry in entries()}
    own = f"foveal.models.{model.card.family}"
    parts: dict[str, list[object]] = {own: []}
    for part in _modules(model):
        parts.setdefault(type(part).__module__, []).append(part)
    for place in (own, *sorted(parts.keys() - {own})):
        names = vars(sys.modules[place]) if place in sys.modules else {}
        for paper in known[place].papers if place in known else ():
            if any(paper.used(names | {"self": part}) for part in parts[place]):
                yield paper


def _modules(model: "Model") -> list[object]:
    """What the network is made of; of an exported file it is built again of the card, without weights. Without torch
    only the model itself is known, by its config.
    """
    if not model.is_exported:
        return list(model.network.modules())
    try:
        import torch

        from foveal.models.store import build
    except ModuleNotFoundError:
        stand_in = type("Exported", (), {"__module__": f"foveal.models.{model.card.family}"})()
        stand_in.config = SimpleNamespace(**model.card.config)
        return [stand_in]
    assert model.path is not None
    with torch.device("meta"):
        return list(build(model.card, tensors=model.path.stat().st_size).modules())  # a tensor takes a byte and more


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
