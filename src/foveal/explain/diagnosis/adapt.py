"""How a module is called, found out from its signature: names of arguments, layout, width.

A guess counts only if the call works.
"""

import copy
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from foveal.errors import FovealError, expect
from foveal.explain.diagnosis.build import HEAD_WIDTH, TOKENS, built
from foveal.explain.diagnosis.introspection import (
    documentation_of,
    name_of,
    numbers_of,
    signature_of,
    widths_of,
    written,
)
from foveal.explain.diagnosis.masking import read
from foveal.explain.diagnosis.names import HEADS, KEY_WIDTHS, KEYS, LENGTHS, MASKS, QUERIES, SOURCES, VALUES
from foveal.explain.diagnosis.subject import LAYOUTS, REFUSALS, Sizes, Subject, in_a_line

_SEQUENCE_FIRST = (
    r"time x batch|\(\s*T\s*,\s*B\b|\(\s*L\s*,\s*[BN]\s*,|seq\w*( |_)?(len\w*)?\s*,\s*(batch|bsz)|sequence.first"
)


def adapt(
    target: Any,
    *,
    call: Callable[..., Any] | None = None,
    arguments: Mapping[str, Any] | None = None,
    layout: str | None = None,
    shape: tuple[int, int, int] | None = None,
) -> Subject:
    """The subject for a module, a class or a function.

    A FovealError that names its signature if no way of calling it works.
    """
    expect(callable(target), "what is checked", "a module, a class or a function", type(target).__name__)
    expect(call is None or callable(call), "call", "a function (module, x, mask) → output", type(call).__name__)
    expect(layout is None or layout in [*LAYOUTS], "layout", f"one of {', '.join(LAYOUTS)}", layout)
    expect(shape is None or _three_sizes(shape), "shape", "(B, N, C), integers above 0", repr(shape))
    expect(
        arguments is None or isinstance(arguments, Mapping),
        "arguments",
        "a dictionary name → value",
        type(arguments).__name__,
    )
    expect(
        isinstance(target, type) or not arguments,
        "arguments",
        "a class that they construct",
        f"an instance, {type(target).__name__}",
    )
    if isinstance(target, type):
        with torch.random.fork_rng([]):
            torch.default_generator.manual_seed(0)  # the same numbers in every report on a class
            target = built(target, arguments or {})
    signature, name, own = signature_of(target), name_of(target), _own_type(target)
    trouble: Exception | None = None
    for dtype in dict.fromkeys((torch.float64, own)):
        for way in _ways(_prepared(target, dtype), signature, layout, shape, (dtype, own), call):
            subject = replace(
                way, name=name, signature=written(target, signature), documentation=documentation_of(target)
            )
            try:
                subject.run(subject.sample())
                return subject
            except REFUSALS as error:
                trouble = trouble or error
            if rescued := _with_required_mask(subject):
                return rescued
    says = in_a_line(trouble) if trouble else "no argument of it is known"
    raise FovealError(
        f"{name}: expected a call that can be guessed from its arguments, got {written(target, signature)}, which "
        f"fails with {says}; "
        "pass call=lambda module, x, mask: … with tokens x (B, N, C) and a boolean mask (N, N) or None, and shape=(B, "
        "N, C) if needed; "
        "on the command line try --layout, --shape B,N,C or --set name=value"
    )


def _three_sizes(shape: Any) -> bool:
    return (
        isinstance(shape, tuple | list)
        and len(shape) == 3
        and all(isinstance(size, int) and size > 0 for size in shape)
    )


def _own_type(target: Any) -> torch.dtype:
    parameters = target.parameters() if isinstance(target, nn.Module) else ()
    return next((parameter.dtype for parameter in parameters if parameter.is_floating_point()), torch.float32)


