"""How a module is called, found out from its signature: names of arguments, layout, width; a guess counts only if the call works."""

import copy
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from foveal.errors import FovealError, expect
from foveal.explain.diagnosis.build import HEAD_WIDTH, HEADS, LENGTHS, TOKENS, WIDTHS, built
from foveal.explain.diagnosis.masking import MASKS, read
from foveal.explain.diagnosis.subject import LAYOUTS, REFUSALS, Sizes, Subject

QUERIES = ("q", "query", "queries", "xq", "query_states", "q_input")
KEYS = ("k", "key", "keys", "xk", "key_states", "k_input")
VALUES = ("v", "value", "values", "xv", "value_states", "v_input")
SOURCES = ("memory", "context", "source", "encoder_hidden_states", "kv", "cond", "y", "key_value_states", "x_kv", "encoder_output")
KEY_WIDTHS = ("kdim", "key_width", "key_dim", "context_dim", "dim_context", "memory_width", "cross_attention_dim")
_SEQUENCE_FIRST = r"time x batch|\(\s*T\s*,\s*B\b|\(\s*L\s*,\s*[BN]\s*,|seq\w*( |_)?(len\w*)?\s*,\s*(batch|bsz)|sequence.first"


def adapt(
    target: Any,
    *,
    call: Callable[..., Any] | None = None,
    arguments: Mapping[str, Any] | None = None,
    layout: str | None = None,
    shape: tuple[int, int, int] | None = None,
) -> Subject:
    """The subject for a module, a class or a function; a FovealError that names its signature if no way of calling it works."""
    expect(callable(target), "what is checked", "a module, a class or a function", type(target).__name__)
    expect(layout is None or layout in LAYOUTS, "layout", f"one of {', '.join(LAYOUTS)}", layout)
    expect(shape is None or (len(shape) == 3 and min(shape) > 0), "shape", "(B, N, C), all above 0", shape)
    expect(isinstance(target, type) or not arguments, "arguments", "a class that they construct", f"an instance, {type(target).__name__}")
    if isinstance(target, type):
        with torch.random.fork_rng([]):
            torch.manual_seed(0)  # the same numbers in every report on a class
            target = built(target, arguments or {})
    signature = _signature(target)
    name = _name(target)
    trouble: Exception | None = None
    own = _own_type(target)
    for dtype in dict.fromkeys((torch.float64, own)):
        for way in _ways(_prepared(target, dtype), signature, layout, shape, (dtype, own), call):
            subject = replace(way, name=name, signature=_written(target, signature), documentation=_documentation(target))
            try:
                subject.run(subject.sample())
                return subject
            except REFUSALS as error:
                trouble = trouble or error
            if rescued := _with_required_mask(subject):
                return rescued
    says = f"{type(trouble).__name__}: {' '.join(str(trouble).split())[:200]}" if trouble else "no argument of it is known"
    raise FovealError(
        f"{name}: expected a call that can be guessed from its arguments, got {_written(target, signature)}, which fails with {says}; "
        "pass call=lambda module, x, mask: … with tokens x (B, N, C) and a boolean mask (N, N) or None, and shape=(B, N, C) if needed"
    )


def _own_type(target: Any) -> torch.dtype:
    parameters = target.parameters() if isinstance(target, nn.Module) else ()
    return next((parameter.dtype for parameter in parameters if parameter.is_floating_point()), torch.float32)


def _prepared(target: Any, dtype: torch.dtype) -> Any:
    """The target in evaluation and of this type; a copy, so that the caller's own stays as it is."""
    if not isinstance(target, nn.Module):
        return target
    module = copy.deepcopy(target).to(dtype).eval()
    with torch.no_grad(), torch.random.fork_rng([]):
        torch.manual_seed(0)
        for parameter in module.parameters():
            # A matrix that starts at zero, or close to it, would hide what lies behind it.
            if parameter.dim() > 1 and parameter.std() < 0.3 * parameter.shape[-1] ** -0.5:
                parameter.normal_(std=parameter.shape[-1] ** -0.5)
    return module


