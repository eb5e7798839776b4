"""Peers cut down to the first model's flops, and to its parameters:
what is left of an advantage when both may cost the same.

Each was trained whole; each of its runs is pruned, and trained on by the recipe that the whole one had.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from foveal.deploy.prune import METHODS, UNITS, counter, prune, pruned_card
from foveal.errors import FovealError
from foveal.models.store import load_model, save_model
from foveal.runtime.packaged import SUFFIX
from foveal.tasks.classify.card import ClassifyCard
from foveal.training.sweep import PlannedRun


def pruned_runs(
    wholes: Mapping[str, Sequence[PlannedRun]], place: Callable[[str], Path]
) -> Iterator[tuple[str, list[PlannedRun]]]:
    """Name of a variant → its runs, for each peer, each unit and each method. place: the folder of a variant.

    What is there already is not made again.
    """
    base, *peers = wholes
    model, _ = load_model(wholes[base][0].folder, ClassifyCard)
    for peer in peers:
        for unit in reversed(UNITS):
            target = counter(unit)(model)
            for by in METHODS:
                name = f"{peer}, {unit} of {base}, {by}"
                try:
                    yield name, [_run(whole, place(name), target, unit, by) for whole in wholes[peer]]
                except FovealError as error:
                    print(f"{name} is left out: {error}", file=sys.stderr, flush=True)


def _run(whole: PlannedRun, place: Path, target: int, unit: str, by: str) -> PlannedRun:
    """One run that continues from a pruned one."""
    file = place / f"{whole.folder.name}{SUFFIX}"
    if not file.exists():
        model, card = load_model(whole.folder, ClassifyCard)
        pruned = prune(model, target, unit, by)
        save_model(pruned, file, pruned_card(card, pruned, f"by {by} to at most {target:,} {unit}"))
    recipe = whole.recipe.changed(model=str(file), config={}, init_from=None).from_anywhere()
    return PlannedRun(whole.task, recipe, place / whole.folder.name)
