"""Models by name: `create("icam-31k", classes=2)`, `create("transformer-base", source_words=8000, target_words=8000)`."""

import dataclasses
from typing import Any, NamedTuple

from torch import nn

from foveal.errors import FovealError, short_repr, unknown
from foveal.models.icam import Icam, IcamConfig
from foveal.models.mbconv import Stage
from foveal.models.peer import PEERS, Peer, PeerConfig
from foveal.models.seq2seq import Seq2Seq, Seq2SeqConfig
from foveal.models.transformer import Transformer, TransformerConfig

Config = IcamConfig | PeerConfig | TransformerConfig | Seq2SeqConfig

# Squares of 4 × 4 pixels are read at once, and a token is 16 × 16 pixels, not a patch: four queries look at 196 of them.
ICAM_FAST = IcamConfig(
    patch=112,
    pool=7,
    stem=64,
    stem_kernel=4,
    stem_stride=4,
    activation="relu",
    stages=(Stage(32, stride=2, expand=1, squeeze=False), Stage(32, blocks=2, expand=4, squeeze=False)),
    layers=1,
    queries=4,
    position="sinusoidal",
    first="projected",
    mixer=True,
)
PRESETS: dict[str, IcamConfig | TransformerConfig | Seq2SeqConfig] = {
    "icam-30k": IcamConfig(),  # 29,691 weights: exactly the equations
    "icam-31k": IcamConfig(position="sinusoidal", first="projected", mixer=True),  # 31,371 weights: the published build
    "icam-fast": ICAM_FAST,  # 42,797 weights: chosen by the clock, scripts/search_fast.py
    "transformer-tiny": TransformerConfig(width=128, hidden=256, heads=4, layers=4, decoder_layers=4, dropout=0.3),
    "transformer-small": TransformerConfig(width=256, hidden=1024, heads=4),
    "transformer-base": TransformerConfig(),
    "transformer-big": TransformerConfig(width=1024, hidden=4096, heads=16, dropout=0.3),
    "rnn": Seq2SeqConfig(attention="none", hidden=236),  # as many weights as transformer-tiny, with and without attention
    "rnn-attention": Seq2SeqConfig(),
}


class Family(NamedTuple):
    config: type[Any]
    model: type[nn.Module]
    task: str


FAMILIES = {
    "icam": Family(IcamConfig, Icam, "classify"),
    "peer": Family(PeerConfig, Peer, "classify"),
    "transformer": Family(TransformerConfig, Transformer, "translate"),
    "seq2seq": Family(Seq2SeqConfig, Seq2Seq, "translate"),
}


def create(name: str, **changes: Any) -> nn.Module:
    """A model with new weights. changes: fields of its config, such as classes=18."""
    config = config_of(name, **changes)
    return FAMILIES[config.family].model(config)


def config_of(name: str, **changes: Any) -> Config:
    """The config of a model of this name, so changed."""
    config: Config = _changed(_named(name), name, changes)
    return config


def task_of(name: str) -> str:
    """What a model of this name is for: "classify" or "translate"."""
    return FAMILIES[_named(name).family].task


def names(task: str) -> tuple[str, ...]:
    """The presets and peers that are for this task."""
    return tuple(name for name in (*PRESETS, *PEERS) if task_of(name) == task)


def _named(name: str) -> Config:
    config = (PRESETS.get(name) or PEERS.get(name)) if isinstance(name, str) else None
    if config is None:
        raise unknown("model", str(name), (*PRESETS, *PEERS))
    return config


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
        raise FovealError(f"{name}: expected settings that fit, got {short_repr(changes)}; {error}") from None
