"""Mistake 4: a row with nothing to look at gives NaN.

    hide every key from one query (or every token of one sample):   y and its gradients stay finite

It is tried in the module's own type, with gradients and without: kernels differ.
"""

from dataclasses import replace

import torch
from torch import Tensor

from foveal.explain.diagnosis.finding import Finding
from foveal.explain.diagnosis.masking import Form
from foveal.explain.diagnosis.probe import Probe
from foveal.explain.diagnosis.subject import REFUSALS, Subject

ROW, SAMPLE = 3, 1


def look(probe: Probe) -> Finding:
    forms = [reading.form for reading in probe.readings if reading.form is not None]
    if not forms:
        lost = int(probe.y.isnan().any(-1).sum())
        if lost and probe.pattern != "anti-causal":
            message = f"{lost} of {probe.y[..., 0].numel()} outputs are NaN without any mask"
            return Finding("empty row", "mistake", message, {"measured": float(lost), "expected": 0.0})
        why = "its mask could not be set (see there)" if probe.readings else "there is no mask to empty a row with"
        return Finding("empty row", "not applicable", why)
    subject = probe.subject.as_given()
    findings = [_one(subject, replace(form, dtype=subject.dtype)) for form in forms]
    return next((finding for finding in findings if finding.outcome == "mistake"), findings[0])


def _one(subject: Subject, form: Form) -> Finding:
    what = f"{'a query' if form.pairwise else 'a sample'} that {form.argument} lets see nothing"
    trouble, lost = _trouble(subject, form)
    numbers = {"measured": float(lost), "expected": 0.0}
    if not trouble:
        return Finding("empty row", "ok", f"{what} gives finite outputs and gradients", numbers)
    if form.kind == "additive" and not _trouble(subject, replace(form, least=torch.finfo(subject.dtype).min))[0]:
        why = (
            f"{form.argument} is added to the scores, so its caller decides: a row of −inf gives {trouble}, "
            "a row of the least finite number does not"
        )
        return Finding("empty row", "not applicable", why, numbers)
    return Finding("empty row", "mistake", f"{what} gives {trouble}", numbers)


def _trouble(subject: Subject, form: Form) -> tuple[str, int]:
    """What becomes of a row with nothing to look at: where NaN turns up, and how often."""
    x, tokens = subject.sample(), subject.sizes.tokens
    keep = torch.ones(len(x), tokens, tokens, dtype=torch.bool, device=x.device)
    if form.pairwise:
        keep[:, ROW] = False
    else:
        keep[SAMPLE] = False
    mask = {form.argument: form.make(keep)}
    lost = int(subject.run(x, mask).isnan().any(-1).sum())
    try:
        # torch has other kernels where gradients are wanted
        lost = max(lost, int(subject.run(x, mask, grad=True).isnan().any(-1).sum()))
        if not lost and (bad := _lost_gradients(subject, x, mask)):
            return f"a finite output but NaN in {bad} gradients, so training is lost at the first such row", bad
    except REFUSALS:
        pass  # it cannot be trained at all
    return (f"NaN: {lost} outputs, where {len(x) if form.pairwise else tokens} rows are empty" if lost else ""), lost


def _lost_gradients(subject: Subject, x: Tensor, mask: dict[str, Tensor]) -> int:
    """How many gradients, of the tokens and of the parameters, hold a NaN."""
    x = x.clone().requires_grad_()
    parameters = [
        parameter for parameter in (subject.module.parameters() if subject.module else ()) if parameter.requires_grad
    ]
    y = subject.run(x, mask, grad=True)
    if not y.requires_grad:
        return 0
    gradients = torch.autograd.grad(y.square().sum(), [x, *parameters], allow_unused=True)
    return sum(int(gradient.isnan().any()) for gradient in gradients if gradient is not None)
