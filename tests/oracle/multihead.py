"""Multi-head attention of one sample, in plain loops.

Matrices are lists of rows; a weight has one row for each output, as nn.Linear's.
"""

import math


def multihead(query, memory, q, k, v, out, heads, groups, keeps=None, source=None):
    """query (N, C), memory (M, C′); q, k, v and out are pairs (weight, bias or None).

    Keeps(i, j) says whether i may look at j. source (M, C′): what the values are made of, the memory unless given.
    → (N, C).
    """
    projected = [linear(row, *q) for row in query]  # (N, H·D)
    keys = [linear(row, *k) for row in memory]  # (M, G·D)
    values = [linear(row, *v) for row in (memory if source is None else source)]
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


def like(module, query, memory=None):
    """The layer of the example, which has neither a mask nor a position."""
    assert module.mask is None
    assert module.position is None
    other = query if memory is None else memory
    samples = zip(query.tolist(), other.tolist(), strict=True)
    return [multihead(one, two, *parts(module), module.heads, module.groups) for one, two in samples]


def parts(module):
    """(q, k, v, out) of a multi-head layer, each (weight, bias or None), as lists: q, k and v stand in one matrix,
    or k and v do.
    """
    queries, pairs = module.heads * module.head_width, module.groups * module.head_width
    joint = [pair(module.qkv)] if module.qkv is not None else [pair(module.q), pair(module.kv)]
    weight = [row for matrix, _ in joint for row in matrix]
    bias = None if joint[0][1] is None else [number for _, numbers in joint for number in numbers]
    cuts = slice(0, queries), slice(queries, queries + pairs), slice(queries + pairs, queries + 2 * pairs)
    return *((weight[cut], None if bias is None else bias[cut]) for cut in cuts), pair(module.out)


def pair(linear):
    """(weight, bias or None) of a linear map or a LayerNorm, as lists."""
    return linear.weight.tolist(), None if linear.bias is None else linear.bias.tolist()
