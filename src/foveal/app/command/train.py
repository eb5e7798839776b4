"""`foveal train TASK`: from data to a trained model, in a folder that describes itself.

`--folds` and `--seeds` make a sweep of runs.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from foveal.app.command.flags import add_device, check_jobs, comes_first, task_of
from foveal.errors import FovealError, expect, expect_integer
from foveal.options import add_flags, from_flags
from foveal.report.progress import progress
from foveal.tasks.task import Task, all_tasks, task_names
from foveal.tasks.train import default_folder, default_recipe, recipe_of, train

RANKS = ("RANK", "LOCAL_RANK", "SLURM_PROCID", "JSM_NAMESPACE_RANK")  # which Lightning reads when it is imported


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "task",
        metavar="TASK",
        help=f"{', '.join(task_names())}; `foveal train TASK --help` lists the options of its recipe",
    )
    parser.add_argument(
        "--recipe",
        metavar="NAME_OR_FILE",
        help=_recipes(),
    )
    parser.add_argument("--out", metavar="FOLDER", help="folder that the run is written to (default: runs/DATA-MODEL)")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="continue the run in that folder; without it, a folder with a run in it is refused",
    )
    parser.add_argument(
        "--folds",
        metavar="all|0,1",
        help="cross-validation: one run per fold, for data that has folds (default: one run on the splits)",
    )
    parser.add_argument(
        "--seeds", metavar="N", type=int, help="one run for each of N seeds, from --seed on (default: 1)"
    )
    parser.add_argument(
        "--jobs",
        metavar="N",
        type=int,
        default=1,
        help="runs of a sweep side by side, which share the cores (default: 1)",
    )
    add_device(parser)
    parser.add_argument(
        "--devices", metavar="N", type=int, default=1, help="GPUs, or processes on a CPU, of one run (default: 1)"
    )
    parser.add_argument(
        "--strategy",
        metavar="NAME",
        default="auto",
        help="how several devices share the work: Lightning's ddp, fsdp, … (default: auto)",
    )
    parser.add_argument(
        "--workers",
        metavar="N",
        type=int,
        help="processes that decode samples, where these do not fit into memory (default: one per core but one)",
    )


def _recipes() -> str:
    """What --help says of --recipe: the recipes that are shipped, task by task."""
    shipped, chosen = [], []
    for task in all_tasks():
        names = sorted(file.stem for file in (task.folder / "recipes").glob("*.yaml"))
        shipped += [f"{task.name}: {', '.join(names)}"] if names else []
        default = task.default_recipe({})
        chosen += [f"{default} for {task.name}"] if default else []
    without = f"none if --data is given, else {' and '.join(chosen)}" if chosen else "none"
    known = f" ({'; '.join(shipped)})" if shipped else ""
    return f"options to begin with: a recipe that is shipped{known}, or a YAML file (default: {without})"


def add_more(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> None:
    """The options of the task's recipe."""
    if comes_first("task", "train", arguments, task_names()):
        task = task_of(arguments[0])
        name_in_usage(parser, task.name)
        add_flags(parser.add_argument_group(f"recipe of {task.name}"), task.recipe)


def name_in_usage(parser: argparse.ArgumentParser, name: str) -> None:
    """Let --help begin with the name of the task or the ablation where it is known."""
    parser.prog = f"{parser.prog} {name}"
    next(action for action in parser._actions if action.dest == "task").help = argparse.SUPPRESS


def run(args: argparse.Namespace) -> int:
    task = task_of(args.task)
    check_machine(args)
    given = from_flags(args, task.recipe)
    if not args.recipe and (default := default_recipe(task, given)):
        print(f"no --data: the recipe {default}", flush=True)
    if args.folds is None and args.seeds is None:
        return _one(args, task, given)
    recipe = recipe_of(task, args.recipe, given)
    recipe.check_folds(args.folds is not None)
    if not args.resume:
        recipe.check_weights()
    folder = Path(args.out or default_folder(recipe))
    data = task.read(recipe)
    print(data.summary(), flush=True)
    folds = folds_of(args.folds, data.folds, recipe.makes_folds)
    runs = sweep(args, task, recipe, folder, folds)
    print(task.summarise([run.folder for run in runs], folder))
    return 0


def check_machine(args: argparse.Namespace) -> None:
    check_jobs(args.jobs, "--jobs")
    check_jobs(args.devices, "--devices")
    if args.workers is not None:
        check_jobs(args.workers, "--workers", least=0)
    for name in RANKS:
        rank = os.environ.get(name, "0")
        expect(rank.isdecimal(), f"the variable {name} of the environment", "the number of a process", rank, "unset it")


def sweep(args: argparse.Namespace, task: Task, recipe: Any, folder: Path, folds: Sequence[int | None]) -> list[Any]:
    """All runs over folds and seeds, done; those of a sweep that was stopped are continued."""
    from foveal.training.run_folder import expect_outside
    from foveal.training.sweep import expect_sweep_folder, plan, run_all

    runs = list(plan(task.name, recipe, folder, folds, seeds_of(args, recipe.seed)))
    expect_outside(folder, recipe.data)
    expect_sweep_folder(folder, args.resume, runs)
    run_all(runs, machine_flags(args), args.jobs)
    return runs


def seeds_of(args: argparse.Namespace, first: int) -> range:
    count = 1 if args.seeds is None else args.seeds
    expect_integer(count, "--seeds")
    return range(first, first + count)


def machine_flags(args: argparse.Namespace) -> list[str]:
    """What each run of a sweep knows of the machine."""
    flags = ["--device", args.device, "--devices", str(args.devices), "--strategy", args.strategy]
    return flags + ([] if args.workers is None else ["--workers", str(args.workers)])


def folds_of(text: str | None, count: int, advice: str) -> list[int | None]:
    """The folds that a flag names, of so many. advice: to who has data without."""
    if text is None:
        return [None]
    expect(count > 0, "--folds", "data with folds", "data without", advice)
    expect(
        count >= 3, "--folds", "data with at least 3 folds, to test, to choose and to train with", f"{count} of them"
    )
    if text == "all":
        return list(range(count))
    try:
        folds = list(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        raise FovealError(f"--folds: expected all, or numbers such as 0,1,2, got {text!r}") from None
    expect(all(0 <= fold < count for fold in folds), "--folds", f"numbers from 0 to {count - 1}", text)
    return list(folds)


def _one(args: argparse.Namespace, task: Task, given: dict[str, Any]) -> int:
    from foveal.training.harness import Machine, is_first

    first = is_first(Machine(args.device, args.devices))
    done = train(
        task.name,
        recipe=args.recipe,
        out=args.out,
        resume=args.resume,
        device=args.device,
        devices=args.devices,
        strategy=args.strategy,
        workers=args.workers,
        progress=progress,
        announce=lambda text: print(text, flush=True),
        **given,
    )
    if first:
        print(done.summary())
        sys.stdout.flush()
    return 0
