"""Context-based attention, in loops: the score, and the layer around it."""

import math

from oracle.score import inner, mean, product


def context(query, memory, w_query, w_history, w_key):
    """query (N, C), memory (M, E), W_q and W_h (A, C), W_k (A, E) → y (N, E)."""
    return mean(energies(query, memory, w_query, w_history, w_key), memory)


def energies(query, memory, w_query, w_history, w_key):
    """(N, M)."""
    scores = []
    for i, row in enumerate(query):
        past = [0.0] * len(row)
        for t in range(i):
            past = [a + b / i for a, b in zip(past, query[t], strict=True)]
        asked = zip(product(w_query, row), product(w_history, past), strict=True)
        c = [math.tanh(a + b) for a, b in asked]
        scores.append([inner(c, product(w_key, column)) / math.sqrt(len(c)) for column in memory])
    return scores


def score(q, k, w_query, w_history, w_key):
    """q (B, H, N, D), k (B, G, M, E) → (B, H, N, M)."""
    result = []
    for heads, keys in zip(q, k, strict=True):
        groups = [keys[head * len(keys) // len(heads)] for head in range(len(heads))]
        result.append(
            [energies(rows, group, w_query, w_history, w_key) for rows, group in zip(heads, groups, strict=True)]
        )
    return result


def like(module, query, memory):
    weights = module.query.weight.tolist(), module.history.weight.tolist(), module.key.weight.tolist()
    return [context(*sample, *weights) for sample in zip(query.tolist(), memory.tolist(), strict=True)]
