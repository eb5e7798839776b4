"""`foveal train classify`: from a set of pictures to a trained model, in a folder that describes itself."""

import argparse
import dataclasses
import os
import sys
from pathlib import Path
from typing import Any

from foveal.app.command.device import add_device
from foveal.app.command.jobs import check_jobs
from foveal.data.pack import silent
from foveal.data.read import read
from foveal.errors import FovealError, expect, expect_integer, is_integer, reading, unknown
from foveal.options import Kind, Options, parsed, read_options
from foveal.report.progress import progress
from foveal.tasks.classify.recipe import ClassifyRecipe

TASKS = ("classify", "translate")  # the second has a command of its own, which is chosen by the first word


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("task", metavar="TASK", help="classify; foveal train translate --help for translation")
    add_run(parser)
    parser.add_argument(
        "--folds", metavar="all|0,1,…", help="cross-validation: a run for each of these folds; --by names a column that makes them"
    )
    parser.add_argument("--workers", metavar="N", type=int, help="processes that decode pictures, where these do not fit into memory")
    add_options(parser, ClassifyRecipe)


def add_run(parser: argparse.ArgumentParser) -> None:
    """What every task's training is told."""
    parser.add_argument("--recipe", metavar="NAME_OR_FILE", help="settings to begin with: a recipe that is shipped, or a YAML file")
    parser.add_argument("--out", metavar="FOLDER", help="where the run is written (default: runs/DATA-MODEL)")
    parser.add_argument("--resume", action="store_true", help="go on with the run in that folder")
    parser.add_argument("--seeds", metavar="N", type=int, help="a run for each of N seeds, from the setting seed on")
    parser.add_argument("--jobs", metavar="N", type=int, default=1, help="runs side by side, which share the cores")
    add_device(parser)
    parser.add_argument("--devices", metavar="N", type=int, default=1, help="GPUs, or processes on a CPU, of one run")
    parser.add_argument("--strategy", default="auto", help="how several of them share the work: Lightning's ddp, fsdp, …")


def add_options(parser: argparse.ArgumentParser, kind: type[Options]) -> None:
    """A flag for each setting of a recipe."""
    settings = parser.add_argument_group("settings of the recipe")
    for one in dataclasses.fields(kind):
        among = f": {', '.join(one.metadata['among'])}" if one.metadata["among"] else ""
        default = one.default if one.default is not dataclasses.MISSING else None
        shown = f" (default: {default})" if default not in (None, "") else ""
        settings.add_argument(f"--{one.name}", metavar="…", help=f"{one.metadata['means']}{among}{shown}".replace("%", "%%"))


def run(args: argparse.Namespace) -> int:
    if args.task not in TASKS:
        raise unknown("task", args.task, TASKS)
    expect(args.task == TASKS[0], "the task", f"{args.task} as the first word after train", "it after flags")
    check_jobs(args.jobs, "--jobs")
    check_jobs(args.devices, "--devices")
    if args.workers is not None:
        check_jobs(args.workers, "--workers", least=0)
    recipe = recipe_of(args)
    check_by(recipe, args.folds)
    folder = Path(args.out or f"runs/{Path(recipe.data).stem.replace(':', '-')}-{Path(recipe.model).stem}")
    if args.folds is not None or args.seeds is not None:
        return _several(args, recipe, folder)
    return _one(args, recipe, folder)


def recipe_of(args: argparse.Namespace) -> ClassifyRecipe:
    """The shipped or written recipe, and over it what was said by flags; paths from the root on."""
    return recipe_from_flags(args, ClassifyRecipe)


