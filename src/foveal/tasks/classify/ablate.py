"""Ablations of classifiers: variants of one recipe on the same images, and what each part is worth.

icam: its parts, one after the other. maps: attention on Φ's map. peers: other models, whole. pruned: these, and each of
them cut down to ICAM's flops and to its parameters.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from foveal.errors import expect
from foveal.report.table import Table
from foveal.runtime.packaged import IMAGENET
from foveal.tasks.ablation import Ablation, Plans, Variants, expect_buildable, peers
from foveal.tasks.classify.recipe import ClassifyRecipe

Fields = Mapping[str, Any]  # of the model's config

PARTS: dict[
    str, dict[str, Fields]
] = {  # table → name of a variant → what differs; the first one is what the others are compared with
    "first": {"adaptive": {}, "static": {"first": "projected-static"}},
    "queries": {f"{count} queries": {"queries": count} for count in (1, 2, 4, 8)},
    "layers": {f"{count} layers": {"layers": count} for count in (2, 1, 3, 4)},
    "heads": {f"{count} heads": {"heads": count} for count in (2, 1, 4)},
    "patch": {},  # sides that divide the recipe's images: see `patches`
    "phi": {
        "MBConv6": {},
        "MBConv3": {"stages": [{"width": 16, "expand": 1}, {"width": 24, "blocks": 2, "expand": 3, "stride": 2}]},
        "no squeeze": {
            "stages": [
                {"width": 16, "expand": 1, "squeeze": False},
                {"width": 24, "blocks": 2, "stride": 2, "squeeze": False},
            ]
        },
    },
    "position": {
        "sinusoidal": {"position": "sinusoidal"},
        "learned": {"position": "learned"},
        "polar": {"position": "polar"},
    },
    "values": {"with positions": {"value_position": True}, "without positions": {"value_position": False}},
    "mixer": {"mixer": {"mixer": True}, "no mixer": {"mixer": False}},
    "dropout": {f"dropout {share}": {"dropout": share} for share in (0.1, 0.0, 0.2, 0.3)},
}
BASE = "icam-31k"  # what peers are compared with
# What foveal builds itself, beside all of models/peer.py.
OWN = ("icam-lite", "efficientnet-lite0", "vit-micro", "swin-micro", "pvt-micro")
GRIDS = (4, 8, 2)  # patches beside each other: the published 4 × 4 first


class ClassifyAblation(Ablation):
    """What all ablations of classifiers share: how variants are compared."""

    task = "classify"
    precisions: tuple[str, ...] = ()  # of the exported files that are timed

    def check(self, data: Any) -> None:
        tested = data.fold is not None or data.known(data.indices("test")).any()
        expect(bool(tested), data.name, "labelled test images to compare models on", "none")

    def results(self, variants: Variants, plans: Plans, data: Any) -> list[Table]:
        from foveal.tasks.classify.ablate_table import table_of

        return [
            table_of(table, {name: runs for (of, name), runs in plans.items() if of == table}, data, self.precisions)
            for table in variants
        ]

    def caption(self, recipe: Any, data: Any, seeds: int) -> str:
        from foveal.tasks.classify.compare import score_name

        right = "" if data.multi_label else "; accuracy: share of right answers"
        over = "one seed" if seeds == 1 else f"{seeds} seeds, from {recipe.seed} on"
        timed = ""
        if self.precisions:
            from foveal.tasks.ablation_time import METHOD

            timed = f" {METHOD}"
        return (
            f"Split test, {over}. score: {score_name(data.multi_label)} × 100 of all test images, mean over seeds; "
            "spread: standard deviation over "
            f"seeds{right}. The interval of a difference resamples images that belong together, for both models alike."
            f"{timed}"
        )


class IcamParts(ClassifyAblation):
    tables = tuple(PARTS)

    def variants(self, recipe: ClassifyRecipe, only: Sequence[str] | None) -> dict[str, dict[str, ClassifyRecipe]]:
        parts = PARTS | {"patch": patches(recipe)}
        found = {
            table: {name: recipe.changed(config=recipe.config | dict(fields)) for name, fields in builds.items()}
            for table, builds in parts.items()
            if only is None or table in only
        }
        _expect_buildable(found)
        return found


class MapAttention(ClassifyAblation):
    """Each module of vision/ that can stand on Φ's last map, in turn."""

    title, none = "maps", "none"
    precisions = ("fp32", "int8")

    @property
    def tables(self) -> tuple[str, ...]:
        from foveal.vision.same_shape import SAME_SHAPE

        return tuple(SAME_SHAPE)

    def variants(self, recipe: ClassifyRecipe, only: Sequence[str] | None) -> dict[str, dict[str, ClassifyRecipe]]:
        names = {self.none: ""} | {name: name for name in self.tables if only is None or name in only}
        built = {name: recipe.changed(config=recipe.config | {"attention": one}) for name, one in names.items()}
        _expect_buildable({self.title: built})
        return {self.title: built}


