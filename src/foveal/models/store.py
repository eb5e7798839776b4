"""A model as one file: safetensors, with its card in the header. Opening it never runs code."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from foveal.atomic import write_atomic
from foveal.errors import FovealError, expect, expect_plain_file, nearest, short_repr
from foveal.file_names import utf8_name
from foveal.models.shrink import Shapes, shorter, shrink
from foveal.models.zoo import family
from foveal.runtime import packaged
from foveal.runtime.card import SEWER_MEAN, SEWER_STD, Card, read_card
from foveal.runtime.onnx_names import CARD

Kind = TypeVar("Kind", bound=Card)


def save_model(model: nn.Module, path: Path, card: Card) -> None:
    """Write the weights and the card, whole or not at all."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    write_atomic(path, save(tensors, {CARD: card.text()}))


def load_model(path: str | Path, kind: type[Kind]) -> tuple[nn.Module, Kind]:
    """The model of a file, or of a run's folder, in evaluation mode. kind: the card of its task."""
    file = model_file(path)
    tensors, text = read_tensors(file)
    card = read_card(text, str(file), kind)
    try:
        with torch.device("meta"):  # shapes without memory: the card may promise more than there is
            model = shrink(build(card, tensors=len(tensors)), card.shapes)
            if card.shapes:
                _try(model, card)
    except FovealError as error:
        raise FovealError(f"{file}: {error}") from None
    try:
        model.load_state_dict(tensors, assign=True)  # each in the precision that it was saved in
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:200]
        raise FovealError(f"{file}: expected the weights of a {card.model}, got others; {reason}") from None
    return model.eval(), card


def load_for(path: str | Path, kind: type[Kind], **changes: Any) -> nn.Module:
    """The model of a file or of a run's folder, with other fields in its config, such as classes=5.

    What depends on them is new.
    """
    model, card = load_model(path, kind)
    expect_finite_weights(model.state_dict(), str(path))
    if all(card.config.get(key) == value for key, value in changes.items()):
        return model
    with torch.device("meta"):
        before = build(card)
    other = build(dataclasses.replace(card, config=card.config | changes))
    old, new = before.state_dict(), other.state_dict()
    shapes = {}
    for name, tensor in model.state_dict().items():  # an axis that was not pruned is as long as the new config makes it
        sizes = zip(tensor.shape, old[name].shape, new[name].shape, strict=True)
        shapes[name] = [after if now == full else min(now, after) for now, full, after in sizes]
    shrink(other, shapes)
    kept = {name: tensor for name, tensor in model.state_dict().items() if list(tensor.shape) == shapes[name]}
    other.load_state_dict(kept, strict=False)
    return other.eval()


def begin_with(model: nn.Module, init_from: str, known: tuple[str, ...] = ()) -> int:
    """Copy the weights of a model file wherever name and shape agree; how many tensors that were.

    known: what else may be named where no such file is found.
    """
    tensors, _ = read_tensors(model_file(init_from, "--init-from", known))
    own = model.state_dict()
    fitting = {name: tensor for name, tensor in tensors.items() if name in own and own[name].shape == tensor.shape}
    expect(bool(fitting), f"the weights of {init_from}", "some that fit the model", "none")
    expect_finite_weights(fitting, init_from)
    model.load_state_dict(fitting, strict=False)
    return len(fitting)


def expect_finite_weights(tensors: Mapping[str, Tensor], where: str) -> None:
    """Raise a FovealError unless these weights are numbers: of others none is learned from,
    and none matters more than another.
    """
    for name, tensor in tensors.items():
        sound = not tensor.is_floating_point() or bool(tensor.isfinite().all())
        expect(sound, f"the weights of {where}", "finite numbers", f"NaN or infinity in {name}", "choose another file")


