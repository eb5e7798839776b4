"""Bahdanau's additive attention, in loops: the score, and the layer around it."""

import math

from oracle.score import inner, mean, pairs, product


def additive(query, memory, w_query, w_key, v):
    """query (N, C), memory (M, E), W_q (A, C), W_k (A, E), v (A,) → y (N, E)."""
    scores = [[energy(row, column, w_query, w_key, v) for column in memory] for row in query]
    return mean(scores, memory)


def energy(row, column, w_query, w_key, v):
    """vᵀ tanh(W_q q + W_k k)."""
    asked, held = product(w_query, row), product(w_key, column)
    return inner(v, [math.tanh(a + b) for a, b in zip(asked, held, strict=True)])


def score(q, k, w_query, w_key, v):
    """q (B, H, N, D), k (B, G, M, E) → (B, H, N, M)."""
    return pairs(q, k, lambda row, column, i, j: energy(row, column, w_query, w_key, v))


def like(module, query, memory):
    weights = module.query.weight.tolist(), module.key.weight.tolist(), module.v.tolist()
    return [additive(*sample, *weights) for sample in zip(query.tolist(), memory.tolist(), strict=True)]