def recipe_from_flags(args: argparse.Namespace, kind: type[Kind]) -> Kind:
    settings: dict[str, Any] = read_options(args.recipe, kind) if args.recipe else {}
    own = str(settings.get("model") or next(one.default for one in dataclasses.fields(kind) if one.name == "model"))
    for one in dataclasses.fields(kind):
        if (text := getattr(args, one.name)) is not None:
            settings[one.name] = parsed(kind, one.name, text)
    if settings.get("settings") and args.settings is None and args.model not in (None, own):
        if _unlike(own, args.model):
            print(f"the recipe's settings are of {own}: {args.model} begins with its own", file=sys.stderr, flush=True)
            del settings["settings"]
        else:
            print(f"{args.model} has the recipe's settings: {settings['settings']}", file=sys.stderr, flush=True)
    return kind(**settings).from_anywhere()


def _unlike(one: str, other: str) -> bool:
    """Whether two presets are models of different kinds, with other fields in their configs."""
    from foveal.models.zoo import config_of

    try:
        return config_of(one).family != config_of(other).family
    except FovealError:  # a model's file, or a name that will be refused where it is used
        return False


def check_by(recipe: ClassifyRecipe, folds: str | None) -> None:
    """Raise a FovealError for a column that makes folds of which none is asked for: the set's own splits would be used."""
    asked = recipe.by is None or recipe.fold is not None or folds is not None
    expect(asked, "--by", "--folds or --fold beside it, which say what to test on", "neither")


def _one(args: argparse.Namespace, recipe: ClassifyRecipe, folder: Path) -> int:
    import torch

    from foveal.deploy.measure.origin import origin
    from foveal.device import choose
    from foveal.runtime.packaged import FILE
    from foveal.tasks.classify.finish import BAD
    from foveal.train.run import Machine, train

    first = os.environ.get("LOCAL_RANK", "0") == "0"  # of several processes of one run, one speaks
    if first:
        print(read(recipe.data, label=recipe.label, by=recipe.by, seed=0).told(), flush=True)
    machine = Machine(args.device, args.devices, args.strategy, args.workers)
    facts = origin(str(choose(args.device)), torch.get_num_threads())
    result = train(recipe, folder, resume=args.resume, machine=machine, origin=facts, progress=progress if first else silent)
    if not first:
        return 0
    with reading(folder / BAD):
        bad = max(0, len((folder / BAD).read_text(encoding="utf-8").splitlines()) - 1)
    if bad:
        print(f"{bad} pictures could not be read: {folder / BAD} says why", file=sys.stderr)
    print(f"validation score {result['val_score']:.4f} at epoch {result['epoch']}; the model is {folder / FILE}")
    print(f"next: foveal evaluate {folder}")
    return 0


def _several(args: argparse.Namespace, recipe: ClassifyRecipe, folder: Path) -> int:
    from foveal.tasks.classify.summary import summarise
    from foveal.train.sweep import plan, run_all

    source = read(recipe.data, label=recipe.label, by=recipe.by, seed=0)
    print(source.told(), flush=True)
    folds = folds_of(args.folds, source.folds)
    seeds = 1 if args.seeds is None else args.seeds
    expect_integer(seeds, "--seeds")
    fresh = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    expect(fresh or args.resume, f"the folder {folder}", "a new or empty one", "one with files in it", "add --resume")
    runs = list(plan(recipe, folder, folds, range(recipe.seed, recipe.seed + seeds)))
    flags = ["--device", args.device, "--devices", str(args.devices), "--strategy", args.strategy]
    flags += [] if args.workers is None else ["--workers", str(args.workers)]
    run_all(runs, flags, args.jobs)
    print(summarise([run.folder for run in runs], folder))
    return 0


def folds_of(text: str | None, count: int) -> list[int | None]:
    if text is None:
        return [None]
    expect(count > 0, "--folds", "data with a column fold", "data without one", "--by names another column that makes folds")
    expect(count >= 3, "--folds", "data with at least 3 folds, to test, to choose and to train with", f"{count} of them")
    if text == "all":
        return list(range(count))
    try:
        folds = list(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        raise FovealError(f"--folds: expected all, or numbers such as 0,1,2, got {text!r}") from None
    expect(all(is_integer(fold) and 0 <= fold < count for fold in folds), "--folds", f"numbers from 0 to {count - 1}", text)
    return list(folds)
