"""Absorbed cross-attention of one sample, in plain loops: the queries carry the projections of keys and values.

The memory is read as it is.
"""

import math

from oracle.multihead import linear, parts, softmax


def absorbed(query, memory, q, k, v, out, heads, keeps=None):
    """query (N, C), memory (M, C′); q, k, v and out are pairs (weight, bias or None), one row for each output.

    Keeps(i, j) → (N, C).
    """
    narrow = len(memory[0])
    width = len(q[0]) // heads
    result = []
    for i, token in enumerate(query):
        projected = linear(token, *q)
        joined = []
        for head in range(heads):
            rows = range(head * width, (head + 1) * width)
            # the query in the memory's space
            carried = [sum(projected[row] * k[0][row][c] for row in rows) for c in range(narrow)]
            seen = [j for j in range(len(memory)) if keeps is None or keeps(i, j, head)]
            scores = []
            for j in seen:
                total = 0.0
                for c in range(narrow):
                    total += carried[c] * memory[j][c]
                scores.append(total / math.sqrt(width))
            weights = softmax(scores)
            mean = [sum(weight * memory[j][c] for weight, j in zip(weights, seen, strict=True)) for c in range(narrow)]
            for row in rows:
                bias = v[1][row] if v[1] is not None and seen else 0.0  # a head that sees nothing says nothing
                joined.append(sum(v[0][row][c] * mean[c] for c in range(narrow)) + bias)
        result.append(linear(joined, *out))
    return result


def like(module, query, memory):
    module.qkv, module.groups = None, module.heads  # as a multi-head layer with a matrix for each source
    samples = zip(query.tolist(), memory.tolist(), strict=True)
    return [absorbed(one, two, *parts(module), module.heads) for one, two in samples]
