"""(GELU(x W) ⊙ x V) W₂ for one token."""

import math

from oracle.multihead import linear, pair


def gated(x, gate, passed, outer):
    """x (C,); gate is W, passed is V, outer is W₂: pairs (weight, bias or None),
    one row of weight for each output → (C,).
    """
    opened = [0.5 * number * (1 + math.erf(number / math.sqrt(2))) for number in linear(x, *gate)]
    hidden = [a * b for a, b in zip(opened, linear(x, *passed), strict=True)]
    return linear(hidden, *outer)


def like(module, x):
    weight, bias = pair(module.inner)
    hidden = len(weight) // 2  # W's rows, then V's
    gate, passed = (weight[:hidden], bias[:hidden]), (weight[hidden:], bias[hidden:])
    return [[gated(token, gate, passed, pair(module.outer)) for token in sample] for sample in x.tolist()]
