"""x + f(x), x + f(LN(x)) and LN(x + f(x)) for one token."""

import math

from oracle.multihead import linear, pair


def residual(x, f, kind, gain=None, offset=None):
    """x (C,), f a function of such a list; kind is "none", "pre" or "post" → (C,)."""
    if kind == "pre":
        return [a + b for a, b in zip(x, f(layer_norm(x, gain, offset)), strict=True)]
    summed = [a + b for a, b in zip(x, f(x), strict=True)]
    return layer_norm(summed, gain, offset) if kind == "post" else summed


def layer_norm(x, gain, offset, epsilon=1e-5):
    mean = sum(x) / len(x)
    variance = sum((number - mean) ** 2 for number in x) / len(x)
    return [
        (number - mean) / math.sqrt(variance + epsilon) * g + o for number, g, o in zip(x, gain, offset, strict=True)
    ]


def like(module, x):
    """The layer of the example, around a linear map."""
    kind = {"Residual": "none", "PreNorm": "pre", "PostNorm": "post"}[type(module).__name__]
    inside, norm = pair(module.layer), () if kind == "none" else pair(module.norm)
    return [[residual(token, lambda t: linear(t, *inside), kind, *norm) for token in sample] for sample in x.tolist()]
