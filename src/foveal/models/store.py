"""A model as one file: safetensors, with its card in the header. Opening it never runs code."""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from foveal.errors import FovealError, expect, unknown
from foveal.models.card import Card, read_card
from foveal.models.icam import Icam, IcamConfig
from foveal.models.mbconv import Stage
from foveal.models.peer import Peer, PeerConfig

FILE = "model.safetensors"  # what it is called in a run's folder


def save_model(model: nn.Module, path: Path, card: Card) -> None:
    """Write the weights and the card, whole or not at all."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(save(tensors, {"foveal": card.text()}))
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise FovealError(f"cannot write {path}: {error.strerror or error}; give another name") from None


def load_model(path: str | Path) -> tuple[nn.Module, Card]:
    """The model of a file, or of a run's folder, in evaluation mode."""
    file = Path(path)
    file = file / FILE if file.is_dir() else file
    expect(file.is_file(), "the model", f"a .safetensors file of foveal's, or a run's folder with a {FILE}", str(path))
    tensors, card = read_file(file)
    model = build(card)
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        raise FovealError(f"{file}: expected the weights of a {card.model}, got others; {' '.join(str(error).split())[:200]}") from None
    return model.eval(), card


def read_file(file: Path) -> tuple[dict[str, Tensor], Card]:
    try:
        with safe_open(file, framework="pt") as content:
            text = (content.metadata() or {}).get("foveal")
            expect(text is not None, str(file), "a model that foveal wrote", "safetensors without a card of foveal's")
            return {name: content.get_tensor(name) for name in content.keys()}, read_card(text, str(file))  # noqa: SIM118 — no dict
    except (SafetensorError, OSError) as error:
        raise FovealError(f"{file}: expected a .safetensors file, got something else: {error}") from None


def build(card: Card) -> nn.Module:
    """The model that a card describes, with new weights."""
    if card.family not in FAMILIES:
        raise unknown("family of models", card.family, FAMILIES)
    config, model = FAMILIES[card.family]
    try:
        return model(config(**_settings(card.config)))
    except TypeError as error:
        raise FovealError(f"the card of {card.model}: expected settings of {config.__name__}, got others: {error}") from None


def describe(model: nn.Module) -> tuple[str, dict[str, Any]]:
    """(family, config) of a model, for its card."""
    config = getattr(model, "config", None)
    expect(isinstance(config, (IcamConfig, PeerConfig)), "the model", "one of foveal.create", type(model).__name__)
    assert isinstance(config, (IcamConfig, PeerConfig))
    return config.family, json.loads(json.dumps(dataclasses.asdict(config)))


def _settings(config: dict[str, Any]) -> dict[str, Any]:
    settings = {key: value for key, value in config.items() if key != "family"}
    if "stages" in settings:
        settings["stages"] = tuple(Stage(**stage) for stage in settings["stages"])
    return settings


FAMILIES: dict[str, tuple[Any, Any]] = {"icam": (IcamConfig, Icam), "peer": (PeerConfig, Peer)}
