"""Ablations of segmenters: what each part of icam-seg and of its recipe is worth, and models of others beside it.

segment: the recipe as it is, against the same without one of its losses, heads or ways to draw windows, or with more or
fewer layers. segment-peers: other models, whole, by the same recipe.
"""

import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from foveal.errors import expect
from foveal.report.table import Table
from foveal.runtime.packaged import IMAGENET, is_file
from foveal.tasks.ablation import Ablation, Plans, Variants, expect_buildable, peers, same_training
from foveal.tasks.segment.recipe import SegmentRecipe

if TYPE_CHECKING:
    from foveal.data.segments import SegmentSource
    from foveal.training.sweep import PlannedRun

NOTHING: Mapping[str, Any] = MappingProxyType({})


class Change(NamedTuple):
    """What a line of the table differs in."""

    recipe: Mapping[str, Any] = NOTHING
    config: Mapping[str, Any] = NOTHING  # of the model


AS_IT_IS, FAMILY = "as it is", "icam_seg"
PARTS: dict[str, dict[str, Change]] = {  # what --only names → the lines of the table
    "dice": {"without Dice": Change({"dice": 0.0})},
    "boundary": {"without the boundary head": Change({"boundary": 0.0})},
    "presence": {
        "without the presence loss": Change({"presence": 0.0}),
        "without the presence gate": Change(config={"gate": False}),  # nor its loss
    },
    "deep": {"without deep supervision": Change({"deep": 0.0})},
    "skeleton": {"without skeleton recall": Change({"skeleton": 0.0})},
    "weights": {"with class weights": Change({"balance": "weights"})},
    "paste": {"without pasted findings": Change({"paste": 0.0})},
    "found": {"findings drawn as often as they are": Change({"found": 0.0})},
    "ema": {"without an average of weights": Change({"ema": 0.0})},
    "offsets": {"without offsets of logits": Change({"offsets": False})},
    "layers": {f"layers of queries: {count}": Change(config={"layers": count}) for count in (0, 1, 2)},
    "refine": {f"blocks of the path: {count}": Change(config={"refine": count}) for count in (0, 1, 2)},
    "common": {"without what images have in common": Change(config={"common": False})},
}
LITE = "efficientnet-lite0"
# Line of the table → its model, and what differs in its config; the first one is what the others are compared with.
PEERS: dict[str, tuple[str, dict[str, str]]] = {
    **{
        name: (name, {})
        for name in (
            "icam-seg",
            "icam-seg-small",
            "unet-8",
            "attention-unet-micro",
            "setr-micro",
            "segmenter-micro",
            "maskformer-micro",
            "segformer-b0",
        )
    },
    # Weights and backbone are told apart: each of these is there from scratch, too.
    "icam-seg-lite0": ("icam-seg", {"backbone": LITE}),
    "attention-unet-lite0": ("attention-unet-micro", {"backbone": LITE}),
    "maskformer-lite0": ("maskformer-micro", {"backbone": LITE}),
}
BASE = "icam-seg"
WITH_IMAGENET = ("icam-seg-small", "icam-seg-lite0", "attention-unet-lite0", "maskformer-lite0")


class SegmentAblation(Ablation):
    """What all ablations of segmenters share: how variants are compared."""

    task = "segment"
    title: str
    precisions = ("fp32",)  # of the exported files that are timed

    def results(self, variants: Variants, plans: Plans, data: Any) -> list[Table]:
        from foveal.tasks.segment.ablate_table import table_of

        return [table_of(self.title, {name: runs for (_, name), runs in plans.items()}, data, self.precisions)]

    def caption(self, recipe: Any, data: Any, seeds: int) -> str:
        from foveal.tasks.ablation_time import METHOD

        over = "One seed" if seeds == 1 else f"{seeds} seeds, from {recipe.seed} on"
        return (
            f"{over}. mIoU of findings × 100 of all images of the split, mean over seeds; spread: standard deviation "
            "over seeds. The interval of a difference resamples images that belong together, for both models alike. "
            "parameters: with those that only training needs. training: seconds of a run, mean over runs, as many side "
            f"by side as --jobs says. {METHOD}"
        )