class Peers(ClassifyAblation):
    """Models of others and foveal's own, each from scratch; those that have ImageNet's weights with these, too."""

    title = "peers"
    precisions: tuple[str, ...] = ("fp32",)

    @property
    def tables(self) -> tuple[str, ...]:
        from foveal.models.imagenet import OF_ICAM, WEIGHTS

        have = (*WEIGHTS, *OF_ICAM)
        return tuple(
            one for name in self.models() for one in ((name, f"{name}:{IMAGENET}") if name in have else (name,))
        )

    def models(self) -> tuple[str, ...]:
        """The first is the one to compare with."""
        from foveal.models.zoo import presets

        return (BASE, *OWN, *presets("peer"))

    def variants(self, recipe: ClassifyRecipe, only: Sequence[str] | None) -> dict[str, dict[str, ClassifyRecipe]]:
        built = peers(recipe, self.tables, only, _peer)
        _expect_buildable({self.title: built})
        return {self.title: built}


class PrunedPeers(Peers):
    title = "pruned"
    precisions = ()

    def models(self) -> tuple[str, ...]:
        from foveal.models.zoo import presets

        return (BASE, *presets("peer"))

    def further(self, plans: Plans, place: Any) -> dict[tuple[str, str], list[Any]]:
        from foveal.tasks.classify.ablate_pruned import pruned_runs

        wholes = {name: runs for (_, name), runs in plans.items()}
        return {(self.title, name): runs for name, runs in pruned_runs(wholes, lambda name: place(self.title, name))}


ABLATIONS: dict[str, Ablation] = {
    "icam": IcamParts(),
    "maps": MapAttention(),
    "peers": Peers(),
    "pruned": PrunedPeers(),
}


def _peer(recipe: ClassifyRecipe, model: str) -> ClassifyRecipe:
    """The recipe of a peer for images of the recipe's size; --config is of the first."""
    size = recipe.size
    own: dict[str, Fields] = {
        BASE: recipe.config,
        "icam-lite": {"image": size, "patch": size, "pool": -(-size // 8)},  # its map as a whole, cell by cell
        "pvt-micro": {},  # its positions are for half the side: their tables would be most of the model
    }
    config = dict(own.get(model, {"image": size}))
    return recipe.changed(model=model, config=config)


def patches(recipe: ClassifyRecipe) -> dict[str, Fields]:
    """The recipe's own patches, which the others are held against, and grids of 4 × 4, 8 × 8 and 2 × 2 of them,
    where these divide the recipe's images.
    """
    from foveal.models.mbconv import Stages
    from foveal.models.zoo import create

    model: Any = create(recipe.model, **recipe.config)
    own = [model.config.patch] if recipe.size % model.config.patch == 0 else []
    grids = [recipe.size // grid for grid in GRIDS if recipe.size % grid == 0 and recipe.size // grid >= 8]
    sides = list(dict.fromkeys([*own, *grids]))
    expect(
        len(sides) > 1,
        "--size",
        "a multiple of 4, so that images can be cut into patches of several sides",
        recipe.size,
        "choose --only without patch",
    )
    cells = model.config.pool
    builds: dict[str, Fields] = {}
    for side in sides:
        most = model.phi.side(side) if isinstance(model.phi, Stages) else cells
        fewer = {"pool": most} if most < cells else {}  # a map has no more cells than that
        builds[f"patches of {side}"] = {"image": recipe.size, "patch": side, **fewer}
    return builds


def _expect_buildable(variants: Mapping[str, Mapping[str, ClassifyRecipe]]) -> None:
    """Two classes do: the data is not read yet."""
    from foveal.tasks.classify.training import build

    expect_buildable(variants, lambda recipe: build(recipe, 2, fresh=False))
