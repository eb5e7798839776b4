"""Mistake 6: (B, H, N, D) taken for (B, N, H, D), so that heads, tokens or samples are mixed up.

    f(P x) = P f(x) without positions
    a token that may look at itself only must not move with another;   nor a sample with another

Where the outputs know the order of tokens, the module is built again from its projections with the axes right and
wrong (rebuild.py).
"""

import torch

from foveal.explain.diagnosis.finding import Finding
from foveal.explain.diagnosis.probe import Probe, pattern_of
from foveal.explain.diagnosis.rebuild import Rebuilt


def look(probe: Probe) -> Finding:
    trouble, numbers = mixed(probe)
    if trouble:
        return Finding("axes", "mistake", trouble, numbers)
    if not probe.disorder:
        return Finding(
            "axes", "ok", "tokens in another order give the same outputs in that order, and samples do not mix", numbers
        )
    if isinstance(probe.rebuilt, Rebuilt) and probe.rebuilt.close:
        return Finding("axes", "ok", "its output is that of heads cut along the width, and samples do not mix", numbers)
    if probe.pattern == "causal":
        return Finding("axes", "ok", "no output moves with a later token, and samples do not mix", numbers)
    if _sees_itself_only(probe):
        return Finding(
            "axes", "ok", "a token that sees itself only moves with no other, and samples do not mix", numbers
        )
    why = "it knows the order of its tokens, and no mask shows which of them it mixes; samples do not mix"
    return Finding("axes", "not applicable", why, numbers)


def mixed(probe: Probe) -> tuple[str, dict[str, float]]:
    """How axes are confused, with numbers; an empty text if they are not, as far as it can be seen without a mask."""
    numbers = {"samples move each other": probe.leak, "expected": 0.0}
    if probe.leak and probe.pattern == "self only":
        advice = "if it is meant for (N, B, C), say layout='nbc'"
        return f"it attends along the first axis: samples of a batch see each other, tokens do not; {advice}", numbers
    if probe.leak:
        return f"the samples of a batch mix: another first sample moves the others by {probe.leak:.3g}", numbers
    if probe.pattern == "self only" and (probe.anatomy.softmaxes or probe.anatomy.products):
        shape = next((tuple(softmax.scores.shape) for softmax in probe.anatomy.softmaxes), None)
        seen = f"; its weights have the shape {shape}, for {probe.subject.sizes.tokens} tokens" if shape else ""
        hint = "; if it is meant for (B, N, H, D), say layout='bnhd'" if probe.subject.layout == "bhnd" else ""
        numbers = {"tokens that move another": 0.0, "expected": float(probe.subject.sizes.tokens)}
        return (
            f"no token sees another: the attention runs over the heads{seen}; swap axes 1 and 2 before it{hint}",
            numbers,
        )
    fit, rebuilt = probe.anatomy.fit, probe.rebuilt
    numbers = {"moved by another order": probe.disorder, "expected": 0.0}
    if fit is not None and fit.q.mixed:
        return (
            (
                "its q and k are view(B, H, N, D) of (B, N, C), which cuts up the tokens; use view(B, N, H, "
                "D).transpose(1, 2)"
            ),
            numbers,
        )
    if isinstance(rebuilt, Rebuilt) and rebuilt.close and rebuilt.mixed:
        return (
            (
                "its heads (B, H, N, D) are joined, or its v cut, without swapping axes 1 and 2, so tokens are mixed; "
                "use transpose(1, 2)"
            ),
            numbers,
        )
    return "", {"samples move each other": 0.0, "expected": 0.0}


def _sees_itself_only(probe: Probe) -> bool:
    """Whether there is a mask that lets every token see itself only, and no other token matters then."""
    form = next((reading.form for reading in probe.readings if reading.form and reading.form.pairwise), None)
    if form is None:
        return False
    keep = torch.eye(probe.subject.sizes.tokens, dtype=torch.bool, device=probe.x.device).expand(len(probe.x), -1, -1)
    return pattern_of(probe.reach_with({form.argument: form.make(keep)})) == "self only"
