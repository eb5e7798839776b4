"""What a run of translation reports at its end, and the table over several seeds."""

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from foveal.atomic import write_atomic
from foveal.data.parallel import Pairs
from foveal.metrics.bleu import Score
from foveal.report.table import Table, write_tables
from foveal.runtime.packaged import FILE
from foveal.training.run_folder import read_result

FIGURES = {"bleu": "BLEU", "lowercased": "BLEU, lowercased", "chrf": "chrF"}


def describe_result(result: Mapping[str, Any], folder: Path) -> list[str]:
    """The lines that a person reads at the end of a run."""
    lines = []
    for split in _splits(result):
        bleu, small = result[split]["bleu"], result[split]["lowercased"]
        interval = f"({bleu['low']:.1f} to {bleu['high']:.1f})"
        lines.append(f"{split}: BLEU {bleu['value']:.2f} {interval}, lowercased {small['value']:.2f}")
    lines.append(f"BLEU is {result['val']['bleu']['signature']}")
    lines.append(f"the model is {folder / FILE}; next: foveal translate {folder} < sentences.txt")
    return lines


def summarise(folders: Sequence[Path], out: Path) -> str:
    """Mean and standard deviation over seeds: written as summary.md, .csv, .tex and .json, and returned as Markdown."""
    results = [read_result(folder) for folder in folders]
    first = results[0]
    title = f"{first['model']} ({first['parameters']:,} parameters) on {first['data']['name']}"
    seeds = ", ".join(str(result["seed"]) for result in results)
    note = signature_note(first["val"]["bleu"]["signature"])
    caption = f"{len(results)} seeds ({seeds}), mean and standard deviation (n − 1); {note}"
    table = Table(["split", "figure", "mean", "std", "lowest", "highest"], _rows(results), words=2)
    write_tables(out, "summary", [table], title, caption, first["origin"])
    write_atomic(out / "summary.json", json.dumps(results, indent=1).encode())
    return f"{title}\n{caption}\n\n{table.markdown()}"


def signature_note(signature: str) -> str:
    return f"BLEU is {signature}; lowercased: the same on lowercase letters"


def _rows(results: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    rows = []
    for split in _splits(results[0]):
        for name, title in FIGURES.items():
            values = np.array([result[split][name]["value"] for result in results])
            rows.append([split, title, *_numbers(values, 2)])
    minutes = np.array([result["seconds"] / 60 for result in results])
    return [*rows, ["train", "minutes of training", *_numbers(minutes, 1)]]


def _numbers(values: Any, digits: int) -> list[str]:
    spread = f"{values.std(ddof=1):.{digits}f}" if len(values) > 1 else "–"
    return [f"{values.mean():.{digits}f}", spread, f"{values.min():.{digits}f}", f"{values.max():.{digits}f}"]


def _splits(result: Mapping[str, Any]) -> list[str]:
    """That were translated."""
    return [split for split in result["data"]["splits"] if split in result]


def translations_file(split: str) -> str:
    """The name of a split's translations in a folder."""
    return f"translations-{split}.tsv"


def translations_table(pairs: Pairs, translations: Iterable[str]) -> str:
    rows = zip(pairs.source, translations, pairs.target, strict=True)
    lines = ["\t".join(" ".join(cell.split()) for cell in row) for row in rows]
    return "\n".join(["source\ttranslation\treference", *lines, ""])


def plain_scores(scores: dict[str, Score]) -> dict[str, Any]:
    """As values that JSON can hold."""
    return {
        name: {
            key: round(value, 3) if isinstance(value, float) else value
            for key, value in dataclasses.asdict(score).items()
        }
        for name, score in scores.items()
    }
