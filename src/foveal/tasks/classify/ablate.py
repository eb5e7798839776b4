"""Ablations of classifiers: variants of one recipe on the same images, and what each part is worth.

icam: its parts, one after the other. peers: other models, whole. pruned: these, and each of them cut down to ICAM's
flops and to its parameters.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foveal.errors import FovealError, expect
from foveal.report.table import UNDEFINED, Table
from foveal.tasks.ablation import Ablation, Plans, Variants
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
PEERS = (
    "icam-31k",
    "efficientnet-b0",
    "mobilenet-v2",
    "mobilenet-v3-s",
    "mobilenet-v4-s",
    "mobilevit-xxs",
    "deit-tiny",
    "resnet-18",
    "xie-2019",
)
GRIDS = (4, 8, 2)  # patches beside each other: the published 4 × 4 first


class ClassifyAblation(Ablation):
    """What all ablations of classifiers share: how variants are compared."""

    task = "classify"

    def check(self, data: Any) -> None:
        tested = data.fold is not None or data.known(data.indices("test")).any()
        expect(bool(tested), data.name, "labelled test images to compare models on", "none")

    def results(self, variants: Variants, plans: Plans, data: Any) -> list[Table]:
        return [_table(table, [name for of, name in plans if of == table], plans, data) for table in variants]

    def caption(self, recipe: Any, data: Any, seeds: int) -> str:
        from foveal.tasks.classify.compare import score_name

        right = "" if data.multi_label else "; accuracy: share of right answers"
        over = "one seed" if seeds == 1 else f"{seeds} seeds, from {recipe.seed} on"
        return (
            f"Split test, {over}. score: {score_name(data.multi_label)} × 100 of all test images, mean over seeds; "
            "spread: standard deviation over "
            f"seeds{right}. The interval of a difference resamples images that belong together, for both models alike."
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


class Peers(ClassifyAblation):
    tables = PEERS
    title = "peers"

    def variants(self, recipe: ClassifyRecipe, only: Sequence[str] | None) -> dict[str, dict[str, ClassifyRecipe]]:
        names = [name for name in PEERS if only is None or name in only or name == PEERS[0]]
        config = {name: recipe.config if name == PEERS[0] else {"image": recipe.size} for name in names}
        found = {self.title: {name: recipe.changed(model=name, config=config[name]) for name in names}}
        _expect_buildable(found)
        return found


class PrunedPeers(Peers):
    title = "pruned"

    def further(self, plans: Plans, place: Any) -> dict[tuple[str, str], list[Any]]:
        from foveal.tasks.classify.ablate_pruned import pruned_runs

        wholes = {name: runs for (_, name), runs in plans.items()}
        return {(self.title, name): runs for name, runs in pruned_runs(wholes, lambda name: place(self.title, name))}


ABLATIONS: dict[str, Ablation] = {"icam": IcamParts(), "peers": Peers(), "pruned": PrunedPeers()}


def patches(recipe: ClassifyRecipe) -> dict[str, Fields]:
    """Grids of 4 × 4, 8 × 8 and 2 × 2 patches, where these divide the recipe's images."""
    sides = [recipe.size // grid for grid in GRIDS if recipe.size % grid == 0 and recipe.size // grid >= 8]
    expect(
        len(sides) > 1,
        "--size",
        "a multiple of 4, so that images can be cut into patches of several sides",
        recipe.size,
        "choose --only without patch",
    )
    return {f"patches of {side}": {"image": recipe.size, "patch": side} for side in sides}


def _expect_buildable(variants: Mapping[str, Mapping[str, ClassifyRecipe]]) -> None:
    """Raise a FovealError for a variant that cannot be built, before any is trained.

    Two classes do: the data is not read yet.
    """
    from foveal.tasks.classify.training import build

    for table, builds in variants.items():
        for name, recipe in builds.items():
            try:
                build(recipe, 2, fresh=False)
            except FovealError as error:
                raise FovealError(f"the variant {name} of {table}: {error}; name other tables with --only") from None


def _table(table: str, names: Sequence[str], plans: Plans, data: Any) -> Table:
    tests = {name: _tested(plans[table, name], data.multi_label) for name in names}
    base = names[0]
    groups = _groups(next(iter(tests[base].values())).files, data)
    rows = []
    for name in names:
        cost = _cost(plans[table, name][0].recipe, len(data.classes))
        against = _against(base, name, tests, data.multi_label, groups)
        rows.append([name, *cost, *_figures(tests[name], data.multi_label), against])
    accuracy = [] if data.multi_label else ["accuracy"]
    return Table(
        [table, "parameters", "GFLOP", "score", "spread", *accuracy, f"against {base} (95 %)"], rows, title=table
    )


def _tested(runs: Sequence[Any], multi_label: bool) -> dict[int, Any]:
    """seed → the tests of its folds as one."""
    from foveal.tasks.classify.compare import pooled
    from foveal.tasks.classify.finish import predictions
    from foveal.tasks.classify.predictions import read_predicted

    seeds: dict[int, list[Any]] = {}
    for one in runs:
        seeds.setdefault(one.recipe.seed, []).append(read_predicted(one.folder / predictions("test"), multi_label))
    return {seed: pooled(tests) for seed, tests in seeds.items()}


def _figures(tests: Mapping[int, Any], multi_label: bool) -> list[str]:
    from foveal.tasks.classify.compare import headline

    scores = np.array([float(headline(test, multi_label)(None)) for test in tests.values()])
    right = (
        []
        if multi_label
        else [f"{100 * np.mean([np.mean(test.logits.argmax(1) == test.truth) for test in tests.values()]):.1f}"]
    )
    return [f"{100 * scores.mean():.1f}", f"{100 * scores.std(ddof=1):.1f}" if len(scores) > 1 else UNDEFINED, *right]


def _against(
    base: str, name: str, tests: Mapping[str, Mapping[int, Any]], multi_label: bool, groups: "NDArray[np.int64] | None"
) -> str:
    from foveal.tasks.classify.compare import difference

    if name == base:
        return UNDEFINED
    found = difference(tests[base], tests[name], multi_label, groups)
    return f"{100 * found.value:+.1f} ({100 * found.low:+.1f} to {100 * found.high:+.1f})"


def _cost(recipe: ClassifyRecipe, classes: int) -> list[str]:
    import torch

    from foveal.deploy.measure.cost import flops, parameters
    from foveal.tasks.classify.training import build

    model = build(
        recipe, classes, fresh=False
    ).eval()  # what it costs is of its shape: a run's weights may be thrown away
    return [f"{parameters(model):,}", f"{flops(model, torch.zeros(1, 3, recipe.size, recipe.size)) / 1e9:.3f}"]


def _groups(files: Sequence[str], source: Any) -> "NDArray[np.int64] | None":
    if source.group is None:
        return None
    place = {source.file(index): index for index in range(len(source))}
    return np.array([source.group[place[file]] for file in files])
