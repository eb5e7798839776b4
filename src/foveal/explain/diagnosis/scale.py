"""Mistake 3: a wrong scale.

    S = c·Q Kᵀ + r,   c = 1/√D

The slope c is fitted to the scores that go into the softmax, wherever the module multiplies: on q, on k, on both or on
the product.
"""

import torch
from torch import Tensor

from foveal.explain.diagnosis.anatomy import HIDDEN, Anatomy
from foveal.explain.diagnosis.docstring import departure
from foveal.explain.diagnosis.finding import Finding
from foveal.explain.diagnosis.probe import Probe

CLOSE = 1e-3  # relative


def look(probe: Probe) -> Finding:
    anatomy = probe.anatomy
    if anatomy.scores is None:
        return Finding("scale", "not applicable", "no softmax over (tokens × tokens) scores was seen")
    if anatomy.fit is not None:
        slope, width = anatomy.fit.slope, anatomy.fit.q.tensor.shape[3]
    elif turned := _through_a_rotation(anatomy):
        slope, width = turned
    else:
        return Finding(
            "scale",
            "not applicable",
            "its scores are no multiple of q·k: another mechanism, or a position or norm in them",
        )
    expected = width**-0.5
    numbers = {"measured": slope, "expected": expected}
    if abs(slope / expected - 1) < CLOSE:
        return Finding("scale", "ok", f"scores are {slope:.4g}·q·k, which is 1/√D for heads {width} wide", numbers)
    shown = f"scores are {slope:.4g}·q·k{_named(slope, width, anatomy.scores.shape[1], probe.subject.sizes.tokens)}"
    stated = departure(probe.subject.documentation)
    if any(word in stated.lower() for word in ("scale", "temperature", "√d", "sqrt")):
        return Finding("scale", "ok", f"{shown}, and it says so: {stated!r}", numbers)
    return Finding("scale", "mistake", f"{shown}; expected 1/√D = {expected:.4g} for heads {width} wide", numbers)


def _named(slope: float, width: int, heads: int, tokens: int) -> str:
    usual = {
        "no scale at all": 1.0,
        "1/D, as if 1/√D were applied twice": 1 / width,
        "1/√(H·D), the whole width": (heads * width) ** -0.5,
        "1/(H·D), the whole width": 1 / (heads * width),
        "√D, a product in place of a division": width**0.5,
        "1/√H": heads**-0.5,
        "1/√N": tokens**-0.5,
        "1/√√D": width**-0.25,
    }
    return next((f" ({name})" for name, value in usual.items() if abs(slope / value - 1) < CLOSE), "")


def _through_a_rotation(anatomy: Anatomy) -> tuple[float, int] | None:
    """(slope, D) where positions turn q and k, or add a bias: a rotation keeps lengths,
    and a bias is the same in every sample.
    """
    scores = anatomy.scores
    assert scores is not None
    batch, heads, tokens, _ = scores.shape
    seen = (scores > HIDDEN).all(0)
    for product in anatomy.products:
        if (
            product.moment > anatomy.moment
            or product.result.numel() != scores.numel()
            or product.right.shape[2] != tokens
        ):
            continue
        width = product.left.shape[2]
        target, products = _deviation(scores, seen), _deviation(product.result.double().reshape(scores.shape), seen)
        after = float((target * products).sum() / (products**2).sum().clamp_min(1e-30))
        if float(((target - after * products) ** 2).sum() / (target**2).sum().clamp_min(1e-30)) > 1e-6:
            continue
        q = product.left.double().reshape(batch, heads, tokens, width).norm(dim=-1)
        k = product.right.double().transpose(1, 2).reshape(batch, -1, tokens, width).norm(dim=-1)
        lengths = [c.tensor.norm(dim=-1) for c in anatomy.candidates if not c.mixed and c.tensor.shape[3] == width]
        of_q, of_k = _ratio(q, lengths), _ratio(k, lengths)
        if of_q is not None and of_k is not None:
            return after * of_q * of_k, width
    return None


def _deviation(scores: Tensor, seen: Tensor) -> Tensor:
    """Scores less the mean of the batch and of the row; 0 where hidden."""
    kept = scores.masked_fill(~seen, 0)
    kept = kept - kept.mean(0)
    return (kept - kept.sum(-1, keepdim=True) / seen.sum(-1, keepdim=True).clamp_min(1)).masked_fill(~seen, 0)


def _ratio(lengths: Tensor, candidates: list[Tensor]) -> float | None:
    """The one number by which these lengths are larger than a candidate's."""
    for candidate in candidates:
        if lengths.shape[1] % candidate.shape[1] == 0:
            ratio = lengths / candidate.repeat_interleave(lengths.shape[1] // candidate.shape[1], 1)
            if float(torch.std(ratio) / ratio.mean()) < 1e-5:
                return float(ratio.mean())
    return None
