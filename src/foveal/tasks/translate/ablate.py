"""`foveal ablate transformer`: what each part of the Transformer is worth,
beside what the paper of 2017 measured on another, larger set.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from foveal.data.parallel import Parallel
from foveal.errors import expect
from foveal.report.table import Table
from foveal.tasks.ablation import Ablation, Plans, Variants, same_training
from foveal.tasks.translate.recipe import TranslateRecipe
from foveal.training.run_folder import read_result


class Change(NamedTuple):
    """One row of a table."""

    config: dict[str, Any]  # of the model; widths are factors
    paper: str  # the paper's BLEU on newstest2013 for the base model so changed, and its own value
    recipe: Mapping[str, Any] = MappingProxyType({})


BASE_OF_PAPER = "25.8 (its base)"
TABLES: dict[str, dict[str, Change]] = {
    "heads": {
        "1": Change({"heads": 1}, "24.9"),
        "2": Change({"heads": 2}, ""),
        "4": Change({"heads": 4}, "25.5"),
        "8": Change({"heads": 8}, BASE_OF_PAPER),
        "16": Change({"heads": 16}, "25.8"),
        "32": Change({"heads": 32}, "25.4"),
    },
    "head width": {  # of keys and values; the paper's is of keys
        "a quarter": Change({"head_width": 0.25}, "25.1"),
        "half": Change({"head_width": 0.5}, "25.4"),
    },
    "feed-forward": {
        "× 1": Change({"hidden": 1}, ""),
        "× 2": Change({"hidden": 2}, "25.4"),
        "× 4": Change({"hidden": 4}, BASE_OF_PAPER),
        "× 8": Change({"hidden": 8}, "26.2"),
    },
    "positions": {
        "sinusoidal": Change({"position": "sinusoidal"}, BASE_OF_PAPER),
        "learned": Change({"position": "learned"}, "25.7"),
        "relative": Change({"position": "relative"}, ""),
        "rotary": Change({"position": "rotary"}, ""),
        "none": Change({"position": "none"}, ""),
    },
    "dropout": {
        "0": Change({"dropout": 0.0}, "24.6"),
        "0.1": Change({"dropout": 0.1}, BASE_OF_PAPER),
        "0.2": Change({"dropout": 0.2}, "25.5"),
        "0.3": Change({"dropout": 0.3}, ""),
    },
    "residual": {"without": Change({"residual": False}, "")},
    "norm": {
        "post": Change({"norm": "post"}, BASE_OF_PAPER),
        "pre": Change({"norm": "pre"}, ""),
        "none": Change({"norm": "none"}, ""),
    },
    "label smoothing": {
        "0": Change({}, "25.3", {"label_smoothing": 0.0}),
        "0.1": Change({}, BASE_OF_PAPER, {"label_smoothing": 0.1}),
        "0.2": Change({}, "25.7", {"label_smoothing": 0.2}),
    },
}
BASE, AS_IT_IS = "base", "as it is"
HEAD = ("", "", "parameters", "BLEU", "BLEU, lowercased", "validation loss", "2017, WMT14 EN–DE")


class TransformerAblation(Ablation):
    task = "translate"
    tables = tuple(TABLES)
    diverging = True  # without norms or residuals it is what some variants do

    def variants(self, recipe: TranslateRecipe, only: Sequence[str] | None) -> dict[str, dict[str, TranslateRecipe]]:
        """The base, and in each table all that differ from it."""
        expect(recipe.model.startswith("transformer"), "--model", "a preset of the Transformer", recipe.model)
        found = {BASE: {AS_IT_IS: recipe}}
        for table in TABLES if only is None else only:
            built = {name: varied(recipe, change) for name, change in TABLES[table].items()}
            found[table] = {name: one for name, one in built.items() if not same_training(one, recipe)}
        return found

    def results(self, variants: Variants, plans: Plans, data: Parallel) -> list[Table]:
        from foveal.training.sweep import diverged

        outcomes = {
            key: [None if diverged(run) else read_result(run.folder) for run in runs] for key, runs in plans.items()
        }
        return [table_of(outcomes, list(variants), split_of(data))]

    def caption(self, recipe: TranslateRecipe, data: Parallel, seeds: int) -> str:
        what = f"{recipe.model} on {data.name}, split {split_of(data)}, {seeds} seeds, {recipe.epochs} epochs"
        return (
            f"{what}; mean ± standard deviation over seeds; the last column is the paper's base model on newstest2013"
        )


def split_of(data: Parallel) -> str:
    """The split that is reported."""
    return "test" if len(data.splits.get("test", ())) else "val"


def varied(recipe: TranslateRecipe, change: Change) -> TranslateRecipe:
    """The recipe, so changed. Widths are factors of the model's."""
    from foveal.models.zoo import config_of

    own = config_of(recipe.model, **recipe.config)
    config = dict(change.config)
    if "head_width" in config:
        config["head_width"] = max(2, int(own.width // own.heads * config["head_width"]))
    if "hidden" in config:
        config["hidden"] = int(own.width * config["hidden"])
    return recipe.changed(config=recipe.config | config, **change.recipe)


def table_of(
    outcomes: Mapping[tuple[str, str], list[dict[str, Any] | None]], tables: Sequence[str], split: str
) -> Table:
    """outcomes: of each variant the results of its seeds; None: the run has diverged."""
    rows = [_row("", AS_IT_IS, outcomes[BASE, AS_IT_IS], f"{BASE_OF_PAPER[:-1]}, post-norm)", split)]
    for table in tables:
        for name, change in TABLES.get(table, {}).items():
            if (table, name) in outcomes:
                rows.append(_row(table, name, outcomes[table, name], change.paper, split))
    return Table(HEAD, rows, words=2)


def _row(table: str, name: str, outcomes: list[dict[str, Any] | None], paper: str, split: str) -> list[str]:
    results = [result for result in outcomes if result is not None]
    if len(results) < len(outcomes):
        name += f" ({len(outcomes) - len(results)} of {len(outcomes)} diverged)"
    if not results:
        return [table, name, "–", "–", "–", "–", paper]
    bleu, lowercased = (
        _spread([result[split][kind]["value"] for result in results]) for kind in ("bleu", "lowercased")
    )
    loss = _spread([result["val_loss"] for result in results], 3)
    return [table, name, f"{results[0]['parameters']:,}", bleu, lowercased, loss, paper]


def _spread(values: Sequence[float], digits: int = 1) -> str:
    numbers = np.array(values)
    return f"{numbers.mean():.{digits}f}" + (f" ± {numbers.std(ddof=1):.{digits}f}" if len(numbers) > 1 else "")
