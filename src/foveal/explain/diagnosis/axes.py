"""Mistake 6: (B, H, N, D) taken for (B, N, H, D), so that heads, tokens or samples are mixed up.

    f(P x) = P f(x) without positions;   a token that may look at itself only must not move with another;   nor a sample with another
"""

import torch

from foveal.explain.diagnosis.finding import Finding
from foveal.explain.diagnosis.probe import Probe
from foveal.explain.diagnosis.rebuild import Rebuilt


def look(probe: Probe) -> Finding:
    trouble, measured = mixed(probe)
    if not trouble:
        trouble, measured = _own_token_only(probe)
    if trouble:
        return Finding("axes", "mistake", trouble, {"measured": measured, "expected": 0.0})
    numbers = {"measured": probe.disorder, "expected": 0.0}
    if not probe.disorder:
        return Finding("axes", "ok", "tokens in another order give the same outputs in that order, and samples do not mix", numbers)
    if isinstance(probe.rebuilt, Rebuilt) and probe.rebuilt.close:
        return Finding("axes", "ok", "its output is that of heads cut along the width, and samples do not mix", numbers)
    if probe.pattern == "causal":
        return Finding("axes", "ok", "no output moves with a later token, and samples do not mix", {"measured": 0.0, "expected": 0.0})
    if any(reading.form and reading.form.pairwise for reading in probe.readings):
        return Finding("axes", "ok", "a token that sees itself only moves with no other, and samples do not mix", {"measured": 0.0, "expected": 0.0})
    why = "it knows the order of its tokens and takes no mask for each pair, so nothing shows which axis it mixes; samples do not mix"
    return Finding("axes", "not applicable", why, numbers)


def mixed(probe: Probe) -> tuple[str, float]:
    """How axes are confused, and by how much; empty if they are not, as far as it can be seen without a mask."""
    sizes = probe.subject.sizes
    if probe.leak:
        if probe.pattern == "self only":
            advice = "if it is meant for (N, B, C), say layout='nbc'"
            return f"it attends along the first axis: samples of a batch see each other, tokens do not; {advice}", probe.leak
        return f"the samples of a batch mix: another first sample moves the others by {probe.leak:.3g}", probe.leak
    if probe.pattern == "self only":
        shape = next((tuple(softmax.scores.shape) for softmax in probe.anatomy.softmaxes), None)
        seen = f"; its weights have the shape {shape}, for {sizes.tokens} tokens" if shape else ""
        hint = "; if it is meant for (B, N, H, D), say layout='bnhd'" if probe.subject.layout == "bhnd" else ""
        return f"no token sees another: the attention runs over the heads{seen}; swap axes 1 and 2 before it{hint}", 0.0
    fit, rebuilt = probe.anatomy.fit, probe.rebuilt
    if fit is not None and fit.q.mixed:
        return "its q and k are view(B, H, N, D) of (B, N, C), which cuts up the tokens; use view(B, N, H, D).transpose(1, 2)", probe.disorder
    if isinstance(rebuilt, Rebuilt) and rebuilt.close and rebuilt.mixed:
        return "its heads (B, H, N, D) are joined, or its v cut, without swapping axes 1 and 2, so tokens are mixed; use transpose(1, 2)", probe.disorder
    return "", 0.0


def _own_token_only(probe: Probe) -> tuple[str, float]:
    """With a mask that lets every token see itself only, no other token may matter."""
    tokens = probe.subject.sizes.tokens
    for reading in probe.readings:
        if reading.form and reading.form.pairwise:
            keep = torch.eye(tokens, dtype=torch.bool, device=probe.x.device).expand(len(probe.x), -1, -1)
            moved = probe.reach_with(**{reading.argument: reading.form.make(keep)})
            others = float((moved - torch.diag(moved.diagonal())).max())
            if others:
                return f"with a mask that lets every token see itself only, others move it by {others:.3g}: tokens are mixed elsewhere", others
    return "", 0.0
