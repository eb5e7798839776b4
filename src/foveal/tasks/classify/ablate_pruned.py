"""Peers cut down to the first model's flops, and to its weights: what is left of an advantage when both may cost the same.

Each was trained whole; each of its runs is pruned, and trained on by the recipe that the whole one had.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from foveal.errors import FovealError
from foveal.runtime.packaged import SUFFIX
from foveal.train.sweep import Run


def pruned_runs(wholes: Mapping[str, Sequence[Run]], place: Callable[[str], Path]) -> Iterator[tuple[str, list[Run]]]:
    """Name of a build → its runs, for each peer, each unit and each method. place: the folder of a build. What is there already is not made again."""
    from foveal.deploy.prune import METHODS, UNITS, counter
    from foveal.models.store import load_model

    base, *peers = wholes
    model, card = load_model(wholes[base][0].folder)
    for peer in peers:
        for unit in reversed(UNITS):
            target = counter(unit, card.size)(model)
            for by in METHODS:
                name = f"{peer}, {unit} of {base}, {by}"
                try:
                    yield name, [_run(whole, place(name), target, unit, by) for whole in wholes[peer]]
                except FovealError as error:
                    print(f"{name} is left out: {error}", file=sys.stderr, flush=True)


def _run(whole: Run, place: Path, target: int, unit: str, by: str) -> Run:
    """One run that goes on from a pruned one."""
    from foveal.app.command.prune import pruned_card
    from foveal.deploy.prune import prune
    from foveal.models.store import load_model, save_model

    file = place / f"{whole.folder.name}{SUFFIX}"
    if not file.exists():
        model, card = load_model(whole.folder)
        pruned = prune(model, target, unit, by, size=card.size)
        save_model(pruned, file, pruned_card(card, pruned, f"by {by} to at most {target:,} {unit}"))
    recipe = whole.recipe.changed(model=str(file), settings={}, start=None).from_anywhere()
    return Run(recipe, place / whole.folder.name)
