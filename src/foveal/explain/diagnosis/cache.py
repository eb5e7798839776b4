"""Mistake 5: cached decoding that differs from the full pass.

    token by token with a cache, or some tokens first and then one by one   =   all tokens at once, causal

How a cache is handed on is not known beforehand: the ways in use are tried, and the one that comes closest is taken to
be meant.
"""

import importlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from foveal.explain.diagnosis.axes import mixed
from foveal.explain.diagnosis.finding import Finding
from foveal.explain.diagnosis.masking import Form
from foveal.explain.diagnosis.names import CACHE_SWITCHES, CACHES, CAUSAL, STARTS
from foveal.explain.diagnosis.probe import Probe, pattern_of
from foveal.explain.diagnosis.subject import REFUSALS, Subject, settled

Step = Callable[[Any, Tensor, Any], tuple[Any, Any]]  # (module, tokens, cache) → (output, cache)
# (tokens, cache, more arguments, position) → (answer, cache)
Decode = Callable[[Tensor, Any, Mapping[str, Any], int], tuple[Any, Any]]


class NoCacheError(TypeError):
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
    full = subject.run(probe.x, causal(subject.sizes.tokens))
    protocols = [("step", _by_user(subject, step), None)] if step else _protocols(subject, argument or "")
    errors, refusal = [], ""
    for name, decode, fresh in protocols:
        try:
            errors.append((max(_error(probe, full, decode, fresh, causal, first) for first in (1, 3)), name))
        except REFUSALS as trouble:
            refusal = refusal or " ".join(str(trouble).split())[:120]
    if not errors:
        why = (
            f"how its {argument} works could not be guessed ({refusal}); pass step=lambda module, x, cache: (y, cache)"
        )
        return Finding("cache", "not applicable", why)
    # Where the cache can be used in several ways, the one that works best is taken to be meant.
    error, name = min(errors)
    numbers = {"measured": error, "expected": 0.0}
    if error:
        return Finding(
            "cache",
            "mistake",
            f"decoding step by step ({name}) differs from the full causal pass by {error:.3g}",
            numbers,
        )
    return Finding("cache", "ok", f"decoding step by step ({name}) gives the full causal pass", numbers)


def _error(
    probe: Probe,
    full: Tensor,
    decode: Decode,
    fresh: Callable[[], Any] | None,
    causal: Callable[[int], dict[str, Any]],
    first: int,
) -> float:
    """The largest difference when `first` tokens come at once and the others one by one."""
    cache, parts, tokens = fresh() if fresh else None, [], probe.x.shape[1]
    for start, end in [(0, first), *((i, i + 1) for i in range(first, tokens))]:
        more = causal(first) if start == 0 and first > 1 else {}
        with torch.no_grad():
            answer, cache = decode(probe.x[:, start:end].contiguous(), cache, more, start)
        parts.append(probe.subject.output(answer, end - start))
    return probe.change(full, torch.cat(parts, 1))


def _causal(probe: Probe) -> Callable[[int], dict[str, Any]] | None:
    """What to pass so that n tokens see no later one; None if nothing does that."""
    if probe.pattern == "causal":
        return lambda _: {}
    for flag in CAUSAL:
        if flag in probe.subject.arguments:
            try:
                if pattern_of(probe.reach_with({flag: True})) == "causal":
                    return partial(_flagged, flag)
            except REFUSALS:
                continue
    form = next((reading.form for reading in probe.readings if reading.form and reading.form.pairwise), None)
    return None if form is None else partial(_masked, form, probe.x)


def _flagged(flag: str, _: int) -> dict[str, Any]:
    return {flag: True}


def _masked(form: Form, x: Tensor, tokens: int) -> dict[str, Any]:
    keep = torch.ones(tokens, tokens, dtype=torch.bool, device=x.device).tril().expand(len(x), -1, -1)
    return {form.argument: form.make(keep)}


def _protocols(subject: Subject, argument: str) -> Iterator[tuple[str, Decode, Callable[[], Any] | None]]:
    """The ways in which caches are handed on: made by the module, kept by transformers,
    given back beside the output, filled in place.
    """
    sizes = subject.sizes
    given_back, in_place = partial(_given_back, subject, argument), partial(_in_place, subject, argument)
    if callable(maker := getattr(subject.target, "new_cache", None)):
        yield "new_cache()", in_place, lambda: maker(sizes.batch, sizes.tokens)
        return
    if type(subject.target).__module__.startswith("transformers."):
        yield "DynamicCache", in_place, importlib.import_module("transformers").DynamicCache
        return
    yield f"{argument} given back", given_back, None
    starts = tuple(name for name in STARTS if name in subject.arguments)
    if starts:
        yield f"{argument} given back, with {', '.join(starts)}", partial(given_back, starts=starts), None
    yield f"{argument} filled in place", in_place, dict
    yield f"{argument} filled in place", in_place, list


def _in_place(
    subject: Subject, argument: str, x: Tensor, cache: Any, more: Mapping[str, Any], _: int
) -> tuple[Any, Any]:
    answer = subject.raw(x, {argument: cache, **more})
    if isinstance(cache, dict | list) and not cache:
        raise NoCacheError(f"an empty {argument} stays empty")
    return answer, cache


def _given_back(
    subject: Subject,
    argument: str,
    x: Tensor,
    cache: Any,
    more: Mapping[str, Any],
    position: int,
    starts: tuple[str, ...] = (),
) -> tuple[Any, Any]:
    switches = {name: True for name in CACHE_SWITCHES if name in subject.arguments}
    answer = subject.raw(x, {argument: cache, **switches, **more, **dict.fromkeys(starts, position)})
    return answer, _handed_on(answer)


def _handed_on(answer: Any) -> Any:
    """The cache in an answer: what stands under such a name,
    or the last thing beside the output that is more than a tensor.
    """
    if isinstance(answer, Mapping):
        found = next((answer[name] for name in CACHES if answer.get(name) is not None), None)
    else:
        beside = [part for part in (answer[1:] if isinstance(answer, tuple | list) else ()) if part is not None]
        found = next(
            (part for part in reversed(beside) if not isinstance(part, Tensor)), beside[-1] if beside else None
        )
    if found is None:
        raise NoCacheError("no cache comes back beside the output")
    return found


def _by_user(subject: Subject, step: Step) -> Decode:
    def decode(x: Tensor, cache: Any, *_: Any) -> tuple[Any, Any]:
        output, cache = settled(step(subject.target, x, cache))
        return output, cache

    return decode
