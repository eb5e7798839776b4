"""An instance of a class whose constructor is not known: its arguments are guessed by their names."""

import dataclasses
import inspect
import warnings
from collections.abc import Mapping
from typing import Any

from foveal.errors import FovealError
from foveal.explain.diagnosis.names import CONFIGS, GROUPS, HEAD_WIDTHS, HEADS, HIDDEN_WIDTHS, LENGTHS, WIDTHS
from foveal.explain.diagnosis.subject import REFUSALS, in_a_line

DROPOUT = 0.1  # in a class that is built here, so that dropout which stays on can be seen
HEAD_WIDTH = 10
TOKENS = 7


def built(kind: type, arguments: Mapping[str, Any]) -> Any:
    """kind(**arguments), with what is missing guessed; a FovealError that names the constructor if that fails."""
    trouble: Exception | None = None
    for dropout, every_number in ((DROPOUT, False), (DROPOUT, True), (None, False)):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return kind(**_guessed(kind, arguments, dropout, every_number=every_number))
        except REFUSALS as error:
            trouble = trouble or error
    given = ", ".join(f"{name}={value!r:.60}" for name, value in arguments.items()) or "none"
    raise FovealError(
        f"{kind.__name__}: expected constructor arguments that can be guessed, got {kind.__name__}{_signature(kind)} "
        f"(given: {given}), "
        f"which fails with {in_a_line(trouble)}; "
        "pass arguments=dict(…) (on the command line --set name=value …), or an instance"
    )


def guess(name: str, known: Mapping[str, Any], dropout: float | None) -> Any:
    """A value for an argument of this name, that fits what is known of the others; None if the name says nothing."""
    word = name.lower()
    if "drop" in word:
        return dropout
    heads, width = _sizes(known)
    groups = [
        (WIDTHS, width),
        (HEADS, heads),
        (HEAD_WIDTHS, width // heads),
        (LENGTHS, TOKENS),
        (GROUPS, heads),
        (HIDDEN_WIDTHS, width),
    ]
    found = next((value for names, value in groups if word in names), None)
    if found is None and word in ("layer_idx", "layer_id", "layer_index"):
        return 0
    return True if found is None and word in ("bias", "qkv_bias") else found


def _guessed(kind: type, arguments: Mapping[str, Any], dropout: float | None, *, every_number: bool) -> dict[str, Any]:
    named = _parameters(kind)
    # *args is no configuration
    parameters = {name: p for name, p in named.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    config = next(
        (
            name
            for name, p in parameters.items()
            if name.lower() in CONFIGS and p.default is p.empty and name not in arguments
        ),
        None,
    )
    # What the constructor does not take by name is meant for the configuration that it takes.
    values = {name: value for name, value in arguments.items() if config is None or name in parameters}
    if config is not None:
        values[config] = _config(parameters[config].annotation, arguments, dropout)
    for name, parameter in parameters.items():
        if name in values:
            continue
        number = isinstance(parameter.default, int | float) and not isinstance(parameter.default, bool)
        # Heads must divide the width that was guessed, and dropout must be there to be seen, so these two replace a
        # default.
        wanted = number and (every_number or name.lower() in HEADS or "drop" in name.lower())
        if (wanted or parameter.default is parameter.empty) and (value := guess(name, arguments, dropout)) is not None:
            values[name] = value
    return values


def _config(annotation: Any, known: Mapping[str, Any], dropout: float | None) -> Any:
    if isinstance(annotation, type) and (
        dataclasses.is_dataclass(annotation) or annotation.__name__.endswith("Config")
    ):
        return annotation(**_guessed(annotation, known, dropout, every_number=True))
    return Guessed(known, dropout)


class Guessed:
    """A configuration that answers every name which says what it is: config.n_embd, config.n_head,
    config.block_size.
    """

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
    width, heads, each = (
        next((known[name] for name in names if isinstance(known.get(name), int)), None)
        for names in (WIDTHS, HEADS, HEAD_WIDTHS)
    )
    heads = heads or next(count for count in (2, 3, 5, 7, 1) if (width or 2) % count == 0)
    return heads, width or heads * (each or HEAD_WIDTH)


def _parameters(kind: type) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(kind).parameters
    except (TypeError, ValueError):
        return {}


def _signature(kind: type) -> str:
    text = ", ".join(str(parameter) for parameter in _parameters(kind).values())
    return f"({text if len(text) < 300 else text[:300] + ' …'})"
