"""`foveal train translate`: from pairs of sentences to a translator, in a folder that describes itself."""

import argparse
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from foveal.app.command.jobs import check_jobs
from foveal.atomic import write_atomic
from foveal.errors import expect, expect_integer
from foveal.tasks.classify.train_command import add_options, add_run, recipe_from_flags
from foveal.tasks.translate.recipe import TranslateRecipe


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("task", metavar="translate", help="this task")
    add_run(parser)
    add_options(parser, TranslateRecipe)


def run(args: argparse.Namespace) -> int:
    check_jobs(args.jobs, "--jobs")
    check_jobs(args.devices, "--devices")
    if args.recipe is None and args.data is None:
        args.recipe = "grammar"
        print("no --data: a grammar's own sentences, by the recipe grammar", flush=True)
    recipe = recipe_from_flags(args, TranslateRecipe)
    folder = Path(args.out or f"runs/{Path(recipe.data.split(',')[0]).stem.replace(':', '-')}-{recipe.model}")
    return _one(args, recipe, folder) if args.seeds is None else _several(args, recipe, folder)


def _one(args: argparse.Namespace, recipe: TranslateRecipe, folder: Path) -> int:
    import torch

    from foveal.deploy.measure.origin import origin
    from foveal.device import choose
    from foveal.runtime.packaged import FILE
    from foveal.tasks.translate.run import read_set, train_translate
    from foveal.train.run import Machine

    first = os.environ.get("LOCAL_RANK", "0") == "0"  # of several processes of one run, one speaks
    if first:
        print(read_set(recipe).told(), flush=True)
    facts = origin(str(choose(args.device)), torch.get_num_threads())
    result = train_translate(recipe, folder, resume=args.resume, machine=Machine(args.device, args.devices, args.strategy), origin=facts)
    if first:
        for split in ("val", "test"):
            if split in result:
                bleu, small = result[split]["bleu"], result[split]["lowercased"]
                print(f"{split}: BLEU {bleu['value']:.2f} ({bleu['low']:.1f} to {bleu['high']:.1f}), lowercased {small['value']:.2f}")
        print(f"BLEU is {result['val']['bleu']['signature']}")
        print(f"the model is {folder / FILE}; next: foveal translate {folder} < sentences.txt")
    return 0


def _several(args: argparse.Namespace, recipe: TranslateRecipe, folder: Path) -> int:
    from foveal.tasks.classify.finish import RESULT
    from foveal.tasks.translate.run import read_set
    from foveal.train.sweep import plan, run_all

    print(read_set(recipe).told(), flush=True)
    expect_integer(args.seeds, "--seeds")
    fresh = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    expect(fresh or args.resume, f"the folder {folder}", "a new or empty one", "one with files in it", "add --resume")
    runs = list(plan(recipe, folder, [None], range(recipe.seed, recipe.seed + args.seeds)))
    run_all(runs, ["--device", args.device, "--devices", str(args.devices), "--strategy", args.strategy], args.jobs)
    results = [json.loads((run.folder / RESULT).read_text(encoding="utf-8")) for run in runs]
    text = summary(results)
    write_atomic(folder / "summary.md", text.encode())
    write_atomic(folder / "summary.json", json.dumps(results, indent=1).encode())
    print(text)
    return 0


def summary(results: list[dict[str, Any]]) -> str:
    """Mean and spread over seeds."""
    first = results[0]
    facts = " · ".join(f"{key} {value}" for key, value in first["origin"].items())
    lines = [f"# {first['model']} ({first['weights']:,} weights) on {first['data']['name']}, {len(results)} seeds", "", facts, ""]
    lines += ["| | mean | spread | lowest | highest |", "|---|---:|---:|---:|---:|"]
    for split in (name for name in first["data"]["splits"] if name in first):
        for name, words in (("bleu", "BLEU"), ("lowercased", "BLEU, lowercased"), ("chrf", "chrF")):
            values = np.array([result[split][name]["value"] for result in results])
            spread = f"{values.std(ddof=1):.2f}" if len(values) > 1 else "–"
            lines.append(f"| {split}: {words} | {values.mean():.2f} | {spread} | {values.min():.2f} | {values.max():.2f} |")
    minutes = np.array([result["seconds"] / 60 for result in results])
    lines.append(f"| minutes of training | {minutes.mean():.1f} | | {minutes.min():.1f} | {minutes.max():.1f} |")
    signature = next(first[split]["bleu"]["signature"] for split in first["data"]["splits"] if split in first)
    return "\n".join([*lines, "", f"BLEU: {signature}; lowercased: the same on small letters.", ""])