def _ways(
    target: Any,
    signature: inspect.Signature | None,
    layout: str | None,
    shape: tuple[int, int, int] | None,
    types: tuple[torch.dtype, torch.dtype],
    call: Callable[..., Any] | None,
) -> Iterator[Subject]:
    """Every way to call it that is worth a try, the most likely first."""
    device = next((parameter.device for parameter in target.parameters()), torch.device("cpu")) if isinstance(target, nn.Module) else torch.device("cpu")
    parameters = {} if signature is None else {k: p for k, p in signature.parameters.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    required = frozenset(name for name, parameter in parameters.items() if parameter.default is parameter.empty)
    numbers = _numbers(target)
    heads = next((numbers[name] for name in HEADS if name in numbers), None)
    empty: dict[str, Any] = {}
    base = Subject(target, "", "", "", "bnc", Sizes(1, 1, 1, heads), *types, device, lambda x: empty, frozenset(parameters), required, adapter=call)
    batch = shape[0] if shape else next(size for size in (3, 5, 2) if size != heads)
    lengths = [shape[1]] if shape else [TOKENS if heads != TOKENS else 11, *(numbers[k] for k in LENGTHS if k in numbers)]
    widths = [shape[2]] if shape else _widths(target, numbers, heads)
    if call is not None:
        yield from (replace(base, sizes=Sizes(batch, length, width, heads)) for length in lengths for width in widths)
        return
    for form in [layout] if layout else _layouts(target, parameters):
        for inputs in _inputs(parameters, form):
            always = _rest(parameters, inputs)
            for length in lengths:
                for width in [3 * (heads or 2) * HEAD_WIDTH] if form in ("bhnd", "bnhd") else widths:
                    feed = _feed(inputs, form, heads or 2, width, numbers)
                    sizes = Sizes(batch, length, width, heads or (2 if form in ("bhnd", "bnhd") else None))
                    yield replace(base, layout=form, sizes=sizes, feed=feed, always=always)


def _layouts(target: Any, parameters: Mapping[str, Any]) -> list[str]:
    three = any(name in parameters for name in QUERIES) and any(name in parameters for name in KEYS)
    if three and not (isinstance(target, nn.Module) and any(True for _ in target.parameters())):
        return ["bhnd", "bnc"]
    # torch's own layers keep the flag in the attention that they hold.
    holder = target.self_attn if isinstance(target, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer) else target
    if getattr(holder, "batch_first", None) is not None:
        return ["bnc" if holder.batch_first else "nbc"]
    return ["nbc"] if re.search(_SEQUENCE_FIRST, _documentation(target), re.IGNORECASE) else ["bnc"]


def _inputs(parameters: Mapping[str, Any], layout: str) -> Iterator[dict[str, str]]:
    """Which argument gets what: name → q, k, v or memory."""
    roles = {name: role for names, role in ((QUERIES, "q"), (KEYS, "k"), (VALUES, "v")) for name in parameters if name in names}
    if {"q", "k"} <= set(roles.values()):
        yield roles
    elif parameters and layout not in ("bhnd", "bnhd"):
        first = next(iter(parameters))
        needed = {name: "memory" for name, p in parameters.items() if name in SOURCES and name != first and p.default is p.empty}
        yield {first: "q", **needed}
        yield {first: "q", **{name: "memory" for name in parameters if name in SOURCES and name != first}}


def _rest(parameters: Mapping[str, Any], inputs: Mapping[str, str]) -> dict[str, Any]:
    """What else must be given: no mask, no cache, and False for a switch."""
    rest = {}
    for name, parameter in parameters.items():
        if parameter.default is parameter.empty and name not in inputs:
            rest[name] = False if name.startswith(("is_", "use_", "need_", "return_", "output_")) else None
    return rest


def _feed(inputs: Mapping[str, str], layout: str, heads: int, width: int, numbers: Mapping[str, int]) -> Callable[[Tensor], Mapping[str, Any]]:
    if layout in ("bhnd", "bnhd"):

        def heads_of(x: Tensor) -> Mapping[str, Any]:
            parts = dict(zip("qkv", x.unflatten(2, (3, heads, -1)).unbind(2), strict=True))  # (B, N, H, D) each
            return {name: (parts[role].transpose(1, 2) if layout == "bhnd" else parts[role]).contiguous() for name, role in inputs.items()}

        return heads_of
    key = next((numbers[name] for name in KEY_WIDTHS if name in numbers), width)
    wanted = {"q": width, "k": key, "memory": key, "v": numbers.get("vdim", key)}

    def tokens_of(x: Tensor) -> Mapping[str, Any]:
        fed = {name: x if wanted[role] == width else x @ _random(width, wanted[role]).to(x) for name, role in inputs.items()}
        return {name: (tokens.transpose(0, 1) if layout == "nbc" else tokens).contiguous() for name, tokens in fed.items()}

    return tokens_of


def _random(rows: int, columns: int) -> Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(rows), dtype=torch.float64) / rows**0.5


