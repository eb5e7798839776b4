"""Multi-head attention of one sample, in plain loops. Matrices are lists of rows; a weight has one row for each output, as nn.Linear's."""

import math


def multihead(query, memory, q, k, v, out, heads, groups, keeps=None):
    """query (N, C), memory (M, C′); q, k, v and out are pairs (weight, bias or None); keeps(i, j) says whether i may look at j. → (N, C)."""
    projected = [linear(row, *q) for row in query]  # (N, H·D)
    keys = [linear(row, *k) for row in memory]  # (M, G·D)
    values = [linear(row, *v) for row in memory]
    width = len(projected[0]) // heads
    result = []
    for i, row in enumerate(projected):
        joined = []
        for head in range(heads):
            group = head * groups // heads
            seen = [j for j in range(len(memory)) if keeps is None or keeps(i, j)]
            scores = []
            for j in seen:
                total = 0.0
                for d in range(width):
                    total += row[head * width + d] * keys[j][group * width + d]
                scores.append(total / math.sqrt(width))
            weights = softmax(scores)
            for d in range(width):
                total = 0.0
                for weight, j in zip(weights, seen, strict=True):
                    total += weight * values[j][group * width + d]
                joined.append(total)
        result.append(linear(joined, *out))
    return result


def linear(x, weight, bias):
    """x (in,) → (out,)."""
    result = []
    for o in range(len(weight)):
        total = 0.0 if bias is None else bias[o]
        for i in range(len(x)):
            total += weight[o][i] * x[i]
        result.append(total)
    return result


def softmax(scores):
    if not scores:
        return []
    top = max(scores)
    powers = [math.exp(score - top) for score in scores]
    return [power / sum(powers) for power in powers]
