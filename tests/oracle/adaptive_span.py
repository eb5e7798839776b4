"""Attention with an adaptive span, in loops: the soft mask multiplies the exponentials, as in the paper."""

import math

from oracle.multihead import linear as affine
from oracle.performer import split
from oracle.score import inner


def adaptive_span(x, qkv, out, spans, ramp, heads, keeps=None):
    """x (N, C); qkv and out are pairs (weight, bias); spans (H,).

    Keeps(i, j) says whether i may look at j. → (N, C).
    """
    width = len(x[0])
    q, k, v = ([affine(row, qkv[0][s : s + width], qkv[1][s : s + width]) for row in x] for s in (0, width, 2 * width))
    joined = [[] for _ in x]
    for head, (rows, keys, values) in enumerate(zip(split(q, heads), split(k, heads), split(v, heads), strict=True)):
        for i, row in enumerate(rows):
            parts = []
            for j, key in enumerate(keys):
                soft = min(max((ramp + spans[head] - abs(i - j)) / ramp, 0.0), 1.0)
                may = keeps is None or keeps(i, j)
                parts.append(soft * math.exp(inner(row, key) / math.sqrt(len(row))) if may else 0.0)
            joined[i] += [inner(parts, column) / sum(parts) for column in zip(*values, strict=True)]
    return [affine(row, *out) for row in joined]


def like(module, x):
    pairs = [(part.weight.tolist(), part.bias.tolist()) for part in (module.qkv, module.out)]
    spans = [module.position.max_span / (1 + math.exp(-p)) for p in module.position.p.tolist()]
    return [adaptive_span(sample, *pairs, spans, module.position.ramp, module.heads) for sample in x.tolist()]