def _with_required_mask(subject: Subject) -> Subject | None:
    """A module that cannot do without a mask gets one that hides nothing."""
    for name in MASKS:
        if name in subject.required and subject.adapter is None and (form := read(subject, name).form):
            size = subject.sizes
            keep = torch.ones(size.batch, size.tokens, size.tokens, dtype=torch.bool, device=subject.device)
            return replace(subject, always={**subject.always, name: form.make(keep)})
    return None


def _widths(target: Any, numbers: Mapping[str, int], heads: int | None) -> list[int]:
    """What the width of its tokens may be: named so, or the width that a matrix of it takes."""
    widths = [numbers[name] for name in WIDTHS if name in numbers]
    if isinstance(target, nn.Module):
        widths += [part.in_features for part in target.modules() if isinstance(part, nn.Linear)]
        widths += [size for parameter in target.parameters() if parameter.dim() > 1 for size in parameter.shape]
    return list(dict.fromkeys([*widths, (heads or 2) * HEAD_WIDTH]))[:6]


def _numbers(target: Any) -> dict[str, int]:
    """The whole numbers that a module holds under a name, its own before those of its parts; of a configuration it keeps, too."""
    owners = [target, getattr(target, "config", None), *(target.children() if isinstance(target, nn.Module) else ())]
    numbers: dict[str, int] = {}
    for owner in owners:
        for name, value in getattr(owner, "__dict__", {}).items():
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                numbers.setdefault(name.lower(), value)
    return numbers


def _signature(target: Any) -> inspect.Signature | None:
    if target is functional.scaled_dot_product_attention:  # a builtin shows no signature
        words = ["query", "key", "value", "attn_mask=", "dropout_p=", "is_causal=", "scale=", "enable_gqa="]
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return inspect.Signature([inspect.Parameter(w.strip("="), kind, default=None if "=" in w else inspect.Parameter.empty) for w in words])
    try:
        return inspect.signature(target.forward if isinstance(target, nn.Module) else target)
    except (TypeError, ValueError):
        return None


def _written(target: Any, signature: inspect.Signature | None) -> str:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    words = []
    for p in signature.parameters.values() if signature else ():
        words.append(f"{stars.get(p.kind, '')}{p.name}" + ("" if p.default is p.empty else f"={p.default!r}"))
    return f"{'forward' if isinstance(target, nn.Module) else _name(target)}({', '.join(words) if signature else '…'})"


def _name(target: Any) -> str:
    return getattr(target, "__name__", None) or type(target).__name__


def _documentation(target: Any) -> str:
    """All that its author wrote about it: the class, its forward, and the file."""
    parts = [target.__doc__] if inspect.isroutine(target) else [type(target).__doc__, getattr(getattr(type(target), "forward", None), "__doc__", None)]
    module = sys.modules.get(getattr(target, "__module__", "") or "")
    return "\n\n".join(part for part in [*parts, getattr(module, "__doc__", None)] if part)
