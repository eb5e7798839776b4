"""The attention written down in the first paper, built again from a module's own projections,
to hold its output against.

    y = Concat_h(softmax(c·Q_h K_hᵀ over what it lets itself see) V_h) W_O + b

c is the slope that was measured, so that a wrong scale is one finding and not two.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from foveal.core.attend import weigh
from foveal.explain.diagnosis.anatomy import Anatomy, Fit, Heads
from foveal.explain.diagnosis.record import Projection
from foveal.explain.diagnosis.subject import Subject


@dataclass(frozen=True)
class Rebuilt:
    """How close the module's output comes to the equation. mixed: only with the axes of heads and tokens confused."""

    error: float  # largest, absolute
    close: bool
    mixed: bool
    assumed: bool  # q, k and v were taken in the order of the projections, since the scores are no multiple of q·k


def rebuild(subject: Subject, anatomy: Anatomy, visible: Tensor) -> Rebuilt | str:
    """The closest that the equation comes to the output, or why it cannot be tried. visible (N,
    N) stands in where no scores were seen.
    """
    y = anatomy.output
    later = [
        projection
        for projection in anatomy.projections
        if anatomy.scores is not None and projection.moment > anatomy.moment
    ]
    if anatomy.scores is None and anatomy.projections and torch.equal(_rows(anatomy.projections[-1].result, y), y):
        later = anatomy.projections[-1:]
    if len(later) > 1:
        return "there is more in it than one attention"
    fit, candidates = anatomy.fit, anatomy.candidates
    if fit is None:
        heads = anatomy.heads or subject.sizes.heads
        early = [projection for projection in anatomy.projections if all(projection is not each for each in later)]
        triple = None if heads is None or subject.on_heads else _in_order(early, heads, *y.shape[:2])
        if triple is None:
            return "its projections to q, k and v were not found"
        fit, candidates = Fit(triple[0], triple[1], triple[0].tensor.shape[3] ** -0.5), [triple[2]]
    seen = anatomy.visible if anatomy.visible is not None else visible
    scores = (fit.slope * fit.products).masked_fill(~seen, -torch.inf)
    options = sorted(_outputs(scores, candidates, later, y), key=lambda option: option[1])  # rightly cut ones first
    errors = [(float((result - y).abs().max()), wrong or fit.q.mixed) for result, wrong in options]
    if not errors and anatomy.fit is None:
        return "its scores are no multiple of q·k: another mechanism, or a position in them"
    if not errors:
        return "no projection of it can be the values"
    size = max(float(y.abs().max()), 1e-3)
    for error, mixed in errors:
        if error <= 10 * subject.tolerance * size:
            return Rebuilt(error, True, mixed, anatomy.fit is None)
    norms = [
        part for part in (subject.module.modules() if subject.module else ()) if "norm" in type(part).__name__.lower()
    ]
    if norms:
        return f"there is more in it than one attention: {type(norms[0]).__name__}"
    return Rebuilt(min(errors)[0], False, fit.q.mixed, anatomy.fit is None)


def _outputs(
    scores: Tensor, candidates: list[Heads], later: list[Projection], y: Tensor
) -> Iterator[tuple[Tensor, bool]]:
    """Every output that the equation may mean, and whether heads and tokens were confused on the way."""
    batch, heads, tokens, _ = scores.shape
    for v in candidates:
        if heads % v.tensor.shape[1]:
            continue
        mean = weigh(scores, v.tensor)  # (B, H, N, D)
        joined = mean.transpose(1, 2).flatten(2), mean.permute(0, 2, 3, 1).flatten(2), mean.reshape(batch, tokens, -1)
        for number, context in enumerate(joined):
            wrong = v.mixed or (number == 2 and heads > 1)
            if not later and context.shape == y.shape:
                yield context.to(y.dtype), wrong
            elif later and context.shape[2] == later[0].source.shape[1] and later[0].result.shape[1] == y.shape[2]:
                bias = (later[0].result - later[0].source @ later[0].weight)[0]
                yield context.to(y.dtype) @ later[0].weight + bias, wrong


def _in_order(early: list[Projection], heads: int, batch: int, tokens: int) -> tuple[Heads, Heads, Heads] | None:
    """q, k and v as three projections in this order, or as three parts of one."""
    results = [projection.result for projection in early]
    parts = results[0].chunk(3, 1) if len(results) == 1 else tuple(results)
    if len(parts) != 3 or len({part.shape for part in parts}) > 1 or parts[0].shape[1] % heads:
        return None
    q, k, v = (part.double().unflatten(0, (batch, tokens)).unflatten(2, (heads, -1)).transpose(1, 2) for part in parts)
    return Heads(q), Heads(k), Heads(v)


def _rows(result: Tensor, y: Tensor) -> Tensor:
    return result.reshape(y.shape) if result.numel() == y.numel() else result
