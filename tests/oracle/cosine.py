"""The cosine of the angle between query and key, in loops."""

import math

from oracle.score import inner, pairs


def cosine(q, k, temperature=1.0):
    """q (B, H, N, D), k (B, G, M, D) → (B, H, N, M)."""
    return pairs(q, k, lambda row, column, i, j: angle(row, column) / temperature)


def angle(a, b):
    return inner(a, b) / math.sqrt(inner(a, a)) / math.sqrt(inner(b, b))
