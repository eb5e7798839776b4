"""A model as one file: safetensors, with its card in the header. Opening it never runs code."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from foveal.atomic import write_atomic
from foveal.errors import FovealError, expect, short_repr, unknown
from foveal.models.mbconv import Stage
from foveal.models.shrink import Shapes, shorter, shrink
from foveal.models.zoo import FAMILIES, Config, create, names
from foveal.runtime.card import Card, read_card
from foveal.runtime.packaged import FILE, packaged


def save_model(model: nn.Module, path: Path, card: Card) -> None:
    """Write the weights and the card, whole or not at all."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    write_atomic(path, save(tensors, {"foveal": card.text()}))


def load_model(path: str | Path, task: str = "classify") -> tuple[nn.Module, Card]:
    """The model of a file, or of a run's folder, in evaluation mode; an error unless it is for this task."""
    file = model_file(path)
    tensors, card = read_file(file, task)
    try:
        with torch.device("meta"):  # shapes without memory: the card may promise more than there is
            model = shrink(build(card), card.shapes)
            if card.shapes:
                _try(model, card)
    except FovealError as error:
        raise FovealError(f"{file}: {error}") from None
    try:
        model.load_state_dict(tensors, assign=True)  # each in the precision that it was saved in
    except RuntimeError as error:
        raise FovealError(f"{file}: expected the weights of a {card.model}, got others; {' '.join(str(error).split())[:200]}") from None
    return model.eval(), card


def load_for(path: str | Path, classes: int) -> nn.Module:
    """The model of a file or of a run's folder, to be trained for so many classes. What depends on their number is new where that differs."""
    model, card = load_model(path)
    if len(card.classes) == classes:
        return model
    with torch.device("meta"):
        before = build(card)
    card = dataclasses.replace(card, config=card.config | {"classes": classes})
    other = build(card)
    old, new = before.state_dict(), other.state_dict()
    shapes = {}
    for name, tensor in model.state_dict().items():  # an axis that was not pruned is as long as the new number makes it
        sizes = zip(tensor.shape, old[name].shape, new[name].shape, strict=True)
        shapes[name] = [after if now == full else min(now, after) for now, full, after in sizes]
    shrink(other, shapes)
    kept = {name: tensor for name, tensor in model.state_dict().items() if list(tensor.shape) == shapes[name]}
    other.load_state_dict(kept, strict=False)
    return other.eval()


def load_or_new(name: str, classes: int = 2) -> tuple[nn.Module, Card, bool]:
    """The model of a file, of a run's folder or of packaged weights; else a preset or a peer by its name, with random weights: then True."""
    if Path(name).exists() or packaged(name) is not None or name not in names("classify"):
        expect(name not in names("translate") or Path(name).exists(), name, "a model that classifies", "one that does 'translate'")
        return *load_model(name), False
    torch.manual_seed(0)
    model = create(name, classes=classes).eval()
    family, config = describe(model)
    return model, Card(name, family, config, tuple(f"class {number}" for number in range(classes)), size=config.get("image", 224)), True


def model_file(path: str | Path) -> Path:
    """The file that is meant by its own name, by its run's folder, or by the name of weights that come with foveal, such as icam-pipes."""
    expect(isinstance(path, (str, Path)), "the model", "the name of a file", short_repr(path))
    file = Path(path)
    try:
        if file.is_dir():
            file = file / FILE
        elif not file.exists():
            file = packaged(str(path)) or file
        found = file.is_file()
    except OSError:  # a name that no file can have
        found = False
    expect(
        found, "the model", f"a .safetensors file of foveal's, a run's folder with a {FILE}, icam-pipes or icam-fast-pipes", str(path)[:200]
    )
    return file


def task_in(path: str | Path) -> str:
    """What the model of a file, or of a run's folder, is for; "classify" of a file that says nothing."""
    try:
        with safe_open(model_file(path), framework="pt") as content:
            said = json.loads((content.metadata() or {}).get("foveal", "{}")).get("task")
    except (SafetensorError, OSError, ValueError, AttributeError):
        said = None  # whoever reads the file says what is wrong with it
    return said if isinstance(said, str) else "classify"


def read_file(file: Path, task: str = "classify") -> tuple[dict[str, Tensor], Card]:
    try:
        with safe_open(file, framework="pt") as content:
            text = (content.metadata() or {}).get("foveal")
            if text is None:
                raise FovealError(f"{file}: expected a model that foveal wrote, got safetensors without a card of foveal's")
            return {name: content.get_tensor(name) for name in content.keys()}, read_card(text, str(file), task)  # noqa: SIM118 — no dict
    except (SafetensorError, OSError) as error:
        raise FovealError(f"{file}: expected a .safetensors file, got something else: {error}") from None


def build(card: Card) -> nn.Module:
    """The model that a card describes, with new weights."""
    if card.family not in FAMILIES:
        raise unknown("family of models", card.family, FAMILIES)
    config, model, task = FAMILIES[card.family]
    expect(card.task == task, f"the card of {card.model}", f"the task {task!r}, as {card.family} does", short_repr(card.task))
    try:
        built: nn.Module = model(config(**_settings(card.config)))
    except (TypeError, RuntimeError, MemoryError) as error:  # torch's own: a size that cannot be
        told = " ".join(str(error).split())[:200]
        raise FovealError(f"the card of {card.model}: expected settings of {config.__name__}, got others: {told}") from None
    return built


def _try(model: nn.Module, card: Card) -> None:
    """A card may tell shapes that do not fit each other: one pass without numbers finds out."""
    side = card.config.get("image", card.size)
    try:
        with torch.no_grad():
            model.eval()(torch.empty(1, 3, side, side))
    except (RuntimeError, ValueError, TypeError) as error:
        told = " ".join(str(error).split())[:200]
        raise FovealError(f"the card of {card.model}: expected shapes that fit each other, got others: {told}") from None


def describe(model: nn.Module) -> tuple[str, dict[str, Any]]:
    """(family, config) of a model, for its card."""
    config = getattr(model, "config", None)
    expect(isinstance(config, Config), "the model", "one of foveal.create", type(model).__name__)
    assert isinstance(config, Config)
    return config.family, json.loads(json.dumps(dataclasses.asdict(config)))


def shapes_of(model: nn.Module) -> Shapes:
    """For its card: the shapes of tensors that are smaller than the model's config says, since channels or heads were pruned."""
    family, config = describe(model)
    with torch.device("meta"):
        whole = build(Card(family, family, config, ()))
    return shorter(model, whole)


def _settings(config: dict[str, Any]) -> dict[str, Any]:
    settings = {key: value for key, value in config.items() if key != "family"}
    if "stages" in settings:
        settings["stages"] = tuple(Stage(**stage) for stage in settings["stages"])
    return settings
