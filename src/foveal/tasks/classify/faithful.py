"""`foveal explain [MODEL] --faithful N`: whether a model's maps explain its answers, as a table and as a page with its origin."""

import argparse
import json
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foveal.atomic import expect_folder, write_atomic
from foveal.errors import expect, expect_integer, is_integer
from foveal.report.progress import progress
from foveal.report.table import Table, in_markdown
from foveal.runtime.paths import model_and_rest

if TYPE_CHECKING:
    from foveal.data.pipes import Frame

FRESH = 2001  # millions: seeds from here on are in no set that `pipes:N:SEED` names, so that no model was trained on them
LARGEST_SEED = 100_000
LOWER = "deletion area"  # the measure where less is better


def run(args: argparse.Namespace) -> int:
    expect_integer(args.faithful, "--faithful")
    seed = 0 if args.seed is None else args.seed
    expect(is_integer(seed) and 0 <= seed <= LARGEST_SEED, "--seed", f"an integer from 0 to {LARGEST_SEED}", seed)
    model, rest = model_and_rest(args.words)
    expect(not rest, "--faithful", "a model and no image", " ".join(rest[:1]), "it draws pipes, whose findings it knows")
    if args.out is not None:
        expect_folder(args.out)
    from foveal.deploy.measure.origin import origin
    from foveal.device import choose
    from foveal.explain.faithfulness import faithfulness
    from foveal.models.store import load_model

    net, card = load_model(model)
    device = str(choose(args.device))
    frames = progress(_frames(args.faithful, seed, card.size), args.faithful, "measuring")
    facts = faithfulness(net, card, frames, device=device, seed=seed, fill=args.fill or "mean")
    facts |= {"file": Path(model).name, "first frame": _first(seed), "origin": origin(device)}
    grid = table(facts)
    if args.out is not None:
        text = json.dumps(_spoken(facts), ensure_ascii=False, indent=1) + "\n"
        for name, content in (("faithful.md", report(facts)), ("faithful.csv", grid.csv()), ("faithful.json", text)):
            write_atomic(args.out / name, content.encode())
        print(f"wrote {args.out}/faithful.md, .csv and .json", file=sys.stderr)
    if args.json:
        print(json.dumps(_spoken(facts), ensure_ascii=False))
    else:
        print(summary(facts))
        print(grid.markdown() if grid.rows else "nothing to measure: the model named nothing in these frames", end="\n")
    return 0


def _first(seed: int) -> int:
    return (FRESH + seed) * 1_000_000


def _frames(count: int, seed: int, size: int) -> "Iterator[Frame]":
    from foveal.data.pipes import render

    for index in range(count):
        yield render(_first(seed) + index, size)


def table(facts: dict[str, Any]) -> Table:
    """Every measure and map: the mean, the difference to chance, and what can be said of it."""
    rows = []
    for one in facts["figures"]:
        more, span = one["against random"], one["interval against random"]
        against = "–" if more is None else f"{_signed(more)} ({_signed(span[0])} to {_signed(span[1])})"
        low, high = one["interval"]
        mean = f"{100 * one['mean']:.1f} ({100 * low:.1f} to {100 * high:.1f})"
        rows.append([one["measure"], one["map"], str(one["count"]), mean, against, _said(one["measure"], span)])
    return Table(["measure", "map", "findings", "% (95 %)", "against random (95 %)", "so it is"], rows, words=2)


def _said(measure: str, span: Sequence[float] | None) -> str:
    if span is None:
        return "chance"
    low, high = (-span[1], -span[0]) if measure == LOWER else span
    return "better than chance" if low > 0 else "worse than chance" if high < 0 else "not told from chance"


def _signed(share: float) -> str:
    return f"{100 * share:+.1f}"


def summary(facts: dict[str, Any]) -> str:
    words = (
        f"{facts['frames']} rendered frames with {facts['findings']} findings; the model names {facts['named']}, of which {facts['found']} "
    )
    return words + f"are there. {facts['cells'][0]} × {facts['cells'][1]} cells, hidden cells filled with the image's {_filled(facts)}."


def _filled(facts: dict[str, Any]) -> str:
    return {"mean": "mean colour", "blur": "blurred self"}[facts["fill"]]


def report(facts: dict[str, Any]) -> str:
    """The page: what was measured, how, and where it comes from."""
    origin = [[name, str(value)] for name, value in facts["origin"].items()]
    settings = [[name, str(facts[name])] for name in ("file", "model", "first frame", "seed", "random orders", "fill", "interval")]
    lines = [f"# Do the maps of {in_markdown(facts['file'])} explain its answers?\n", in_markdown(summary(facts)) + "\n"]
    lines.append(
        "Points and weight: of findings that are there and were named, whether the map's largest cell touches the finding, and how much of "
        "the map lies on it; more is better. Deletion area: the mean probability of what was named while cells are hidden, the map's "
        "largest first; less is better. Random: by area for the first, random orders for the last. The map of attention is the mean over "
        "layers, heads and queries, the same for every answer; gradient (input × gradient) and occlusion belong to the answer.\n"
    )
    if facts["attention"] != "watched":
        lines.append(in_markdown(facts["attention"]) + "\n")
    lines.append(table(facts).markdown() if facts["figures"] else "Nothing to measure: the model named nothing in these frames.\n")
    if facts["curves"]:
        names = [name for name in facts["curves"] if name != "hidden"]
        rows = [
            [f"{100 * share:.0f}", *(f"{facts['curves'][name][place]:.3f}" for name in names)]
            for place, share in enumerate(facts["curves"]["hidden"])
        ]
        lines += ["## Mean probability while cells are hidden\n", Table(["hidden %", *names], rows).markdown()]
    lines += ["## Origin\n", Table(["what", "value"], [*settings, *origin], words=2).markdown()]
    return "\n".join(lines)


def _spoken(value: Any) -> Any:
    """What JSON can hold: nan becomes null."""
    if isinstance(value, dict):
        return {key: _spoken(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_spoken(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
