"""Mistake 2: a mask read the wrong way round.

    a = 0 < b,   a how far the others move with a token that is hidden, b with one that is visible

A module that takes no mask may have its own the wrong way round, or one off: query i sees key i + 1, which a causal
mask hides. What True is meant to do is what the class, its documentation or the argument's name promises (masking.py),
unless the user says it.
"""

import torch

from foveal.explain.diagnosis.axes import mixed
from foveal.explain.diagnosis.finding import Finding
from foveal.explain.diagnosis.masking import Reading, promised
from foveal.explain.diagnosis.probe import Probe
from foveal.explain.diagnosis.rebuild import Rebuilt


def look(probe: Probe) -> Finding:
    if not probe.readings:
        return _by_itself(probe)
    findings = [_one(probe, reading) for reading in probe.readings]
    worst = sorted(findings, key=lambda finding: ("mistake", "ok", "not applicable").index(finding.outcome))
    kept = [finding for finding in worst if finding.outcome == worst[0].outcome]
    return Finding("mask", worst[0].outcome, "; ".join(finding.message for finding in kept), worst[0].numbers)


def _one(probe: Probe, reading: Reading) -> Finding:
    name, form = reading.argument, reading.form
    if form is None:
        return _unclear(probe, reading)
    numbers = {
        "moved by a hidden token": form.hidden,
        "moved by a visible token": form.visible,
        "expected of a hidden token": 0.0,
    }
    if form.kind == "additive":
        return Finding(
            "mask",
            "ok",
            f"{name} {form.shape} is added to the scores: what has −inf moves nothing, the rest does",
            numbers,
        )
    meaning, why = (probe.true_means, "you say so") if probe.true_means else promised(probe.subject, name)
    words = {"look": "may look", "hide": "hidden"}
    shown = f"{name} {form.shape} is read as True = {words[form.means]}"
    if form.means == meaning:
        return Finding("mask", "ok", f"{shown}, as promised", numbers)
    numbers = {
        "moved by a hidden token": form.visible,
        "moved by a visible token": form.hidden,
        "expected of a hidden token": 0.0,
    }
    message = (
        f"{shown}, but it should be True = {words[meaning]} ({why}): "
        f"a token that is hidden moves the others by {form.visible:.3g}"
    )
    return Finding("mask", "mistake", message, numbers)


def _unclear(probe: Probe, reading: Reading) -> Finding:
    name = reading.argument
    if reading.moved is None:
        return Finding(
            "mask", "not applicable", f"{name} takes no mask that could be guessed ({reading.trouble or 'none tried'})"
        )
    if mixed(probe)[0]:
        return Finding("mask", "not applicable", f"its axes are mixed up (see there), so {name} cannot be measured")
    if not any(reading.moved):
        return Finding("mask", "not applicable", f"no token moves another, so {name} cannot be measured")
    if reading.idle and probe.subject.adapter is not None:
        return Finding("mask", "not applicable", "the adapter that was passed makes no use of the mask")
    hidden, visible = reading.moved
    numbers = {
        "moved by a hidden token": hidden,
        "moved by a visible token": visible,
        "expected of a hidden token": 0.0,
    }
    if not reading.idle and not (isinstance(probe.rebuilt, Rebuilt) and probe.rebuilt.close):
        why = (
            f"{name} has an effect, but a token that is hidden moves the others by {hidden:.3g}: "
            "more than attention leads from token to token"
        )
        return Finding("mask", "not applicable", why, numbers)
    fault = (
        f"{name} changes nothing"
        if reading.idle
        else f"{name} does not hide, neither as booleans nor as numbers that are added"
    )
    return Finding(
        "mask",
        "mistake",
        f"{fault}: a token that is hidden moves the others by {hidden:.3g}, a visible one by {visible:.3g}",
        numbers,
    )


def _by_itself(probe: Probe) -> Finding:
    if probe.pattern == "causal":
        return Finding("mask", "ok", "it takes no mask, and is causal by itself: no output moves with a later token")
    if probe.pattern == "anti-causal":
        moved = float(probe.reach.triu(1).max())
        message = (
            "its own causal mask is the wrong way round: "
            f"outputs move with later tokens (by {moved:.3g}) and with no earlier one"
        )
        return Finding("mask", "mistake", message, {"moved by a later token": moved, "expected of a later token": 0.0})
    if _one_ahead(probe):
        moved = float(probe.reach.diagonal(1).max())
        message = (
            f"its own causal mask is one off: query i sees key i + 1 (which moves it by {moved:.3g}) and no later one; "
            "hide triu(diagonal=1)"
        )
        return Finding("mask", "mistake", message, {"moved by the next token": moved, "expected of a later token": 0.0})
    return Finding("mask", "not applicable", "it takes no mask")


def _one_ahead(probe: Probe) -> bool:
    """Whether each query sees all before it and the next: in its scores,
    so that a convolution behind them is not taken for the mask.
    """
    if probe.pattern != "some" or probe.anatomy.visible is None:
        return False
    seen = probe.anatomy.visible.flatten(0, 1).any(0).cpu()
    moves = (probe.reach > 0) | torch.eye(len(seen), dtype=torch.bool)
    expected = torch.ones_like(seen).tril(1)
    return torch.equal(seen, expected) and torch.equal(moves, expected)
