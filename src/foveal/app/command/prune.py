"""`foveal prune MODEL --parameters N --out FILE`: the same model with fewer channels or heads,
as small as another one; to be trained on.
"""

import argparse
import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foveal.app.command.flags import expect_not_input
from foveal.atomic import expect_folder
from foveal.errors import FovealError, expect
from foveal.runtime.packaged import SUFFIX
from foveal.tasks.load import load
from foveal.tasks.model import Model
from foveal.tasks.task import find_task

if TYPE_CHECKING:
    from torch import nn

CHANNELS, HEADS = ("l1", "fpgm"), ("gradient", "masking")
LARGE = {"k": 10**3, "M": 10**6, "G": 10**9}
SAMPLES = 64  # on which the importance of heads is measured


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model", metavar="MODEL", help="a run's folder, a .safetensors file, weights that come with foveal, or a preset"
    )
    parser.add_argument(
        "--flops",
        metavar="N",
        help="at most N operations per sample, 2 per multiply-add: a number such as 180M, or a model that has "
        "them; without it, --parameters or --heads is needed",
    )
    parser.add_argument(
        "--parameters",
        metavar="N",
        help="at most N parameters: a number such as 31371, or a model that has them; without it, --flops or --heads "
        "is needed",
    )
    parser.add_argument(
        "--heads",
        metavar="LIST",
        help="heads to remove as LAYER:HEAD, such as 0:1,1:0; or how many, those that matter least; without it, "
        "--flops or --parameters is needed",
    )
    parser.add_argument(
        "--by",
        metavar="METHOD",
        help=f"what is removed first: channels by {' or '.join(CHANNELS)}, heads by {' or '.join(HEADS)} (default: "
        "the first)",
    )
    parser.add_argument("--out", metavar="FILE", type=Path, required=True, help=f"the {SUFFIX} file to write")


def run(args: argparse.Namespace) -> int:
    asked = [name for name in ("flops", "parameters", "heads") if getattr(args, name) is not None]
    got = "none" if not asked else " and ".join(f"--{name}" for name in asked)
    expect(len(asked) == 1, "to prune", "one of --flops, --parameters and --heads", got)
    unit = asked[0]
    methods = HEADS if unit == "heads" else CHANNELS
    by = args.by or methods[0]
    expect(by in methods, "--by", f"one of {', '.join(methods)} beside --{unit}", by)
    expect(args.out.suffix == SUFFIX, "--out", f"a name that ends in {SUFFIX}", args.out.name)
    expect(not args.out.is_dir(), "--out", "the name of a file", f"the folder {args.out}")
    given = None if unit == "heads" else number(getattr(args, unit), f"--{unit}")

    from foveal.deploy.prune import prune, pruned_card
    from foveal.models.store import expect_finite_weights, save_model

    model = load(args.model, device="cpu")
    expect_not_input(args.out, [model.path])
    expect_folder(args.out.parent)
    if model.random:
        print(f"{args.model}: no weights come with foveal, so they are random")
    expect_finite_weights(model.network.state_dict(), args.model)
    if unit == "heads":
        pruned, words = _without(model, args.heads, by)
    else:
        goal = _as_many_as(getattr(args, unit), unit) if given is None else given
        try:
            pruned = prune(model.network, goal, unit, by)
        except FovealError as error:
            raise FovealError(f"--{unit} of {args.model}: {error}") from None
        words = f"by {by} to at most {goal:,} {unit}"
    save_model(pruned, args.out, pruned_card(model.card, pruned, words))
    print(f"wrote {args.out}, {words}: {_remaining(model.network, pruned)}")
    return 0


def number(text: str, flag: str) -> int | None:
    """What was typed, such as 31371, 31,371, 180M or 1.5e6; None where it is no number, and may be a model's name."""
    plain = text.strip().replace(",", "").replace("_", "")
    factor = LARGE.get(plain[-1:], 1)
    try:
        value = float(plain[: -1 if factor > 1 else None]) * factor
    except ValueError:
        return None
    expect(1 <= value < 2**62, flag, "a number above 0, such as 31371 or 180M, or a model", text)  # and no nan
    return int(value)


def _as_many_as(name: str, unit: str) -> int:
    """What another model costs, on samples of its own size."""
    from foveal.deploy.prune import counter

    try:
        network = load(name, device="cpu").network
    except FovealError as error:
        raise FovealError(
            f"--{unit}: expected a number above 0, such as 31371 or 180M, or a model, got {name!r}; {error}"
        ) from None
    return counter(unit)(network)


def _remaining(model: "nn.Module", pruned: "nn.Module") -> str:
    """What is left of a model, in words."""
    from foveal.deploy.prune import counter

    costs = []
    for unit in ("parameters", "flops"):
        before, after = counter(unit)(model), counter(unit)(pruned)
        costs.append(f"{after:,} of {before:,} {unit} ({after / before:.1%})")
    return ", ".join(costs)


def _without(model: Model, text: str, by: str) -> "tuple[nn.Module, str]":
    """The model without these heads, and what was done in words."""
    from foveal.models.heads import head_layers, remove_heads

    head_layers(model.network)  # raises where there are none
    heads, words = _listed(text), "as asked"
    if heads is None:
        heads, over = _least(model, int(text), by)
        words = f"which matter least by {by}, on {over}"
    fewer = copy.deepcopy(model.network)
    remove_heads(fewer, heads)
    named = ", ".join(f"{layer}:{head}" for layer, some in sorted(heads.items()) for head in sorted(some))
    return fewer, f"without the heads {named} ({words})"


def _listed(text: str) -> dict[int, list[int]] | None:
    """The heads of 0:1,1:0; None where the text is how many."""
    if text.strip().isdecimal():
        return None
    heads: dict[int, list[int]] = {}
    for part in text.split(","):
        layer, sign, head = part.strip().partition(":")
        fits = bool(sign) and layer.isdecimal() and head.isdecimal()
        expect(fits, "--heads", "LAYER:HEAD, such as 0:1,1:0, or how many", text)
        heads.setdefault(int(layer), []).append(int(head))
    return heads


def _least(model: Model, count: int, by: str) -> tuple[dict[int, list[int]], str]:
    """The heads that matter least, on samples that its task names."""
    from foveal.explain import heads

    samples = find_task(model.task).labelled_batches(model, SAMPLES)
    measure: Any = heads.importance_by_gradient if by == "gradient" else heads.importance_by_masking
    return heads.least(measure(model.network, samples.batches, samples.loss), count), samples.words
