"""Attention with any score, in loops."""

import math

from oracle.score import inner, mean


def attention(query, memory, score, keeps=None):
    """query (N, C), memory (M, E), score(q_i, k_j) → a number, keeps(i, j) → whether i may look at j. → y (N, E)."""
    scores = []
    for i, row in enumerate(query):
        seen = [keeps is None or keeps(i, j) for j in range(len(memory))]
        scores.append([score(row, column) if may else None for column, may in zip(memory, seen, strict=True)])
    return mean(scores, memory)


def like(module, query, memory):
    """The layer of the example, whose score is the scaled dot product."""
    samples = zip(query.tolist(), memory.tolist(), strict=True)
    return [attention(one, other, lambda a, b: inner(a, b) / math.sqrt(len(a))) for one, other in samples]