def _prepared(target: Any, dtype: torch.dtype) -> Any:
    """The target in evaluation and of this type; a copy, so that the caller's own stays as it is."""
    if not isinstance(target, nn.Module):
        return target
    try:
        module = copy.deepcopy(target).to(dtype).eval()
    except REFUSALS as error:
        raise FovealError(
            f"{name_of(target)}: expected a module that can be copied, got {in_a_line(error)}; pass one that has not "
            "run yet"
        ) from error
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            # A matrix that starts at zero, or close to it, would hide what lies behind it.
            size = parameter.shape[-1] ** -0.5 if parameter.dim() > 1 and min(parameter.shape[-2:]) > 1 else 0.0
            if parameter.square().mean().sqrt() < 0.3 * size:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * size)
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
    named = signature.parameters.items() if signature else ()
    parameters = {name: p for name, p in named if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    required = frozenset(name for name, parameter in parameters.items() if parameter.default is parameter.empty)
    weights = target.parameters() if isinstance(target, nn.Module) else iter(())
    device = next((parameter.device for parameter in weights), torch.device("cpu"))
    numbers = numbers_of(target)
    heads = next((numbers[name] for name in HEADS if name in numbers), None)
    # Sizes differ from each other, so that no mask or axis fits in a wrong place.
    batch = shape[0] if shape else next(size for size in (3, 5, 2) if size != heads)
    lengths = (
        [shape[1]]
        if shape
        else [TOKENS if heads != TOKENS else 11, *(numbers[name] for name in LENGTHS if name in numbers)]
    )
    widths = [shape[2]] if shape else widths_of(target, numbers, heads)

    def way(form: str, length: int, width: int, inputs: Mapping[str, str]) -> Subject:
        on_heads = form in ("bhnd", "bnhd")
        return Subject(
            target=target,
            name="",
            signature="",
            documentation="",
            layout=form,
            sizes=Sizes(batch, length, width, heads or (2 if on_heads else None)),
            dtype=types[0],
            own=types[1],
            device=device,
            feed=_feed(inputs, form, heads or 2, width, numbers),
            arguments=frozenset(parameters),
            required=required,
            always=_rest(parameters, inputs),
            two_sources=len(set(inputs.values())) > 1,
            adapter=call,
        )

    if call is not None:
        yield from (way("bnc", length, width, {}) for length in lengths for width in widths)
        return
    for form in [layout] if layout else _layouts(target, parameters):
        for inputs in _inputs(parameters, form):
            for length in lengths:
                for width in [3 * (heads or 2) * HEAD_WIDTH] if form in ("bhnd", "bnhd") else widths:
                    yield way(form, length, width, inputs)


def _layouts(target: Any, parameters: Mapping[str, Any]) -> list[str]:
    three = any(name in parameters for name in QUERIES) and any(name in parameters for name in KEYS)
    if three and not (isinstance(target, nn.Module) and any(True for _ in target.parameters())):
        return ["bhnd", "bnc"]
    # torch's own layers keep the flag in the attention that they hold.
    holder = target.self_attn if isinstance(target, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer) else target
    if getattr(holder, "batch_first", None) is not None:
        return ["bnc" if holder.batch_first else "nbc"]
    return ["nbc"] if re.search(_SEQUENCE_FIRST, documentation_of(target), re.IGNORECASE) else ["bnc"]


def _inputs(parameters: Mapping[str, Any], layout: str) -> Iterator[dict[str, str]]:
    """Which argument gets what: name → q, k, v or memory."""
    roles = {
        name: role
        for names, role in ((QUERIES, "q"), (KEYS, "k"), (VALUES, "v"))
        for name in parameters
        if name in names
    }
    needs_source = any(
        name in SOURCES and parameter.default is parameter.empty for name, parameter in parameters.items()
    )
    if {"q", "k"} <= set(roles.values()) and not needs_source:
        yield roles
    elif parameters and layout not in ("bhnd", "bnhd"):
        first = next(iter(parameters))
        needed = {
            name: "memory"
            for name, p in parameters.items()
            if name in SOURCES and name != first and p.default is p.empty
        }
        yield {first: "q", **needed}
        yield {first: "q", **{name: "memory" for name in parameters if name in SOURCES and name != first}}


def _rest(parameters: Mapping[str, Any], inputs: Mapping[str, str]) -> dict[str, Any]:
    """What else must be given: no mask, no cache, and False for a switch."""
    rest = {}
    for name, parameter in parameters.items():
        if parameter.default is parameter.empty and name not in inputs:
            rest[name] = False if name.startswith(("is_", "use_", "need_", "return_", "output_")) else None
    return rest


def _feed(
    inputs: Mapping[str, str], layout: str, heads: int, width: int, numbers: Mapping[str, int]
) -> Callable[[Tensor, Tensor], Mapping[str, Any]]:
    if layout in ("bhnd", "bnhd"):

        def heads_of(x: Tensor, source: Tensor) -> Mapping[str, Any]:
            parts = {
                role: (x if role == "q" else source).unflatten(2, (3, heads, -1))[:, :, part]
                for part, role in enumerate("qkv")
            }
            return {
                name: (parts[role].transpose(1, 2) if layout == "bhnd" else parts[role]).contiguous()
                for name, role in inputs.items()
            }

        return heads_of
    key = next((numbers[name] for name in KEY_WIDTHS if name in numbers), width)
    wanted = {"q": width, "k": key, "memory": key, "v": numbers.get("vdim", key)}

    def tokens_of(x: Tensor, source: Tensor) -> Mapping[str, Any]:
        asking = (x.transpose(0, 1) if layout == "nbc" else x).contiguous()
        seen = (source.transpose(0, 1) if layout == "nbc" else source).contiguous()
        # self-attention is given one tensor, not three that are equal: some modules ask for that
        seen = asking if source is x else seen
        fed = {name: asking if role == "q" else seen for name, role in inputs.items()}
        return {
            name: t if wanted[inputs[name]] == width else t @ _random(width, wanted[inputs[name]]).to(t)
            for name, t in fed.items()
        }

    return tokens_of


def _random(rows: int, columns: int) -> Tensor:
    matrix: Tensor = (
        torch.randn(rows, columns, generator=torch.Generator().manual_seed(rows), dtype=torch.float64) / rows**0.5
    )
    return matrix


def _with_required_mask(subject: Subject) -> Subject | None:
    """A module that cannot do without a mask gets one that hides nothing."""
    for name in MASKS:
        if name in subject.required and subject.adapter is None and (form := read(subject, name).form):
            size = subject.sizes
            keep = torch.ones(size.batch, size.tokens, size.tokens, dtype=torch.bool, device=subject.device)
            return replace(subject, always={**subject.always, name: form.make(keep)})
    return None