def model_file(path: str | Path, what: str = "the model", others: tuple[str, ...] = ()) -> Path:
    """The file that is meant by its own name, by its run's folder,
    or by the name of weights that come with foveal, such as icam-pipes.

    what: who asks for it, and others: further names that are known there, for the error.
    """
    expect(isinstance(path, (str, Path)), what, "the name of a file", short_repr(path))
    file = Path(path)
    try:
        if file.is_dir():
            file = file / packaged.FILE
        elif not file.exists():
            file = packaged.packaged(str(path)) or file
        found = file.exists()
    except OSError:  # a name that no file can have
        found = False
    known = [*packaged.names(), *others]
    listed = " or ".join([", ".join(known[:-1]), known[-1]])
    near = None if found or not others else nearest(str(path), known)
    expect(
        found,
        what,
        f"a .safetensors file of foveal's, a run's folder with a {packaged.FILE}, {listed}",
        str(path)[:200],
        f"the nearest is {near}" if near else "",
    )
    expect_plain_file(file)
    return file


def read_tensors(file: Path) -> tuple[dict[str, Tensor], str]:
    """The tensors of a file, and the text of its card."""
    try:
        with utf8_name(file) as link, safe_open(link, framework="pt") as content:
            text = (content.metadata() or {}).get(CARD)
            if text is None:
                raise FovealError(
                    f"{file}: expected a model that foveal wrote, got safetensors without a card of foveal's"
                )
            return {name: content.get_tensor(name) for name in content.keys()}, text  # noqa: SIM118 — no dict
    except (SafetensorError, OSError) as error:
        raise FovealError(f"{file}: expected a .safetensors file, got something else: {error}") from None


def read_text(file: Path) -> str:
    """The text of a file's card; no tensor is read."""
    try:
        with utf8_name(file) as link, safe_open(link, framework="np") as content:
            text = (content.metadata() or {}).get(CARD)
    except (SafetensorError, OSError) as error:
        raise FovealError(f"{file}: expected a .safetensors file, got something else: {error}") from None
    if text is None:
        raise FovealError(f"{file}: expected a model that foveal wrote, got safetensors without a card of foveal's")
    return str(text)


def build(card: Card, tensors: int | None = None) -> nn.Module:
    """The model that a card describes, with new weights. tensors: of its file, which has at least one per block."""
    kind = family(card.family)
    try:
        config = kind.config(**{key: value for key, value in card.config.items() if key != "family"})
        deep = config.depth() if hasattr(config, "depth") else 0  # fixed by its code, whatever the card says
        fits = tensors is None or deep <= tensors
        expect(fits, f"the card of {card.model}", f"at most {tensors} blocks, as the file has tensors", f"{deep:,}")
        return kind.model(config)
    except (TypeError, RuntimeError, MemoryError, OverflowError) as error:  # torch's own: a size that cannot be
        reason = " ".join(str(error).split())[:200]
        raise FovealError(
            f"the card of {card.model}: expected fields of {kind.config.__name__}, got others: {reason}"
        ) from None


def describe(model: nn.Module) -> tuple[str, dict[str, Any]]:
    """(family, config) of a model, for its card."""
    config = getattr(model, "config", None)
    known = dataclasses.is_dataclass(config) and not isinstance(config, type) and hasattr(config, "family")
    expect(known, "the model", "one of foveal.create", type(model).__name__)
    assert dataclasses.is_dataclass(config)
    assert not isinstance(config, type)
    facts = json.loads(json.dumps(dataclasses.asdict(config)))
    return facts.pop("family"), facts


def normalisation(model: nn.Module) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """(mean, std) of each colour, for its card: the model's own where its weights to begin with were learned so."""
    own: tuple[tuple[float, ...], tuple[float, ...]] = getattr(model, "normalisation", (SEWER_MEAN, SEWER_STD))
    return own


def shapes_of(model: nn.Module) -> Shapes:
    """For its card: the shapes of tensors that are smaller than the model's config says,
    since channels or heads were pruned.
    """
    name, config = describe(model)
    with torch.device("meta"):
        full = build(Card(task="", model=name, family=name, config=config))
    return shorter(model, full)


def _try(model: Any, card: Card) -> None:
    """A card may name shapes that do not fit each other: one pass without numbers finds out."""
    try:
        with torch.no_grad():
            model.eval()(*model.example())
    except (RuntimeError, ValueError, TypeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise FovealError(
            f"the card of {card.model}: expected shapes that fit each other, got others: {reason}"
        ) from None
