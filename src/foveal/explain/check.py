"""Diagnosis of anybody's attention for the seven mistakes that turn up in everybody's: by calling it,
not by reading it.

A module, a class or a function is called with tokens of its own width; what moves, what comes out and what torch
computes inside decide. What cannot be measured is reported as such. The module that is given stays as it is: a copy is
examined.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from foveal.errors import FovealError, expect, unknown
from foveal.explain.diagnosis import axes, cache, dropout, empty_row, mask, paper, scale
from foveal.explain.diagnosis.adapt import adapt
from foveal.explain.diagnosis.cache import Step
from foveal.explain.diagnosis.finding import MISTAKES, Finding, Report
from foveal.explain.diagnosis.introspection import name_of
from foveal.explain.diagnosis.masking import Meaning
from foveal.explain.diagnosis.probe import Probe
from foveal.explain.diagnosis.subject import LAYOUTS, REFUSALS, Subject, in_a_line

__all__ = ["Finding", "Report", "assert_sound", "check"]


def check(
    module: Any,
    *,
    arguments: Mapping[str, Any] | None = None,
    call: Callable[..., Any] | None = None,
    step: Step | None = None,
    true_means: Meaning | None = None,
    layout: str | None = None,
    shape: tuple[int, int, int] | None = None,
) -> Report:
    """Look for the seven mistakes in a module, a class (built with `arguments`,
    the rest guessed by name) or a function of q, k and v.

    call: (module, x, mask) → output, where the call cannot be guessed: tokens x (B, N, C), mask boolean (N, N) or
    None. step: (module, x, cache) → (output, cache), where the use of a cache cannot be guessed; the first cache is
    None. true_means: "look" or "hide", what True in a mask is meant to do; unless given, by the class, its
    documentation and the argument's name. layout: "bnc", "nbc", "bhnd" or "bnhd", what the tensors look like. shape:
    the (B, N, C) of the tokens to try it with.
    """
    expect(true_means in (None, "look", "hide"), "true_means", "'look' or 'hide'", repr(true_means))
    expect(
        step is None or callable(step), "step", "a function (module, x, cache) → (output, cache)", type(step).__name__
    )
    try:
        subject = adapt(module, call=call, arguments=arguments, layout=layout, shape=shape)
        return _examined(subject, Probe(subject, true_means), step)
    except FovealError:
        raise
    except REFUSALS as error:  # where it did not fail before, or before it was called
        raise FovealError(
            f"{name_of(module)}: expected a module that can be called again and again, got {in_a_line(error)}"
        ) from error


def assert_sound(module: Any, *, allow: Iterable[str] = (), **options: Any) -> None:
    """For a test: raise an AssertionError with the table if `check(module,
    **options)` finds a mistake that is not allowed by name.
    """
    allowed = set(allow)
    for name in allowed - set(MISTAKES):
        raise unknown("finding", name, MISTAKES)
    report = check(module, **options)
    if {finding.name for finding in report.mistakes} - allowed:
        raise AssertionError(str(report))


def _examined(subject: Subject, probe: Probe, step: Step | None) -> Report:
    looks: dict[str, Callable[[Probe], Finding]] = {
        "dropout": dropout.look,  # first: what it finds is silenced for the others
        "mask": mask.look,
        "scale": scale.look,
        "empty row": empty_row.look,
        "cache": lambda probe: cache.look(probe, step),
        "axes": axes.look,
        "paper": paper.look,
    }
    findings = tuple(_looked(name, look, probe) for name, look in looks.items())
    if probe.pattern == "self only" and not (probe.leak or probe.anatomy.softmaxes or probe.anatomy.products):
        raise FovealError(
            f"{subject.name}: expected an attention, got a module in which no token moves another; called as "
            f"{_how(subject)}"
        )
    return Report(subject.name, _how(subject), findings)


def _looked(name: str, look: Callable[[Probe], Finding], probe: Probe) -> Finding:
    try:
        return look(probe)
    except REFUSALS as error:
        return Finding(name, "not applicable", f"it could not be examined: {in_a_line(error, 160)}")


def _how(subject: Subject) -> str:
    size = subject.sizes
    if subject.adapter is not None:
        return f"call(module, x, mask) with tokens ({size.batch}, {size.tokens}, {size.width}), {subject.dtype}"
    names = ", ".join(subject.feed(subject.sample(), subject.sample()))
    shape = f"B={size.batch}, N={size.tokens}, {f'H={size.heads}' if subject.on_heads else f'C={size.width}'}"
    signature = subject.signature if len(subject.signature) < 160 else f"{subject.signature[:160]} …)"
    return f"{signature} with {names}: {LAYOUTS[subject.layout]}, {shape}, {str(subject.dtype).removeprefix('torch.')}"
