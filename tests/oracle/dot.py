"""The scaled dot product, in loops."""

import math

from oracle.score import inner, pairs


def dot(q, k, scale=None):
    """q (B, H, N, D), k (B, G, M, D) → (B, H, N, M)."""
    width = len(q[0][0][0])
    factor = 1 / math.sqrt(width) if scale is None else scale
    return pairs(q, k, lambda row, column, i, j: inner(row, column) * factor)
