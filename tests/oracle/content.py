"""Content-based attention, in loops: the score, and the layer around it."""

import math

from oracle.cosine import angle
from oracle.score import mean, pairs, product


def content(query, memory, w_query, w_key, strength):
    """query (N, C), memory (M, E), W_q (A, C), W_k (A, E), β → y (N, E)."""
    scores = [[strength * angle(product(w_query, row), product(w_key, column)) for column in memory] for row in query]
    return mean(scores, memory)


def score(q, k, w_query, w_key, strength=1.0):
    """q (B, H, N, D), k (B, G, M, E) → (B, H, N, M)."""
    return pairs(q, k, lambda row, column, i, j: strength * angle(product(w_query, row), product(w_key, column)))


def like(module, query, memory):
    weights = module.query.weight.tolist(), module.key.weight.tolist(), math.exp(module.log_strength.tolist())
    return [content(*sample, *weights) for sample in zip(query.tolist(), memory.tolist(), strict=True)]
