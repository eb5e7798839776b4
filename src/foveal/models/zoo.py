"""Models by name: `create("icam-31k", classes=2)`."""

import dataclasses
from typing import Any

from torch import nn

from foveal.errors import FovealError, shown, unknown
from foveal.models.icam import Icam, IcamConfig
from foveal.models.mbconv import Stage

PRESETS: dict[str, IcamConfig] = {
    "icam-30k": IcamConfig(),  # 29,691 weights: exactly the equations
    "icam-31k": IcamConfig(position="sinusoidal", first="projected", mixer=True),  # 31,371 weights: the published build
}


def create(name: str, **changes: Any) -> nn.Module:
    """A model with new weights. changes: fields of its config, such as classes=18."""
    from foveal.models.peer import PEERS, Peer  # not before it is asked for: it may load transformers

    if isinstance(name, str) and name in PEERS:
        return Peer(_changed(PEERS[name], name, changes))
    if not isinstance(name, str) or name not in PRESETS:
        raise unknown("model", str(name), (*PRESETS, *PEERS))
    return Icam(_changed(PRESETS[name], name, changes))


def _changed(config: Any, name: str, changes: dict[str, Any]) -> Any:
    fields = {field.name for field in dataclasses.fields(config) if field.init}
    for key in changes:
        if key not in fields:
            raise unknown(f"setting of {name}", key, fields)
    try:
        if "stages" in changes:  # as a recipe writes them
            changes = changes | {"stages": tuple(stage if isinstance(stage, Stage) else Stage(**stage) for stage in changes["stages"])}
        return dataclasses.replace(config, **changes)
    except TypeError as error:
        raise FovealError(f"{name}: expected settings that fit, got {shown(changes)}; {error}") from None