class SegmentParts(SegmentAblation):
    title = "parts"
    tables = tuple(PARTS)

    def variants(self, recipe: SegmentRecipe, only: Sequence[str] | None) -> dict[str, dict[str, SegmentRecipe]]:
        from foveal.models.zoo import config_of

        found = not is_file(recipe.model) and config_of(recipe.model).family == FAMILY
        expect(found, "--model", "an icam-seg, whose parts are left out", recipe.model)
        every = {name: one for part in only or PARTS for name, one in PARTS[part].items()}
        built = {name: varied(recipe, one) for name, one in every.items()}
        built = {AS_IT_IS: recipe} | {name: one for name, one in built.items() if not same_training(one, recipe)}
        expect(len(built) > 1, "--only", "a part that the recipe has", ", ".join(only or ()))
        _expect_buildable({self.title: built})
        return {self.title: built}

    def distinct(self, plans: Plans, data: Any) -> Plans:
        """What is chosen by the data may be none: of a set without thin findings there is no skeleton to leave out."""
        base, kept = plans[self.title, AS_IT_IS], {}
        settled = Effective(data)
        own = [settled(run) for run in base]
        for (table, name), runs in plans.items():
            if name == AS_IT_IS or [settled(run) for run in runs] != own:
                kept[table, name] = runs
            else:
                print(f"{name}: left out, on these data it trains as the recipe does", file=sys.stderr, flush=True)
        return kept


class Effective:
    """What a run's recipe trains with on these data: what is open is chosen, what has no effect is 0."""

    def __init__(self, data: "SegmentSource") -> None:
        self.data = data
        self.known: dict[int | None, tuple[dict[str, Any], float]] = {}  # of each fold

    def __call__(self, run: "PlannedRun") -> SegmentRecipe:
        from foveal.tasks.segment.choose import choose, thin_classes

        properties, share = self._measured(run.recipe.fold)
        # How images lie is the same for all variants that leave it open: they are not looked at.
        recipe: SegmentRecipe = choose(run.recipe, properties, self.data.classes).recipe
        changes = {}
        if (recipe.found or 0.0) <= share:  # so many images have a finding anyway: see drawn_as_often
            changes["found"] = 0.0
        if not thin_classes(properties):
            changes["skeleton"] = 0.0
        return recipe.changed(**changes)

    def _measured(self, fold: int | None) -> tuple[dict[str, Any], float]:
        """Of the training split: its properties, and the share of images with a finding."""
        from foveal.data.division import splits_of

        if fold not in self.known:
            train = splits_of(self.data, fold).train
            shows = (self.data.areas[train][:, 1:-1] > 0).any(1)
            self.known[fold] = self.data.properties(train), float(shows.mean())
        return self.known[fold]


class SegmentPeers(SegmentAblation):
    title = "peers"
    tables = tuple(
        one for name in PEERS for one in ((name, f"{name}:{IMAGENET}") if name in WITH_IMAGENET else (name,))
    )

    def variants(self, recipe: SegmentRecipe, only: Sequence[str] | None) -> dict[str, dict[str, SegmentRecipe]]:
        built = peers(recipe, self.tables, only, peer)
        _expect_buildable({self.title: built})
        return {self.title: built}


ABLATIONS: dict[str, Ablation] = {"segment": SegmentParts(), "segment-peers": SegmentPeers()}


def varied(recipe: SegmentRecipe, change: Change) -> SegmentRecipe:
    return recipe.changed(config=recipe.config | dict(change.config), **change.recipe)


def peer(recipe: SegmentRecipe, name: str) -> SegmentRecipe:
    """The recipe of a line, from scratch; --config is of the first."""
    model, config = PEERS[name]
    own = recipe.config if model == BASE else {}
    return recipe.changed(model=model, config=own | config)


def _expect_buildable(variants: Mapping[str, Mapping[str, SegmentRecipe]]) -> None:
    """Two classes and the largest windows do: the data is not read yet."""
    from foveal.tasks.segment.choose import SIDES
    from foveal.tasks.segment.training import build

    expect_buildable(variants, lambda one: build(one.changed(size=one.size or SIDES[-1]), 2, fresh=False))
