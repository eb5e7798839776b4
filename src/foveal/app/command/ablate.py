"""`foveal ablate WHAT`: train variants of a model by one recipe on the same data,
and tabulate what each part is worth.
"""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foveal.app.command.flags import comes_first
from foveal.app.command.train import add_arguments as add_training
from foveal.app.command.train import check_machine, folds_of, machine_flags, name_in_usage, seeds_of
from foveal.errors import unknown
from foveal.options import add_flags, from_flags
from foveal.packages import left_out
from foveal.report.table import plain_name, write_tables
from foveal.tasks.ablation import Ablation
from foveal.tasks.task import all_tasks, find_task
from foveal.tasks.train import recipe_of

if TYPE_CHECKING:
    from foveal.training.sweep import PlannedRun


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_training(parser)
    action = {one.dest: one for one in parser._actions}
    action["task"].metavar = "WHAT"
    action["task"].help = f"{', '.join(known())}; `foveal ablate WHAT --help` lists the options of its recipe"
    action["out"].help = "folder that the runs are written to (default: runs/ablate-WHAT-DATA)"
    action["resume"].help = "continue the runs in that folder; without it, a folder with runs in it is refused"
    parser.add_argument(
        "--only",
        metavar="A,B",
        help="some of its tables or models; `foveal ablate WHAT --only ?` lists them (default: all)",
    )
    parser.add_argument(
        "--train-only",
        action="store_true",
        help="stop when all runs are trained; the same command with --resume makes the table, on another machine too; "
        "without it, the tables are made at once",
    )


def add_more(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> None:
    if comes_first("ablation", "ablate", arguments, known()):
        task = find_task(_ablation(arguments[0]).task)
        name_in_usage(parser, arguments[0])
        add_flags(parser.add_argument_group(f"recipe of {task.name}"), task.recipe)


def known() -> dict[str, Ablation]:
    """All ablations of all tasks. Where two tasks have one of the same name, the first one's is meant: foveal's own
    come before those of packages.
    """
    found: dict[str, Ablation] = {}
    for task in all_tasks():
        for name, one in task.ablations().items():
            if name in found:
                left_out(f"the ablation {name} of {task.name}: another task has one of this name")
            else:
                found[name] = one
    return found


def run(args: argparse.Namespace) -> int:
    from foveal.deploy.measure.origin import origin
    from foveal.device import choose
    from foveal.training.run_folder import expect_outside
    from foveal.training.sweep import expect_sweep_folder, plan, run_all

    ablation = _ablation(args.task)
    task = find_task(ablation.task)
    if args.only == "?":
        print("\n".join(ablation.tables))
        return 0
    check_machine(args)
    only = None if args.only is None else args.only.split(",")
    for name in only or ():
        if name not in ablation.tables:
            raise unknown(f"table of {args.task}", name, ablation.tables)
    recipe = recipe_of(task, args.recipe, from_flags(args, task.recipe))
    recipe.check_folds(args.folds is not None)
    variants: Mapping[str, Mapping[str, Any]] = ablation.variants(recipe, only)
    if not args.resume:  # of runs that are trained already, a table needs no weights to begin with
        for build in (recipe, *(build for builds in variants.values() for build in builds.values())):
            build.check_weights()
    data = task.read(recipe)
    print(data.summary(), flush=True)
    ablation.check(data)
    folder = Path(args.out) if args.out else ablation.folder(args.task, data)
    folds, seeds = folds_of(args.folds, data.folds, recipe.makes_folds), seeds_of(args, recipe.seed)

    def place(table: str, name: str) -> Path:
        return folder / plain_name(f"{table}-{name}")

    every = {
        (table, name): list(plan(task.name, build, place(table, name), folds, seeds))
        for table, builds in variants.items()
        for name, build in builds.items()
    }
    plans = ablation.distinct(every, data)
    everything = [one for runs in plans.values() for one in runs]
    expect_outside(folder, recipe.data)
    expect_sweep_folder(folder, args.resume, everything)
    run_all(everything, machine_flags(args), args.jobs, diverging=ablation.diverging)
    further = ablation.further(plans, place)
    run_all(
        [one for runs in further.values() for one in runs], machine_flags(args), args.jobs, diverging=ablation.diverging
    )
    runs = dict(plans) | further
    if args.train_only:
        print(
            f"all runs of {folder} are trained: the same command with --resume instead of --train-only makes the table"
        )
        return 0
    tables = ablation.results(variants, runs, data)
    title, caption = f"{args.task} on {data.name}", ablation.caption(recipe, data, len(seeds))
    facts = origin(str(choose(args.device))) | trained_on(one for some in runs.values() for one in some)
    write_tables(folder, "ablation", tables, title, caption, facts)
    print("\n".join(table.markdown() for table in tables))
    print(f"the table is {folder / 'ablation.md'}, and .csv and .tex beside it")
    return 0


def trained_on(runs: "Iterable[PlannedRun]") -> dict[str, str]:
    """Where the runs were trained, each machine once: not always where the table is made."""
    from foveal.training.run_folder import RESULT, read_result

    origins = [read_result(run.folder).get("origin", {}) for run in runs if (run.folder / RESULT).exists()]
    words = [", ".join(str(one[name]) for name in ("gpu", "machine", "commit") if name in one) for one in origins]
    return {"trained on": "; ".join(dict.fromkeys(words))} if words else {}


def _ablation(name: str) -> Ablation:
    ablations = known()
    if name not in ablations:
        raise unknown("ablation", name, ablations)
    return ablations[name]
