"""What a module shows of itself before it is called: its name, its signature, its documentation,
the numbers that it keeps.
"""

import inspect
import sys
from collections.abc import Mapping
from typing import Any

from torch import nn
from torch.nn import functional

from foveal.explain.diagnosis.build import HEAD_WIDTH
from foveal.explain.diagnosis.names import WIDTHS
from foveal.explain.diagnosis.subject import REFUSALS


def name_of(target: Any) -> str:
    try:
        name = getattr(target, "__name__", None)
    except REFUSALS:  # of a __getattr__ that knows other errors than AttributeError
        name = None
    return name if isinstance(name, str) and name else type(target).__name__


def signature_of(target: Any) -> inspect.Signature | None:
    if target is functional.scaled_dot_product_attention:  # a builtin shows no signature
        needed, more = ("query", "key", "value"), ("attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return inspect.Signature(
            [*(inspect.Parameter(n, kind) for n in needed), *(inspect.Parameter(n, kind, default=None) for n in more)]
        )
    try:
        return inspect.signature(target.forward if isinstance(target, nn.Module) else target)
    except REFUSALS:
        return None


def written(target: Any, signature: inspect.Signature | None) -> str:
    """The signature on one line, without types."""
    stars: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    parameters = signature.parameters.values() if signature else ()
    words = [
        f"{stars.get(p.kind, '')}{p.name}" + ("" if p.default is p.empty else f"={p.default!r}") for p in parameters
    ]
    return (
        f"{'forward' if isinstance(target, nn.Module) else name_of(target)}({', '.join(words) if signature else '…'})"
    )


def documentation_of(target: Any) -> str:
    """All that its author wrote about it: the class, its forward, and the file."""
    if inspect.isroutine(target):
        parts = [target.__doc__]
    else:
        parts = [type(target).__doc__, getattr(getattr(type(target), "forward", None), "__doc__", None)]
    module = sys.modules.get(getattr(target, "__module__", "") or "")
    return "\n\n".join(part for part in [*parts, getattr(module, "__doc__", None)] if part)


def numbers_of(target: Any) -> dict[str, int]:
    """The integers that a module holds under a name: its own before those of its configuration and of its parts."""
    owners = [target, getattr(target, "config", None), *(target.children() if isinstance(target, nn.Module) else ())]
    numbers: dict[str, int] = {}
    for owner in owners:
        for name, value in getattr(owner, "__dict__", {}).items():
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                numbers.setdefault(name.lower(), value)
    return numbers


def widths_of(target: Any, numbers: Mapping[str, int], heads: int | None) -> list[int]:
    """What the width of its tokens may be, the likeliest first: named so, or the width that a matrix of it takes."""
    widths = [numbers[name] for name in WIDTHS if name in numbers]
    if isinstance(target, nn.Module):
        widths += [
            size for parameter in target.parameters() if parameter.dim() > 1 for size in reversed(parameter.shape)
        ]
    return list(dict.fromkeys([*widths, (heads or 2) * HEAD_WIDTH]))[:6]
