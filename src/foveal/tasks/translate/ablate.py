"""`foveal ablate transformer`: what each part of the Transformer is worth, beside what the paper of 2017 measured on another, larger set."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from foveal.app.command.device import add_device
from foveal.app.command.jobs import check_jobs
from foveal.atomic import write_atomic
from foveal.errors import expect, expect_integer, unknown
from foveal.runtime.paths import plain
from foveal.tasks.classify.train_command import add_options, recipe_from_flags
from foveal.tasks.translate.recipe import TranslateRecipe

# table → name → (settings of the model, settings of the recipe, the paper's BLEU on newstest2013 for the base model so changed, and its own value)
Row = tuple[dict[str, Any], dict[str, Any], str]
TABLES: dict[str, dict[str, Row]] = {
    "heads": {
        "1": ({"heads": 1}, {}, "24.9"),
        "2": ({"heads": 2}, {}, ""),
        "4": ({"heads": 4}, {}, "25.5"),
        "8": ({"heads": 8}, {}, "25.8 (its base)"),
        "16": ({"heads": 16}, {}, "25.8"),
        "32": ({"heads": 32}, {}, "25.4"),
    },
    "width of a head": {  # of keys and values; the paper's is of keys
        "a quarter": ({"head_width": 0.25}, {}, "25.1"),
        "half": ({"head_width": 0.5}, {}, "25.4"),
    },
    "feed-forward": {
        "× 1": ({"hidden": 1}, {}, ""),
        "× 2": ({"hidden": 2}, {}, "25.4"),
        "× 4": ({"hidden": 4}, {}, "25.8 (its base)"),
        "× 8": ({"hidden": 8}, {}, "26.2"),
    },
    "positions": {
        "sinusoidal": ({"position": "sinusoidal"}, {}, "25.8 (its base)"),
        "learned": ({"position": "learned"}, {}, "25.7"),
        "relative": ({"position": "relative"}, {}, ""),
        "rotary": ({"position": "rotary"}, {}, ""),
        "none": ({"position": "none"}, {}, ""),
    },
    "dropout": {
        "0": ({"dropout": 0.0}, {}, "24.6"),
        "0.1": ({"dropout": 0.1}, {}, "25.8 (its base)"),
        "0.2": ({"dropout": 0.2}, {}, "25.5"),
        "0.3": ({"dropout": 0.3}, {}, ""),
    },
    "residual": {"without": ({"residual": False}, {}, "")},
    "norm": {"post": ({"norm": "post"}, {}, "25.8 (its base)"), "pre": ({"norm": "pre"}, {}, ""), "none": ({"norm": "none"}, {}, "")},
    "smoothing": {
        "0": ({}, {"smoothing": 0.0}, "25.3"),
        "0.1": ({}, {"smoothing": 0.1}, "25.8 (its base)"),
        "0.2": ({}, {"smoothing": 0.2}, "25.7"),
    },
}
BASE = "as it is"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("task", metavar="transformer", help="this model")
    parser.add_argument("--only", metavar="TABLE,…", help=f"some of {', '.join(TABLES)}")
    parser.add_argument("--recipe", metavar="NAME_OR_FILE", help="settings to begin with: a recipe that is shipped, or a YAML file")
    parser.add_argument("--out", metavar="FOLDER", help="where the runs and the table are written")
    parser.add_argument("--resume", action="store_true", help="go on in that folder")
    parser.add_argument("--seeds", metavar="N", type=int, default=1, help="runs of each variant (default: 1)")
    parser.add_argument("--jobs", metavar="N", type=int, default=1, help="runs side by side, which share the cores")
    add_device(parser)
    add_options(parser, TranslateRecipe)


def run(args: argparse.Namespace) -> int:
    from foveal.deploy.measure.origin import origin
    from foveal.device import choose
    from foveal.tasks.classify.finish import RESULT
    from foveal.tasks.translate.run import read_set
    from foveal.train.sweep import diverged, plan, run_all

    recipe = recipe_from_flags(args, TranslateRecipe)
    expect(recipe.model.startswith("transformer"), "the setting model", "a Transformer", recipe.model)
    chosen = list(TABLES) if args.only is None else args.only.split(",")
    for name in chosen:
        if name not in TABLES:
            raise unknown("ablation of transformer", name, TABLES)
    expect_integer(args.seeds, "--seeds")
    check_jobs(args.jobs, "--jobs")
    data = read_set(recipe)
    print(data.told(), flush=True)
    folder = Path(args.out or f"runs/ablate-transformer-{data.name}")
    fresh = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    expect(fresh or args.resume, f"the folder {folder}", "a new or empty one", "one with files in it", "add --resume")
    seeds = range(recipe.seed, recipe.seed + args.seeds)
    variants = {("", BASE): recipe} | {
        (table, name): build
        for table in chosen
        for name, (model, other, _) in TABLES[table].items()
        if not same(build := varied(recipe, model, other), recipe)
    }
    plans = {key: list(plan(build, folder / plain(" ".join(key)), [None], seeds)) for key, build in variants.items()}
    run_all([one for runs in plans.values() for one in runs], ["--device", args.device], args.jobs, diverging=True)
    results = {
        key: [None if diverged(one) else json.loads((one.folder / RESULT).read_text(encoding="utf-8")) for one in runs]
        for key, runs in plans.items()
    }
    facts = " · ".join(f"{key} {value}" for key, value in origin(str(choose(args.device))).items())
    text = table_of(results, chosen)
    split = "test" if len(data.splits.get("test", ())) else "val"
    head = f"# {recipe.model} on {data.name}, {args.seeds} seeds, {recipe.epochs} epochs, {split}\n\n{facts}\n\n"
    write_atomic(folder / "ablation.md", (head + text).encode())
    print(text)
    print(f"the table is {folder / 'ablation.md'}")
    return 0


def same(one: TranslateRecipe, other: TranslateRecipe) -> bool:
    """Whether two recipes train the same model in the same way, however their settings say it."""
    from foveal.models.zoo import config_of

    configs = [config_of(recipe.model, **recipe.settings) for recipe in (one, other)]
    return configs[0] == configs[1] and one.changed(settings={}) == other.changed(settings={})


def varied(recipe: TranslateRecipe, model: dict[str, Any], other: dict[str, Any]) -> TranslateRecipe:
    """The recipe with something else. What is relative to the preset (widths) is a factor here."""
    from foveal.models.transformer import TransformerConfig
    from foveal.models.zoo import PRESETS

    config = PRESETS[recipe.model]
    assert isinstance(config, TransformerConfig)
    width = recipe.settings.get("width", config.width)
    heads = recipe.settings.get("heads", config.heads)
    made = dict(model)
    if "head_width" in made:
        made["head_width"] = max(2, int(width // heads * made["head_width"]))
    if "hidden" in made:
        made["hidden"] = int(width * made["hidden"])
    return recipe.changed(settings=recipe.settings | made, **other)


def table_of(results: dict[tuple[str, str], list[dict[str, Any] | None]], tables: Sequence[str]) -> str:
    """results: of each variant those of its seeds; None: the run has diverged."""
    lines = ["| | | weights | BLEU | lowercased | validation loss | 2017, WMT14 EN–DE |", "|---|---|---:|---:|---:|---:|---|"]
    lines.append(_row("", BASE, results["", BASE], "25.8 (its base, post-norm)"))
    for table in tables:
        lines += [
            _row(table, name, results[table, name], paper) for name, (_, _, paper) in TABLES[table].items() if (table, name) in results
        ]
    return "\n".join([*lines, ""])


def _row(table: str, name: str, outcomes: list[dict[str, Any] | None], paper: str) -> str:
    results = [result for result in outcomes if result is not None]
    if len(results) < len(outcomes):
        name += f" ({len(outcomes) - len(results)} of {len(outcomes)} diverged)"
    if not results:
        return f"| {table} | {name} | – | – | – | – | {paper} |"
    split = "test" if "test" in results[0] else "val"
    bleu, small = (_spread([result[split][kind]["value"] for result in results]) for kind in ("bleu", "lowercased"))
    return f"| {table} | {name} | {results[0]['weights']:,} | {bleu} | {small} | {_spread([one['val_loss'] for one in results], 3)} | {paper} |"


def _spread(values: Sequence[float], digits: int = 1) -> str:
    numbers = np.array(values)
    return f"{numbers.mean():.{digits}f}" + (f" ± {numbers.std(ddof=1):.{digits}f}" if len(numbers) > 1 else "")
