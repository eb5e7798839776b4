"""Mistake 5: cached decoding that differs from the full pass.

    token by token with a cache, or some tokens first and then one by one   =   all tokens at once, causal
"""

import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from foveal.explain.diagnosis.axes import mixed
from foveal.explain.diagnosis.finding import Finding
from foveal.explain.diagnosis.probe import Probe, pattern_of
from foveal.explain.diagnosis.subject import REFUSALS, Subject

CACHES = ("cache", "kv_cache", "past_key_values", "past_key_value", "layer_past", "past", "past_kv", "layer_cache", "prev_kv")
SWITCHES = ("use_cache", "return_cache", "return_intermediates", "return_kv", "return_kv_cache", "return_present", "output_cache")
FLAGS = ("is_causal", "causal", "use_causal_mask")
STARTS = ("start_pos", "start", "offset", "position_offset", "past_length", "cache_position")

Step = Callable[[Any, Tensor, Any], tuple[Any, Any]]  # (module, tokens, cache) → (output, cache)
Decode = Callable[[Tensor, Any, int, Mapping[str, Any]], tuple[Any, Any]]  # (tokens, cache, position, more arguments) → (answer, cache)


class _NoCache(TypeError):
    """A protocol that runs but hands no cache on."""


def look(probe: Probe, step: Step | None = None) -> Finding:
    subject = probe.subject
    argument = next((name for name in CACHES if name in subject.arguments), None)
    if argument is None and step is None:
        return Finding("cache", "not applicable", "it takes no cache")
    if mixed(probe)[0]:
        return Finding("cache", "not applicable", "its axes are mixed up (see there), so no pass is causal")
    causal = _causal(probe)
    if causal is None:
        return Finding("cache", "not applicable", "it is not causal, and no mask or flag was found that makes it so")
    full = subject.run(probe.x, **causal(subject.sizes.tokens))
    protocols = [("step", _by_user(subject, step), None)] if step else _protocols(subject, argument or "")
    errors, refusal = [], ""
    for name, decode, fresh in protocols:
        try:
            errors.append((max(_error(probe, full, decode, fresh, causal, first) for first in (1, 3)), name))
        except REFUSALS as error:
            refusal = refusal or " ".join(str(error).split())[:120]
    if not errors:
        why = f"how its {argument} works could not be guessed ({refusal}); pass step=lambda module, x, cache: (y, cache)"
        return Finding("cache", "not applicable", why)
    # Where the cache can be used in several ways, the one that works best is taken to be meant.
    error, name = min(errors)
    numbers = {"measured": error, "expected": 0.0}
    if error:
        return Finding("cache", "mistake", f"decoding step by step ({name}) differs from the full causal pass by {error:.3g}", numbers)
    return Finding("cache", "ok", f"decoding step by step ({name}) gives the full causal pass", numbers)


def _error(
    probe: Probe, full: Tensor, decode: Decode, fresh: Callable[[], Any] | None, causal: Callable[[int], dict[str, Any]], first: int
) -> float:
    """The largest difference when `first` tokens come at once and the others one by one."""
    cache, parts, tokens = fresh() if fresh else None, [], probe.x.shape[1]
    for start, end in [(0, first), *((i, i + 1) for i in range(first, tokens))]:
        more = causal(first) if start == 0 and first > 1 else {}
        with torch.no_grad():
            answer, cache = decode(probe.x[:, start:end].contiguous(), cache, start, more)
        parts.append(probe.subject.output(answer, end - start))
    return probe.change(full, torch.cat(parts, 1))


def _causal(probe: Probe) -> Callable[[int], dict[str, Any]] | None:
    """What to pass so that n tokens see no later one; None if nothing does that."""
    if probe.pattern == "causal":
        return lambda n: {}
    for flag in FLAGS:
        if flag in probe.subject.arguments:
            try:
                if pattern_of(probe.reach_with(**{flag: True})) == "causal":
                    return lambda n, flag=flag: {flag: True}  # type: ignore[misc]
            except REFUSALS:
                continue
    for reading in probe.readings:
        form = reading.form
        if form is not None and form.pairwise:
            batch, device = len(probe.x), probe.x.device

            def masked(n: int, form: Any = form) -> dict[str, Any]:
                keep = torch.ones(n, n, dtype=torch.bool, device=device).tril().expand(batch, -1, -1)
                return {form.argument: form.make(keep)}

            return masked
    return None


def _protocols(subject: Subject, argument: str) -> Iterator[tuple[str, Decode, Callable[[], Any] | None]]:
    """The ways in which caches are handed on: made by the module, kept by transformers, given back beside the output, filled in place."""
    sizes = subject.sizes
    switches = {name: True for name in SWITCHES if name in subject.arguments}

    def in_place(x: Tensor, cache: Any, position: int, more: Mapping[str, Any]) -> tuple[Any, Any]:
        answer = subject.raw(x, **{argument: cache}, **more)
        if isinstance(cache, dict | list) and not cache:
            raise _NoCache(f"an empty {argument} stays empty")
        return answer, cache

    def given_back(x: Tensor, cache: Any, position: int, more: Mapping[str, Any], starts: tuple[str, ...] = ()) -> tuple[Any, Any]:
        answer = subject.raw(x, **{argument: cache}, **switches, **more, **dict.fromkeys(starts, position))
        return answer, _handed_on(answer)

    if callable(maker := getattr(subject.target, "new_cache", None)):
        yield "new_cache()", in_place, lambda: maker(sizes.batch, sizes.tokens)
        return
    if type(subject.target).__module__.startswith("transformers."):
        yield "DynamicCache", in_place, importlib.import_module("transformers").DynamicCache
        return
    yield f"{argument} given back", given_back, None
    starts = tuple(name for name in STARTS if name in subject.arguments)
    if starts:
        yield f"{argument} given back, with {', '.join(starts)}", lambda *these: given_back(*these, starts=starts), None
    yield f"{argument} filled in place", in_place, dict
    yield f"{argument} filled in place", in_place, list


def _handed_on(answer: Any) -> Any:
    """The cache in an answer: what stands under such a name, or the last thing beside the output that is more than a tensor."""
    if isinstance(answer, Mapping):
        found = next((answer[name] for name in CACHES if answer.get(name) is not None), None)
    else:
        beside = [part for part in (answer[1:] if isinstance(answer, tuple | list) else ()) if part is not None]
        found = next((part for part in reversed(beside) if not isinstance(part, Tensor)), beside[-1] if beside else None)
    if found is None:
        raise _NoCache("no cache comes back beside the output")
    return found


def _by_user(subject: Subject, step: Step) -> Decode:
    return lambda x, cache, position, more: step(subject.target, x, cache)
