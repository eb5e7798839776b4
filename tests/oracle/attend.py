"""Softmax attention in plain loops, on nested lists of floats."""

import math


def attend(q, k, v, mask=None, bias=None, scale=None):
    """One head: q (N, D), k (M, D), v (M, E); mask (N, M) of bool, True = may look; bias (N, M). → (N, E)."""
    weights = alpha(q, k, mask, bias, scale)
    width = len(v[0]) if v else 0
    result = []
    for row in weights:
        y = []
        for e in range(width):
            total = 0.0
            for j in range(len(v)):
                total += row[j] * v[j][e]
            y.append(total)
        result.append(y)
    return result


def alpha(q, k, mask=None, bias=None, scale=None):
    """The weights of one head, (N, M): a row that may look at nothing is a row of 0."""
    result = []
    for i in range(len(q)):
        scores = []
        for j in range(len(k)):
            dot = 0.0
            for d in range(len(q[i])):
                dot += q[i][d] * k[j][d]
            score = dot / math.sqrt(len(q[i])) if scale is None else dot * scale
            if bias is not None:
                score += bias[i][j]
            scores.append(score if mask is None or mask[i][j] else -math.inf)
        result.append(softmax(scores))
    return result


def softmax(scores):
    largest = max(scores, default=-math.inf)
    if largest == -math.inf:
        return [0.0] * len(scores)
    powers = [math.exp(score - largest) for score in scores]
    total = sum(powers)
    return [power / total for power in powers]


def like(q, k, v, mask=None, bias=None, scale=None):
    """A batch of heads: q (B, H, N, D), k and v (B, G, M, …), mask and bias (B, H, N, M).

    Head h reads keys h // (H // G).
    """
    result = []
    for b in range(len(q)):
        share = len(q[b]) // len(k[b])
        heads = []
        for h in range(len(q[b])):
            seen = None if mask is None else mask[b][h]
            added = None if bias is None else bias[b][h]
            heads.append(attend(q[b][h], k[b][h // share], v[b][h // share], seen, added, scale))
        result.append(heads)
    return result
