"""An instance of a class whose constructor is not known: its arguments are guessed by their names."""

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any

from foveal.errors import FovealError
from foveal.explain.diagnosis.subject import REFUSALS

WIDTHS = ["width", "embed_dim", "d_model", "dim", "hidden_size", "n_embd", "embedding_dim", "emb_dim", "embed_size", "emb_size", "model_dim", "hidden_dim", "input_dim", "in_dim", "dim_in", "channels", "in_channels", "features", "in_features", "query_width", "query_dim", "dim_model", "d", "d_in", "n_state", "key_width", "key_dim", "value_dim", "kdim", "vdim"]
HEADS = ["heads", "num_heads", "n_heads", "n_head", "nhead", "nheads", "num_attention_heads", "head_num", "h"]
HEAD_WIDTHS = ["head_width", "head_dim", "dim_head", "d_head", "d_k", "d_v", "head_size", "dim_heads", "kv_channels"]
LENGTHS = ["block_size", "seq_len", "seq_length", "sequence_length", "max_len", "max_length", "max_seq_len", "max_seq_length", "n_ctx", "ctx_len", "context_length", "length", "num_tokens", "max_position_embeddings", "n_positions", "tokens"]
GROUPS = ["groups", "kv_heads", "num_kv_heads", "n_kv_heads", "num_key_value_heads"]
CONFIGS = ["config", "cfg", "conf", "args", "hparams", "opt", "options", "params"]
HIDDEN = "hidden hidden_width hidden_features inner_dim state_width attention_dim".split()
DROPOUT = 0.1  # in a class that is built here, so that dropout which stays on can be seen
HEAD_WIDTH = 10
TOKENS = 7


def built(kind: type, arguments: Mapping[str, Any]) -> Any:
    """kind(**arguments), with what is missing guessed; a FovealError that names the constructor if that fails."""
    constructor = f"{kind.__name__}{_signature(kind)}"
    trouble: Exception | None = None
    for dropout, all_of_them in ((DROPOUT, False), (DROPOUT, True), (None, False)):
        try:
            return kind(**_guessed(kind, arguments, dropout, all_of_them=all_of_them))
        except REFUSALS as error:
            trouble = trouble or error
    given = ", ".join(f"{name}={value!r}" for name, value in arguments.items()) or "none"
    raise FovealError(
        f"{kind.__name__}: expected constructor arguments that can be guessed, got {constructor} (given: {given}), which fails with "
        f"{_line(trouble)}; pass arguments=dict(…) (on the command line --set name=value …), or an instance"
    )


def guess(name: str, known: Mapping[str, Any], dropout: float | None) -> Any:
    """A value for an argument of this name; None if the name says nothing."""
    word = name.lower()
    heads, width = _sizes(known)
    if "drop" in word:
        return dropout
    for names, value in ((WIDTHS, width), (HEADS, heads), (HEAD_WIDTHS, width // heads), (LENGTHS, TOKENS), (GROUPS, heads), (HIDDEN, width)):
        if word in names:
            return value
    if word in ("layer_idx", "layer_id", "layer_index"):
        return 0
    return True if word in ("bias", "qkv_bias") else None


def _guessed(kind: type, arguments: Mapping[str, Any], dropout: float | None, *, all_of_them: bool = False) -> dict[str, Any]:
    values = dict(arguments)
    for name, parameter in _parameters(kind).items():
        if name in values or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        needed = parameter.default is parameter.empty
        if needed and name.lower() in CONFIGS:
            values[name] = _config(parameter.annotation, arguments, dropout)
            continue
        number = isinstance(parameter.default, int | float) and not isinstance(parameter.default, bool)
        # Heads must divide the width that was guessed, and dropout must be there to be seen, so these two replace a default.
        if needed or (number and (all_of_them or name.lower() in HEADS or "drop" in name.lower())):
            value = guess(name, arguments, dropout)
            if value is not None:
                values[name] = value
    return values


def _config(annotation: Any, known: Mapping[str, Any], dropout: float | None) -> Any:
    if isinstance(annotation, type) and (dataclasses.is_dataclass(annotation) or annotation.__name__.endswith("Config")):
        return annotation(**_guessed(annotation, {}, dropout, all_of_them=True))
    return Guessed(known, dropout)


class Guessed:
    """A configuration that answers every name which says what it is: config.n_embd, config.n_head, config.block_size."""

    def __init__(self, known: Mapping[str, Any], dropout: float | None) -> None:
        self._known, self._dropout = dict(known), dropout or 0.0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        value = self._known.get(name, guess(name, self._known, self._dropout))
        if value is None:
            raise AttributeError(f"a guessed configuration has no {name!r}")
        return value


def _sizes(known: Mapping[str, Any]) -> tuple[int, int]:
    """Heads and width that fit each other and what is known of them."""
    given = {kind: next((known[name] for name in names if isinstance(known.get(name), int)), None) for kind, names in _NAMES.items()}
    each = given["head width"] or HEAD_WIDTH
    heads = given["heads"] or next(count for count in (2, 3, 5, 7, 1) if (given["width"] or 2) % count == 0)
    return heads, given["width"] or heads * each


_NAMES = {"width": WIDTHS, "heads": HEADS, "head width": HEAD_WIDTHS}


def _parameters(kind: type) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(kind).parameters
    except (TypeError, ValueError):
        return {}


def _signature(kind: type) -> str:
    text = ", ".join(str(parameter) for parameter in _parameters(kind).values())
    return f"({text if len(text) < 300 else text[:300] + ' …'})"


def _line(error: Exception | None) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
