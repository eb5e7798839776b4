"""`foveal ablate WHAT`: train variants of a model by the same recipe on the same images, and tabulate what each part is worth.

icam: its parts, one after the other. peers: other models, whole. pruned: these, and each of them cut down to ICAM's flops and to its weights.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foveal.app.command.jobs import check_jobs
from foveal.atomic import write_atomic
from foveal.errors import expect, expect_integer, unknown
from foveal.report.table import Table
from foveal.runtime.paths import plain
from foveal.tasks.classify.recipe import ClassifyRecipe
from foveal.tasks.classify.train_command import add_arguments as add_training
from foveal.tasks.classify.train_command import check_by, folds_of, recipe_of

Variants = dict[str, dict[str, Any]]  # name → settings of the recipe; the first one is what the others are compared with

ICAM: dict[str, Variants] = {
    "first": {"adaptive": {}, "static": {"first": "projected-static"}},
    "queries": {f"{count} queries": {"queries": count} for count in (1, 2, 4, 8)},
    "layers": {f"{count} layers": {"layers": count} for count in (2, 1, 3, 4)},
    "heads": {f"{count} heads": {"heads": count} for count in (2, 1, 4)},
    "patch": {f"patches of {side}": {"patch": side} for side in (56, 28, 112)},
    "phi": {
        "MBConv6": {},
        "MBConv3": {"stages": [{"width": 16, "expand": 1}, {"width": 24, "blocks": 2, "expand": 3, "stride": 2}]},
        "no squeeze": {"stages": [{"width": 16, "expand": 1, "squeeze": False}, {"width": 24, "blocks": 2, "stride": 2, "squeeze": False}]},
    },
    "position": {"sinusoidal": {"position": "sinusoidal"}, "learned": {"position": "learned"}, "polar": {"position": "polar"}},
    "mixer": {"mixer": {"mixer": True}, "no mixer": {"mixer": False}},
    "dropout": {f"dropout {share}": {"dropout": share} for share in (0.1, 0.0, 0.2, 0.3)},
}
PEERS = ("icam-31k", "efficientnet-b0", "mobilenet-v2", "mobilevit-xxs", "deit-tiny", "resnet-18")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_training(parser)
    parser.add_argument("--only", metavar="A,B", help=f"of icam: {', '.join(ICAM)}; of peers and pruned: names of models")


def run(args: argparse.Namespace) -> int:
    from foveal.data.read import read
    from foveal.deploy.measure.origin import origin
    from foveal.device import choose
    from foveal.train.sweep import plan, run_all

    recipe = recipe_of(args)
    check_by(recipe, args.folds)
    variants = _variants(args.task, args.only, recipe)
    source = read(recipe.data, label=recipe.label, by=recipe.by, seed=0)
    print(source.told(), flush=True)
    tested = source.fold is not None or source.known(source.indices("test")).any()
    expect(bool(tested), source.name, "labelled test images to compare builds on", "none")
    folder = Path(args.out or f"runs/ablate-{args.task}-{source.name.replace(':', '-')}")
    seeds = 1 if args.seeds is None else args.seeds
    expect_integer(seeds, "--seeds")
    check_jobs(args.jobs, "--jobs")
    expect(
        args.resume or not folder.exists() or not any(folder.iterdir()),
        f"the folder {folder}",
        "a new or empty one",
        "one with files in it",
        "add --resume",
    )
    flags = ["--device", args.device]
    plans: dict[tuple[str, str], list[Any]] = {}
    for table, builds in variants.items():
        for name, build in builds.items():
            place = folder / plain(f"{table}-{name}")
            plans[table, name] = list(plan(build, place, folds_of(args.folds, source.folds), range(recipe.seed, recipe.seed + seeds)))
    run_all([one for runs in plans.values() for one in runs], flags, args.jobs)
    if args.task == "pruned":
        from foveal.tasks.classify.ablate_pruned import pruned_runs

        (table,) = variants
        wholes = {name: plans[table, name] for name in variants[table]}
        smaller = dict(pruned_runs(wholes, lambda name: folder / plain(f"{table}-{name}")))
        run_all([one for runs in smaller.values() for one in runs], flags, args.jobs)
        plans |= {(table, name): runs for name, runs in smaller.items()}
        variants[table] |= {name: runs[0].recipe for name, runs in smaller.items()}
    text = "\n".join(_tables(variants, plans, source))
    facts = " · ".join(f"{key} {value}" for key, value in origin(str(choose(args.device))).items())
    head = f"# {args.task} on {source.name}\n\n{facts}\n\n{_words(source.multi_label)}\n\n"
    write_atomic(folder / "ablation.md", (head + text).encode())
    print(text)
    print(f"the table is {folder / 'ablation.md'}")
    return 0


def _variants(what: str, only: str | None, recipe: ClassifyRecipe) -> dict[str, dict[str, ClassifyRecipe]]:
    """table → name → recipe."""
    wanted = None if only is None else only.split(",")
    if what in ("peers", "pruned"):
        for name in wanted or ():
            if name not in PEERS:
                raise unknown("peer", name, PEERS)
        names = [name for name in PEERS if wanted is None or name in wanted or name == PEERS[0]]
        settings = {name: recipe.settings if name == PEERS[0] else {"image": recipe.size} for name in names}
        return {what: {name: recipe.changed(model=name, settings=settings[name]) for name in names}}
    if what != "icam":
        raise unknown("ablation", what, ("icam", "peers", "pruned"))
    for name in wanted or ():
        if name not in ICAM:
            raise unknown("ablation of icam", name, ICAM)
    return {
        table: {name: recipe.changed(settings=recipe.settings | settings) for name, settings in builds.items()}
        for table, builds in ICAM.items()
        if wanted is None or table in wanted
    }


def _tables(variants: Mapping[str, Mapping[str, ClassifyRecipe]], plans: Mapping[tuple[str, str], Sequence[Any]], source: Any) -> list[str]:
    texts = []
    for table, builds in variants.items():
        tests = {name: _tested(plans[table, name], source.multi_label) for name in builds}
        base = next(iter(builds))
        groups = _groups(next(iter(tests[base].values())).files, source)
        rows = []
        for name, recipe in builds.items():
            rows.append(
                [
                    name,
                    *_cost(recipe, len(source.classes)),
                    *_figures(tests[name], source.multi_label),
                    _against(base, name, tests, source.multi_label, groups),
                ]
            )
        head = [table, "weights", "GFLOP", "score", "spread", *([] if source.multi_label else ["accuracy"]), f"against {base} (95 %)"]
        texts.append(Table(head, rows).markdown())
    return texts


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
    right = [] if multi_label else [f"{100 * np.mean([np.mean(test.logits.argmax(1) == test.truth) for test in tests.values()]):.1f}"]
    return [f"{100 * scores.mean():.1f}", f"{100 * scores.std(ddof=1):.1f}" if len(scores) > 1 else "–", *right]


def _against(base: str, name: str, tests: Mapping[str, Mapping[int, Any]], multi_label: bool, groups: "NDArray[np.int64] | None") -> str:
    from foveal.tasks.classify.compare import difference

    if name == base:
        return "–"
    found = difference(tests[base], tests[name], multi_label, groups)
    return f"{100 * found.value:+.1f} ({100 * found.low:+.1f} to {100 * found.high:+.1f})"


def _cost(recipe: ClassifyRecipe, classes: int) -> list[str]:
    import torch

    from foveal.deploy.measure.cost import flops, weights
    from foveal.train.run import build

    model = build(recipe, classes, fresh=False).eval()  # what it costs is of its shape: a run's weights may be thrown away
    return [f"{weights(model):,}", f"{flops(model, torch.zeros(1, 3, recipe.size, recipe.size)) / 1e9:.3f}"]


def _groups(files: Sequence[str], source: Any) -> "NDArray[np.int64] | None":
    if source.group is None:
        return None
    place = {source.file(index): index for index in range(len(source))}
    return np.array([source.group[place[file]] for file in files])


def _words(multi_label: bool) -> str:
    score, right = ("mean average precision", "") if multi_label else ("balanced accuracy", "; accuracy: share of right answers")
    return (
        f"score: {score} × 100 of all test images, mean over seeds; spread: over seeds{right}. The interval of a difference draws images that "
        "belong together with replacement, for both builds alike."
    )
