"""What the oracles of scores share: plain arithmetic on lists, and the walk over samples, heads, queries and keys."""

import math


def product(weight, x):
    """weight (out, in), x (in,) → (out,)."""
    return [inner(row, x) for row in weight]


def inner(a, b):
    total = 0.0
    for left, right in zip(a, b, strict=True):
        total += left * right
    return total


def softmax(scores):
    """Weights of one row; None in place of a score is a key that is hidden."""
    seen = [score for score in scores if score is not None]
    if not seen:
        return [0.0] * len(scores)
    top = max(seen)
    powers = [0.0 if score is None else math.exp(score - top) for score in scores]
    return [power / sum(powers) for power in powers]


def pairs(q, k, score):
    """score(q_i, k_j, i, j) for all samples and heads: q (B, H, N, D), k (B, G, M, E) → (B, H, N, M).

    Head h reads keys ⌊h·G/H⌋.
    """
    result = []
    for queries, keys in zip(q, k, strict=True):
        sample = []
        for head, rows in enumerate(queries):
            columns = keys[head * len(keys) // len(queries)]
            sample.append(
                [[score(row, column, i, j) for j, column in enumerate(columns)] for i, row in enumerate(rows)]
            )
        result.append(sample)
    return result


def mean(scores, memory):
    """softmax of scores (N, M), then the weighted mean of memory (M, E) → (N, E)."""
    result = []
    for row in scores:
        weights = softmax(row)
        result.append([inner(weights, column) for column in zip(*memory, strict=True)])
    return result
