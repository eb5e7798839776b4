"""`foveal prune MODEL --weights X --out FILE`: the same model with fewer channels or heads, as small as another one; to be trained on."""

import argparse
import copy
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from foveal.atomic import expect_folder
from foveal.errors import FovealError, expect
from foveal.runtime.packaged import SUFFIX

if TYPE_CHECKING:
    from torch import nn

    from foveal.runtime.card import Card

CHANNELS, HEADS = ("l1", "fpgm"), ("gradient", "masking")
LARGE = {"k": 10**3, "M": 10**6, "G": 10**9}
PICTURES = 64  # on which the importance of heads is measured


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="a run's folder, a .safetensors file, weights in the package such as icam-fast-pipes, or a preset or a peer, with random weights",
    )
    parser.add_argument(
        "--flops",
        metavar="X",
        help="at most so many for one picture, 2 for each multiply-add: a number such as 180M, or a model that has them",
    )
    parser.add_argument("--weights", metavar="X", help="at most so many: a number such as 31371, or a model that has them")
    parser.add_argument(
        "--heads", metavar="LIST", help="heads to remove as LAYER:HEAD, such as 0:1,1:0; or how many, those that matter least"
    )
    parser.add_argument(
        "--by", help=f"what is removed first: of channels {' or '.join(CHANNELS)}, of heads {' or '.join(HEADS)} (default: the first)"
    )
    parser.add_argument("--out", metavar="FILE", type=Path, required=True, help=f"the {SUFFIX} file to write")


def run(args: argparse.Namespace) -> int:
    asked = [name for name in ("flops", "weights", "heads") if getattr(args, name) is not None]
    got = "none" if not asked else " and ".join(f"--{name}" for name in asked)
    expect(len(asked) == 1, "to prune", "one of --flops, --weights and --heads", got)
    unit = asked[0]
    methods = HEADS if unit == "heads" else CHANNELS
    by = args.by or methods[0]
    expect(by in methods, "--by", f"one of {', '.join(methods)} beside --{unit}", by)
    expect(args.out.suffix == SUFFIX, "--out", f"a name that ends in {SUFFIX}", args.out.name)
    expect(not args.out.is_dir(), "--out", "the name of a file", f"the folder {args.out}")
    given = None if unit == "heads" else number(getattr(args, unit), f"--{unit}")
    expect_folder(args.out.parent)

    from foveal.models.store import load_or_new, save_model

    model, card, new = load_or_new(args.model)
    if new:
        print(f"{args.model}: no weights come with foveal, so they are random")
    if unit == "heads":
        pruned, words = _without(model, card, args.heads, by)
    else:
        goal = _as_many_as(getattr(args, unit), unit) if given is None else given
        from foveal.deploy.prune import prune

        try:
            pruned = prune(model, goal, unit, by, size=card.size)
        except FovealError as error:
            raise FovealError(f"--{unit} of {args.model}: {error}") from None
        words = f"by {by} to at most {goal:,} {unit}"
    save_model(pruned, args.out, pruned_card(card, pruned, words))
    print(f"wrote {args.out}, {words}: {told(model, pruned, card.size)}")
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
    """What another model costs, on pictures of its own size."""
    from foveal.deploy.prune import counter
    from foveal.models.store import load_or_new

    try:
        model, card, _ = load_or_new(name)
    except FovealError as error:
        raise FovealError(f"--{unit}: expected a number above 0, such as 31371 or 180M, or a model, got {name!r}; {error}") from None
    return counter(unit, card.size)(model)


def pruned_card(card: "Card", pruned: "nn.Module", words: str) -> "Card":
    """What the file says of itself: the shapes, and that figures of the whole model are none of its own."""
    from foveal.models.store import shapes_of

    name = card.model if card.shapes else f"{card.model}-pruned"
    note = f"{card.model} pruned {words}, and not trained since."
    return dataclasses.replace(card, model=name, metrics={}, note=note, shapes=shapes_of(pruned))


def told(model: "nn.Module", pruned: "nn.Module", size: int) -> str:
    """What is left of a model, in words."""
    from foveal.deploy.prune import counter

    costs = []
    for unit in ("weights", "flops"):
        cost = counter(unit, size)
        before, after = cost(model), cost(pruned)
        costs.append(f"{after:,} of {before:,} {unit} ({after / before:.1%})")
    return ", ".join(costs)


def _without(model: "nn.Module", card: "Card", text: str, by: str) -> "tuple[nn.Module, str]":
    """The model without these heads, and what was done in words."""
    from foveal.models.heads import head_layers, remove_heads

    head_layers(model)  # raises where there are none
    heads, words = _listed(text), "as asked"
    if heads is None:
        heads, over = _least(model, card, int(text), by)
        words = f"which matter least by {by}, on {over}"
    fewer = copy.deepcopy(model)
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


def _least(model: "nn.Module", card: "Card", count: int, by: str) -> tuple[dict[int, list[int]], str]:
    """The heads that matter least on the validation pictures the model was chosen on, or by its own answers on drawn ones."""
    import torch

    from foveal.explain import heads
    from foveal.tasks.classify.export import held_beside
    from foveal.tasks.classify.predict_torch import TorchClassifier

    held = held_beside(card)
    inspector = TorchClassifier(model, card, "cpu")
    images = inspector.prepare(list(held.frames[:PICTURES]))
    own = torch.from_numpy(inspector.answers(images))
    answers = (own > 0).float() if card.multi_label else own.argmax(1)
    truth = answers if held.truth is None else torch.from_numpy(held.truth[:PICTURES])
    measure = heads.importance_by_gradient if by == "gradient" else heads.importance_by_masking
    return heads.least(measure(model, images, truth, heads.loss_of(card.multi_label)), count), f"{len(images)} of {held.words}"
